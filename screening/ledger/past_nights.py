"""Read the nights of a series that tonight is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.identity.hashes import Patients, series_key
from screening.ledger import trail
from screening.ledger.current import current_runs
from screening.ledger.database import RUNS, Ledger
from screening.ledger.entries import Night, facts_at, scores_at, source_digest
from screening.ledger.merging import merges_of
from screening.ledger.patients import patients_at
from screening.monitoring.delivery import Elsewhere
from screening.monitoring.drift import REFERENCE_NIGHTS
from screening.schemas.reasons import IDS_REWRITTEN
from screening.schemas.run import Delivery, ScoreCounts
from screening.spelling import shown_series

# Nights in force that tonight is compared with: some of them are not used as a measure.
MAX_NIGHTS = 2 * REFERENCE_NIGHTS


@dataclass(frozen=True)
class PastNights:
    """Nights of a series before tonight that were in force.

    Parameters
    ----------
    deliveries : mapping
        How the table of each was delivered, by night.
    scores : mapping
        Scores of the last nights that later ones are measured by, of the same model.
    columns : mapping
        What the features of these nights counted, of any model.
    patients : sequence of int, optional
        Keyed hashes of the last night's patients, if it was of the same model.
    same_table : sequence of Elsewhere
        Nights of any series with tonight's table.
    accepted : str, optional
        Why this table was accepted tonight although it looks wrong.
    flags : mapping
        Flagged patients and all patients of the nights of `scores`.
    merged : mapping
        Of patients whose numbers were merged, the hash of the new number by that of
        the old one.
    """

    deliveries: Mapping[str, Delivery]
    scores: Mapping[str, ScoreCounts]
    columns: Mapping[str, Mapping[str, Any]]
    patients: Sequence[int] | None
    same_table: Sequence[Elsewhere]
    accepted: str | None = None
    flags: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    merged: Mapping[int, int] = field(default_factory=dict)


def past_nights(
    ledger: Ledger,
    series: str,
    night: str,
    model: str,
    table: str,
    *,
    shadow: bool = False,
) -> PastNights:
    """Return the nights that tonight is compared with.

    Parameters
    ----------
    ledger : Ledger
    series, night : str
    model : str
        Digest of tonight's model.
    table : str
        Digests of the files of tonight's table.
    shadow : bool
        Tonight is scored in shadow: nights in shadow by the same model count.
    """
    role = model if shadow else None
    with ledger.reading() as connection:
        earlier = _entries(connection, series, role, RUNS.c.night < night)
        tonight = _entries(connection, series, role, RUNS.c.night == night)
        nights = facts_at(connection, Night, earlier[-MAX_NIGHTS:])
        measures = _measures(nights)
        of_model = [night for night in measures.values() if night.model == model]
        return PastNights(
            deliveries={
                night.night: night.delivery
                for night in nights.values()
                if night.delivery
            },
            scores={night.night: night.drift for night in of_model if night.drift},
            columns=_counted_columns(connection, measures),
            patients=_last_patients(connection, measures, model),
            same_table=_same_table(connection, series, night, model, table),
            accepted=_accepted(facts_at(connection, Night, tonight), table),
            flags={night.night: (night.cases, night.units) for night in of_model},
            merged=merges_of(connection).on(night).hashes(model),
        )


def known_patients(
    ledger: Ledger, series: str, night: str, shadow_model: str | None = None
) -> Patients:
    """Return patients of a series' last nights before this one, of any model.

    If another spelling of ids was accepted, patients of the nights since. Numbers that
    were merged and differ only in spelling are both known.

    `shadow_model`: of its nights in shadow by this model instead.
    """
    with ledger.reading() as connection:
        earlier = _entries(connection, series, shadow_model, RUNS.c.night < night)
        nights = facts_at(connection, Night, earlier[-REFERENCE_NIGHTS:])
        since: list[int] = []
        for entry, of_entry in nights.items():
            delivery = of_entry.delivery
            if delivery is not None and IDS_REWRITTEN.code in delivery.found:
                since = []
            since.append(entry)
        patients = patients_at(connection, since)
        merges = merges_of(connection).on(night)
    merged = merges.written_otherwise(series_key(series))
    is_known = np.isin(merged.reduced, patients.reduced)
    return patients + Patients(merged.reduced[is_known], merged.whole[is_known])


def _entries(
    connection: sa.Connection,
    series: str,
    shadow_model: str | None,
    when: sa.ColumnElement[bool],
) -> list[int]:
    """Return the entries of a series' runs in force, in order of nights."""
    runs = connection.execute(current_runs(series, shadow_model, when))
    return [run.entry for run in runs]


def _measures(nights: Mapping[int, Night]) -> dict[int, Night]:
    """Return the last nights that later ones are measured by, by entry."""
    measures = [
        (entry, night)
        for entry, night in nights.items()
        if night.delivery is not None and night.delivery.measure
    ]
    return dict(measures[-REFERENCE_NIGHTS:])


def _counted_columns(
    connection: sa.Connection, nights: Mapping[int, Night]
) -> dict[str, Mapping[str, Any]]:
    """Return what the features of some nights counted, by night."""
    parts = trail.parts_of(connection, list(nights), "columns")
    columns = {night.night: parts[entry].facts for entry, night in nights.items()}
    return {night: counts for night, counts in columns.items() if counts}


def _last_patients(
    connection: sa.Connection, nights: Mapping[int, Night], model: str
) -> Sequence[int] | None:
    """Return the hashes of the last night's patients.

    None if they are unknown, or the night is of another model.
    """
    if not nights:
        return None
    entry = list(nights)[-1]
    if nights[entry].model != model or nights[entry].drift is None:
        return None
    return scores_at(connection, {entry: nights[entry]})[entry].who or None


def _accepted(tonight: Mapping[int, Night], table: str) -> str | None:
    """Return the reason for accepting this very table tonight, or None."""
    for night in tonight.values():
        if night.table == table and night.delivery is not None:
            return night.delivery.accepted
    return None


def _same_table(
    connection: sa.Connection, series: str, night: str, model: str, table: str
) -> list[Elsewhere]:
    """Return the nights of any series with tonight's table, in order."""
    same_source = (
        sa.select(RUNS)
        .where(RUNS.c.source == source_digest(table))
        .order_by(RUNS.c.night, RUNS.c.entry)
    )
    runs = connection.execute(same_source).all()
    return [_elsewhere(connection, run, series, night, model) for run in runs]


def _elsewhere(
    connection: sa.Connection, run: sa.Row[Any], series: str, night: str, model: str
) -> Elsewhere:
    """Return a night with tonight's table, and if that is odd.

    It is odd if the other series had other tables on the last night that both have. If
    they have no night in common, it is odd if the model is the same: nobody needs the
    same scores under two names.
    """
    if run.series == series:
        return Elsewhere(run.night)
    ours = RUNS.alias().c
    theirs = RUNS.alias().c
    common = sa.select(ours.source != theirs.source).where(
        ours.series == series,
        theirs.series == run.series,
        ours.night == theirs.night,
        ours.night < night,
        ~ours.shadow,
        ~theirs.shadow,
    )
    last = common.order_by(ours.night.desc(), ours.entry.desc()).limit(1)
    differs = connection.scalar(last)
    is_odd = run.model == model if differs is None else bool(differs)
    return Elsewhere(run.night, shown_series(run.series), is_odd)
