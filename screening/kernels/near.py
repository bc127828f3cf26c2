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

    looked = _looked_at(sides, wanted, reach)
    rows, moved = np.ascontiguousarray(x, float), padded(centres[looked], np.float64)
    kind = SQUARED if kernel.norm == 2 else ABSOLUTE
    fixed, found = _told(c_x, c[looked], sides[looked], wanted, reach)

    def task(first: int) -> None:
        near_block(rows, first, min(first + _TASK, len(rows)), moved, kind, rate_of(kernel), *fixed)

    run_in_threads(task, range(0, len(rows), _TASK), None)
    return found


def near_within(
    across: np.ndarray,
    places: np.ndarray,
    at: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reach: np.ndarray,
) -> Near:
    """The same, to the bit, from a kernel that is held.

    Parameters
    ----------
    across : ndarray of shape (n_known, n_rows)
    places : ndarray of int, shape (m,)
        Its rows that are centres.
    at : ndarray of int, shape (n,)
        Its columns that are rows to look from.
    """
    from screening.kernels.compiled import prepare

    prepare()
    from screening.kernels.near_loops import near_known

    looked = _looked_at(sides, wanted, reach)
    fixed, found = _told(c_x, c[looked], sides[looked], wanted, reach)
    near_known(across, places[looked].view(np.uint64), at.view(np.uint64), *fixed)
    return found


def _looked_at(sides: np.ndarray, wanted: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Places of the centres that count: a side at which no row looks says nothing where reaches are given."""
    if not len(wanted) or np.isnan(reach).any():
        return np.arange(len(sides))
    return np.flatnonzero((sides == wanted.min()) | (sides == wanted.max()))


def _told(
    c_x: np.ndarray, c: np.ndarray, sides: np.ndarray, wanted: np.ndarray, reach: np.ndarray
) -> tuple[tuple[np.ndarray, ...], Near]:
    """What either loop takes last, and where it writes."""
    found = Near(np.zeros(len(c_x)), np.zeros(len(c_x)), np.full(len(c_x), np.inf))
    told = (np.ascontiguousarray(each, float) for each in (c_x, c, sides, wanted, reach))
    return (*told, found.total, found.count, found.nearest), found
