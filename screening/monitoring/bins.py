"""Shares of training's rows, as pages show the bins of a column.

It waits for no package that reads tables: pages are drawn from documents.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

TENTHS = 10


def equal_shares(counts: ArrayLike, n_steps: int) -> np.ndarray:
    """Return which of `n_steps` equal shares of the training rows each bin is in.

    Parameters
    ----------
    counts : array-like of shape (n_bins,)
        Training rows in each bin.
    n_steps : int
    """
    counted = np.asarray(counts, float)
    weight = counted / max(counted.sum(), 1.0)
    middle = np.cumsum(weight) - weight / 2
    step = np.minimum((middle * n_steps).astype(int), n_steps - 1)
    _, share = np.unique(step, return_inverse=True)
    return share
