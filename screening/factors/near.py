"""What several factors measure around support vectors: widths, neighbourhoods, which of them to trust."""

from __future__ import annotations

import numpy as np

from screening.factors.base import FirstPass
from screening.factors.numbers import check_number

SMALLEST = 1e-12
# Squared width of a bump that has no neighbour to measure by: flat, and still a finite number to store.
FLAT = 1e300


def gaussian_tau(first_pass: FirstPass, n: str, width: float) -> float:
    """tau = width sigma / sqrt(n), n the number of features or of training rows."""
    count = first_pass.n_features if n == "features" else len(first_pass.rows)
    return float(width * first_pass.kernel.sigma / np.sqrt(count))


def check_tau(n: str, width: float) -> None:
    """Refuse what ``gaussian_tau`` cannot take (ValueError)."""
    if n not in ("features", "rows"):
        raise ValueError(f"n must be 'features' or 'rows', got {n!r}")
    check_number("width", width)


def check_empty(empty: str) -> None:
    """Refuse an ``empty`` that ``near_mean`` does not know (ValueError)."""
    if empty not in ("zero", "nearest"):
        raise ValueError(f"empty must be 'zero' or 'nearest', got {empty!r}")


def near_mean(distances: np.ndarray, reach: np.ndarray | float, empty: str) -> np.ndarray:
    """Mean along each row of the distances below ``reach``.

    Parameters
    ----------
    distances : ndarray of shape (n, m)
        May hold infinities for what does not count; 0 comes back for a row of nothing else.
    reach : float or ndarray of shape (n,)
    empty : {"zero", "nearest"}
        What a row without any gets.
    """
    if not distances.shape[1]:
        return np.zeros(len(distances))
    near = distances < np.reshape(reach, (-1, 1))
    total = np.where(near, distances, 0.0).sum(axis=1)
    mean = total / np.maximum(near.sum(axis=1), 1)
    if empty == "zero":
        return mean
    nearest = distances.min(axis=1)
    return np.where(near.any(axis=1), mean, np.where(np.isfinite(nearest), nearest, 0.0))


def right_side(first_pass: FirstPass) -> np.ndarray:
    """Mask of the support vectors with y f >= 0; of a label that would lose all of its own, all of them."""
    labels = first_pass.support_labels
    right = labels * first_pass.support_decision >= 0
    for sign in (-1, 1):
        own = labels == sign
        if not right[own].any():
            right = right | own
    return right
