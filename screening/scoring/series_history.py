"""A night beside those of its series: its delivery, its drift, and what the ledger knows of its cases."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from screening.data.ids import has_lost_zeros, other_shape
from screening.errors import CohortError
from screening.ledger.entries import Night
from screening.ledger.nights import PastNights, Tonight, series_by
from screening.monitoring.delivery import examine, share_that_stays, still_there
from screening.monitoring.drift import LEAST, Gates, independent, own_nights
from screening.report.model_attention import review_due
from screening.report.night_attention import attention_of_night
from screening.report.score_drift import drift_reason
from screening.schemas.base import Reason
from screening.schemas.history import (
    CASE_COUNTS,
    MissingValues,
    Question,
    SensitivityAndPpv,
)
from screening.schemas.model import IdShape
from screening.schemas.reasons import IDS_ARE_ROW_NUMBERS
from screening.schemas.run import (
    Case,
    Counts,
    GroupFacts,
    LedgerFacts,
    RunDocument,
    Verdict,
)
from screening.scoring.reference_distribution import REMEMBERED, compared
from screening.scoring.rows import Rows
from screening.spelling import shown_series
from screening.store.model import Model

Listed = TypeVar("Listed", Case, GroupFacts)
JUDGED = ("ruled out", "known")
"""States of a case that somebody has judged: no work of tonight."""
NO_NIGHTS = PastNights({}, {}, {}, None, ())
"""What is known of the past of a table that is scored without a ledger."""


def series_of(model: Model, name: str | None = None) -> str:
    """The series that the model's nights belong to: by name, by its contract, or by what it asks."""
    return series_by(name or model.contract.series, _question(model))


def _question(model: Model) -> Question:
    label, positive = model.facts.task.label, sorted(model.facts.task.positive)
    return Question(
        label=label, positive=positive, id=model.contract.id, group=model.contract.group
    )


def digests_of(run: RunDocument) -> str:
    """The night's table, as the ledger knows it."""
    return ",".join(file.sha256[:16] for file in run.input.files)


def with_delivery(
    model: Model,
    run: RunDocument,
    past: PastNights,
    ids: IdShape | None,
    accepted: str | None,
) -> RunDocument:
    """The run with its delivery held against the nights before, and what is unlike one as reasons.

    `ids`: how tonight's are written; None if the contract names no column of ids.
    Raises CohortError: the table is surely not tonight's, or not of this ward.
    """
    contract, trained, delivery = model.contract, model.facts.training.ids, run.delivery
    assert delivery is not None, "the summary counts it"
    delivery = delivery.replace(accepted=accepted or past.accepted)
    if past.patients is not None and run.drift is not None:
        before, still = still_there(past.patients, run.drift.who, REMEMBERED)
        delivery = delivery.replace(
            earlier=max(past.scores), before=before, still=still
        )
    # A table that is scored alone is of no night that its rows could be too old for.
    dated = (
        delivery.replace(oldest=None, newest=None) if past is NO_NIGHTS else delivery
    )
    examined, findings = examine(
        run.date,
        dated,
        past.deliveries,
        n_files=len(run.input.files),
        files_expected=contract.files_per_night,
        rows_expected=contract.rows_per_night,
        other_ids=_other_ids(trained, ids, past),
        same_table=past.same_table,
    )
    delivery = examined.replace(oldest=delivery.oldest, newest=delivery.newest)
    if delivery.accepted is not None:
        findings = []
    stops = [
        f"{finding.reason.words} {finding.reason.remedy}"
        for finding in findings
        if finding.sure
    ]
    if stops:
        raise CohortError(stops)
    return run.replace(
        delivery=delivery, attention=[finding.reason for finding in findings]
    )


def _other_ids(
    trained: IdShape | None, tonight: IdShape | None, past: PastNights
) -> list[str]:
    """Return in what tonight's ids are written unlike those of training.

    Without a ledger nobody is recognised by an id, so another hospital's ids may be
    unlike; but an id without its zeros is a wrong one, and its patient is not found.
    """
    if trained is None or tonight is None:
        return []
    if past is NO_NIGHTS and not has_lost_zeros(trained, tonight):
        return []
    return other_shape(trained, tonight)


def with_drift(
    model: Model, run: RunDocument, gates: Gates | None, past: PastNights
) -> RunDocument:
    """The run with what its values and scores are unlike, as reasons.

    From twenty nights on they are held against the series' own nights, and what differs from training alone
    is kept apart.
    """
    worth = independent(share_that_stays(past.deliveries.values()))
    alarms, training = gates.attention() if gates else [], list[Reason]()
    bins = gates.counts()["bins"] if gates else None
    nights = {
        day: counts for day, counts in past.columns.items() if counts["bins"] == bins
    }
    if gates is not None and len(nights) >= LEAST:
        sizes = [
            (past.deliveries[day].rows, past.deliveries[day].units) for day in nights
        ]
        rows, units = np.sum(sizes, axis=0)
        own = gates.attention(own_nights([*nights.values()], worth * units / rows))
        alarms, training = own, [reason for reason in alarms if reason not in own]
    # What a model says of its ids holds for every table it reads.
    alarms += [
        reason
        for reason in model.facts.attention
        if reason.code == IDS_ARE_ROW_NUMBERS.code
    ]
    scores = drift_reason(run.drift)
    if run.drift is not None and len(past.scores) >= LEAST:
        training += [scores] if scores else []
        before = np.sum([night.counted for night in past.scores.values()], axis=0)
        scores = drift_reason(
            compared(run.drift, np.rint(before * worth).astype(int)), len(past.scores)
        )
    alarms += [scores] if scores else []
    return run.replace(attention=[*run.attention, *alarms], unlike_training=training)


def night_of(
    model: Model, run: RunDocument, key: str, series: str, shadow: bool
) -> Night:
    """What the run brings to the ledger."""
    contract, counts, due = (
        model.contract,
        run.counts,
        review_due(run.model, model.trained),
    )
    missing, promised, points = (
        [feature.missing for feature in run.data],
        None,
        run.model.operating_points,
    )
    # What the model's page says of a night holds where its rows are the patients that the ledger counts.
    if len(points) == 1 and run.model.stated.group is None:
        promised = SensitivityAndPpv(
            sensitivity=points[0].sensitivity, ppv=points[0].ppv
        )
    return Night(
        key=key,
        series=series,
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
        missing=MissingValues(
            missing=round(counts.scored * sum(missing)),
            values=counts.scored * len(missing),
        ),
        drift=run.drift,
        table=digests_of(run),
        delivery=run.delivery,
        promised=promised,
        review_by=due.isoformat() if due else None,
        known_days=contract.known_days,
        draw=contract.review_sample,
    )


def attention_of(model: Model, run: RunDocument, tonight: Tonight) -> list[Reason]:
    """Why a night wants attention, once the ledger has counted its cases by state."""
    counted, recognisable = (
        run.replace(counts=_counts(run, tonight)),
        tonight.night.question.recognisable,
    )
    return attention_of_night(
        counted, quiet=tonight.quiet, recognisable=recognisable, trained=model.trained
    )


def _counts(run: RunDocument, tonight: Tonight) -> Counts:
    return run.counts.replace(
        **{name: getattr(tonight.night, name) for name in CASE_COUNTS}
    )


def with_states(run: RunDocument, tonight: Tonight, rows: Rows) -> RunDocument:
    """The run with what the ledger knows of its cases, which `rows` are given too."""
    night, head, since = tonight.night, tonight.head, tonight.since
    groups = [group.group for group in run.groups or ()]
    names = [str(case.id if run.groups is None else case.group) for case in run.cases]
    known = tonight.known([*{*names, *groups}])

    def with_state(listed: Listed, name: str) -> Listed:
        case = known.get(name)
        if case is None:
            return listed
        last = (
            None
            if case.judged is None
            else Verdict(night=case.judged, verdict=case.verdict)
        )
        return listed.replace(
            state=case.state, nights=case.nights, last_verdict=last, drawn=case.drawn
        )

    rows.add_history(tonight.known)
    return run.replace(
        counts=_counts(run, tonight).replace(drawn=len(tonight.drawn)),
        cases=[*map(with_state, run.cases, names)],
        groups=run.groups and [*map(with_state, run.groups, groups)],
        attention=night.attention,
        since=since and since.replace(left=rows.lacking(since.gone)),
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
    return [
        group.top_score
        for group in run.groups
        if group.flagged and group.state not in JUDGED
    ]
