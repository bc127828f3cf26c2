"""How the stored curve of a calibration is read between its knots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def chance_along(
    method: str | None,
    knots: Sequence[float] | np.ndarray,
    chances: Sequence[float] | np.ndarray,
    scores: np.ndarray,
) -> np.ndarray:
    """The chance of each score, shape (n_rows,); beyond the knots nothing was observed, and it stays level.

    Parameters
    ----------
    method : {"platt", "isotonic"}
        Platt's curve is straight between its two knots in the log odds, the other in the chance.
    """
    chances = np.asarray(chances, dtype=float)
    if method == "isotonic":
        return np.interp(scores, knots, chances)
    odds = np.interp(scores, knots, np.log(chances / (1 - chances)))
    return np.clip(1 / (1 + np.exp(-odds)), chances.min(), chances.max())
