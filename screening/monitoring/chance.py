"""p-values of a night's counts beside those of training.

They are valid at any size: training rows are a sample too, exchangeable with those of
the night, and the split between them is what chance decides. Rows of one group are
alike; they count as their effective number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import scipy

Counts = Sequence[float] | np.ndarray

# More rows say nothing more that matters beside the practical sizes; sums stay short.
MOST_UNITS = 20_000
TWO_SAMPLES = 2.17
TILTS = np.geomspace(1e-3, 60.0, 240)


def effective_units(sizes: Iterable[int]) -> float:
    """Return the effective number of rows in groups of equal rows (Kish)."""
    rows = np.fromiter(sizes, dtype=float)
    if not rows.size:
        return 0.0
    return float(rows.sum() ** 2 / np.square(rows).sum())


def more_often(
    events: float, rows: float, past_events: float, past_rows: float
) -> float:
    """Return the chance of so many events tonight or more (Fisher, one-sided)."""
    if not rows or not past_rows:
        return 1.0
    x, m = _in_units(events, rows)
    k, n = _in_units(past_events, past_rows)
    return float(scipy.stats.hypergeom.sf(x - 1, m + n, x + k, m))


def other_shares(counts: Counts, past: Counts) -> float:
    """Return the chance of so unusual a category (Fisher, times their number)."""
    rows = float(np.sum(counts))
    past_rows = float(np.sum(past))
    if not rows or not past_rows or len(counts) < 2:
        return 1.0
    tails = []
    for x, k in zip(counts, past, strict=True):
        tails.append(more_often(x, rows, k, past_rows))
        tails.append(more_often(rows - x, rows, past_rows - k, past_rows))
    # Of two categories each says what the other says.
    n_independent = 1 if len(counts) == 2 else len(counts)
    return min(1.0, 2 * min(tails) * n_independent)


def outside(events: float, rows: float, past_rows: float) -> float:
    """Chance of so many values below the lowest or above the highest of training.

    Then the top a and the bottom b of all values lie in the night; summed over every a
    + b = `events`.
    """
    x, m = _in_units(events, rows)
    if not x:
        return 1.0
    _, n = _in_units(0, past_rows)
    all_inside = scipy.stats.hypergeom.pmf(x, m + n, x, m)
    return float(min(1.0, (x + 1) * all_inside))


def never_seen(unseen: Counts, past: Counts, rows: float) -> float:
    """Return the chance of so many rows tonight with a category new since training.

    A category of c rows in all lies in the night as a whole with the chance of a draw
    without replacement; such events are negatively associated, so a Chernoff bound over
    all categories is valid.
    """
    x = sum(map(_whole_rows, unseen))
    if not x:
        return 1.0
    m = max(x, round(rows))
    n_rows = m + round(sum(past))
    # Fewer rows a category: all of them lie in the night more easily, so the bound
    # stays one.
    rows_of_category = [_whole_rows(n) for n in (*unseen, *past) if n]
    sizes, times = np.unique(rows_of_category, return_counts=True)
    inside = np.minimum(scipy.stats.hypergeom.logpmf(sizes, n_rows, sizes, m), 0.0)
    with np.errstate(divide="ignore"):
        rest = np.log1p(-np.exp(inside))
    tilted = np.logaddexp(rest, inside + np.outer(TILTS, sizes))
    exponents = tilted @ times - TILTS * x
    return float(min(1.0, math.exp(exponents.min())))


def _whole_rows(n: float) -> int:
    """Return how many whole rows an effective number is worth, at least one."""
    return max(1, math.floor(n + 1e-9))


def other_distribution(distance: float, rows: float, past_rows: float) -> float:
    """Return the chance of so large a Kolmogorov-Smirnov distance of two samples.

    The bound of Dvoretzky, Kiefer, Wolfowitz and Massart, with the constant that Wei
    and Dudley (2012) found for samples of any size. Ties, and shares that are known at
    some places only, make the distance smaller: the p-value is then too large, never
    too small.
    """
    m = min(float(rows), MOST_UNITS)
    n = min(float(past_rows), MOST_UNITS)
    if not m or not n:
        return 1.0
    exponent = -2 * distance**2 * m * n / (m + n)
    return min(1.0, TWO_SAMPLES * math.exp(exponent))


def _in_units(events: float, rows: float) -> tuple[int, int]:
    """Events and rows as whole numbers, at most `MOST_UNITS` rows."""
    ratio = min(1.0, MOST_UNITS / rows) if rows else 1.0
    whole = max(1, round(rows * ratio)) if rows else 0
    return min(whole, round(events * ratio)), whole
