"""Has a column changed its unit? The likelihood of the night converted back, against the night as it is.

Both sides grant the night an honest difference (a ward of older or sicker patients): a shift of all values,
by a factor where they are positive, of a size drawn from a Cauchy distribution on the scale of the training
values. So a night is in other units only where the conversion explains what such a shift explains badly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from screening.monitoring.conversions import Conversion
from screening.schemas.model import NumberProfile

# More values than these change no verdict; they are every k-th of a night's sample.
WEIGHED = 128
# Honest differences in standard deviations of training: where the conversion is known, and elsewhere.
HONEST, HONEST_WIDE = 0.15, 0.5
# How much likelier the converted night must be: to be sure of it, and to say that it may be.
KNOWN_BOUND, OTHER_BOUND, MAY_BE = 30.0, 100.0, 10.0
# A conversion that moves the values by fewer standard deviations is one that a ward can bring too.
LEAST_MOVE = 1.5
# Share of values that fit no distribution at all, and how much wider than the others they lie.
STRAY, STRAY_WIDTH = 0.02, 4.0
LEAST_WIDTH = 0.02
# So many standard deviations from the middle a density has its own shape; farther off only the strays'.
FAR = 20.0
# A single value counts as converted where that makes it so much likelier; chance does that once in as many.
ROW_RATIO = 1000.0
FEWEST_ROWS, LEAST_SHARE = 3, 0.05
FEW = 5


@dataclass(frozen=True)
class UnitShift:
    """A likely change of unit."""

    conversion: Conversion
    ratio: float  # how much likelier the converted night is
    bound: float  # how much likelier it has to be to be sure
    share: float = 1.0  # rows it concerns; 1 where it is the column as a whole

    @property
    def sure(self) -> bool:
        """Whether the column as a whole has changed, and nothing honest explains it."""
        return self.share == 1.0 and self.ratio >= self.bound


class Density:
    """Density of the training values (of their logarithms, `log`), smooth and with wide tails.

    `training`: the values of training; `n_units`: effective number of training rows; the fewer, the smoother.
    `width`: standard deviation of the values, robust; `middle`: their median.
    """

    def __init__(self, training: NumberProfile, n_units: float, log: bool):
        centers, weights = _spread_out(training, log)
        order = np.argsort(centers)
        share = np.cumsum(weights[order]) / weights.sum()
        low, self.middle, high = np.interp((0.1, 0.5, 0.9), share, centers[order])
        scale = max(abs(self.middle), 1e-12)
        self.width = max(float(high - low) / 2.563, LEAST_WIDTH * (1.0 if log else scale))
        smooth = max(self.width * max(n_units, 2.0) ** -0.2, LEAST_WIDTH * self.width)
        # A training value far from all others would leave no point of the grid among them.
        ends = np.clip(
            [centers.min(), centers.max()], self.middle - FAR * self.width, self.middle + FAR * self.width
        )
        grid = np.linspace(ends[0] - 8 * self.width, ends[1] + 8 * self.width, 1000)
        apart = (grid[:, None] - centers) / smooth
        self._grid = grid
        with np.errstate(over="ignore"):  # too far apart to be squared is far enough
            near = np.exp(-0.5 * apart**2)
        self._close = near @ (weights / weights.sum()) / smooth * (1 - STRAY)

    def log_at(self, x: np.ndarray) -> np.ndarray:
        """Log density, up to one constant; same shape."""
        wide = STRAY_WIDTH * self.width
        # 0.8 is the Gaussian's constant over that of the Cauchy distribution, sqrt(2 pi) / pi.
        stray = 0.8 * STRAY / wide / (1 + np.square((x - self.middle) / wide))
        return np.log(np.interp(x, self._grid, self._close, left=0.0, right=0.0) + stray)

    def evidence(self, x: np.ndarray, units: float, honest: float) -> float:
        """Log likelihood of a night of `x`, worth `units` rows, over all honest shifts of it."""
        tempered = units / len(x)
        there, near = float(np.median(x)) - self.middle, self.width / np.sqrt(max(units, 1.0))
        shifts = np.unique(
            np.concatenate(
                [
                    np.linspace(-2, 2, 41) * self.width,
                    there + np.linspace(-5, 5, 41) * near,
                    np.linspace(min(there, 0), max(there, 0), 31),
                ]
            )
        )
        prior = np.log(honest * self.width) - np.log((honest * self.width) ** 2 + shifts**2)
        log = tempered * self.log_at(x - shifts[:, None]).sum(axis=1) + prior
        top = log.max()
        return float(top + np.log(np.trapezoid(np.exp(log - top), shifts)))


def unit_shift(
    values: np.ndarray, training: NumberProfile, conversions: Sequence[Conversion], *,
    n_units: float, night_units: float, differs: bool, chance: float,
) -> UnitShift | None:  # fmt: skip
    """The conversion that explains the night, if one does or may; the whole column goes before some rows.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Finite values of tonight.
    training : NumberProfile
        The values of training.
    n_units, night_units : float
        Effective number of rows of training and of `values`.
    differs : bool
        Whether the night's values differ from those of training beyond chance.
    chance : float
        Chance allowed; a ratio of 1 / chance needs no other test beside it.
    """
    if training.range is None:
        return None
    least, largest = training.range
    values = values[:: max(1, -(-len(values) // WEIGHED))]
    densities: dict[bool, Density] = {}
    whole, part = [], []
    for each in conversions:
        log = not each.offset
        # Zero says nothing of a unit that only multiplies; where signs differ, nor does anything else.
        told = values[values > 0] if log else values
        if not told.size or (log and (least < 0 or largest <= 0)):
            continue
        if log not in densities:
            densities[log] = Density(training, n_units, log)
        units = min(night_units * len(told) / len(values), len(told))
        of_rows = _by_row(told, each, densities[log])
        # Where the night looks like training as a whole, only very few rows can still have changed together.
        if differs or units < FEW:
            shift = _as_whole(told, each, densities[log], units)
            if shift.ratio >= (MAY_BE if differs else max(shift.bound, 1 / chance)):
                whole.append(shift)
        hits = int(of_rows.share * units)
        often = hits >= FEWEST_ROWS and of_rows.share >= LEAST_SHARE
        if often and binom.sf(hits - 1, int(units), 1 / ROW_RATIO) <= chance:
            part.append(of_rows)
    if whole:
        return max(whole, key=lambda shift: shift.ratio)
    return max(part, key=lambda shift: shift.share) if part else None


def _converted_back(told: np.ndarray, conversion: Conversion) -> tuple[np.ndarray, np.ndarray, float]:
    """Values as they are and converted back, as the density knows them, and the log of the stretch."""
    back = (told - conversion.offset) / conversion.factor
    if conversion.offset:
        return told, back, float(np.log(conversion.factor))
    # On logarithms a factor is a shift.
    return np.log(told), np.log(back), 0.0


def _as_whole(told: np.ndarray, conversion: Conversion, density: Density, units: float) -> UnitShift:
    now, then, stretch = _converted_back(told, conversion)
    honest, bound = (HONEST, KNOWN_BOUND) if conversion.known else (HONEST_WIDE, OTHER_BOUND)
    before, after = float(np.median(now)), float(np.median(then))
    if abs(after - density.middle) >= abs(before - density.middle):
        # A heap of values, such as a default, is likelier the more it is drawn apart, wherever that puts it.
        return UnitShift(conversion, 0.0, bound)
    if abs(after - before) < LEAST_MOVE * density.width:
        bound = np.inf
    log = density.evidence(then, units, honest) - density.evidence(now, units, honest) - units * stretch
    return UnitShift(conversion, float(np.exp(min(log, 600.0))), bound)


def _by_row(told: np.ndarray, conversion: Conversion, density: Density) -> UnitShift:
    """The share of the rows that the conversion explains, each taken alone."""
    now, then, stretch = _converted_back(told, conversion)
    gains = density.log_at(then) - density.log_at(now) - stretch
    share = float(np.mean(gains >= np.log(ROW_RATIO)))
    return UnitShift(conversion, ROW_RATIO, ROW_RATIO, share)


def _spread_out(training: NumberProfile, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """Places that stand for the training values, and how many each stands for."""
    assert training.range is not None, "it has values"
    low, high = training.range
    ends = np.array([*training.edges, high], dtype=float)
    starts = np.array([low, *training.edges], dtype=float)
    counts = np.array(training.counts, dtype=float)
    if log:
        there = ends > 0
        starts, ends, counts = np.where(starts > 0, starts, ends)[there], ends[there], counts[there]
        starts, ends = np.log(starts), np.log(ends)
    # Edges are training values; only the two outer bins are so wide that they must be filled.
    places = [[end] for end in ends]
    for outer in {0, len(ends) - 1}:
        places[outer] = list(np.linspace(starts[outer], ends[outer], 7)[1::2])
    return (
        np.concatenate(places),
        np.concatenate([np.full(len(p), n / len(p)) for p, n in zip(places, counts, strict=True)]),
    )
