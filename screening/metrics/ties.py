"""Rows that are equal in every value: no threshold separates new rows like them.

Held out in different folds, equal rows score a little differently, and a threshold may
fall among them. New rows like them have one score, near the mean of theirs: all of them
are flagged or none, so a promise about a part of them is false for each one.
"""

from __future__ import annotations

import numpy as np

from screening.metrics.groups import codes_of
from screening.metrics.tally import ThresholdCounts

# Equal rows count as ties if there are so many, and this share of all rows: together
# they change a rate. The mean of fewer rows depends on their own labels, since each was
# held out by machines that had learned from the others.
_MIN_ROWS = 20
_MIN_SHARE = 0.01
# Largest difference between the rates of held-out rows and of new rows like them at a
# threshold, besides that of one row.
_MAX_RATE_DIFFERENCE = 0.03
# Standard errors around the mean of tied scores in which the score of new rows lies.
_STANDARD_ERRORS = 2.0
# Share of the range of the scores that is rounding.
_ROUNDING = 1e-6


def number_ties(x: np.ndarray) -> np.ndarray | None:
    """Return the numbers of distinct rows of x; None if hardly any are equal.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)

    Returns
    -------
    int ndarray of shape (n_rows,) or None
    """
    numbers = codes_of(hashed(x))
    is_many = _is_many(np.bincount(numbers), len(x))
    return numbers if is_many.any() else None


def hashed(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return a hash of each row's values, uint64 of shape (n_rows,)."""
    mixed = np.full(len(x), np.uint64(seed))
    for column in x.T:
        # The mixing of splitmix64 (Steele et al. 2014), once per column; -0.0 is 0.0.
        mixed ^= (column + 0.0).view(np.uint64)
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _is_many(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the mask of counts that are large enough to change a rate."""
    return counts >= max(_MIN_ROWS, _MIN_SHARE * n_rows)


def as_new(scores: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return scores as new rows have them: tied rows get the mean of theirs.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    numbers : int ndarray of shape (n_rows,)
        From ``number_ties``.
    """
    counts, mean = _count_and_mean(scores, numbers)
    is_tied = _is_many(counts, len(scores))[numbers]
    return np.where(is_tied, mean[numbers], scores)


def apart_from_ties(
    distinct: np.ndarray, scores: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Return thresholds that flag what `distinct` flag, none of them at a tie.

    The mean of tied scores is that of new rows up to the rounding of their machines. So
    the threshold that flags a tie lies halfway to the next lower score.

    Parameters
    ----------
    distinct : ndarray of shape (n_thresholds,)
        Distinct scores of new rows (``as_new``), ascending.
    scores : ndarray of shape (n_rows,)
        As held out.
    numbers : int ndarray of shape (n_rows,)
        From ``number_ties``.
    """
    counts, mean = _count_and_mean(scores, numbers)
    tied_scores = mean[_is_many(counts, len(scores))]
    is_tie = np.isin(distinct, tied_scores)
    below_all = distinct[0] - np.ptp(distinct)
    gaps = np.diff(distinct, prepend=below_all)
    return np.where(is_tie, distinct - gaps / 2, distinct)


def separates_ties(
    counts: ThresholdCounts, scores: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Return the mask of thresholds with rates that apply to new rows, (n_thresholds,).

    At these the rates of new rows are those of held-out rows like them. Ties with a
    mean so near a threshold that new rows may fall on either side count as uncertain.

    Parameters
    ----------
    counts : ThresholdCounts
        Of scores as new rows have them (``as_new``).
    scores : ndarray of shape (n_rows,)
        As held out.
    numbers : int ndarray of shape (n_rows,)
        From ``number_ties``.
    """
    thresholds = counts.thresholds
    n_tied, mean = _count_and_mean(scores, numbers)
    deviations = scores - mean[numbers]
    squares = np.bincount(numbers, weights=deviations**2)
    standard_error = np.sqrt(squares / n_tied / n_tied)
    reach = _STANDARD_ERRORS * standard_error + _ROUNDING * np.ptp(scores)
    # A threshold is the first score that is flagged: thresholds above the lower end, up
    # to the upper end, are uncertain.
    first = np.searchsorted(thresholds, mean - reach, side="right")
    last = np.searchsorted(thresholds, mean + reach, side="right")
    held_counts = ThresholdCounts(scores, counts.positive, None, thresholds)
    is_kept = np.ones(len(thresholds), dtype=bool)
    classes = (counts.positive, ~counts.positive)
    for chosen, held, new in zip(
        classes, held_counts.counts, counts.counts, strict=True
    ):
        n_chosen = np.bincount(numbers, weights=chosen)
        size = n_chosen * _is_many(n_tied, len(scores))
        uncertain = _n_uncertain(size, first, last, len(is_kept))
        largest = max(_MAX_RATE_DIFFERENCE * held[0], 1.0)
        is_kept &= np.abs(held - new) + uncertain <= largest
    return is_kept


def _count_and_mean(
    scores: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count the rows that each distinct row represents, and average their scores."""
    counts = np.maximum(np.bincount(numbers), 1)
    return counts, np.bincount(numbers, weights=scores) / counts


def _n_uncertain(
    size: np.ndarray, first: np.ndarray, last: np.ndarray, n_thresholds: int
) -> np.ndarray:
    """Return how many rows may be on the other side of each threshold.

    Ties of `size` rows are uncertain from threshold `first` to before `last`. Rows of
    one tie change sides together, different ties independently: squares add up.
    """
    squares = np.zeros(n_thresholds + 1)
    np.add.at(squares, first, 1.0 * size**2)
    np.add.at(squares, last, -1.0 * size**2)
    total = np.cumsum(squares)[:-1]
    return np.sqrt(np.maximum(total, 0.0))
