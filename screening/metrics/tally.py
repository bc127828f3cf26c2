"""Counts of scores above each of a list of thresholds, also in bootstrap samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.metrics.groups import units_of
from screening.metrics.intervals import grouped_rate_interval, rate_interval

# Bootstrap draws behind every resampled interval.
_DRAWS = 2000
# Groups beyond this number are resampled in random blocks, to bound the memory.
_MAX_BLOCKS = 2000
# Default number of thresholds of `spaced_thresholds`.
_THRESHOLDS = 400


@dataclass(frozen=True)
class ThresholdCounts:
    """Numbers of positives and negatives at or above each of a list of thresholds.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,), optional
        From ``group_codes``; None for independent rows.
    thresholds : ndarray of shape (n_thresholds,)
        Ascending; the first may not exceed the smallest score.
    seed : int
        Of the bootstrap.
    """

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    thresholds: np.ndarray
    seed: int = 0

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Positives and negatives at or above each threshold, (n_thresholds,) each."""
        positives = self._tail(self._histogram(self.positive)[0])
        negatives = self._tail(self._histogram(~self.positive)[0])
        return positives, negatives

    @cached_property
    def resampled(self) -> tuple[np.ndarray, np.ndarray]:
        """The counts in 2,000 bootstrap samples, each (n_draws, n_thresholds).

        Independent rows are resampled within their class: a histogram of resampled rows
        is a multinomial draw. Groups are resampled whole, as multinomial weights on
        their histograms; beyond 2,000 groups random blocks of groups are resampled,
        which leaves the variance unbiased and the memory bounded.
        """
        rng = np.random.default_rng(self.seed)
        classes = (self.positive, ~self.positive)
        drawn = []
        if self.codes is None:
            for chosen in classes:
                histogram = self._histogram(chosen)[0]
                size = int(chosen.sum())
                shares = histogram / max(size, 1)
                histograms = rng.multinomial(size, shares, size=_DRAWS)
                drawn.append(self._tail(histograms))
            return drawn[0], drawn[1]
        block, n_blocks = self._blocks(rng)
        shares = np.full(n_blocks, 1 / n_blocks)
        weights = rng.multinomial(n_blocks, shares, size=_DRAWS).astype(float)
        for chosen in classes:
            histograms = self._histogram(chosen, block, n_blocks)
            drawn.append(self._tail(weights @ histograms))
        return drawn[0], drawn[1]

    def by_group(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count chosen rows within each group that has some.

        Beyond 2,000 groups, within random blocks of groups.

        Returns
        -------
        counts : ndarray of shape (n_groups, n_thresholds)
            At or above each threshold.
        sizes : ndarray of shape (n_groups,)
        above_median : ndarray of shape (n_groups,)
            At or above the median score of all chosen rows.
        """
        block, n_blocks = self._blocks(np.random.default_rng(self.seed))
        scores = self.scores[chosen]
        chosen_block = block[chosen]
        sizes = np.bincount(chosen_block, minlength=n_blocks)
        is_above = scores >= np.median(scores)
        above_median = np.bincount(chosen_block, is_above, n_blocks)
        counts = self._tail(self._histogram(chosen, block, n_blocks))
        has_rows = sizes > 0
        return counts[has_rows], sizes[has_rows], above_median[has_rows]

    def _blocks(self, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """Return the block of every row, and the number of blocks."""
        assert self.codes is not None
        n_groups = int(self.codes.max()) + 1
        n_blocks = min(n_groups, _MAX_BLOCKS)
        block_of_group = rng.permutation(n_groups) % n_blocks
        return block_of_group[self.codes], n_blocks

    def n_units(self, chosen: np.ndarray) -> int:
        """Return the number of chosen rows, or of groups with chosen rows."""
        return units_of(chosen, self.codes)

    def _histogram(
        self, chosen: np.ndarray, block: np.ndarray | None = None, n_blocks: int = 1
    ) -> np.ndarray:
        """Count rows between each threshold and the next, (n_blocks, n_thresholds)."""
        n_thresholds = len(self.thresholds)
        n_reached = np.searchsorted(self.thresholds, self.scores[chosen], side="right")
        cell = np.maximum(n_reached - 1, 0)
        if block is not None:
            cell += block[chosen] * n_thresholds
        counts = np.bincount(cell, minlength=n_blocks * n_thresholds)
        return counts.reshape(n_blocks, n_thresholds).astype(float)

    @staticmethod
    def _tail(histogram: np.ndarray) -> np.ndarray:
        """Return the sums from each threshold to the last."""
        from_last = np.cumsum(np.flip(histogram, axis=-1), axis=-1)
        return np.flip(from_last, axis=-1)


def spaced_thresholds(
    scores: np.ndarray, positive: np.ndarray, points: int = _THRESHOLDS
) -> np.ndarray:
    """Return at most about `points` of the scores as thresholds.

    They are equally spaced in rank within each class, and include both extremes.
    """
    distinct = np.unique(scores)
    if len(distinct) <= points:
        return distinct
    steps = np.linspace(0, 1, points // 2)
    parts = [
        np.quantile(class_scores, steps, method="inverted_cdf")
        for class_scores in (scores[positive], scores[~positive])
        if len(class_scores)
    ]
    extremes = distinct[[0, -1]]
    return np.unique(np.concatenate([*parts, extremes]))


def rate_at_last(
    counts: ThresholdCounts, of_positives: bool
) -> tuple[float, float, float]:
    """Return sensitivity, or specificity, at the last threshold with its interval.

    The first threshold must be at or below all scores.
    """
    positives, negatives = counts.counts
    count = positives if of_positives else negatives
    lower, upper = rate_bands(counts, of_positives)
    low = float(lower[-1])
    high = float(upper[-1])
    rate = float(count[-1] / count[0])
    if of_positives:
        return rate, low, high
    return 1 - rate, 1 - high, 1 - low


def rate_bands(
    counts: ThresholdCounts, of_positives: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return 95 % intervals of the share of positives, or negatives, that is flagged.

    Thresholds are taken as fixed. Wilson's interval for independent rows, at the
    effective number of rows if they come in groups.

    Returns
    -------
    low, high : ndarray of shape (n_thresholds,)
    """
    chosen = counts.positive if of_positives else ~counts.positive
    count = counts.counts[0 if of_positives else 1]
    total = int(chosen.sum())
    units = counts.n_units(chosen)
    if counts.codes is None or units < 2:
        sizes = np.full(len(count), units)
        return rate_interval(count * (units / max(total, 1)), sizes)
    return grouped_rate_interval(*counts.by_group(chosen))
