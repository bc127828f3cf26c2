"""Feature-space distances to the support vectors near a row, summed as they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from screening.kernels.base import Kernel

_TASK = 4096  # rows a thread takes at a time


@dataclass(frozen=True)
class Near:
    """Of each row: what is closer than its reach on the side it looks at, (n,) each.

    Parameters
    ----------
    total : ndarray
        Sum of their squared distances under K~.
    count : ndarray
        Their number.
    nearest : ndarray
        The smallest squared distance to that side, within reach or not; infinite where it is empty.
    """

    total: np.ndarray
    count: np.ndarray
    nearest: np.ndarray


def near(
    kernel: Kernel,
    x: np.ndarray,
    centres: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reach: np.ndarray,
) -> Near:
    """Squared feature-space distances under K~ from rows to the centres of one side that are within reach.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    x, centres : ndarray of shape (n, n_features), (m, n_features)
    c_x, c : ndarray of shape (n,), (m,)
    sides : ndarray of shape (m,)
        +1 or -1.
    wanted : ndarray of shape (n,)
        The side each row looks at.
    reach : ndarray of shape (n,)
        Squared; NaN is the mean of the row's nearest and farthest centre of either side.
    """
    from screening.kernels.compiled import prepare
    from screening.kernels.sweep import padded, rate_of, run_in_threads

    prepare()
    from screening.kernels.compiled import ABSOLUTE, SQUARED
    from screening.kernels.near_loops import near_block

    if len(wanted) and not np.isnan(reach).any():  # then a side at which no row looks says nothing
        looked = (sides == wanted.min()) | (sides == wanted.max())
        centres, c, sides = centres[looked], c[looked], sides[looked]
    rows, moved = np.ascontiguousarray(x, float), padded(centres, np.float64)
    weights, here = np.ascontiguousarray(c, float), np.ascontiguousarray(c_x, float)
    found = Near(np.zeros(len(x)), np.zeros(len(x)), np.full(len(x), np.inf))
    kind = SQUARED if kernel.norm == 2 else ABSOLUTE
    fixed = (moved, kind, rate_of(kernel), here, weights, sides.astype(float), wanted.astype(float), reach)

    def task(first: int) -> None:
        stop = min(first + _TASK, len(rows))
        near_block(rows, first, stop, *fixed, found.total, found.count, found.nearest)

    run_in_threads(task, range(0, len(rows), _TASK), None)
    return found
