"""Find columns that changed their unit by comparing likelihoods.

A quantity is known by its name or its unit (`contract.quantities`).

On both sides the ward may have other patients, older or sicker ones: the median is
shifted, by a factor where values are positive, and the shift is drawn from a Cauchy
distribution on the scale of the training values. So a night is in other units only
where the conversion explains what such a shift explains badly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import scipy

from screening.contract.contract import Contract
from screening.contract.quantities import (
    KINDS,
    Quantity,
    offset,
    quantity_named,
    spelled,
    standard_unit,
)
from screening.schemas.model import NumberProfile, Profile


@dataclass(frozen=True)
class Conversion:
    """A conversion of units: night = factor * training + offset.

    Parameters
    ----------
    factor, offset : float
    before, after : str
        Units of training and of the night, "" where they are not known.
    known : bool
        The factor belongs to this very quantity, and patients do not differ by it too.
    """

    factor: float
    offset: float
    before: str
    after: str
    known: bool

    @property
    def words(self) -> str:
        """The arithmetic in words, from training to the night."""
        if self.offset and self.factor > 1:
            return "times 1.8, plus 32"
        if self.offset:
            return "minus 32, divided by 1.8"
        if self.factor > 1:
            return f"times {self.factor:.4g}"
        return f"divided by {1 / self.factor:.4g}"


POWERS_OF_TEN = tuple(
    Conversion(factor, 0.0, "", "", known=False)
    for factor in (10.0, 1 / 10.0, 100.0, 1 / 100.0, 1000.0, 1 / 1000.0)
)


def conversions_of(name: str, unit: str | None) -> tuple[Conversion, ...]:
    """Return the conversions that may have happened to a column since training.

    From its unit, where that is known; else between any two units of the quantity that
    its name speaks of; else powers of ten.
    """
    quantity = quantity_named(name)
    standard = standard_unit(unit)
    if quantity and not standard:
        return tuple(_between(quantity, None))
    candidates = [quantity, *KINDS] if quantity else KINDS
    for candidate in candidates:
        if any(spelled(unit) == standard for unit, _ in candidate.units):
            return tuple(_between(candidate, standard))
    return POWERS_OF_TEN


def _between(quantity: Quantity, standard: str | None) -> Iterator[Conversion]:
    """Yield conversions from one unit of a quantity, or from any; a factor once."""
    seen = set()
    for before, amount in quantity.units:
        if standard and spelled(before) != standard:
            continue
        for after, other in quantity.units:
            factor = other / amount
            is_repeated = f"{factor:.3g}" in seen and not standard
            if before == after or is_repeated:
                continue
            seen.add(f"{factor:.3g}")
            shift = offset(before, after)
            yield Conversion(factor, shift, before, after, known=not quantity.wide)


# Scale of the shift that a ward may bring, in standard deviations of training: where
# the conversion is known, and elsewhere.
SHIFT_SCALE = 0.15
SHIFT_SCALE_WIDE = 0.5
# How much likelier the converted night must be to be sure, where the conversion is
# known and elsewhere, and to say that it may be.
KNOWN_BOUND = 30.0
OTHER_BOUND = 100.0
POSSIBLE_BOUND = 10.0
# A conversion that moves the median by fewer standard deviations is one that a ward
# can bring too.
MIN_MOVE = 1.5
# Share of values that fit no distribution, and the width of theirs, in widths.
STRAY_SHARE = 0.01
STRAY_WIDTH = 4.0
# The least width of training's values, of their median or, of logarithms, in itself.
MIN_WIDTH = 0.02
# Half the width of the window in which values are counted, in widths.
WINDOW = 0.25
# A single value counts as converted where that makes it so much likelier; chance does
# that once in as many.
ROW_RATIO = 1000.0
MIN_CONVERTED_ROWS = 3
MIN_CONVERTED_SHARE = 0.05
# Where fewer values are likelier converted, the column as a whole has not changed.
MIN_LIKELIER_SHARE = 0.6
# So few units show no difference beyond chance, and are looked at all the same.
FEW_UNITS = 5
# Chance of as many small scores as tonight's, below which they are fractions.
MAX_CHANCE_OF_SMALL = 1e-4
# The standard normal distribution has so many deviations between its 10 % and 90 %.
NORMAL_RANGE = 2.563


@dataclass(frozen=True)
class UnitShift:
    """A likely change of unit.

    Parameters
    ----------
    conversion : Conversion
    ratio : float
        How much likelier the converted night is.
    bound : float
        How much likelier it has to be to be sure.
    share : float
        Share of rows that it concerns; 1 for the column as a whole.
    """

    conversion: Conversion
    ratio: float
    bound: float
    share: float = 1.0

    @property
    def sure(self) -> bool:
        """True if the whole column has changed, and no other ward explains it."""
        return self.share == 1.0 and self.ratio >= self.bound


class Density:
    """Density of the training values, smooth and with wide tails.

    Parameters
    ----------
    training : NumberProfile
        With a range.
    log : bool
        Of the logarithms of the values.

    Attributes
    ----------
    middle, width : float
        Median, and a robust standard deviation.
    """

    def __init__(self, training: NumberProfile, log: bool):
        assert training.range is not None, "it has values"
        low, high = training.range
        ends = np.array([low, *training.edges, high])
        counts = np.array([0, *training.counts])
        if log:
            is_positive = ends > 0
            ends = np.log(ends[is_positive])
            counts = counts[is_positive]
        cumulated = np.cumsum(counts)
        self.ends = ends
        self.share = cumulated / cumulated[-1]
        deciles = (0.1, 0.5, 0.9)
        below, self.middle, above = np.interp(deciles, self.share, ends)
        min_width = MIN_WIDTH
        if not log:
            min_width *= max(abs(self.middle), 1e-12)
        self.width = max(float(above - below) / NORMAL_RANGE, min_width)

    def log_at(self, x: np.ndarray) -> np.ndarray:
        """Return the log density at x, in the shape of x."""
        near = WINDOW * self.width
        below = np.interp(x - near, self.ends, self.share, left=0.0)
        above = np.interp(x + near, self.ends, self.share, left=0.0)
        stray = scipy.stats.cauchy.pdf(x, self.middle, STRAY_WIDTH * self.width)
        smooth = (above - below) / (2 * near)
        return np.log((1 - STRAY_SHARE) * smooth + STRAY_SHARE * stray)

    def marginal_likelihood(
        self, x: np.ndarray, n_units: float, shift_scale: float
    ) -> float:
        """Return the likelihood of a night's median, over all shifts a ward may bring.

        Parameters
        ----------
        x : ndarray, shape (n,)
        n_units : float
            Independent rows that the night is worth.
        shift_scale : float
            Scale of the shift, in `width`.
        """
        off = (float(np.median(x)) - self.middle) / self.width
        error = 1 / np.sqrt(max(n_units, 1.0))
        return float(scipy.special.voigt_profile(off, error, shift_scale))


@dataclass(frozen=True)
class _Night:
    """One column of a night and of training, on the scale of a conversion.

    `now`: its values, as logarithms where the conversion only multiplies; `then`: the
    same converted back; `stretch`: log of how far apart that draws them.
    """

    conversion: Conversion
    density: Density
    now: np.ndarray
    then: np.ndarray
    stretch: float
    n_units: float

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        training: NumberProfile,
        conversion: Conversion,
        night_units: float,
    ) -> _Night | None:
        """Return the column on the conversion's scale, None where it says nothing."""
        assert training.range is not None, "it has values"
        lowest, highest = training.range
        log = not conversion.offset
        now = values[values > 0] if log else values
        # Zero says nothing of a unit that multiplies; where signs differ, nothing does.
        has_other_signs = lowest < 0 or highest <= 0
        # Of positive values in one bin, as of a column that is nearly always 0, only
        # the largest is known.
        is_one_bin = lowest == 0 and not any(edge > 0 for edge in training.edges)
        if not now.size or (log and (has_other_signs or is_one_bin)):
            return None
        then = (now - conversion.offset) / conversion.factor
        n_units = min(night_units * len(now) / len(values), len(now))
        density = Density(training, log)
        if log:
            # A factor is a shift of logarithms.
            now = np.log(now)
            then = np.log(then)
            return cls(conversion, density, now, then, 0.0, n_units)
        stretch = float(np.log(conversion.factor))
        return cls(conversion, density, now, then, stretch, n_units)

    def gains(self) -> np.ndarray:
        """Return by how much, in logs, each value is likelier converted back."""
        density = self.density
        then = density.log_at(self.then)
        return then - density.log_at(self.now) - self.stretch

    def whole(self, differs: bool, chance: float) -> UnitShift | None:
        """Return the shift of the column as a whole, if there may be one."""
        density = self.density
        is_known = self.conversion.known
        scale = SHIFT_SCALE if is_known else SHIFT_SCALE_WIDE
        bound = KNOWN_BOUND if is_known else OTHER_BOUND
        then = density.marginal_likelihood(self.then, self.n_units, scale)
        now = density.marginal_likelihood(self.now, self.n_units, scale)
        ratio = then / now
        move = abs(np.median(self.then) - np.median(self.now))
        if move < MIN_MOVE * density.width:
            bound = np.inf
        least = POSSIBLE_BOUND if differs else max(bound, 1 / chance)
        if ratio < least:
            return None
        return UnitShift(self.conversion, ratio, bound)

    def part(self, gains: np.ndarray, chance: float) -> UnitShift | None:
        """Return the shift of some rows, if more have one than chance would bring."""
        share = float(np.mean(gains >= np.log(ROW_RATIO)))
        n_converted = int(share * self.n_units)
        if n_converted < MIN_CONVERTED_ROWS or share < MIN_CONVERTED_SHARE:
            return None
        p = scipy.stats.binom.sf(n_converted - 1, int(self.n_units), 1 / ROW_RATIO)
        if p > chance:
            return None
        return UnitShift(self.conversion, ROW_RATIO, ROW_RATIO, share)


def unit_shift(
    values: np.ndarray,
    training: NumberProfile,
    conversions: Sequence[Conversion],
    *,
    night_units: float,
    differs: bool,
    chance: float,
) -> UnitShift | None:
    """Return the conversion that explains a night, if one does or may.

    One of the column as a whole goes before one of some rows.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Finite values of the night.
    training : NumberProfile
    conversions : sequence of Conversion
        See `conversions_of`.
    night_units : float
        Independent rows that the values are worth.
    differs : bool
        The values differ from those of training beyond chance.
    chance : float
        Allowed probability of a false alarm; a ratio of 1 / chance needs no other test.
    """
    if training.range is None:
        return None
    of_column: list[UnitShift | None] = []
    of_rows: list[UnitShift | None] = []
    for conversion in conversions:
        night = _Night.of(values, training, conversion, night_units)
        if night is None:
            continue
        gains = night.gains()
        # A night that looks like training as a whole can have changed in few rows only.
        may_differ = differs or night.n_units < FEW_UNITS
        if may_differ and np.mean(gains > 0) >= MIN_LIKELIER_SHARE:
            of_column.append(night.whole(differs, chance))
        of_rows.append(night.part(gains, chance))
    likeliest = max(filter(None, of_column), key=attrgetter("ratio"), default=None)
    largest = max(filter(None, of_rows), key=attrgetter("share"), default=None)
    return likeliest or largest


def scale_counts(scores: np.ndarray) -> np.ndarray:
    """Count the scores of some rows, and those above 1; NaN is none."""
    return np.array([np.count_nonzero(~np.isnan(scores)), np.count_nonzero(scores > 1)])


def fault_of_scale(counts: np.ndarray, contract: Contract, past: Profile) -> str | None:
    """Return what is wrong with a table whose score is on the other scale.

    Parameters
    ----------
    counts : ndarray of int, shape (2,)
        Sum of `scale_counts`.
    contract : Contract
        Its `kind` is the scale of training.
    past : Profile
        Distributions in training.

    Returns
    -------
    str or None
        None where the scale is that of training, as far as the values show.
    """
    n_values, n_above_one = counts.tolist()
    if contract.kind == "probability" and 2 * n_above_one > n_values:
        return (
            f"column '{contract.score}': most values are above 1, but training "
            "had fractions of 0 to 1; if this table is in per cent, divide by "
            "100, or train again on per cent"
        )
    if contract.kind != "percent" or n_above_one or not n_values:
        return None
    profile = past.features.get(str(contract.score))
    if not isinstance(profile, NumberProfile):
        return None
    # Values of training above 1, at least.
    n_training = np.array(profile.counts)
    share = n_training[1:][np.array(profile.edges) >= 1].sum() / max(
        n_training.sum(), 1
    )
    if (1 - share) ** n_values >= MAX_CHANCE_OF_SMALL:
        return None
    return (
        f"column '{contract.score}': no value is above 1, but training had "
        "percentages of 0 to 100; if this table has fractions, multiply by 100, or "
        "train again on fractions"
    )
