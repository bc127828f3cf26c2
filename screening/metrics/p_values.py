"""Conformal p-values: how rare a score is among known negatives, from ranks alone.

Not the conformal factor of the kernels, which is geometry: the word is the same, the thing is not.
"""

from __future__ import annotations

import numpy as np


def p_values(calibration: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Share of negatives, the new one counted among them, that score at least as high.

    p = (1 + number of calibration scores >= s) / (n + 1). For a negative exchangeable with the calibration
    negatives, P(p <= j / (n + 1)) is j / (n + 1) where scores do not tie, and less where they do (Vovk et al.
    2005): class-conditional, since positives have no part in it. `calibration` are held-out scores of known
    negatives, sorted ascending; where rows come in groups, one a group (`group_maxima`), and then a p-value
    is asked for a group's highest score.
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
