"""Distances of a night's counts from those of training, and bins of equal shares."""

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


def psi(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Return the population stability index, sum of (q - p) ln(q / p) over bins.

    An empty bin counts as half a row.
    """
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.any() or not now.any():
        return None
    filled = (before > 0) | (now > 0)
    p = np.maximum(before[filled], 0.5) / before.sum()
    q = np.maximum(now[filled], 0.5) / now.sum()
    terms = (q - p) * np.log(q / p)
    return float(terms.sum())


def ks(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Return the Kolmogorov-Smirnov distance of shares over ordered bins, 0 to 1."""
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.sum() or not now.sum():
        return None
    return float(np.abs(gaps(before, now)).max())


def gaps(expected: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the excess of the observed over the expected cumulative share, by bin."""
    differences = observed / observed.sum() - expected / expected.sum()
    return np.cumsum(differences)


def total_variation(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Largest difference of the shares of any set of categories, 0 to 1."""
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.sum() or not now.sum():
        return None
    differences = before / before.sum() - now / now.sum()
    return float(np.abs(differences).sum() / 2)
