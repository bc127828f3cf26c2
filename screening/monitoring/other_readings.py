"""Single values that another unit, or a lost digit, would put among the usual ones.

A value inside the bounds is used as it is, even where no training value is so low or
so high. If its quantity is also written in a unit in which the number would be a usual
one, somebody should look at it. So should they at a value that is low by a digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from screening.contract.contract import Contract
from screening.io.columns import Columns
from screening.monitoring.out_of_bounds import MIN_VALUES
from screening.monitoring.units import Conversion, Density, conversions_of
from screening.schemas.model import NumberProfile, Profile

# Shares of training values between which a value is a usual one.
USUAL = (0.05, 0.95)
# How much likelier the other reading has to be.
MIN_RATIO = 100.0


class Reading(NamedTuple):
    """Another reading of a cell.

    Parameters
    ----------
    column : str
    written : float
        The value as it stands in the cell.
    value : float
        The value that is meant, in the unit of training.
    unit, training_unit : str
        The unit that the value may be in, and that of training; empty if a digit is
        missing.
    """

    column: str
    written: float
    value: float
    unit: str = ""
    training_unit: str = ""


@dataclass(frozen=True)
class ColumnReadings:
    """The other readings that values of a column may have.

    Parameters
    ----------
    name : str
        Of the column.
    low, high : float
        Range of training.
    usual : tuple of float
        Range of the usual values in training.
    density : Density
        Of training, on the logarithmic scale if all values are positive.
    conversions : sequence of Conversion
        Between units of the quantity, by the column's name and unit.
    """

    name: str
    low: float
    high: float
    usual: tuple[float, float]
    density: Density
    conversions: Sequence[Conversion]

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of the values outside the range of training."""
        return np.flatnonzero((values < self.low) | (values > self.high))

    def reading_of(self, value: float) -> Reading | None:
        """Return the likeliest other reading that is a usual value, None without one.

        It is `MIN_RATIO` times as likely as the value, so that a value a little beyond
        training, which any night may bring, is not doubted.
        """
        candidates = []
        for conversion in self.conversions:
            meant = (value - conversion.offset) / conversion.factor
            units = conversion.after, conversion.before
            candidates.append(Reading(self.name, value, meant, *units))
        if value < self.low:
            candidates.append(Reading(self.name, value, 10 * value))
        low, high = self.usual
        usual = [reading for reading in candidates if low <= reading.value <= high]
        if not usual or (self.low > 0 and value <= 0):
            return None
        readings = np.array([reading.value for reading in usual])
        gains = self._log_density(readings) - self._log_density(np.array([value]))
        best = int(np.argmax(gains))
        return usual[best] if gains[best] >= np.log(MIN_RATIO) else None

    def _log_density(self, values: np.ndarray) -> np.ndarray:
        return self.density.log_at(np.log(values) if self.low > 0 else values)


def readings_of_columns(
    contract: Contract, past: Profile | None
) -> dict[str, ColumnReadings]:
    """Return the other readings by column of numbers.

    None for images, whose channels have no units; for scores made elsewhere; for
    columns normalised within groups; and for few or equal training values.
    """
    if past is None or contract.coordinates:
        return {}
    readings = {}
    for name, feature in contract.features.items():
        profile = past.features.get(name)
        if (
            isinstance(profile, NumberProfile)
            and profile.range is not None
            and profile.range[0] < profile.range[1]
            and sum(profile.counts) >= MIN_VALUES
            and not feature.normalise
            and name != contract.score
        ):
            conversions = conversions_of(name, feature.unit)
            readings[name] = ColumnReadings(
                name,
                *profile.range,
                usual=_usual_range(profile),
                density=Density(profile, log=profile.range[0] > 0),
                conversions=[each for each in conversions if each.after],
            )
    return readings


def _usual_range(profile: NumberProfile) -> tuple[float, float]:
    """Return the quantiles of training between which a value is a usual one."""
    assert profile.range is not None, "it has values"
    low, high = profile.range
    share = np.cumsum([0, *profile.counts]) / sum(profile.counts)
    usual_low, usual_high = np.interp(USUAL, share, [low, *profile.edges, high])
    return float(usual_low), float(usual_high)


def other_readings(
    values: Columns, columns: Mapping[str, ColumnReadings]
) -> dict[int, list[Reading]]:
    """Return by row the other readings of values outside training.

    `values`: by column, shape (n_rows,), NaN where missing or out of bounds.
    """
    found: dict[int, list[Reading]] = {}
    for name, column in columns.items():
        for row in column.outside(values[name]):
            reading = column.reading_of(float(values[name][row]))
            if reading is not None:
                found.setdefault(int(row), []).append(reading)
    return found
