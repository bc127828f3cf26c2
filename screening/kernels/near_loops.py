"""Compiled: which support vectors of a side are near, by feature-space distance, without a matrix of them."""

from __future__ import annotations

import numpy as np

from screening.kernels.compiled import CENTRES, PANEL
from screening.kernels.kept import njit
from screening.kernels.loops import distances_of_four, exp2_of_product, laid_out
from screening.kernels.vector import flush_tiny, maximum, restore, widest

BLOCK = 128


@njit(inline="always")
def _counted(kernels, here, c, sides, side, limit, room, total, count, nearest):
    """Sum, number and smallest of the distances of a block of rows, from its kernel to the centres."""
    width = here.size
    own, lowest, highest = room[0], room[1], room[2]
    for t in range(width):
        own[t] = here[t] * here[t]
        lowest[t], highest[t] = np.inf, -np.inf
    for i in range(c.size):
        row = kernels[i]
        square, twice = c[i] * c[i], 2.0 * c[i]
        for t in range(width):
            row[t] = maximum(own[t] + square - twice * here[t] * row[t], 0.0)
        for t in range(width):
            lowest[t] = -maximum(-lowest[t], -row[t])
            highest[t] = maximum(highest[t], row[t])
    for t in range(width):
        if np.isnan(limit[t]):
            highest[t] = (lowest[t] + highest[t]) / 2.0
        else:
            highest[t] = limit[t]
    for i in range(c.size):
        row, mine = kernels[i], sides[i]
        for t in range(width):
            near = row[t] if mine * side[t] > 0.0 else np.inf
            nearest[t] = -maximum(-nearest[t], -near)
            inside = near < highest[t]
            total[t] += near if inside else 0.0
            count[t] += 1.0 if inside else 0.0


@njit(nogil=True, cache=True)
def near_block(
    x, start, stop, centres, kind, rate, c_x, c, sides, wanted, reach, total, count, nearest,
):  # fmt: skip
    """Sum, number and smallest of the squared distances below `reach` to the centres of the wanted side.

    A reach that is NaN is the mean of the row's nearest and farthest centre, of either side. One lane is one
    row, so that a row's result does not depend on its batch.
    """
    widest()
    before = flush_tiny()
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL))
    kernels, room = np.empty((len(centres), BLOCK)), np.empty((3, BLOCK))
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        laid_out(x, first, last - first, panels)
        for i in range(0, c.size, CENTRES):
            distances_of_four(panels, centres, i, kind, kernels[i : i + CENTRES])
        for i in range(c.size):
            row = kernels[i]
            for t in range(last - first):
                row[t] = exp2_of_product(row[t], rate)
        _counted(
            kernels, c_x[first:last], c, sides, wanted[first:last], reach[first:last], room,
            total[first:last], count[first:last], nearest[first:last],
        )  # fmt: skip
    restore(before)


@njit(nogil=True, cache=True)
def near_known(across, places, at, c_x, c, sides, wanted, reach, total, count, nearest):
    """The same from a kernel that is held: rows `places` of it are the centres, columns `at` the rows."""
    widest()
    before = flush_tiny()
    kernels, room = np.empty((c.size, BLOCK)), np.empty((3, BLOCK))
    for first in range(0, at.size, BLOCK):
        last = min(first + BLOCK, at.size)
        column = at[first:last]
        for i in range(c.size):
            row, known = kernels[i], across[places[i]]
            for t in range(column.size):
                row[t] = known[column[t]]
        _counted(
            kernels, c_x[first:last], c, sides, wanted[first:last], reach[first:last], room,
            total[first:last], count[first:last], nearest[first:last],
        )  # fmt: skip
    restore(before)
