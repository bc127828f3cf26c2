"""Feature-space distances to the support vectors near a row, summed as they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True)
class Neighbours:
    """Rows, and the centres of one side that each of them looks at: what is near is counted for any reach.

    Parameters
    ----------
    n_rows : int
    count : callable
        From a reach a row, and arrays for the results, to these filled.
    """

    n_rows: int
    count: Callable[..., None]

    def within(self, reach: float | None) -> Near:
        """Squared feature-space distances under K~ of what is within reach.

        Parameters
        ----------
        reach : float or None
            Squared; with None it is the mean of each row's nearest and farthest centre of either side.
        """
        limit = np.full(self.n_rows, np.nan if reach is None else reach)
        total, count, nearest = np.empty((3, self.n_rows))
        self.count(limit, total, count, nearest)
        return Near(total, count, nearest)


def neighbours(
    kernel: Kernel,
    x: np.ndarray,
    centres: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
) -> Neighbours:
    """The centres of one side around rows, under K~.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    x, centres : ndarray of shape (n, n_features), (m, n_features)
    c_x, c : ndarray of shape (n,), (m,)
    sides : ndarray of shape (m,)
        +1 or -1.
    wanted : ndarray of shape (n,)
        The side each row looks at.
    """
    from screening.kernels.compiled import prepare
    from screening.kernels.sweep import padded, rate_of, run_in_threads

    prepare()
    from screening.kernels.compiled import ABSOLUTE, SQUARED
    from screening.kernels.near_loops import near_block

    rows, moved = np.ascontiguousarray(x, float), padded(centres, np.float64)
    kind = SQUARED if kernel.norm == 2 else ABSOLUTE
    told = _floats(c_x, c, sides, wanted)

    def count(*found: np.ndarray) -> None:
        def task(first: int) -> None:
            near_block(
                rows, first, min(first + _TASK, len(rows)), moved, kind, rate_of(kernel), *told, *found
            )

        run_in_threads(task, range(0, len(rows), _TASK), None)

    return Neighbours(len(rows), count)


def neighbours_within(
    across: np.ndarray,
    places: np.ndarray,
    at: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
) -> Neighbours:
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
    from screening.kernels.near_loops import apart_within, near_among

    here, weights, sides, wanted = _floats(c_x, c, sides, wanted)
    apart = apart_within(across, places.view(np.uint64), at.view(np.uint64), here, weights)
    return Neighbours(len(at), partial(near_among, apart, sides, wanted))


def _floats(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(each, float) for each in arrays)
