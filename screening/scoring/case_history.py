"""What a run brings to the ledger, and what the ledger knows of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from screening.ledger.nights import NightCases, Tonight, series_by
from screening.report.rules import of_run, review_due
from screening.schemas.base import Reason
from screening.schemas.history import SensitivityAndPpv
from screening.schemas.model import ModelDocument
from screening.schemas.run import Case, GroupFacts, LedgerFacts, RunDocument, State, Verdict, Word
from screening.spelling import shown_series
from screening.store.model import Model

Named = TypeVar("Named", Case, GroupFacts)

JUDGED = ("ruled out", "known")
"""States of a case that somebody has judged: no work of tonight."""


def night_of(
    model: Model,
    run: RunDocument,
    key: str,
    flagged: tuple[str, ...],
    series: str | None,
    shadow: bool,
) -> NightCases:
    """What the run brings to the ledger."""
    contract = model.contract
    counts = run.counts
    return NightCases(
        key=key,
        question=_question(model),
        night=run.date,
        flagged=flagged,
        sampled=tuple(one.id for one in run.sample),
        facts={
            "run_id": run.run_id,
            "model": model.digest,
            "recipe": model.facts.recipe.name,
            "thresholds": dict(zip(model.watched, model.thresholds.tolist(), strict=True)),
            "title": contract.title,
            "minutes_per_review": contract.minutes_per_review,
            "capacity": contract.capacity,
            "rows": {name: getattr(counts, name) for name in ("read", "scored", "refused", "flagged")},
            "unflagged": {"cases": run.unflagged.cases},
            "missing": _missing(run),
            "drift": run.drift and run.drift.to_dict(),
            "table": digests_of(run),
            "delivery": run.delivery and run.delivery.to_dict(),
            "promised": _promised(run.model),
            "review_by": due.isoformat() if (due := review_due(run.model, model.trained)) else None,
        },
        known_days=contract.known_days,
        draw=contract.review_sample,
        named=series,
        shadow=shadow,
    )


def attention_of(model: Model, run: RunDocument, states: Mapping[str, Any], quiet: int) -> list[Reason]:
    """Why a night wants attention, once the ledger has counted its cases by state.

    `quiet`: nights in an unbroken row without a case.
    """
    recognisable = bool(model.contract.id or model.contract.group)
    known = run.replace(counts=run.counts.replace(**states))
    return of_run(known, quiet=quiet, recognisable=recognisable, trained=model.trained)


def digests_of(run: RunDocument) -> str:
    """The night's table, as the ledger knows it."""
    return ",".join(file.sha256[:16] for file in run.input.files)


def _missing(run: RunDocument) -> dict[str, int]:
    """How many values of the features were missing, of how many: quality of the table, whoever is in it."""
    scored, shares = run.counts.scored, [each.missing for each in run.data]
    return {"missing": round(scored * sum(shares)), "values": scored * len(shares)}


def _promised(model: ModelDocument) -> dict[str, Any] | None:
    """What the model's page says of a night, where its rows are the patients that the ledger counts."""
    if len(model.operating_points) != 1 or model.stated.group is not None:
        return None
    (point,) = model.operating_points
    return SensitivityAndPpv(sensitivity=point.sensitivity, ppv=point.ppv).to_dict()


def _question(model: Model) -> dict[str, Any]:
    task, contract = model.facts.task, model.contract
    return {
        "label": task.label,
        "positive": sorted(task.positive),
        "id": contract.id,
        "group": contract.group,
    }


def series_of(model: Model, named: str | None = None) -> str:
    """The series that the model's nights belong to: by name, by its contract, or by what it asks."""
    return series_by(named or model.contract.series, _question(model))


def remembered(run: RunDocument, night: NightCases, tonight: Tonight) -> RunDocument:
    """The run with what the ledger knows, once it has the night, and why it wants attention."""
    counted: dict[str, Any] = tonight.counts | {"drawn": len(tonight.drawn)}
    named = [str(case.id if run.groups is None else case.group) for case in run.cases]
    known = tonight.known([*{*named, *(group.group for group in run.groups or ())}])

    def remember(one: Named, name: str) -> Named:
        if name not in known:
            return one
        case = known[name]
        night, word = case.verdict or (None, None)
        last = None if night is None else Verdict(night=night, verdict=cast(Word, word))
        return one.replace(
            state=cast(State, case.state), nights=case.nights, last_verdict=last, drawn=case.drawn
        )

    assert tonight.head is not None, "it is entered"
    return run.replace(
        counts=run.counts.replace(**counted),
        cases=[*map(remember, run.cases, named)],
        groups=None if run.groups is None else [remember(group, group.group) for group in run.groups],
        attention=tonight.attention,
        since=tonight.since,
        ledger=LedgerFacts(
            key=night.key,
            revision=tonight.revision,
            entry=tonight.head.number,
            head=tonight.head.digest,
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
