"""Single values that another unit, or a lost digit, would put among the usual ones.

A value inside the bounds is used as it is, even where no training value is so low or
so high. If its quantity is also written in a unit in which the number would be a usual
one, it should be checked. So should a value that is low by a digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from screening.contract.contract import Contract
from screening.data.out_of_bounds import MIN_VALUES
from screening.io.columns import Columns
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
        The value as written in the cell.
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

    def readings(self, values: np.ndarray) -> dict[int, Reading]:
        """Return the other readings of a column's values by their position.

        Of values outside training the likeliest reading that is a usual value, if it is
        `MIN_RATIO` times as likely as the value: one a little beyond training, which
        any night may bring, is not doubted.

        Parameters
        ----------
        values : ndarray, shape (n_rows,)
            NaN where missing or out of bounds.
        """
        is_outside = (values < self.low) | (values > self.high)
        if self.low > 0:
            is_outside &= values > 0
        places = np.flatnonzero(is_outside)
        if not places.size:
            return {}
        written = values[places]
        meant = [(written - each.offset) / each.factor for each in self.conversions]
        meant.append(np.where(written < self.low, 10 * written, np.nan))
        readings = np.array(meant)
        low, high = self.usual
        is_usual = (readings >= low) & (readings <= high)
        gains = np.full(readings.shape, -np.inf)
        of_written = np.broadcast_to(self._log_density(written), readings.shape)
        of_meant = self._log_density(readings[is_usual])
        gains[is_usual] = of_meant - of_written[is_usual]
        best = np.argmax(gains, axis=0)
        units = [(each.after, each.before) for each in self.conversions] + [("", "")]
        found = {}
        for at in np.flatnonzero(gains.max(axis=0) >= np.log(MIN_RATIO)).tolist():
            value, reading = float(written[at]), float(readings[best[at], at])
            of_units = units[best[at]]
            found[int(places[at])] = Reading(self.name, value, reading, *of_units)
        return found

    def _log_density(self, values: np.ndarray) -> np.ndarray:
        return self.density.log_at(np.log(values) if self.low > 0 else values)


def readings_of_columns(
    contract: Contract, past: Profile | None
) -> dict[str, ColumnReadings]:
    """Return the other readings by column of numbers.

    None for images, with channels without units; for scores made elsewhere; for columns
    normalised within groups; and for few or equal training values.
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
        for row, reading in column.readings(values[name]).items():
            found.setdefault(row, []).append(reading)
    return found
