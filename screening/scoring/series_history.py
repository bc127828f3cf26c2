"""A night beside the nights of its series: how its table came, what it is unlike, whose cases are known."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from screening.data.cohort import Cohort
from screening.data.ids import id_shape, joined_shapes, other_shape
from screening.data.stream import CohortStream
from screening.errors import CohortError
from screening.ledger.database import Ledger
from screening.ledger.entries import Night
from screening.ledger.nights import PastNights, Tonight, past_nights, series_by
from screening.monitoring.delivery import examine, share_that_stays, still_there
from screening.monitoring.drift import LEAST, independent, own_nights
from screening.report.rules import drift_reason, of_run, review_due
from screening.schemas.base import Reason
from screening.schemas.history import CASE_COUNTS, MissingValues, Question, SensitivityAndPpv
from screening.schemas.model import IdShape, ModelDocument
from screening.schemas.run import Case, Counts, Delivery, GroupFacts, LedgerFacts, RunDocument, Verdict
from screening.scoring.reference_distribution import REMEMBERED, compared
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


SHAPED = 100_000
"""Rows whose ids tell how ids are written."""
NOTHING_BEFORE = PastNights({}, {}, {}, None, ())


class Arrival:
    """What the rows of a table tell of it as a whole: the days of their time, and how ids are written."""

    def __init__(self) -> None:
        self.days: list[np.datetime64] = []
        self.shape: IdShape | None = None

    def add(self, batch: Cohort) -> None:
        """Take in the rows of one batch."""
        if batch.time is not None and batch.n_rows:
            self.days += [batch.time.min(), batch.time.max()]
        named = batch.contract.id and not batch.contract.coordinates
        if named and (self.shape is None or self.shape.n_rows < SHAPED):
            self.shape = joined_shapes(self.shape, id_shape(batch.id))

    def counted(self, run: RunDocument, past: PastNights, accepted: str | None) -> Delivery:
        """How the table came, before it is held against anything."""
        listed = run.counts.read if run.groups is None else len(run.groups)
        days = [str(day.astype("datetime64[D]")) for day in self.days]
        told = Delivery(
            rows=run.counts.read,
            units=listed if run.groups_total is None else run.groups_total,
            oldest=min(days, default=None),
            newest=max(days, default=None),
            accepted=accepted,
        )
        if past.patients is None or run.drift is None:
            return told
        before, still = still_there(past.patients, run.drift.who, REMEMBERED)
        return told.replace(earlier=max(past.scores), before=before, still=still)


def beside_past(
    model: Model,
    run: RunDocument,
    stream: CohortStream,
    arrival: Arrival,
    ledger: Ledger | None,
    series: str | None,
    shadow: bool,
    accept: str | None,
) -> tuple[RunDocument, bool]:
    """The run with how its table came, and what it is unlike; and whether a night entered is entered again.

    `accept`: why somebody takes the delivery as it is.
    Raises CohortError: the table is surely not tonight's, or not of this ward.
    """
    past = NOTHING_BEFORE
    if ledger is not None:
        named = series_of(model, series)
        past = past_nights(ledger, named, run.date, model.digest, digests_of(run), shadow=shadow)
    accepted = accept or past.accepted
    contract, trained = model.contract, model.facts.training.ids
    counted = arrival.counted(run, past, accepted)
    # A table that is scored alone is of no night that its rows could be too old for.
    dated = counted if past is not NOTHING_BEFORE else counted.replace(oldest=None, newest=None)
    delivery, findings = examine(
        run.date, dated, past.deliveries,
        n_files=len(run.input.files),
        files_expected=contract.files_per_night,
        rows_expected=contract.rows_per_night,
        other_ids=other_shape(trained, arrival.shape) if ledger and trained and arrival.shape else (),
        same_table=past.same_table,
    )  # fmt: skip
    if accepted is None and any(one.sure for one in findings):
        raise CohortError([f"{one.reason.words} {one.reason.remedy}" for one in findings if one.sure])
    alarms, known = _apart(run, stream, past)
    told = [] if accepted else [one.reason for one in findings]
    delivery = delivery.replace(oldest=counted.oldest, newest=counted.newest)
    run = run.replace(delivery=delivery, attention=[*told, *alarms], unlike_training=known)
    return run, accepted != past.accepted


def _apart(run: RunDocument, stream: CohortStream, past: PastNights) -> tuple[list[Reason], list[Reason]]:
    """The run's reasons with those of the series' own nights, and what is merely unlike training."""
    gates, alarms, known = stream.gates, list(run.attention), list[Reason]()
    worth = independent(share_that_stays(past.deliveries.values()))
    if gates is not None:
        bins = gates.counts()["bins"]
        nights = {day: counts for day, counts in past.columns.items() if counts["bins"] == bins}
        if len(nights) >= LEAST:
            rows = sum(past.deliveries[day].rows for day in nights)
            units = sum(past.deliveries[day].units for day in nights)
            unlike = gates.attention(own_nights([*nights.values()], worth * units / rows))
            known = [one for one in gates.attention() if one not in unlike]
            alarms = [one for one in alarms if one not in known]
            alarms += [one for one in unlike if one not in alarms]
    scores = drift_reason(run.drift)
    if run.drift is not None and len(past.scores) >= LEAST:
        before = np.sum([one.counted for one in past.scores.values()], axis=0)
        own = compared(run.drift, np.rint(before * worth).astype(int))
        other = drift_reason(own, len(past.scores))
        alarms = [one for one in [*alarms, other] if one is not None and one != scores]
        known = [one for one in [*known, scores] if one is not None]
    return alarms, known
