"""Feature-space distances to the support vectors near a row, summed as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from screening.kernels.base import Kernel

_TASK = 4096  # rows a thread takes at a time


@dataclass(frozen=True)
class Near:
    """Of each row: what is closer than each reach on the side it looks at.

    Parameters
    ----------
    total : ndarray of shape (n_reaches, n)
        Sum of their squared distances under K~.
    count : ndarray of shape (n_reaches, n)
        Their number.
    nearest : ndarray of shape (n,)
        The smallest squared distance to that side, within reach or not; infinite where it is empty.
    """

    total: np.ndarray
    count: np.ndarray
    nearest: np.ndarray

    @classmethod
    def empty(cls, n_reaches: int, n: int) -> Near:
        """Room for so many reaches and rows, to be filled."""
        total, count = np.empty((2, n_reaches, n))
        return cls(total, count, np.empty(n))


def neighbours(
    kernel: Kernel,
    x: np.ndarray,
    centres: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reaches: Sequence[float] | None,
) -> Near:
    """The centres of one side that are near rows, under K~.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    x, centres : ndarray of shape (n, n_features), (m, n_features)
    c_x, c : ndarray of shape (n,), (m,)
    sides : ndarray of shape (m,)
        +1 or -1.
    wanted : ndarray of shape (n,)
        The side each row looks at.
    reaches : sequence of float, or None
        Squared; None is the one mean of each row's nearest and farthest centre of either side.
    """
    from screening.kernels.compiled import prepare
    from screening.kernels.sweep import padded, rate_of
    from screening.kernels.threads import run_in_threads

    prepare()
    from screening.kernels.compiled import ABSOLUTE, SQUARED
    from screening.kernels.near_loops import near_block

    rows, moved = np.ascontiguousarray(x, float), padded(centres, np.float64)
    kind = SQUARED if kernel.norm == 2 else ABSOLUTE
    told = _floats(c_x, c, sides, wanted, _numbers(reaches))
    found = Near.empty(len(told[-1]), len(rows))

    def task(first: int) -> None:
        near_block(
            rows, first, min(first + _TASK, len(rows)), moved, kind, rate_of(kernel), *told,
            found.total, found.count, found.nearest,
        )  # fmt: skip

    run_in_threads(task, range(0, len(rows), _TASK))
    return found


def neighbours_within(
    across: np.ndarray,
    places: np.ndarray,
    at: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reaches: Sequence[float] | None,
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
    from screening.kernels.near_loops import near_within

    told = _floats(c_x, c, sides, wanted, _numbers(reaches))
    found = Near.empty(len(told[-1]), len(at))
    near_within(
        across, places.view(np.uint64), at.view(np.uint64), *told, found.total, found.count, found.nearest
    )
    return found


def _numbers(reaches: Sequence[float] | None) -> np.ndarray:
    """As the loops know them."""
    return np.array([np.nan] if reaches is None else reaches, float)


def _floats(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(each, float) for each in arrays)
