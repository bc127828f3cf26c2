"""Change over nights: control charts of proportions, and whether scores lie as those of another time did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import betabinom

from screening.monitoring.tests import gaps

SIGMAS = 3.0
TAIL = 0.00135
"""Chance beyond a limit on one side: what three sigmas leave of a normal distribution."""

BASELINE = 20
"""Nights that fix centre and limits of a phase; what comes later changes neither."""

LEAST = 10
"""Nights below which there are no limits yet."""

MANY = 100
"""Expected events from which on three sigmas are as seldom passed as of a normal distribution."""

# Mean distance of two draws from a normal distribution, in its standard deviations.
RANGE_OF_TWO = 1.128


@dataclass(frozen=True)
class Limits:
    """Centre and limits, as the nights of a baseline fix them."""

    count: float  # events in the baseline
    of: float  # what they are a share of
    # >= 1, Laney's sigma of z: how much more the nights differ than chance explains; 1 is a p-chart
    spread: float

    @property
    def centre(self) -> float:
        """Share of the baseline."""
        return self.count / self.of

    def at(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Low and high limit of shares of so many, `sizes` (n_nights,) being whole numbers above 0.

        Three sigmas, or where chance alone passes them more than once in 740 nights, since counts are small
        or the baseline is, the bound that it passes so seldom.
        """
        variance = self.centre * (1 - self.centre) * (1 / sizes + 1 / self.of)
        reach = SIGMAS * self.spread * np.sqrt(variance)
        high = np.maximum(self.centre + reach, _seldom_above(sizes, self.count, self.of))
        low = np.minimum(self.centre - reach, 1 - _seldom_above(sizes, self.of - self.count, self.of))
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def limits(counts: np.ndarray, sizes: np.ndarray) -> Limits | None:
    """Centre and spread of a baseline, from events and what they are a share of, (n_nights,) each.

    Nights of size 0 are left out; None below `LEAST` nights.
    """
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]
    if len(sizes) < LEAST:
        return None
    count, of = float(counts.sum()), float(sizes.sum())
    share = count / of
    spread = 1.0
    if 0 < share < 1:
        z = (counts / sizes - share) / np.sqrt(share * (1 - share) / sizes)
        # Patients who stay make neighbours alike: moving ranges alone would then take too little for usual.
        spread = max(1.0, float(np.abs(np.diff(z)).mean()) / RANGE_OF_TWO, float(z.std(ddof=1)))
    return Limits(count, of, spread)


def _seldom_above(sizes: np.ndarray, count: float, of: float) -> np.ndarray:
    """The share that chance exceeds with probability `TAIL` at most, its own rate known from a baseline.

    Quantile of the beta-binomial distribution: how many of `size`, after `count` of `of` (Jeffreys' prior);
    0 where `MANY` or more are expected.
    """
    a, b = count + 0.5, of - count + 0.5
    distinct, number = np.unique(np.where(sizes * a / (a + b) < MANY, sizes, 0), return_inverse=True)
    mean = distinct * a / (a + b)
    # So far out that nothing is left beyond, whatever the rate; `betabinom.ppf` looks at one night at a time.
    furthest = np.minimum(distinct, np.ceil(mean + 12 * np.sqrt(mean * (1 + distinct / of)) + 40))
    mass = betabinom.pmf(np.arange(furthest.max() + 1), distinct[:, None], a, b)
    reached = np.argmax(np.cumsum(mass, axis=1) >= 1 - TAIL, axis=1)
    return np.asarray((reached / np.maximum(distinct, 1))[number])


CELLS = 20
DRAWS = 999, 9_999
PLAIN = 0.05
"""Of the fewer draws: above it the many would only say more exactly that nothing is the matter."""
# The draws are part of the test, not of its data: the same counts always give the same p.
SEED = 20


@dataclass(frozen=True)
class Shift:
    """How far two counts of scores lie apart."""

    distance: float  # largest difference of their cumulative shares (Kolmogorov and Smirnov's)
    p: float  # of Cramer and von Mises' statistic, by permutation
    higher: bool  # whether the later ones lie higher on the whole


def inner_edges(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Edges between cells of about equal weight, sorted, none twice, at most `CELLS` - 1 of them."""
    order = np.argsort(scores, kind="stable")
    weight = np.ones(len(scores)) if weights is None else weights
    reached = np.cumsum(weight[order])
    at = np.searchsorted(reached, np.arange(1, CELLS) / CELLS * reached[-1])
    edges = np.unique(scores[order][np.minimum(at, len(order) - 1)])
    return edges[edges < scores.max()]


def cells_of(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The cell each score lies in, 0 to len(edges); an edge belongs to the cell below it."""
    return np.searchsorted(edges, scores, side="left")


def shift(known: Sequence[int] | np.ndarray, counted: Sequence[int] | np.ndarray) -> Shift | None:
    """Test whether two counts over the same ordered cells come from one distribution; None without any.

    Those counted are dealt anew between the two sides, 9,999 times where it matters: p is exact, ties and
    cells included, for independent units (count a patient once). Cramer and von Mises' sum of squared
    differences sees half a standard deviation more often than the largest difference does
    (`benchmarks/drift.py`).
    """
    before, later = np.asarray(known, np.int64), np.asarray(counted, np.int64)
    m, n = int(before.sum()), int(later.sum())
    if not m or not n:
        return None
    gap, whole, p = gaps(before, later)[:-1], before + later, 1.0
    # Equal deals differ in the last digits only.
    least = np.square(gap).sum() * (1 - 1e-9) - 1e-15
    for draws in DRAWS:
        rng = np.random.default_rng(SEED)
        dealt = rng.multivariate_hypergeometric(whole, n, size=draws, method="marginals")
        dealt_gaps = np.cumsum(dealt / n - (whole - dealt) / m, axis=1)[:, :-1]
        p = float((1 + np.count_nonzero(np.square(dealt_gaps).sum(axis=1) >= least)) / (1 + draws))
        if p > PLAIN:
            break
    return Shift(float(np.abs(gap).max(initial=0.0)), p, bool(gap.sum() < 0))
