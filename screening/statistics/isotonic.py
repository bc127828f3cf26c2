"""The rising steps that are nearest to some values."""

from __future__ import annotations

import numpy as np


def rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Isotonic regression: of all sequences that never fall, the one of least weighted squared distance.

    Neighbours that do not rise are pooled, all of them at once, until all rise (Barlow et al. 1972).

    Parameters
    ----------
    values, weights : ndarray, shape (n,)
        Weights are > 0.
    """
    sums, sizes, pool = values * weights, weights, np.arange(len(values))
    while True:
        means = sums / sizes
        begins = np.concatenate([[True], means[1:] > means[:-1]])
        if begins.all():
            return means[pool]
        first = np.flatnonzero(begins)
        sums, sizes = np.add.reduceat(sums, first), np.add.reduceat(sizes, first)
        pool = (np.cumsum(begins) - 1)[pool]
