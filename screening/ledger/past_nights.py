"""What a series' nights before one were: how their tables came, and what was counted on them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from screening.documents.run import Delivery, ScoreCounts
from screening.gates.delivery import Elsewhere
from screening.gates.own_nights import WINDOW
from screening.ledger import trail
from screening.ledger.database import PARTS, RUNS, Ledger
from screening.ledger.kinds import NightFacts, nights_in, source_digest
from screening.ledger.nights import in_force
from screening.spelling import shown_series

FURTHEST = 2 * WINDOW
"""Nights in force that are looked at: some of them are no measure for later ones."""


@dataclass(frozen=True)
class PastNights:
    """Nights of a series before one that were in force, by night where they are many.

    `deliveries`: how each came. Of those that are a measure for later ones, the last `WINDOW` at most:
    `scores` of the same model, and `columns` by what its features counted. `patients`: keyed hashes of those
    of the last, where it was of the same model. `same_table`: nights of any series with the table in
    question. `accepted`: why somebody took this very table tonight.
    """

    deliveries: Mapping[str, Delivery]
    scores: Mapping[str, ScoreCounts]
    columns: Mapping[str, Mapping[str, Any]]
    patients: Sequence[int] | None
    same_table: Sequence[Elsewhere]
    accepted: str | None = None


def past_nights(
    ledger: Ledger, series: str, night: str, model: str, table: str, *, shadow: bool = False
) -> PastNights:
    """Read what tonight is held against.

    `model`: digest of tonight's; `table`: digests of the files of tonight's table.
    """
    with ledger.reading() as connection:
        beside = model if shadow else None
        runs = in_force(connection, series, beside, RUNS.c.night < night)[-FURTHEST:]
        stated = trail.stated(connection, [run.entry for run in runs])
        nights = {run.night: nights_in(stated[run.entry]) for run in runs}
        deliveries = {day: one.delivery for day, one in nights.items() if one.delivery is not None}
        measures = [run for run in runs if run.night in deliveries and deliveries[run.night].measure][
            -WINDOW:
        ]
        scores = {
            run.night: drift
            for run in measures
            if (drift := nights[run.night].drift) is not None and nights[run.night].model == model
        }
        entries = {run.entry: run.night for run in measures}
        chosen = sa.select(PARTS.c.entry, PARTS.c.facts).where(PARTS.c.what == "columns")
        rows = connection.execute(chosen.where(PARTS.c.entry.in_(entries)).order_by(PARTS.c.entry))
        counted = {entries[row.entry]: json.loads(row.facts) for row in rows}
        last = measures[-1] if measures and measures[-1].night in scores else None
        patients = None if last is None else _patients(connection, last.entry, stated[last.entry])
        return PastNights(
            deliveries=deliveries,
            scores=scores,
            columns={day: counts for day, counts in counted.items() if counts},
            patients=patients,
            same_table=_same_table(connection, series, night, model, source_digest(table)),
            accepted=_accepted(
                connection, in_force(connection, series, beside, RUNS.c.night == night), table
            ),
        )


def _patients(connection: sa.Connection, entry: int, stated: Mapping[str, Any]) -> Sequence[int] | None:
    lots = connection.execute(sa.select(PARTS).where(PARTS.c.entry == entry, PARTS.c.what == "lots")).first()
    figures: NightFacts = nights_in(stated, None if lots is None else trail.part_in(lots))
    return figures.drift.who if figures.drift and figures.drift.who else None


def _accepted(connection: sa.Connection, tonight: Sequence[Any], table: str) -> str | None:
    nights = [nights_in(facts) for facts in trail.stated(connection, [run.entry for run in tonight]).values()]
    return next((one.delivery.accepted for one in nights if one.delivery and one.table == table), None)


def _same_table(
    connection: sa.Connection, series: str, night: str, model: str, source: str | None
) -> list[Elsewhere]:
    """Nights with this very table, in order."""
    same = sa.select(RUNS).where(RUNS.c.source == source).order_by(RUNS.c.night, RUNS.c.entry)
    return [
        Elsewhere(run.night) if run.series == series
        else Elsewhere(run.night, shown_series(run.series), _differ(connection, series, run, night, model))
        for run in connection.execute(same)
    ]  # fmt: skip


def _differ(connection: sa.Connection, series: str, run: sa.Row[Any], night: str, model: str) -> bool:
    """Whether another series had other tables than this one on the last night of both before this one.

    Where they have no such night, one model has no reason to read one table under two names.
    """
    mine, other = RUNS.alias(), RUNS.alias()
    both = sa.select(mine.c.source, other.c.source).where(
        mine.c.series == series, other.c.series == run.series, mine.c.night == other.c.night,
        mine.c.night < night, ~mine.c.shadow, ~other.c.shadow,
    )  # fmt: skip
    last = connection.execute(both.order_by(mine.c.night.desc(), mine.c.entry.desc()).limit(1)).first()
    return bool(run.model == model if last is None else last[0] != last[1])
