"""Support vectors near a row by feature-space distance: their sum and number, without a matrix of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.pairwise import (
    ABSOLUTE,
    SQUARED,
    RadialKernel,
    distances_of_four,
    exp2_of_product,
    laid_out,
    padded,
    rate_of,
)
from screening.kernels.simd import CENTRES, PANEL, flush_tiny, maximum, restore, widest
from screening.kernels.threads import run_in_threads

_BLOCK = 128
# Lanes that are worked on at once: a rest taken one by one would take longer than they do.
_LANES = 32
_TASK = 4096  # rows a thread takes at a time


@dataclass(frozen=True)
class Neighbors:
    """Of each row: what is closer than each reach on the side it looks at."""

    total: np.ndarray  # (n_reaches, n): sum of their squared distances under K~
    count: np.ndarray  # (n_reaches, n)
    # (n,): smallest squared distance to that side, within reach or not; infinite where it is empty
    nearest: np.ndarray

    @classmethod
    def empty(cls, n_reaches: int, n: int) -> Neighbors:
        """Room for so many reaches and rows, to be filled."""
        total, count = np.empty((2, n_reaches, n))
        return cls(total, count, np.empty(n))


def neighbors(
    kernel: RadialKernel,
    x: np.ndarray,
    centres: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reaches: Sequence[float] | None,
) -> Neighbors:
    """The centres of the side `wanted` by each row, +1 or -1, that are near it under K~.

    `reaches` are squared; None is the one mean of each row's nearest and farthest centre of either side.
    """
    rows, moved = np.ascontiguousarray(x, float), padded(centres, np.float64)
    kind = SQUARED if kernel.norm == 2 else ABSOLUTE
    numbers = _floats(c_x, c, sides, wanted, _numbers(reaches))
    neighbors = Neighbors.empty(len(numbers[-1]), len(rows))

    def task(first: int) -> None:
        near_block(
            rows,
            first,
            min(first + _TASK, len(rows)),
            moved,
            kind,
            rate_of(kernel),
            *numbers,
            neighbors.total,
            neighbors.count,
            neighbors.nearest,
        )

    run_in_threads(task, range(0, len(rows), _TASK))
    return neighbors


def neighbors_in(
    across: np.ndarray,
    places: np.ndarray,
    at: np.ndarray,
    c_x: np.ndarray,
    c: np.ndarray,
    sides: np.ndarray,
    wanted: np.ndarray,
    reaches: Sequence[float] | None,
) -> Neighbors:
    """The same from a kernel that is held: centres are its rows `places`, what looks its columns `at`."""
    numbers = _floats(c_x, c, sides, wanted, _numbers(reaches))
    neighbors = Neighbors.empty(len(numbers[-1]), len(at))
    near_within(
        across,
        places.view(np.uint64),
        at.view(np.uint64),
        *numbers,
        neighbors.total,
        neighbors.count,
        neighbors.nearest,
    )
    return neighbors


def _numbers(reaches: Sequence[float] | None) -> np.ndarray:
    """As the loops know them."""
    return np.array([np.nan] if reaches is None else reaches, float)


def _floats(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(values, float) for values in arrays)


@njit(inline="always")
def _apart(row, weight, here):
    """Kernels to a centre become squared distances."""
    square, twice = weight * weight, 2.0 * weight
    for t in range(here.size):
        row[t] = maximum(here[t] * here[t] + square - twice * here[t] * row[t], 0.0)


@njit(inline="always")
def _spanned(row, lowest, highest):
    for t in range(row.size):
        lowest[t] = -maximum(-lowest[t], -row[t])
        highest[t] = maximum(highest[t], row[t])


@njit(inline="always")
def _of_side(row, side_of_centre, side, lowest, highest):
    """What is not of the wanted side goes out of any reach."""
    for t in range(row.size):
        wanted = side_of_centre * side[t] > 0.0
        highest[t] = maximum(highest[t], row[t] if wanted else -np.inf)
        row[t] = row[t] if wanted else np.inf
        lowest[t] = -maximum(-lowest[t], -row[t])


@njit(inline="always")
def _added(row, limit, total, count):
    for t in range(row.size):
        inside = row[t] < limit[t]
        total[t] += row[t] if inside else 0.0
        count[t] += 1.0 if inside else 0.0


@njit(inline="always")
def _counted(apart, sides, wanted, reaches, room, total, count, nearest):
    """Sum and number, for each reach, and smallest of the distances of a block of rows, in whole lanes.

    Where a row does not look `apart` gets infinities.
    """
    wide, width = apart.shape[1], wanted.size
    side, limit, middle, lowest, highest = (
        room[0, :wide],
        room[1, :wide],
        room[2, :wide],
        room[3, :wide],
        room[4, :wide],
    )
    sums, counts = room[5, :wide], room[6, :wide]
    room[:], lowest[:], highest[:] = 0.0, np.inf, -np.inf
    side[:width] = wanted
    if np.isnan(reaches).any():
        for i in range(sides.size):
            _spanned(apart[i], lowest, highest)
        middle[:] = (lowest + highest) / 2.0
        lowest[:], highest[:] = np.inf, -np.inf
    for i in range(sides.size):
        _of_side(apart[i], sides[i], side, lowest, highest)
    nearest[:] = lowest[:width]
    closest, farthest = lowest.min(), highest.max()
    for q in range(reaches.size):
        reach, last = reaches[q], reaches[max(q - 1, 0)]
        # Reaches before or beyond all distances find the same.
        if q == 0 or not (max(reach, last) <= closest or min(reach, last) > farthest):
            sums[:], counts[:] = 0.0, 0.0
            if np.isnan(reach):
                limit[:] = middle
            else:
                limit[:] = reach
            for i in range(sides.size):
                _added(apart[i], limit, sums, counts)
        total[q], count[q] = sums[:width], counts[:width]


@njit(nogil=True, cache=True)
def near_block(
    x,
    start,
    stop,
    centres,
    kind,
    rate,
    c_x,
    c,
    sides,
    wanted,
    reaches,
    total,
    count,
    nearest,
):
    """Sum and number of the squared distances below each of `reaches` to the centres of the wanted side.

    A reach that is NaN is the mean of the row's nearest and farthest centre, of either side. `nearest` gets
    the smallest. One lane is one row, so that a row's result does not depend on its batch.
    """
    widest()
    before = flush_tiny()
    panels = np.zeros((_BLOCK // PANEL, centres.shape[1], PANEL))
    apart, room = np.zeros((len(centres), _BLOCK)), np.empty((7, _BLOCK))
    for first in range(start, stop, _BLOCK):
        last = min(first + _BLOCK, stop)
        laid_out(x, first, last - first, panels)
        for i in range(0, c.size, CENTRES):
            distances_of_four(panels, centres, i, kind, apart[i : i + CENTRES])
        for i in range(c.size):
            row = apart[i, : last - first]
            for t in range(row.size):
                row[t] = exp2_of_product(row[t], rate)
            _apart(row, c[i], c_x[first:last])
        lanes = apart[:, : -(-(last - first) // _LANES) * _LANES]
        _counted(
            lanes,
            sides,
            wanted[first:last],
            reaches,
            room,
            total[:, first:last],
            count[:, first:last],
            nearest[first:last],
        )
    restore(before)


@njit(nogil=True, cache=True)
def near_within(
    across, places, at, c_x, c, sides, wanted, reaches, total, count, nearest
):
    """The same from a kernel that is held: centres are its rows `places`, rows its columns `at`."""
    widest()
    before = flush_tiny()
    apart = np.zeros((c.size, -(-at.size // _LANES) * _LANES))
    for i in range(c.size):
        row, held = apart[i, : at.size], across[places[i]]
        for t in range(at.size):
            row[t] = held[at[t]]
        _apart(row, c[i], c_x)
    room = np.empty((7, _BLOCK))
    for first in range(0, wanted.size, _BLOCK):
        last = min(first + _BLOCK, wanted.size)
        lanes = apart[:, first : min(first + _BLOCK, apart.shape[1])]
        _counted(
            lanes,
            sides,
            wanted[first:last],
            reaches,
            room,
            total[:, first:last],
            count[:, first:last],
            nearest[first:last],
        )
    restore(before)
