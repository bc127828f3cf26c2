"""A night beside the nights of its series: how its table came, and in what it is unlike them."""

from __future__ import annotations

import numpy as np

from screening.data.cohort import Cohort
from screening.data.ids import id_shape, joined_shapes, other_shape
from screening.data.stream import CohortStream
from screening.errors import CohortError
from screening.ledger.database import Ledger
from screening.ledger.nights import PastNights, past_nights
from screening.monitoring.delivery import examine, share_that_stays, still_there
from screening.monitoring.drift import LEAST, independent, own_nights
from screening.report.rules import drift_reason
from screening.schemas.base import Reason
from screening.schemas.model import IdShape
from screening.schemas.run import Delivery, RunDocument
from screening.scoring.case_history import digests_of, series_of
from screening.scoring.drift import REMEMBERED, compared
from screening.store.model import Model

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
