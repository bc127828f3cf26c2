"""Conformal p-values: how rare a score is among known negatives, from ranks alone.

Not the conformal factor of the kernels, which is geometry: the word is the same, the thing is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

RANK_CELLS = 40


def p_values(calibration: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Share of negatives, the new one counted among them, that score at least as high.

    p = (1 + number of calibration scores >= s) / (n + 1). For a negative exchangeable with the calibration
    negatives, P(p <= j / (n + 1)) is j / (n + 1) where scores do not tie, and less where they do (Vovk et al.
    2005): class-conditional, since positives have no part in it.

    Parameters
    ----------
    calibration : ndarray of shape (n,)
        Held-out scores of known negatives, sorted ascending; where rows come in groups, one a group
        (`group_maxima`), and then a p-value is asked for a group's highest score.
    scores : ndarray of any shape

    Returns
    -------
    ndarray of the same shape, in [1 / (n + 1), 1]
    """
    calibration = np.asarray(calibration, float)
    below = np.searchsorted(calibration, np.asarray(scores, float), side="left")
    return (1 + len(calibration) - below) / (len(calibration) + 1)


def group_maxima(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The highest score of each group, sorted ascending: rows of one patient are no independent witnesses."""
    codes = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    highest = np.full(codes.max(initial=-1) + 1, -np.inf)
    np.maximum.at(highest, codes, np.asarray(scores, float))
    return np.sort(highest)


def resolution_warning(n_calibration: int, n_screened: int, q: float = 0.1) -> str | None:
    """Why no discovery may be possible at rate q, or None where a single case could be one.

    The smallest p-value is 1 / (n + 1): q is reached only if m / (q (n + 1)) of m screened tie there.
    """
    needed = n_screened / (q * (n_calibration + 1))
    if needed <= 1:
        return None
    return (
        f"{n_calibration} negatives resolve p-values down to {1 / (n_calibration + 1):.2g}: among "
        f"{n_screened} screened, a false discovery rate of {q:g} needs at least "
        f"{np.ceil(needed - 1e-9):.0f} of them above every known negative"
    )


class RankCounts:
    """Where the scores of those not flagged fall among the negatives known from training, in bounded memory.

    Below the threshold a negative's rank among the calibration scores below the threshold is uniform, as its
    p-value is. Nearly all of those not flagged are negatives, so ranks that are not uniform mean that the
    patients or the measurements have changed.

    Parameters
    ----------
    calibration : ndarray of shape (n,)
        Sorted ascending, as for `p_values`.
    threshold : float
        Scores below are counted.
    """

    def __init__(self, calibration: np.ndarray, threshold: float):
        self.below = np.asarray(calibration, float)
        self.below = self.below[: np.searchsorted(self.below, threshold, side="left")]
        self.counts = np.zeros(min(RANK_CELLS, len(self.below) + 1), dtype=np.int64)

    def add(self, scores: np.ndarray) -> None:
        """Count scores below the threshold."""
        rank = np.searchsorted(self.below, scores, side="left")
        cell = rank * len(self.counts) // (len(self.below) + 1)
        self.counts += np.bincount(cell, minlength=len(self.counts))

    def to_dict(self) -> dict[str, Any]:
        """Counts by cell, with the test of this night alone."""
        distance, p = uniformity(self.counts, len(self.below))
        return {"ranks": self.counts.tolist(), "calibration": len(self.below), "ks": distance, "p": p}


def uniformity(counts: Sequence[int] | np.ndarray, n_calibration: int) -> tuple[float | None, float | None]:
    """Kolmogorov-Smirnov distance between ranks counted in cells and uniform ranks, and its p-value.

    Parameters
    ----------
    counts : sequence of int, shape (n_cells,)
        As `RankCounts` has them; those of several nights may be added up.
    n_calibration : int
        Scores that the ranks are among: they are a sample too, which the p-value allows for.

    Returns
    -------
    distance, p : float or None
        Distance in 0 to 1. The p-value is asymptotic and, ranks being in cells, rather too large than too
        small; it takes the counted for independent. None where there is nothing to compare.
    """
    from scipy.special import kolmogorov

    counted, total = np.asarray(counts, float), int(np.sum(counts))
    if total == 0 or n_calibration == 0:
        return None, None
    cells = np.arange(n_calibration + 1) * len(counted) // (n_calibration + 1)
    expected = np.bincount(cells, minlength=len(counted)) / (n_calibration + 1)
    distance = float(np.abs(np.cumsum(counted / total - expected)).max())
    size = total * n_calibration / (total + n_calibration)
    return distance, float(kolmogorov(np.sqrt(size) * distance))
