"""What a run brings to the ledger, and what the ledger knows of its cases."""

from __future__ import annotations

from typing import TypeVar

from screening.ledger.kinds import Night
from screening.ledger.nights import Tonight, series_by
from screening.report.rules import of_run, review_due
from screening.schemas.base import Reason
from screening.schemas.history import CASE_COUNTS, MissingValues, Question, SensitivityAndPpv
from screening.schemas.model import ModelDocument
from screening.schemas.run import Case, Counts, GroupFacts, LedgerFacts, RunDocument, Verdict
from screening.spelling import shown_series
from screening.store.model import Model

Named = TypeVar("Named", Case, GroupFacts)

JUDGED = ("ruled out", "known")
"""States of a case that somebody has judged: no work of tonight."""


def night_of(model: Model, run: RunDocument, key: str, series: str | None, shadow: bool) -> Night:
    """What the run brings to the ledger."""
    contract, counts = model.contract, run.counts
    due = review_due(run.model, model.trained)
    return Night(
        key=key,
        series=series_of(model, series),
        night=run.date,
        shadow=shadow,
        question=_question(model),
        run_id=run.run_id,
        model=model.digest,
        recipe=model.facts.recipe.name,
        thresholds=dict(zip(model.watched, model.thresholds.tolist(), strict=True)),
        title=contract.title,
        minutes_per_review=contract.minutes_per_review,
        capacity=contract.capacity,
        read=counts.read,
        scored=counts.scored,
        refused=counts.refused,
        flagged=counts.flagged,
        unflagged=run.unflagged,
        missing=_missing(run),
        drift=run.drift,
        table=digests_of(run),
        delivery=run.delivery,
        promised=_promised(run.model),
        review_by=due.isoformat() if due else None,
        known_days=contract.known_days,
        draw=contract.review_sample,
    )


def attention_of(model: Model, run: RunDocument, tonight: Tonight) -> list[Reason]:
    """Why a night wants attention, once the ledger has counted its cases by state."""
    known = run.replace(counts=_counted(run, tonight))
    recognisable = tonight.night.question.recognisable
    return of_run(known, quiet=tonight.quiet, recognisable=recognisable, trained=model.trained)


def _counted(run: RunDocument, tonight: Tonight) -> Counts:
    return run.counts.replace(**{name: getattr(tonight.night, name) for name in CASE_COUNTS})


def digests_of(run: RunDocument) -> str:
    """The night's table, as the ledger knows it."""
    return ",".join(file.sha256[:16] for file in run.input.files)


def _missing(run: RunDocument) -> MissingValues:
    """How many values of the features were missing, of how many: quality of the table, whoever is in it."""
    scored, shares = run.counts.scored, [each.missing for each in run.data]
    return MissingValues(missing=round(scored * sum(shares)), values=scored * len(shares))


def _promised(model: ModelDocument) -> SensitivityAndPpv | None:
    """What the model's page says of a night, where its rows are the patients that the ledger counts."""
    if len(model.operating_points) != 1 or model.stated.group is not None:
        return None
    (point,) = model.operating_points
    return SensitivityAndPpv(sensitivity=point.sensitivity, ppv=point.ppv)


def _question(model: Model) -> Question:
    task, contract = model.facts.task, model.contract
    positive = sorted(task.positive)
    return Question(label=task.label, positive=positive, id=contract.id, group=contract.group)


def series_of(model: Model, named: str | None = None) -> str:
    """The series that the model's nights belong to: by name, by its contract, or by what it asks."""
    return series_by(named or model.contract.series, _question(model))


def remembered(run: RunDocument, tonight: Tonight) -> RunDocument:
    """The run with what the ledger knows, once it has the night, and why it wants attention."""
    night, head = tonight.night, tonight.head
    named = [str(case.id if run.groups is None else case.group) for case in run.cases]
    known = tonight.known([*{*named, *(group.group for group in run.groups or ())}])

    def remember(one: Named, name: str) -> Named:
        if name not in known:
            return one
        case = known[name]
        last = None if case.judged is None else Verdict(night=case.judged, verdict=case.verdict)
        return one.replace(state=case.state, nights=case.nights, last_verdict=last, drawn=case.drawn)

    assert head is not None, "it is entered"
    return run.replace(
        counts=_counted(run, tonight).replace(drawn=len(tonight.drawn)),
        cases=[*map(remember, run.cases, named)],
        groups=None if run.groups is None else [remember(group, group.group) for group in run.groups],
        attention=night.attention,
        since=tonight.since,
        ledger=LedgerFacts(
            key=night.key,
            revision=night.revision,
            entry=head.number,
            head=head.digest,
            series=shown_series(night.series),
            shadow=night.shadow,
            chain=tonight.chain,
        ),
    )


def waiting(run: RunDocument) -> list[float]:
    """Scores of those who wait for a review, the highest first: flagged, and not judged on a night before."""
    if run.groups is None:
        return [case.score for case in run.cases if case.state not in JUDGED]
    return [group.top_score for group in run.groups if group.flagged and group.state not in JUDGED]
