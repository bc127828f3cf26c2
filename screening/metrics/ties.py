"""Rows alike in every value: new rows like them have one score, and no threshold parts them."""

from __future__ import annotations

import numpy as np

from screening.metrics.tally import Tally

# Rows alike in every value, held out in different folds, score a little differently, and a threshold may fall
# among them. A new row like them has one score, near the mean of theirs: all such rows are flagged, or none,
# and what is promised of a part of them is false for every one.
# So many rows, and such a share of all, move a rate when they change sides together. The mean of fewer leans
# on their own labels: each was held out by machines that had learned from the others.
FEWEST, LEAST = 20, 0.01
# Rates of held-out rows and of new rows like them may differ by this much at a threshold, or by one row.
AGREES = 0.03
# The score of new rows lies within so many standard errors of the mean, or is apart by rounding alone.
ERRORS, ROUNDING = 2.0, 1e-6


def alike(x: np.ndarray) -> np.ndarray | None:
    """Number the distinct rows of x, (n_rows, n_columns), as (n_rows,); None where none stands for many."""
    _, numbers, counts = np.unique(hashed(x), return_inverse=True, return_counts=True)
    return numbers.ravel() if many(counts, len(x)).any() else None


def hashed(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """A hash of each row's values, (n_rows,), of type uint64."""
    mixed = np.full(len(x), np.uint64(seed))
    for column in x.T:
        # The mixing of splitmix64 (Steele et al. 2014), once a column; -0.0 is 0.0.
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def many(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Whether so many rows of all are enough to move a rate."""
    return counts >= max(FEWEST, LEAST * n_rows)


def as_new(scores: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Scores as new rows have them: where many are alike, the mean of theirs."""
    counts, mean = _kinds(scores, numbers)
    return np.where(many(counts, len(scores))[numbers], mean[numbers], scores)


def between(tally: Tally, numbers: np.ndarray) -> np.ndarray:
    """Thresholds at which the rates of held-out rows are those of new rows like them, (n_thresholds,).

    Rows alike whose mean is too near a threshold to say on which side new ones fall count as apart.
    """
    scores, thresholds = tally.scores, tally.thresholds
    counts, mean = _kinds(scores, numbers)
    spread = np.bincount(numbers, weights=(scores - mean[numbers]) ** 2) / counts
    reach = ERRORS * np.sqrt(spread / counts) + ROUNDING * np.ptp(scores)
    # A threshold is at the first score that is flagged: it is unsure above the lower end, up to the upper.
    ends = [
        np.searchsorted(thresholds, end, side="right")
        for end in (mean - reach, mean + reach)
    ]
    new = Tally(as_new(scores, numbers), tally.positive, None, thresholds)
    kept = np.ones(len(thresholds), dtype=bool)
    for chosen, held, other in zip(
        (tally.positive, ~tally.positive), tally.counts, new.counts, strict=True
    ):
        size = np.bincount(numbers, weights=chosen) * many(counts, len(scores))
        kept &= np.abs(held - other) + _unsure(size, ends, len(kept)) <= max(
            AGREES * held[0], 1.0
        )
    return kept


def _kinds(scores: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many rows are of each kind, and their mean score."""
    counts = np.maximum(np.bincount(numbers), 1)
    return counts, np.bincount(numbers, weights=scores) / counts


def _unsure(size: np.ndarray, ends: list[np.ndarray], n_thresholds: int) -> np.ndarray:
    """How many rows may be on the other side of each threshold, of kinds unsure between two ends."""
    # Rows of one kind change sides together, those of several each for themselves: squares add up.
    squares = np.zeros(n_thresholds + 1)
    for end, sign in zip(ends, (1.0, -1.0), strict=True):
        np.add.at(squares, end, sign * size**2)
    return np.sqrt(np.maximum(np.cumsum(squares)[:-1], 0.0))
