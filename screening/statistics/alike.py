"""Rows alike in every value: a threshold that would part them parts nothing.

Held out in different folds they score a little differently, and a threshold may fall among them. A new row
like them has one score, near the mean of theirs: all such rows are flagged, or none. What is promised there
of a part of them is false for every one. On tables of a few yes-or-no columns one such row may stand for a
third of all.
"""

from __future__ import annotations

import numpy as np

from screening.statistics.tally import Tally

# So many rows, and such a share of all, move a rate when they change sides together.
FEWEST, LEAST = 5, 0.01
# Rates of held-out rows and of new rows like them may differ by this much at a threshold, or by one row.
AGREES = 0.03
# The score of new rows lies within so many standard errors of the mean, or is apart by rounding alone.
ERRORS, ROUNDING = 2.0, 1e-6


def alike(x: np.ndarray) -> np.ndarray | None:
    """Number the distinct rows of x, (n_rows, n_columns), as (n_rows,); None where none stands for many."""
    whole = np.ascontiguousarray(x + 0.0)  # -0.0 is 0.0
    as_bytes = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    _, numbers, counts = np.unique(as_bytes, return_inverse=True, return_counts=True)
    return numbers.ravel() if many(counts, len(x)).any() else None


def many(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Whether so many rows of all are enough to move a rate."""
    return counts >= max(FEWEST, LEAST * n_rows)


def as_new(scores: np.ndarray, numbers: np.ndarray, errors: float = 0.0) -> np.ndarray:
    """Scores as new rows have them: where many are alike the mean of theirs, plus so many errors of it."""
    counts = np.maximum(np.bincount(numbers), 1)
    mean = np.bincount(numbers, weights=scores) / counts
    spread = np.bincount(numbers, weights=(scores - mean[numbers]) ** 2) / counts
    error = np.sqrt(spread / counts) + ROUNDING * np.ptp(scores)
    return np.where(many(counts, len(scores))[numbers], (mean + errors * error)[numbers], scores)


def between(tally: Tally, numbers: np.ndarray) -> np.ndarray:
    """Thresholds at which the rates of held-out rows are those of new rows like them, (n_thresholds,)."""
    kept = np.ones(len(tally.thresholds), dtype=bool)
    for errors in (-ERRORS, ERRORS):
        new = Tally(as_new(tally.scores, numbers, errors), tally.positive, None, tally.thresholds)
        for held, other in zip(tally.counts, new.counts, strict=True):
            kept &= np.abs(held - other) <= max(AGREES * held[0], 1.0)
    return kept
