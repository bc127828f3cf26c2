"""The rescaled kernel K~(x, y) = c(x) c(y) K(x, y), written once."""

from __future__ import annotations

import numpy as np

# Far from every bump c underflows to 0, and K~ would lose its rank there: c stays above this.
FLOOR = 1e-12


def positive(c: np.ndarray) -> np.ndarray:
    """c, not below FLOOR.

    Raises
    ------
    ValueError
        If a value is not finite: the factor was given a decision or a distance that is not.
    """
    if not np.isfinite(c).all():
        raise ValueError("the factor c(x) is not finite everywhere; check its parameters and the rows' scale")
    return np.maximum(c, FLOOR)


def rescaled(gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray) -> np.ndarray:
    """K~ as an array of the shape of ``gram``; solvers that can leave K as it is should not call this."""
    return c_rows[:, None] * gram * c_columns


def rescaled_distances(
    gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Squared feature-space distances under K~: K~(x, x) + K~(z, z) - 2 K~(x, z).

    Parameters
    ----------
    gram : ndarray of shape (n, m)
        K between the rows and the columns.
    c_rows, c_columns : ndarray of shape (n,), (m,)
    rows, columns : ndarray of shape (n,), (m,)
        The diagonals K(x, x) and K(z, z).
    """
    squared = rescaled(gram, -2.0 * c_rows, c_columns)
    squared += (np.square(c_rows) * rows)[:, None]
    squared += np.square(c_columns) * columns
    return np.maximum(squared, 0.0, out=squared)
