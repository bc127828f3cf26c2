"""How far two counts over the same bins lie apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def psi(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Population stability index, sum of (q - p) ln(q / p) over bins; 0 for equal shares, None without rows.

    An empty bin counts as half a row, or the index would be infinite.
    """
    p, q = np.asarray(expected, float), np.asarray(observed, float)
    if not p.sum() or not q.sum():
        return None
    there = (p > 0) | (q > 0)
    p, q = (np.maximum(part[there], 0.5) / part.sum() for part in (p, q))
    return float(((q - p) * np.log(q / p)).sum())


def ks(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Largest difference of the two cumulative shares over ordered bins, 0 to 1 (Kolmogorov-Smirnov)."""
    p, q = np.asarray(expected, float), np.asarray(observed, float)
    return float(np.abs(gaps(p, q)).max()) if p.sum() and q.sum() else None


def gaps(expected: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """By how much the cumulative share observed lies above the expected one, up to each ordered bin."""
    return np.cumsum(observed / observed.sum() - expected / expected.sum())


def total_variation(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Largest difference of the shares of any set of categories, 0 to 1."""
    p, q = np.asarray(expected, float), np.asarray(observed, float)
    if not p.sum() or not q.sum():
        return None
    return float(np.abs(p / p.sum() - q / q.sum()).sum() / 2)
