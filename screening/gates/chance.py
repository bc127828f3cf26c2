"""How likely is what a night shows if its rows come from the population of training? Valid at any size.

Every probability treats the training rows as what they are, a sample too: night and training are exchangeable
rows, and the split between them is what chance decides. So nothing here rests on a large night. Rows of one
group are alike; they count as their effective number, and a share of them as that share of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

Counts = Sequence[float] | np.ndarray

# More rows say nothing more that matters beside the practical sizes; sums stay short.
MOST_UNITS = 20_000
EXACT_PATHS = 100_000
TILTS = np.geomspace(1e-3, 60.0, 240)


def effective_units(sizes: Iterable[int]) -> float:
    """How many independent rows groups of such sizes are worth if those of a group are all alike (Kish)."""
    rows = np.fromiter(sizes, dtype=float)
    return float(rows.sum() ** 2 / np.square(rows).sum()) if rows.size else 0.0


def more_often(events: float, rows: float, past_events: float, past_rows: float) -> float:
    """Chance of so many events tonight or more (Fisher, one-sided); all counts in effective rows."""
    if not rows or not past_rows:
        return 1.0
    drawn, before = _in_units(events, rows), _in_units(past_events, past_rows)
    every = drawn[1] + before[1]
    return _at_least(drawn[0], every, drawn[0] + before[0], drawn[1])


def so_many(events: int, rows: int, rate: float) -> float:
    """Chance of so many events or more, each row having one at `rate` (binomial tail)."""
    x = np.arange(events, rows + 1)
    ways = _log_choose(rows, x) + x * math.log(rate) + (rows - x) * math.log1p(-rate)
    return float(min(1.0, np.exp(ways).sum()))


def _at_least(least: int, every: int, events: int, drawn: int) -> float:
    """Chance that `drawn` rows of `every` hold `least` or more of its `events` (hypergeometric tail)."""
    x = np.arange(max(least, drawn + events - every, 0), min(events, drawn) + 1)
    ways = _log_choose(events, x) + _log_choose(every - events, drawn - x) - _log_choose(every, drawn)
    return float(min(1.0, np.exp(ways).sum()))


def _log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
    k = np.asarray(k)
    return _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)


def _log_factorial(n: np.ndarray | int) -> np.ndarray:
    n = np.asarray(n)
    return _log_factorials(int(n.max(initial=0)).bit_length())[n]


@cache
def _log_factorials(power: int) -> np.ndarray:
    # Not SciPy's: reading its library takes longer than all gates together.
    return np.array([math.lgamma(each + 1.0) for each in range(1 << power)])


def other_shares(counts: Counts, past: Counts) -> float:
    """Chance that some category is so much more, or less, frequent: Fisher for each, times their number."""
    rows, past_rows = float(np.sum(counts)), float(np.sum(past))
    if not rows or not past_rows or len(counts) < 2:
        return 1.0
    tails = [
        min(more_often(x, rows, k, past_rows), more_often(rows - x, rows, past_rows - k, past_rows))
        for x, k in zip(counts, past, strict=True)
    ]
    # Of two categories each says what the other says.
    return min(1.0, 2 * min(tails) * (1 if len(tails) == 2 else len(tails)))


def outside(events: float, rows: float, past_rows: float) -> float:
    """Chance of so many values below the lowest or above the highest of training.

    With a of them above and b below, the top a and the bottom b of all values lie in the night; summed over
    every a + b = `events`.
    """
    x, m = _in_units(events, rows)
    every = m + _in_units(0, past_rows)[1]
    if not x:
        return 1.0
    return float(min(1.0, (x + 1) * math.exp(_log_all_tonight(np.array([x]), m, every)[0])))


def never_seen(unseen: Counts, past: Counts, rows: float) -> float:
    """Chance of so many rows whose category no training row has.

    A category of c rows in all lies in the night as a whole with the chance of a draw without replacement;
    such events are negatively associated, so a Chernoff bound over all categories holds.

    Parameters
    ----------
    unseen, past : sequence of float
        Rows of each category tonight that training never had, and of each category of training.
    rows : float
        Rows of tonight that have a category.
    """
    x = sum(max(1, math.floor(n + 1e-9)) for n in unseen)
    if not x:
        return 1.0
    m, before = max(x, round(rows)), round(sum(past))
    # Fewer rows a category: all of them lie in the night more easily, so the bound stays one.
    sizes, times = np.unique(
        [max(1, math.floor(n + 1e-9)) for n in (*unseen, *past) if n], return_counts=True
    )
    inside = np.minimum(_log_all_tonight(sizes, m, m + before), 0.0)
    with np.errstate(divide="ignore"):
        rest = np.log1p(-np.exp(inside))
    exponents = np.logaddexp(rest, inside + np.outer(TILTS, sizes)) @ times - TILTS * x
    return float(min(1.0, math.exp(exponents.min())))


def other_distribution(distance: float, rows: float, past_rows: float) -> float:
    """Chance of so large a distance of two cumulative shares (Kolmogorov-Smirnov, two samples).

    Exact by counting lattice paths, where that is short; else the bound of Dvoretzky, Kiefer, Wolfowitz and
    Massart. Ties, and shares that are known at some places only, make the distance smaller: the chance told
    is then too large, never too small.
    """
    m, n = sorted((int(min(rows, MOST_UNITS)), int(min(past_rows, MOST_UNITS))))
    if not m or distance <= 0:
        return 1.0
    if m * n > EXACT_PATHS:
        return min(1.0, 2 * math.exp(-2 * distance**2 * m * n / (m + n)))
    # Walk all orders of the m + n values; a path that stays inside the band is one of a smaller distance.
    steps = np.arange(n + 1) / n
    weights = np.where(steps < distance - 1e-9, 1.0, 0.0)
    log_scale = 0.0
    for j in range(1, m + 1):
        band = np.abs(steps - j / m) < distance - 1e-9
        weights = np.cumsum(weights * band) * band
        largest = weights.max()
        if not largest:
            return 1.0
        weights, log_scale = weights / largest, log_scale + math.log(largest)
    if not weights[-1]:
        return 1.0
    inside = math.log(weights[-1]) + log_scale - float(_log_choose(m + n, m))
    return float(min(1.0, max(0.0, -math.expm1(min(inside, 0.0)))))


def _in_units(events: float, rows: float) -> tuple[int, int]:
    """Events and rows as whole numbers, at most `MOST_UNITS` rows."""
    ratio = min(1.0, MOST_UNITS / rows) if rows else 1.0
    whole = max(1, round(rows * ratio)) if rows else 0
    return min(whole, round(events * ratio)), whole


def _log_all_tonight(sizes: np.ndarray, tonight: int, every: int) -> np.ndarray:
    """Log chance that `sizes` named rows of `every` all lie among the `tonight` drawn."""
    fits = np.minimum(sizes, tonight)
    log = _log_choose(tonight, fits) - _log_choose(every, fits)
    return np.where(sizes > tonight, -np.inf, log)
