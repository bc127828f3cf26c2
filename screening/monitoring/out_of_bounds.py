"""Bounds of each numeric column: a cell beyond them is one that no patient can have.

They need no setting: a cell is out of bounds if it lies beyond the range of the training
rows by more than the width of that range, on the linear scale or, where all training
values are positive, on the logarithmic one. A column that holds 0 and nothing below it
is never negative. `plausible` of the contract takes the place of this rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from screening.contract.contract import Contract, Feature
from screening.io.columns import Columns
from screening.schemas.model import NumberProfile, Profile, TextProfile

# The range of fewer values says little about where the next one may lie.
MIN_VALUES = 20


class Bounds(NamedTuple):
    """The least and the greatest value that a column's cells may have."""

    low: float
    high: float

    def exceeded_by(self, values: np.ndarray) -> np.ndarray:
        """Return a mask of the values beyond the bounds; a missing one is within."""
        return (values < self.low) | (values > self.high)


class OddCell(NamedTuple):
    """A cell that is not used: its column, and the value, None for a text."""

    column: str
    value: float | None


def bounds_of_range(low: float, high: float) -> Bounds | None:
    """Return the bounds that a training range sets, None for a single value."""
    if low == high:
        return None
    width = high - low
    lower = low - width
    upper = high + width
    if low > 0:
        ratio = high / low
        return Bounds(max(lower, low / ratio), min(upper, high * ratio))
    if low == 0:
        return Bounds(0.0, upper)
    return Bounds(lower, upper)


def bounds_of_columns(contract: Contract, past: Profile | None) -> dict[str, Bounds]:
    """Return the bounds of the columns of numbers that have any.

    Parameters
    ----------
    contract : Contract
    past : Profile or None
        Counts of the training rows. Without it only `plausible` sets bounds. Those of a
        column that is normalised within groups say nothing of another group's scale.
    """
    known = past.features if past else {}
    bounds = {}
    for name, feature in contract.features.items():
        column_bounds = _bounds_of_column(feature, known.get(name))
        if column_bounds is not None:
            bounds[name] = column_bounds
    return bounds


def _bounds_of_column(
    feature: Feature, past: NumberProfile | TextProfile | None
) -> Bounds | None:
    if feature.plausible:
        return Bounds(*feature.plausible)
    if feature.normalise or not isinstance(past, NumberProfile) or not past.range:
        return None
    if sum(past.counts) < MIN_VALUES:
        return None
    return bounds_of_range(*past.range)


def beyond_bounds(
    values: Columns, bounds: Mapping[str, Bounds]
) -> dict[str, np.ndarray]:
    """Return a mask of the cells out of bounds for each column that has any."""
    masks = {
        name: column_bounds.exceeded_by(values[name])
        for name, column_bounds in bounds.items()
    }
    return {name: mask for name, mask in masks.items() if mask.any()}


def odd_cells_by_row(
    values: Columns, masks: Mapping[str, np.ndarray], n_rows: int
) -> np.ndarray:
    """Return the cells that are not used by row, ndarray of object, shape (n_rows,).

    A tuple of `OddCell` for a row with such cells, None for any other.
    """
    cells = np.full(n_rows, None, dtype=object)
    for name, mask in masks.items():
        for row in np.flatnonzero(mask):
            value = float(values[name][row])
            cell = OddCell(name, None if np.isnan(value) else value)
            cells[row] = (*(cells[row] or ()), cell)
    return cells
