"""Confidence intervals of rates: score, exact and resampling intervals."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from screening.metrics.groups import codes_of
from screening.schemas.base import Estimate

LEVEL = 0.95
"""Two-sided confidence level of every interval."""

Z = 1.959964
"""Standard errors that reach from an estimate to either end at that level."""

ANYTIME_LEVEL = 0.98
"""Two-sided confidence level of all intervals of a growing sample together."""

# Rates of 0 have no logarithm; this is small compared with any interval's end.
_MIN_RATE = 1e-9
# Variance below which that between groups is rounding, as with one group.
_MIN_VARIANCE = 1e-12

Rate = TypeVar("Rate", bound=ArrayLike)


def rate_interval(
    successes: ArrayLike,
    trials: ArrayLike,
    level: float = LEVEL,
    freedom: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's score interval of a proportion of independent rows.

    Parameters
    ----------
    successes, trials : array-like
        Counts, which may be real numbers (effective sizes).
    level : float
        Two-sided confidence level.
    freedom : float, optional
        Degrees of freedom of Student's quantile, if the effective size was itself
        estimated.

    Returns
    -------
    low, high : ndarray
        (0, 1) without trials.
    """
    k = np.asarray(successes, float)
    n = np.asarray(trials, float)
    # SciPy's (`binomtest`) takes one integer count, neither arrays of effective sizes
    # nor Student's quantile.
    upper = 0.5 + level / 2
    z = ndtri(upper) if freedom is None else stdtrit(freedom, upper)
    z2 = z**2
    safe = np.where(n > 0, n, 1.0)
    p = k / safe
    shrinkage = 1 + z2 / safe
    middle = (p + z2 / (2 * safe)) / shrinkage
    variance = p * (1 - p) / safe + z2 / (4 * safe**2)
    half = np.sqrt(z2 * variance) / shrinkage
    low = np.clip(middle - half, 0, 1)
    high = np.clip(middle + half, 0, 1)
    is_empty = ~(n > 0)
    low = np.where(is_empty | (k <= 0), 0.0, low)
    high = np.where(is_empty | (k >= n), 1.0, high)
    return low, high


def exact_interval(successes: float, trials: float) -> tuple[float, float]:
    """Return the 95 % interval of a proportion by Clopper and Pearson (1934).

    It covers in 95 % or more from one trial on. Counts may be effective sizes.
    """
    failures = trials - successes
    low = beta_quantile((1 - LEVEL) / 2, successes, failures + 1)
    high = beta_quantile((1 + LEVEL) / 2, successes + 1, failures)
    return float(low), float(high)


def beta_quantile(q: ArrayLike, a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Return the quantile of Beta(a, b); Beta(0, b) is 0 and Beta(a, 0) is 1."""
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    inside = (a > 0) & (b > 0)
    safe_a = np.where(inside, a, 1.0)
    safe_b = np.where(inside, b, 1.0)
    at_end = np.where(a > 0, 1.0, 0.0)
    return np.where(inside, betaincinv(safe_a, safe_b, q), at_end)


def percentiles(draws: np.ndarray, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the expanded 95 % percentile interval of bootstrap draws.

    Plain percentiles of a bootstrap over few units are too narrow, by (n - 1) / n in
    variance and by a normal quantile instead of Student's; Hesterberg (2015) widens the
    nominal level by exactly that much.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, ...)
        Draws that are not finite are left out; ValueError if all are.
    n_units : int
        Number of independent units that were resampled.

    Returns
    -------
    low, high : ndarray of shape (...)
    """
    n = max(n_units, 2)
    t = stdtrit(n - 1, (1 - LEVEL) / 2)
    tail = ndtr(t * np.sqrt(n / (n - 1)))
    other_axes = tuple(range(1, draws.ndim))
    finite = draws[np.all(np.isfinite(draws), axis=other_axes)]
    if not len(finite):
        raise ValueError("no bootstrap draw contains both classes")
    low, high = np.quantile(finite, [tail, 1 - tail], axis=0)
    return low, high


def design_effect(events: np.ndarray, codes: np.ndarray) -> float:
    """Return how many grouped rows are worth one independent row for a mean.

    It is the variance of the mean between whole groups (ratio estimator) divided by
    that of independent rows, at least 1; the number of rows per group if all rows are
    equal.

    Parameters
    ----------
    events : ndarray of shape (n_rows,)
        True or false for a share, numbers for a mean.
    codes : int ndarray of shape (n_rows,)
        Number of each row's group, at least 0; some numbers may have no row.
    """
    sizes = np.bincount(codes)
    has_rows = sizes > 0
    sizes = sizes[has_rows]
    counts = np.bincount(codes, weights=events)[has_rows]
    rows = len(codes)
    groups = len(sizes)
    mean = float(np.mean(events))
    alone = float(np.var(events)) / rows
    if alone == 0 or groups < 2:
        return rows / groups
    deviations = np.square(counts - mean * sizes).sum()
    between = groups / (groups - 1) * deviations / rows**2
    # Groups of unequal size can exceed rows per group: the largest few then decide.
    return float(max(1.0, between / alone))


def weighted_share(
    events: ArrayLike,
    weights: ArrayLike,
    codes: ArrayLike,
    *,
    anytime: bool = False,
) -> tuple[float, float, float]:
    """Return the share of weighted rows with an event, and its interval.

    Rows of a group are not independent. The interval is Wilson's for the equivalent
    number of independent rows, with Student's quantile at that number: share (1 -
    share) divided by the variance of a ratio of weighted sums between whole groups
    (Binder 1983), at most the number of groups. If all events are equal it is Kish's
    (1965) number.

    Parameters
    ----------
    events : array-like of bool, shape (n_rows,)
    weights : array-like of shape (n_rows,)
        Inverse of a row's probability of being in the sample.
    codes : array-like of shape (n_rows,)
        Group of each row.
    anytime : bool
        Use ``anytime_level`` instead of 95 %.

    Returns
    -------
    share, low, high : float
    """
    events = np.asarray(events, float)
    weights = np.asarray(weights, float)
    codes = codes_of(codes)
    total = weights.sum()
    share = float((weights * events).sum() / total)
    if events.min() == events.max():
        group_weights = np.bincount(codes, weights)
        size = total**2 / np.square(group_weights).sum()
    else:
        sums = np.bincount(codes, weights * (events - share))
        between = np.square(sums).sum() / total**2
        size = share * (1 - share) / max(between, _MIN_VARIANCE)
        size = min(size, codes.max() + 1.0)
    level = anytime_level(size) if anytime else LEVEL
    freedom = max(size - 1, 1)
    low, high = rate_interval(share * size, size, level, freedom)
    return share, float(low), float(high)


# Rows; from about four times as many on, an anytime interval is hardly wider than it
# must be.
_ANYTIME_SCALE = 15.0


def anytime_level(size: float) -> float:
    """Return the level of an interval at one size of a growing sample.

    The intervals at all sizes together then cover in 98 %. With a fixed level, one of
    them fails sooner or later if they are computed every day. Normal mixture (Robbins
    1970; Howard et al. 2021): 3.4 standard errors at 60 to 500 rows, slowly more at
    larger sizes.
    """
    log_odds = np.log1p(size / _ANYTIME_SCALE) - 2 * np.log(1 - ANYTIME_LEVEL)
    z = np.sqrt((1 + _ANYTIME_SCALE / size) * log_odds)
    # With a few rows the level would be 1, which has no quantile.
    return float(min(2 * ndtr(z) - 1, 1 - 1e-12))


def student_size_factor(n_units: int) -> float:
    """Return the factor on a sample size that makes a normal quantile Student's.

    Few groups determine not only a share but also its variance (Korn and Graubard
    1998).
    """
    t = stdtrit(max(n_units - 1, 1), 0.975)
    return float(ndtri(0.975) / t) ** 2


def share_range(events: np.ndarray, codes: np.ndarray | None = None) -> Estimate:
    """Return the share of rows with an event, and its 95 % interval.

    Wilson's interval for as many rows as the groups are worth.

    Parameters
    ----------
    events : bool ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,), optional
        Number of each row's group; None for independent rows.
    """
    design = 1.0 if codes is None else design_effect(events, codes)
    size = len(events) / design
    share = float(np.mean(events))
    low, high = rate_interval(share * size, size)
    return Estimate(share, float(low), float(high))


def grouped_rate_interval(
    counts: ArrayLike, sizes: np.ndarray, above_median: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of shares of rows that come in groups.

    Wilson's interval for rows / `shared_design` rows, with Student's quantile of
    groups - 1 degrees of freedom (Korn and Graubard 1998; Dean and Pagano 2015).
    Parameters as for ``shared_design``.
    """
    share = np.sum(counts, axis=0) / np.sum(sizes)
    size = np.sum(sizes) / shared_design(counts, sizes, above_median)
    freedom = max(len(sizes) - 1, 1)
    return rate_interval(share * size, size, freedom=freedom)


def shared_design(
    counts: ArrayLike, sizes: ArrayLike, above_median: ArrayLike
) -> np.ndarray:
    """Return the design effects of related shares of grouped rows, (n_shares,).

    A share near 0 or 1 depends on the few groups with the exceptions, and most samples
    show too few of these: its own design effect is too small just when the share is too
    extreme. Therefore, as in surveys (Kish 1965), it is replaced by one averaged over
    related shares if that is larger: 1 + (m - 1) r, with m the mean size of a row's
    group, and r the correlation within groups, averaged over the share and the split at
    the median. It is m if the share is 0 or 1, or if there is one group.

    Parameters
    ----------
    counts : array-like of shape (n_groups, n_shares)
        Rows of each group that count towards each share.
    sizes : array-like of shape (n_groups,)
        Rows of each group, at least 1.
    above_median : array-like of shape (n_groups,)
        Rows of each group at or above the median of the scores by which shares are
        made.
    """
    counts = np.asarray(counts, float)
    sizes = np.asarray(sizes, float)
    rows = sizes.sum()
    groups = len(sizes)
    share = counts.sum(axis=0) / rows
    most = float(np.square(sizes).sum() / rows)
    alone = rows * share * (1 - share)
    certain = alone <= 0
    if groups < 2:
        return np.full(share.shape, most)
    deviations = np.square(counts - share * sizes[:, None])
    spread = groups / (groups - 1) * deviations.sum(axis=0)
    correlation = _within_correlation(counts, sizes)
    median = np.asarray(above_median, float)[:, None]
    central = _within_correlation(median, sizes)
    shared = np.where(np.isnan(central), correlation, (correlation + central) / 2)
    own = spread / np.where(certain, 1.0, alone)
    design = np.fmax(own, 1 + (most - 1) * shared)
    return np.where(certain, most, np.clip(design, 1, most))


def _within_correlation(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the correlation of rows of one group, 0 to 1, by analysis of variance.

    NaN for a share of 0 or 1.
    """
    rows = sizes.sum()
    groups = len(sizes)
    share = counts.sum(axis=0) / rows
    column = sizes[:, None]
    squares_between = np.square(counts - share * column) / column
    squares_inside = counts * (1 - counts / column)
    between = squares_between.sum(axis=0) / (groups - 1)
    inside = squares_inside.sum(axis=0) / max(rows - groups, 1)
    mean_size = np.square(sizes).sum() / rows
    typical_size = (rows - mean_size) / (groups - 1)
    whole = between + (typical_size - 1) * inside
    defined = (share > 0) & (share < 1) & (whole > 0)
    correlation = (between - inside) / np.where(defined, whole, 1.0)
    return np.where(defined, np.clip(correlation, 0, 1), np.nan)


def log_rates(rates: tuple[Rate, ...]) -> list[np.ndarray]:
    """Return the logarithms of rates; that of 0 is far below any interval's end."""
    return [np.log(np.maximum(rate, _MIN_RATE)) for rate in rates]


def rate_ratio(
    rate: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the ratio of two independent rates with its 95 % interval.

    Its logarithm is that of Simel et al. (1991). The intervals of both rates are joined
    by MOVER (Zou and Donner 2008), so each may come from any method.

    Parameters
    ----------
    rate, other : (rate, low, high)
        `other` is above 0.

    Returns
    -------
    ratio, low, high : float
    """
    log_rate, log_low, log_high = log_rates(rate)
    log_other, other_low, other_high = log_rates(other)
    log_ratio = log_rate - log_other
    below = np.hypot(log_rate - log_low, other_high - log_other)
    above = np.hypot(log_high - log_rate, log_other - other_low)
    low = float(np.exp(log_ratio - below))
    high = float(np.exp(log_ratio + above))
    ratio = rate[0] / other[0]
    return ratio, min(low, ratio), high


def ratio_interval(
    numerator: tuple[float, float, float], denominator: tuple[float, float, float]
) -> tuple[float, float]:
    """Return the 95 % interval of a ratio of two independent figures.

    MOVER for ratios (Donner and Zou 2012): the ends of both figures' intervals are used
    as variances, so each may come from any method.

    Parameters
    ----------
    numerator, denominator : (value, low, high)
        At least 0.

    Returns
    -------
    low, high : float
        high is infinite if the denominator may be 0.
    """
    a, a_low, a_high = numerator
    b, b_low, b_high = denominator
    product = a * b
    low = 0.0
    if a_low > 0:
        low_part = a_low * b_high * (2 * a - a_low) * (2 * b - b_high)
        root = np.sqrt(max(product**2 - low_part, 0.0))
        low = float(a_low * (2 * a - a_low) / (product + root))
    if b_low <= 0:
        return low, float("inf")
    high_part = a_high * b_low * (2 * a - a_high) * (2 * b - b_low)
    root = np.sqrt(max(product**2 - high_part, 0.0))
    high = (product + root) / (b_low * (2 * b - b_low))
    return low, float(high)


def independent_difference(figure: Estimate, other: Estimate) -> Estimate:
    """Return a figure minus that of other rows, with its 95 % interval.

    Newcombe (1998), method 10. Undefined if one of the figures has no interval.
    """
    if None in figure.value_and_interval or None in other.value_and_interval:
        return Estimate()
    value, low, high = figure.value_and_interval
    other_value, other_low, other_high = other.value_and_interval
    difference = value - other_value
    return Estimate(
        difference,
        difference - np.hypot(value - low, other_high - other_value),
        difference + np.hypot(high - value, other_value - other_low),
    )


def independent_ratio(figure: Estimate, other: Estimate) -> Estimate:
    """Return a figure over that of other rows, with its 95 % interval.

    Donner and Zou (2012), MOVER-R; `templates/subgroups.js` computes the same. The
    ratio is undefined if one of the figures has no interval or the other is 0. It has
    no upper limit if the other's interval begins at 0.
    """
    if None in figure.value_and_interval or None in other.value_and_interval:
        return Estimate()
    value, low, high = figure.value_and_interval
    other_value, other_low, other_high = other.value_and_interval
    if other_value == 0:
        return Estimate()
    product = value * other_value
    # The limits solve two quadratic equations, whose constant terms are these.
    of_low = low * (2 * value - low)
    of_high = high * (2 * value - high)
    # And their leading terms.
    of_other_low = other_low * (2 * other_value - other_low)
    of_other_high = other_high * (2 * other_value - other_high)
    # Never below 0 but by rounding.
    root = np.sqrt(max(product**2 - of_low * of_other_high, 0.0))
    lower = of_low / (product + root) if product > 0 else 0.0
    upper = None
    if of_other_low > 0:
        root = np.sqrt(max(product**2 - of_high * of_other_low, 0.0))
        upper = (product + root) / of_other_low
    return Estimate(value / other_value, lower, upper)
