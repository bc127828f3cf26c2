"""Scores tallied on a list of thresholds, and the same in bootstrap samples by row or by group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.metrics.intervals import grouped_wilson, wilson

DRAWS = 2000
"""Bootstrap draws behind every resampled interval."""

_BLOCKS = 2000
_CELLS = 400


def group_codes(groups) -> np.ndarray | None:
    """Number the groups 0, 1, ...; None where every row is its own group (then rows are independent)."""
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    return None if codes.max(initial=-1) + 1 == len(codes) else codes


def units_of(chosen: np.ndarray, codes: np.ndarray | None) -> int:
    """Chosen rows, or groups that hold some, by their numbers or names."""
    return int(chosen.sum()) if codes is None else len(np.unique(codes[chosen]))


def fewest_units(positive: np.ndarray, codes: np.ndarray | None) -> int:
    """Rows, or groups, of the class that has the fewest of them."""
    return min(units_of(positive, codes), units_of(~positive, codes))


@dataclass(frozen=True)
class Tally:
    """How many positives and negatives score at or above each of a list of thresholds.

    `thresholds` ascend, and the first may not exceed the smallest score; `codes` are the groups' numbers,
    from `group_codes`, None where rows are independent.
    """

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    thresholds: np.ndarray
    seed: int = 0

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Positives and negatives at or above each threshold, each of shape (n_thresholds,)."""
        return self._tail(self._scatter(self.positive)[0]), self._tail(
            self._scatter(~self.positive)[0]
        )

    @cached_property
    def resampled(self) -> tuple[np.ndarray, np.ndarray]:
        """Same counts in `DRAWS` bootstrap samples, each of shape (DRAWS, n_thresholds).

        Independent rows are resampled within their class: a histogram of resampled rows is a multinomial
        draw. Groups are resampled whole, as multinomial weights on their histograms; beyond 2,000 of them,
        random blocks of groups stand for groups, which leaves the variance unbiased and the memory bounded.
        """
        rng = np.random.default_rng(self.seed)
        classes = self.positive, ~self.positive
        if self.codes is None:
            drawn = []
            for chosen in classes:
                histogram, size = self._scatter(chosen)[0], int(chosen.sum())
                drawn.append(
                    rng.multinomial(size, histogram / max(size, 1), size=DRAWS)
                )
            return self._tail(drawn[0]), self._tail(drawn[1])
        block, blocks = self._blocks(rng)
        weights = rng.multinomial(
            blocks, np.full(blocks, 1 / blocks), size=DRAWS
        ).astype(float)
        pair = [
            self._tail(weights @ self._scatter(chosen, block, blocks))
            for chosen in classes
        ]
        return pair[0], pair[1]

    def by_group(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of groups with chosen rows: how many reach each threshold, are there, reach the median.

        Beyond 2,000 groups, random blocks of groups stand for groups, as in `resampled`.
        """
        block, blocks = self._blocks(np.random.default_rng(self.seed))
        scores, own = self.scores[chosen], block[chosen]
        sizes = np.bincount(own, minlength=blocks)
        middle = np.bincount(own, weights=scores >= np.median(scores), minlength=blocks)
        counts = self._tail(self._scatter(chosen, block, blocks))
        held = sizes > 0
        return counts[held], sizes[held], middle[held]

    def _blocks(self, rng: np.random.Generator) -> tuple[np.ndarray, int]:
        """The block of every row, and how many there are."""
        assert self.codes is not None
        n_groups = int(self.codes.max()) + 1
        blocks = min(n_groups, _BLOCKS)
        return (rng.permutation(n_groups) % blocks)[self.codes], blocks

    def n_units(self, chosen: np.ndarray) -> int:
        """Rows, or groups where there are any, among the chosen rows."""
        return units_of(chosen, self.codes)

    def _scatter(
        self, chosen: np.ndarray, block: np.ndarray | None = None, blocks: int = 1
    ) -> np.ndarray:
        """Rows between each threshold and the next, by block: shape (blocks, n_thresholds)."""
        size = len(self.thresholds)
        cell = np.searchsorted(self.thresholds, self.scores[chosen], side="right") - 1
        start = 0 if block is None else block[chosen] * size
        counts = np.bincount(start + np.maximum(cell, 0), minlength=blocks * size)
        return counts.reshape(blocks, size).astype(float)

    @staticmethod
    def _tail(histogram: np.ndarray) -> np.ndarray:
        return np.cumsum(histogram[..., ::-1], axis=-1)[..., ::-1]


def spaced_thresholds(
    scores: np.ndarray, positive: np.ndarray, points: int = _CELLS
) -> np.ndarray:
    """At most about `points` scores: equal steps in rank within each class, both extremes included."""
    distinct = np.unique(scores)
    if len(distinct) <= points:
        return distinct
    steps = np.linspace(0, 1, points // 2)
    classes = [part for part in (scores[positive], scores[~positive]) if len(part)]
    parts = [np.quantile(part, steps, method="inverted_cdf") for part in classes]
    return np.unique(np.concatenate([*parts, distinct[[0, -1]]]))


def rate_at_last(tally: Tally, of_positives: bool) -> tuple[float, float, float]:
    """Sensitivity (or specificity) at the last threshold, with its 95 % interval; the first takes all."""
    count = tally.counts[0 if of_positives else 1]
    low, high = (float(end[-1]) for end in rate_bands(tally, of_positives))
    rate = float(count[-1] / count[0])
    return (rate, low, high) if of_positives else (1 - rate, 1 - high, 1 - low)


def rate_bands(tally: Tally, of_positives: bool) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of the share of positives (or negatives) at or above each threshold, taken as fixed.

    Wilson for independent rows, Wilson at the effective number of rows where they come in groups.
    """
    which, chosen = (0, tally.positive) if of_positives else (1, ~tally.positive)
    count, total, units = tally.counts[which], int(chosen.sum()), tally.n_units(chosen)
    if tally.codes is None or units < 2:
        return wilson(count * (units / max(total, 1)), np.full(len(count), units))
    return grouped_wilson(*tally.by_group(chosen))
