"""Entries of outcomes in the trail: their figures, and why these need attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from screening.ledger import trail
from screening.ledger.database import PARTS, TRAIL
from screening.ledger.entries import Outcomes, facts_at, facts_in
from screening.ledger.trail import Part
from screening.schemas.base import Estimate, Reason
from screening.schemas.history import OutcomeFigures, PatientsOfTable
from screening.schemas.reasons import OUTCOMES_BELOW, OUTCOMES_OF_UNKNOWN

MEASURES = {"sensitivity": "Sensitivity", "ppv": "PPV"}


def last_figures(connection: sa.Connection, series: str) -> OutcomeFigures | None:
    """Return the figures of the last entry of outcomes of a series; None without."""
    newest_first = _numbers_of(series).order_by(TRAIL.c.number.desc())
    newest = connection.scalar(newest_first.limit(1))
    if newest is None:
        return None
    return facts_at(connection, Outcomes, [newest])[newest].figures


def reasons_of_outcomes(figures: OutcomeFigures | None) -> list[Reason]:
    """Return why nights that were judged by outcomes need attention."""
    reasons: list[Reason] = []
    if figures is None:
        return reasons
    # Where patients are lost the figures say nothing of the model.
    if lost := reasons_of_patients(figures.table):
        return lost
    for name in figures.below:
        seen: Estimate = getattr(figures.seen, name)
        promised: Estimate = getattr(figures.promised, name)
        reason = OUTCOMES_BELOW(
            measure=MEASURES[name],
            seen=f"{seen.value:.0%}",
            promised=f"{promised.value:.0%}",
            nights=f"{figures.seen_nights} nights",
        )
        reasons.append(reason)
    return reasons


def reasons_of_patients(table: PatientsOfTable | None) -> list[Reason]:
    """Return why the patients of a table of outcomes need attention."""
    if table is None or not table.grown:
        return []
    assert table.usual_patients is not None, "it has grown since"
    assert table.usual_unknown is not None, "it has grown since"
    reason = OUTCOMES_OF_UNKNOWN(
        figure=table.unknown / table.patients,
        threshold=table.usual_unknown / table.usual_patients,
        unknown=table.unknown,
        patients=table.patients,
        usual_unknown=table.usual_unknown,
        usual_patients=table.usual_patients,
    )
    return [reason]


def outcome_entries(
    connection: sa.Connection, series: str
) -> Iterator[tuple[int, Outcomes, Iterator[Part]]]:
    """Yield number, facts and parts of each entry of a series' outcomes, in order."""
    for entry in trail.entries(connection, TRAIL.c.number.in_(_numbers_of(series))):
        facts, parts = facts_in(entry)
        assert isinstance(facts, Outcomes), "they were chosen by their kind"
        yield entry.number, facts, parts


def _numbers_of(series: str) -> sa.Select[Any]:
    """Select the numbers of the entries of a series' outcomes."""
    names_series = f'"series":{trail.plain(series)}'
    parts = PARTS.c
    return (
        sa.select(TRAIL.c.number)
        .join(PARTS, parts.entry == TRAIL.c.number)
        .where(TRAIL.c.kind == Outcomes.KIND)
        .where(parts.part == 0)
        .where(parts.facts.contains(names_series, autoescape=True))
    )
