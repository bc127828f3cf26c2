"""Carrying a threshold from the models of the folds to the model fitted on all rows."""

from __future__ import annotations

import numpy as np


def place(
    scores: np.ndarray,
    fold_reference: np.ndarray,
    final_reference: np.ndarray,
    *,
    one_class: bool = False,
) -> tuple[np.ndarray, str]:
    """Place out-of-fold scores of one fold on the scale of the final model."""
    return np.asarray(scores, float), "out-of-fold scores are used as they are"
