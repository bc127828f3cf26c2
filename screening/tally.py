"""Scores tallied on a list of thresholds, and the same in bootstrap samples by row or by group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.intervals import percentiles, wilson

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


@dataclass(frozen=True)
class Tally:
    """How many positives and negatives score at or above each of a list of thresholds.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : boolean ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,) or None
        Group of each row, from `group_codes`; None where rows are independent.
    thresholds : ndarray of shape (n_thresholds,)
        Ascending; the first may not exceed the smallest score.
    """

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    thresholds: np.ndarray
    seed: int = 0

    @cached_property
    def cells(self) -> np.ndarray:
        """Number of the last threshold at or below each row's score."""
        return np.searchsorted(self.thresholds, self.scores, side="right") - 1

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Positives and negatives at or above each threshold, each of shape (n_thresholds,)."""
        return self._tail(self._histogram(self.positive)), self._tail(self._histogram(~self.positive))

    @cached_property
    def resampled(self) -> tuple[np.ndarray, np.ndarray]:
        """Same counts in `DRAWS` bootstrap samples, each of shape (DRAWS, n_thresholds).

        Independent rows are resampled within their class: a histogram of resampled rows is a multinomial
        draw.
        Groups are resampled whole, as multinomial weights on their histograms; beyond 2,000 of them, random
        blocks of groups stand for groups, which leaves the variance unbiased and the memory bounded.
        """
        rng = np.random.default_rng(self.seed)
        if self.codes is None:
            both = (self._histogram(self.positive), self._histogram(~self.positive))
            drawn = [rng.multinomial(h.sum(), h / max(h.sum(), 1), size=DRAWS) for h in both]
            return self._tail(drawn[0]), self._tail(drawn[1])
        n_groups = int(self.codes.max()) + 1
        blocks = min(n_groups, _BLOCKS)
        block = (rng.permutation(n_groups) % blocks)[self.codes]
        weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=DRAWS).astype(float)
        size = len(self.thresholds)
        pair = []
        for chosen in (self.positive, ~self.positive):
            flat = np.bincount(block[chosen] * size + self.cells[chosen], minlength=blocks * size)
            pair.append(self._tail(weights @ flat.reshape(blocks, size)))
        return pair[0], pair[1]

    def n_units(self, chosen: np.ndarray) -> int:
        """Rows, or groups where there are any, among the chosen rows."""
        return int(chosen.sum()) if self.codes is None else len(np.unique(self.codes[chosen]))

    def _histogram(self, chosen: np.ndarray) -> np.ndarray:
        return np.bincount(self.cells[chosen], minlength=len(self.thresholds))

    @staticmethod
    def _tail(histogram: np.ndarray) -> np.ndarray:
        return np.cumsum(histogram[..., ::-1], axis=-1)[..., ::-1]


def spaced_thresholds(scores: np.ndarray, positive: np.ndarray, points: int = _CELLS) -> np.ndarray:
    """At most about `points` scores: equal steps in rank within each class, both extremes included."""
    distinct = np.unique(scores)
    if len(distinct) <= points:
        return distinct
    steps = np.linspace(0, 1, points // 2)
    classes = [part for part in (scores[positive], scores[~positive]) if len(part)]
    parts = [np.quantile(part, steps, method="inverted_cdf") for part in classes]
    return np.unique(np.concatenate([*parts, distinct[[0, -1]]]))


def rate_bands(tally: Tally, of_positives: bool) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of the share of positives (or negatives) at or above each threshold, taken as fixed.

    Wilson for independent rows, resampled by group otherwise; where no group differs (a share of 0 or 1), the
    groups are counted as if each were one row, since a bootstrap then sees no spread at all.

    Returns
    -------
    low, high : ndarray of shape (n_thresholds,)
    """
    which, chosen = (0, tally.positive) if of_positives else (1, ~tally.positive)
    count, total, units = tally.counts[which], int(chosen.sum()), tally.n_units(chosen)
    if tally.codes is None or units < 2:
        return wilson(count * (units / max(total, 1)), np.full(len(count), units))
    drawn = tally.resampled[which]
    size = drawn[:, :1].astype(float)
    low, high = percentiles(drawn / np.where(size > 0, size, np.nan), units)
    flat_low, flat_high = wilson(np.where(count >= total, units, 0), units)
    return np.where(count >= total, flat_low, low), np.where(count <= 0, flat_high, high)
