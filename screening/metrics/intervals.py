"""How sure a rate is: score, exact and resampling intervals."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtr, ndtri, stdtrit

from screening.schemas.base import Estimate

LEVEL = 0.95
"""Two-sided confidence of every interval."""

EVERY_LOOK = 0.98
"""Two-sided confidence of all intervals of a growing sample together."""


def wilson(
    successes, trials, level: float = LEVEL, freedom: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson score interval of a proportion of independent rows; (0, 1) where there are no trials.

    Counts may be real numbers (effective sizes); `freedom` are the degrees of freedom of Student's quantile,
    where the effective size was itself estimated.
    """
    k, n = np.asarray(successes, float), np.asarray(trials, float)
    # SciPy's (`binomtest`) takes one whole count, not arrays of effective sizes, and no Student's quantile.
    z2 = (
        ndtri(0.5 + level / 2) if freedom is None else stdtrit(freedom, 0.5 + level / 2)
    ) ** 2
    safe = np.where(n > 0, n, 1.0)
    p = k / safe
    middle = (p + z2 / (2 * safe)) / (1 + z2 / safe)
    half = np.sqrt(z2 * (p * (1 - p) / safe + z2 / (4 * safe**2))) / (1 + z2 / safe)
    low = np.where(k <= 0, 0.0, np.clip(middle - half, 0, 1))
    high = np.where(k >= n, 1.0, np.clip(middle + half, 0, 1))
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def beta_quantile(q, a, b) -> np.ndarray:
    """Quantile of Beta(a, b); Beta(0, b) is all at 0 and Beta(a, 0) all at 1."""
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    inside = (a > 0) & (b > 0)
    value = betaincinv(np.where(inside, a, 1.0), np.where(inside, b, 1.0), q)
    return np.where(inside, value, np.where(a > 0, 1.0, 0.0))


def percentiles(draws: np.ndarray, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    """Expanded 95 % percentile interval along axis 0; draws that are not numbers are left out.

    The plain percentiles of a bootstrap over few units are too narrow, by (n-1)/n in variance and by a normal
    quantile where Student's belongs; Hesterberg (2015) widens the nominal level by exactly that much.
    """
    n = max(n_units, 2)
    tail = ndtr(stdtrit(n - 1, (1 - LEVEL) / 2) * np.sqrt(n / (n - 1)))
    finite = draws[np.all(np.isfinite(draws), axis=tuple(range(1, draws.ndim)))]
    if not len(finite):
        raise ValueError("no bootstrap draw holds both classes")
    low, high = np.quantile(finite, [tail, 1 - tail], axis=0)
    return low, high


def design_effect(events: np.ndarray, codes: np.ndarray) -> float:
    """How often a row must be counted to tell as much as an independent one, for a mean over rows in groups.

    Variance of the mean between whole groups (ratio estimator) over that of independent rows, at least 1; it
    is rows per group where the rows are all alike. `events` are true or false for a share, numbers for a
    mean; `codes` are the group numbers, (n_rows,) both.
    """
    codes = np.unique(codes, return_inverse=True)[1].ravel()
    sizes, counts = np.bincount(codes), np.bincount(codes, weights=events)
    rows, groups, mean = len(codes), len(sizes), float(np.mean(events))
    alone = float(np.var(events)) / rows
    if alone == 0 or groups < 2:
        return rows / groups
    between = groups / (groups - 1) * np.square(counts - mean * sizes).sum() / rows**2
    # Groups of unequal size can exceed rows per group: the largest few then decide.
    return float(max(1.0, between / alone))


def weighted_share(
    events, weights, codes, *, every_look: bool = False
) -> tuple[float, float, float]:
    """Share of weighted rows with an event, and its interval, where rows of a group are not independent.

    Wilson's at the number of independent rows that would tell as much, with Student's quantile at that
    number: share (1 - share) over the variance of a ratio of weighted sums between whole groups (Binder
    1983), not more than there are groups; where all events are alike, Kish's (1965).

    `events`, `weights`, `codes`, shape (n_rows,): true or false; the inverse of a row's chance to be in the
    sample; its group. `every_look`: by `level_of_every_look` in place of 95 %.
    """
    events, weights = np.asarray(events, float), np.asarray(weights, float)
    codes = np.unique(codes, return_inverse=True)[1].ravel()
    total, share = weights.sum(), float((weights * events).sum() / weights.sum())
    if events.min() == events.max():
        size = total**2 / np.square(np.bincount(codes, weights)).sum()
    else:
        between = (
            np.square(np.bincount(codes, weights * (events - share))).sum() / total**2
        )
        # One group's sum is nought but for rounding.
        size = min(share * (1 - share) / max(between, 1e-12), codes.max() + 1.0)
    level = level_of_every_look(size) if every_look else LEVEL
    low, high = wilson(share * size, size, level, freedom=max(size - 1, 1))
    return share, float(low), float(high)


LOOKS = 15.0
"""Rows from some four times of which on an interval for every look is hardly wider than it has to be."""


def level_of_every_look(size: float) -> float:
    """Level of an interval at a size so that those of all sizes together hold in 98 %, as a sample grows.

    A fixed level fails sooner or later where somebody looks every day. Normal mixture (Robbins 1970; Howard
    et al. 2021): 3.4 standard errors at 60 to 500 rows, slowly more at larger sizes.
    """
    squared = (1 + LOOKS / size) * (np.log1p(size / LOOKS) - 2 * np.log(1 - EVERY_LOOK))
    # A few rows tell nothing at any look, and a level of 1 has no quantile.
    return float(min(2 * ndtr(np.sqrt(squared)) - 1, 1 - 1e-12))


def students_share(n_units: int) -> float:
    """Factor on the size of a sample of few groups by which a normal quantile stands for Student's.

    Groups do not only tell a share but also the spread of it (Korn and Graubard 1998).
    """
    return float(ndtri(0.975) / stdtrit(max(n_units - 1, 1), 0.975)) ** 2


def share_range(
    events: np.ndarray, codes: np.ndarray | None
) -> tuple[float, float, float]:
    """Share of rows with an event, and its 95 % interval: Wilson, on as many rows as the groups are worth."""
    size = len(events) / (1.0 if codes is None else design_effect(events, codes))
    share = float(np.mean(events))
    low, high = wilson(share * size, size)
    return share, float(low), float(high)


def grouped_wilson(counts, sizes, middle) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of shares of rows that come in groups: Wilson's at the effective number of rows.

    Rows count as rows / `shared_design`, and Student's quantile with groups - 1 degrees of freedom stands for
    the normal one (Korn and Graubard 1998; Dean and Pagano 2015). Arguments as for `shared_design`.
    """
    share = np.sum(counts, axis=0) / np.sum(sizes)
    size = np.sum(sizes) / shared_design(counts, sizes, middle)
    return wilson(share * size, size, freedom=max(len(sizes) - 1, 1))


def shared_design(counts, sizes, middle) -> np.ndarray:
    """Design effect of shares of rows in groups, with what related shares tell of it, (n_shares,).

    `counts` (n_groups, n_shares) are the rows of each group that count towards each share, `sizes`
    (n_groups,) all its rows, at least 1, and `middle` those at or above the median on the scale by which the
    shares were made.

    A share near 0 or 1 is decided by the few groups that hold the exceptions, and most samples show too few
    of these: its bare design effect is too small just when the share is too extreme. Hence, as surveys do
    (Kish 1965), it gives way to one averaged over related shares where that is larger: 1 + (m - 1) r, with m
    the mean size of the group that a row is in, and r the correlation within groups, averaged over the share
    and the split at the median. It is m where the share is 0 or 1, or where there is one group only.
    """
    counts, sizes = np.asarray(counts, float), np.asarray(sizes, float)
    rows, groups = sizes.sum(), len(sizes)
    share, most = counts.sum(axis=0) / rows, float(np.square(sizes).sum() / rows)
    alone = rows * share * (1 - share)
    certain = alone <= 0
    if groups < 2:
        return np.full(share.shape, most)
    spread = (
        groups / (groups - 1) * np.square(counts - share * sizes[:, None]).sum(axis=0)
    )
    own, central = (
        _within(counts, sizes),
        _within(np.asarray(middle, float)[:, None], sizes),
    )
    shared = np.where(np.isnan(central), own, (own + central) / 2)
    design = np.fmax(spread / np.where(certain, 1.0, alone), 1 + (most - 1) * shared)
    return np.where(certain, most, np.clip(design, 1, most))


def _within(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Correlation of rows of one group, 0 to 1, by analysis of variance; NaN for a share of 0 or 1."""
    rows, groups = sizes.sum(), len(sizes)
    share = counts.sum(axis=0) / rows
    held = sizes[:, None]
    between = (np.square(counts - share * held) / held).sum(axis=0) / (groups - 1)
    inside = (counts * (1 - counts / held)).sum(axis=0) / max(rows - groups, 1)
    typical = (rows - np.square(sizes).sum() / rows) / (groups - 1)
    whole = between + (typical - 1) * inside
    defined = (share > 0) & (share < 1) & (whole > 0)
    return np.where(
        defined,
        np.clip((between - inside) / np.where(defined, whole, 1.0), 0, 1),
        np.nan,
    )


def predictive_interval(
    prevalence: float, right: tuple, wrong: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """Interval of a predictive value at a known prevalence of what is predicted, by Bayes.

    The log odds of PPV are those of the prevalence, plus log sensitivity, minus log(1 - specificity); the two
    intervals are joined by MOVER (Zou and Donner 2008), so each may come from anywhere. For NPV give the
    shares of the other side: prevalence of negatives, specificity and 1 - sensitivity. `right` and `wrong`
    are (rate, low, high) of the share flagged of what should be, and of what should not be.
    """
    # A rate of 0 has no logarithm; the floor only has to be small beside any interval's end.
    hit, hit_low, hit_high = (np.log(np.maximum(v, 1e-9)) for v in right)
    false, false_low, false_high = (np.log(np.maximum(v, 1e-9)) for v in wrong)
    odds = logit(prevalence) + hit - false
    down = np.sqrt((hit - hit_low) ** 2 + (false_high - false) ** 2)
    up = np.sqrt((hit_high - hit) ** 2 + (false - false_low) ** 2)
    return expit(odds - down), expit(odds + up)


def ratio_interval(one: tuple, other: tuple) -> tuple[float, float]:
    """95 % interval of a ratio of two independent figures, each of which may come from anywhere.

    MOVER for ratios (Donner and Zou 2012): the ends are those of both figures, recovered as variances. The
    upper end is infinite where the other figure may be 0. Both are (value, low, high), at least 0.
    """
    (a, a_low, a_high), (b, b_low, b_high) = one, other
    product = a * b
    spread = np.sqrt(
        max(product**2 - a_low * b_high * (2 * a - a_low) * (2 * b - b_high), 0.0)
    )
    low = a_low * (2 * a - a_low) / (product + spread) if a_low > 0 else 0.0
    if b_low <= 0:
        return low, float("inf")
    spread = np.sqrt(
        max(product**2 - a_high * b_low * (2 * a - a_high) * (2 * b - b_low), 0.0)
    )
    return float(low), float((product + spread) / (b_low * (2 * b - b_low)))


def independent_difference(figure: Estimate, other: Estimate) -> Estimate:
    """A figure minus that of other rows, with its 95 % interval (Newcombe 1998, method 10)."""
    if None in figure.ends or None in other.ends:
        return Estimate()
    (value, low, high), (past, past_low, past_high) = figure.ends, other.ends
    gap = value - past
    return Estimate(
        gap,
        gap - np.hypot(value - low, past_high - past),
        gap + np.hypot(high - value, past - past_low),
    )
