"""Whether scores of one time lie as those of another did, counted in cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.monitoring.tests import gaps

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
    gap = gaps(before, later)[:-1]
    p = 1.0
    for draws in DRAWS:
        p = _chance_of(before, later, np.square(gap).sum(), draws)
        if p > PLAIN:
            break
    return Shift(float(np.abs(gap).max(initial=0.0)), p, bool(gap.sum() < 0))


def _chance_of(before: np.ndarray, later: np.ndarray, statistic: float, draws: int) -> float:
    rng, whole = np.random.default_rng(SEED), before + later
    m, n = int(before.sum()), int(later.sum())
    dealt = rng.multivariate_hypergeometric(whole, n, size=draws, method="marginals")
    gaps = np.cumsum(dealt / n - (whole - dealt) / m, axis=1)[:, :-1]
    # Equal deals differ in the last digits only.
    as_far = np.square(gaps).sum(axis=1) >= statistic * (1 - 1e-9) - 1e-15
    return float((1 + np.count_nonzero(as_far)) / (1 + draws))
