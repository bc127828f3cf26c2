"""Bounds of numeric columns, to set aside cells that are most likely errors.

From training values in [low, high] the bounds are low - (high - low) and high + (high -
low). If low is positive the lower bound is low * low / high instead, which is the same
rule on the logarithmic scale; if low is 0 it is 0. `plausible` of the contract takes
the place of this rule. A score from outside has no bounds from training: only
`plausible` or its `kind` can refuse a value.

Columns with an uninformative range have bounds too, `WIDEST` times as wide: with
numbers beyond them sums and squares overflow, and a row would have an infinite score or
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from screening.contract.contract import SCORE_RANGES, Contract, Feature
from screening.io.columns import Columns
from screening.schemas.model import NumberProfile, Profile, TextProfile

# The range of fewer values says little about where the next one may lie.
MIN_VALUES = 20
# Widths of the range of few values; and bounds of numbers whose scale is the group's.
WIDEST = 1e30


class Bounds(NamedTuple):
    """The least and the greatest value that a column's cells may have."""

    low: float
    high: float

    def exceeded_by(self, values: np.ndarray) -> np.ndarray:
        """Return a mask of the values beyond the bounds; a missing one is within."""
        return (values < self.low) | (values > self.high)


class OddCell(NamedTuple):
    """A cell that the model treats as missing.

    `value` is the number that is out of bounds, or None for a text that is not a
    number.
    """

    column: str
    value: float | None


def bounds_of_range(low: float, high: float) -> Bounds | None:
    """Return the bounds that a training range sets; None if low equals high."""
    if low == high:
        return None
    width = high - low
    lower = low - width
    upper = high + width
    if low > 0:
        # The logarithmic scale is never the tighter one above.
        return Bounds(low / (high / low), upper)
    if low == 0:
        return Bounds(0.0, upper)
    return Bounds(lower, upper)


def bounds_of_columns(contract: Contract, past: Profile | None) -> dict[str, Bounds]:
    """Return the bounds of the columns of numbers that have any.

    Parameters
    ----------
    contract : Contract
    past : Profile or None
        Ranges of the training rows; None to use `plausible` alone. Columns of few
        values, or normalised within groups, have bounds against overflow alone: the
        scale of the latter differs by group.
    """
    profiles = past.features if past else {}
    bounds = {}
    for name, feature in contract.features.items():
        column_bounds = None
        if feature.plausible:
            column_bounds = Bounds(*feature.plausible)
        elif name != contract.score:
            column_bounds = _bounds_of_past(feature, profiles.get(name))
        elif contract.kind is not None:
            column_bounds = Bounds(*SCORE_RANGES[contract.kind])
        if column_bounds is not None:
            bounds[name] = column_bounds
    return bounds


def _bounds_of_past(
    feature: Feature, past: NumberProfile | TextProfile | None
) -> Bounds | None:
    """Return the bounds that training rows set; None if they do not differ."""
    if not isinstance(past, NumberProfile) or not past.range:
        return None
    if feature.normalise:
        return Bounds(-WIDEST, WIDEST)
    low, high = past.range
    if sum(past.counts) < MIN_VALUES and low < high:
        reach = WIDEST * (high - low)
        return Bounds(low - reach, high + reach)
    return bounds_of_range(low, high)


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
            number = float(values[name][row])
            value = None if np.isnan(number) else number
            earlier = cells[row] or ()
            cells[row] = (*earlier, OddCell(name, value))
    return cells
