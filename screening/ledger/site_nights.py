"""Read the counts of a site's nights for drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from screening.ledger import trail
from screening.ledger.current import current_runs
from screening.ledger.database import RUNS, Ledger
from screening.ledger.entries import STAND_IN
from screening.ledger.model_registry import every_series
from screening.monitoring.column_drift import (
    MAX_NIGHTS,
    REFERENCE,
    Measure,
    SeriesNights,
)
from screening.monitoring.profile import N_SHARES
from screening.schemas.run import Delivery


@dataclass(frozen=True, eq=False)
class CountedNights:
    """Nights of a series under its present model, up to tonight.

    Parameters
    ----------
    recent : SeriesNights
        The last `MAX_NIGHTS`.
    nights : list of str
        The first `REFERENCE` under the model, and the last `MAX_NIGHTS`.
    flagged, new_cases, sizes : ndarray of shape (n_nights,)
        Flagged patients, those not flagged the night before, and all, of these nights.
    """

    recent: SeriesNights
    nights: list[str]
    flagged: np.ndarray
    new_cases: np.ndarray
    sizes: np.ndarray


def counted_nights(
    ledger: Ledger, night: str, names: Iterable[str]
) -> dict[str, CountedNights]:
    """Return by series its nights up to this one; series without it are left out."""
    by_series = {}
    with ledger.reading() as connection:
        recorded_series = set(every_series(connection))
        for name in names:
            if name not in recorded_series:
                continue
            counted = _counted_of_series(connection, name, night)
            if counted is not None:
                by_series[name] = counted
    return by_series


def _counted_of_series(
    connection: sa.Connection, series: str, night: str
) -> CountedNights | None:
    """Return the nights of a series that are a measure, perhaps without this one.

    None if the series has no run of this night, or no night that is a measure.
    """
    up_to = RUNS.c.night <= night
    runs = connection.execute(current_runs(series, None, up_to)).all()
    if not runs or runs[-1].night != night:
        return None
    entries = [run.entry for run in runs if run.model == runs[-1].model]
    # Only the first and the last nights are read.
    entries = list(dict.fromkeys([*entries[:REFERENCE], *entries[-MAX_NIGHTS:]]))
    # As they are stored: many would have to be checked for each night.
    parts = trail.parts_of(connection, entries, "facts")
    stored = {entry: part.facts for entry, part in parts.items()}
    facts = {entry: night for entry, night in stored.items() if _is_measure(night)}
    if not facts:
        return None
    counts = [
        (night["cases"], night["new"], night["unflagged"]["cases"])
        for night in facts.values()
    ]
    flagged, new_cases, unflagged = np.array(counts, float).T
    recent = _recent_nights(connection, [*facts][-MAX_NIGHTS:], facts)
    return CountedNights(
        recent=replace(recent, table=runs[-1].source),
        nights=[night["night"] for night in facts.values()],
        flagged=flagged,
        new_cases=new_cases,
        sizes=flagged + unflagged,
    )


def _is_measure(facts: Mapping[str, Any]) -> bool:
    """Return True if later nights are compared with this one."""
    delivery = facts.get("delivery")
    return delivery is None or Delivery.from_dict(delivery).measure


def _recent_nights(
    connection: sa.Connection, entries: list[int], facts: Mapping[int, Any]
) -> SeriesNights:
    """Return what was counted on some nights of one model."""
    columns = trail.parts_of(connection, entries, "columns")
    # The part "lots" names the patients by keyed hashes.
    hashes = trail.parts_of(connection, entries, "lots")
    counts = _counts_of_columns([columns[entry].facts for entry in entries])
    drifts = [facts[entry]["drift"] for entry in entries]
    if all(drifts):
        cells = [drift["counted"] for drift in drifts]
        counts[Measure("scores")] = np.array(cells, float)
    flagged = np.array([facts[entry]["cases"] for entry in entries], float)
    unflagged = np.array([facts[entry]["unflagged"]["cases"] for entry in entries])
    counts[Measure("flags")] = np.column_stack([unflagged, flagged])
    patients = [_hashes(hashes[entry].names) for entry in entries]
    return SeriesNights(
        nights=[facts[entry]["night"] for entry in entries],
        counts=counts,
        patients=patients,
        sizes=flagged + unflagged,
    )


def _counts_of_columns(
    counted: Sequence[Mapping[str, Any]],
) -> dict[Measure, np.ndarray]:
    """Return counts of each column's values by night, and of its missing ones.

    Empty if a night did not count its columns.
    """
    counts: dict[Measure, np.ndarray] = {}
    if not all(counted):
        return counts
    for name in counted[0]["columns"]:
        # Rows, rows with a value, other counts, and from `N_SHARES` on the bins.
        of_column = np.array([night["columns"][name] for night in counted], float)
        n_rows = of_column[:, 0]
        present = of_column[:, 1]
        counts[Measure("values", name)] = of_column[:, N_SHARES:]
        counts[Measure("missing", name)] = np.column_stack([present, n_rows - present])
    return counts


def _hashes(names: Iterable[str]) -> list[int]:
    """Return the hashes of a night's patients that were not erased."""
    return [int(name) for name in names if not name.startswith(STAND_IN)]
