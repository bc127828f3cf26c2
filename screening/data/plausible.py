"""Write `plausible` into a contract, where a column's name and unit tell its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from screening.contract.contract import Draft
from screening.data.cohort import Cohort
from screening.data.measurements import possible_range
from screening.spelling import first_of

MAX_NAMES = 20


def ranges_of_numbers(batches: Iterable[Cohort]) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest value of each number in the rows."""
    ranges: dict[str, tuple[float, float]] = {}
    for rows in batches:
        for name, feature in rows.contract.features.items():
            if feature.type != "number":
                continue
            measured = rows.measured[name]
            low, high = ranges.get(name, (np.inf, -np.inf))
            # Unlike `min` and `max`, these pass over missing values.
            low = float(np.fmin.reduce(measured, initial=low))
            high = float(np.fmax.reduce(measured, initial=high))
            ranges[name] = (low, high)
    return ranges


def add_plausible(draft: Draft, ranges: Mapping[str, tuple[float, float]]) -> list[str]:
    """Set `plausible` of the measurements that are known; return notes on them.

    Parameters
    ----------
    draft : Draft
    ranges : mapping of str to (float, float)
        Least and greatest value of each number in the table, which keeps to the
        contract all the same.
    """
    features = dict(draft.features)
    written = []
    for name, (low, high) in ranges.items():
        feature = features[name]
        possible = possible_range(name, feature.unit, low, high)
        if possible is None or feature.plausible:
            continue
        plausible = (possible.low, possible.high)
        features[name] = feature.model_copy(update={"plausible": plausible})
        limits = f"{possible.low:g} to {possible.high:g} {possible.unit}"
        written.append(f"'{name}' ({limits})")
    if not written:
        return []
    draft.features = features
    note = f"plausible ranges by name and unit; review: {first_of(written, MAX_NAMES)}"
    return [note]
