"""Compiled: which support vectors of a side are near, by feature-space distance, without a matrix of them."""

from __future__ import annotations

import numpy as np

from screening.kernels.compiled import CENTRES, PANEL
from screening.kernels.kept import njit
from screening.kernels.loops import distances_of_four, exp2_of_product, laid_out
from screening.kernels.vector import flush_tiny, maximum, restore, widest

BLOCK = 128
# Lanes that are worked on at once: a rest taken one by one would take longer than they do.
LANES = 32


@njit(inline="always")
def _apart(row, square, twice, here, own):
    """Kernels to a centre become squared distances."""
    for t in range(row.size):
        row[t] = maximum(own[t] + square - twice * here[t] * row[t], 0.0)


@njit(inline="always")
def _spanned(row, lowest, highest):
    for t in range(row.size):
        lowest[t] = -maximum(-lowest[t], -row[t])
        highest[t] = maximum(highest[t], row[t])


@njit(inline="always")
def _added(row, mine, side, limit, total, count, nearest):
    for t in range(row.size):
        near = row[t] if mine * side[t] > 0.0 else np.inf
        nearest[t] = -maximum(-nearest[t], -near)
        inside = near < limit[t]
        total[t] += near if inside else 0.0
        count[t] += 1.0 if inside else 0.0


@njit(inline="always")
def _begun(c_x, wanted, reach, room):
    """A block's lanes in `room`: those beyond the rows it has are 0, and nobody reads what comes of them."""
    width = c_x.size
    room[:7] = 0.0
    room[0, :width], room[2, :width], room[3, :width] = c_x, wanted, reach
    room[6:8], room[8] = np.inf, -np.inf
    for t in range(width):
        room[1, t] = c_x[t] * c_x[t]


@njit(inline="always")
def _taken(row, weight, side, by_span, room):
    """One centre, from the kernels to it."""
    wide = row.size
    _apart(row, weight * weight, 2.0 * weight, room[0, :wide], room[1, :wide])
    if by_span:
        _spanned(row, room[7, :wide], room[8, :wide])
    else:
        _added(row, side, room[2, :wide], room[3, :wide], room[4, :wide], room[5, :wide], room[6, :wide])


@njit(inline="always")
def _ended(kernels, sides, by_span, wide, room, total, count, nearest):
    """What is left where the reach is known only now, and the results."""
    if by_span:
        for t in range(total.size):
            if np.isnan(room[3, t]):
                room[3, t] = (room[7, t] + room[8, t]) / 2.0
        for i in range(sides.size):
            _added(
                kernels[i, :wide], sides[i], room[2, :wide], room[3, :wide], room[4, :wide], room[5, :wide],
                room[6, :wide],
            )  # fmt: skip
    total[:], count[:], nearest[:] = room[4, : total.size], room[5, : total.size], room[6, : total.size]


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
    by_span = np.isnan(reach[start:stop]).any()
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL))
    kernels, room = np.empty((len(centres) if by_span else CENTRES, BLOCK)), np.empty((9, BLOCK))
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        wide = -(-(last - first) // LANES) * LANES
        laid_out(x, first, last - first, panels)
        _begun(c_x[first:last], wanted[first:last], reach[first:last], room)
        for i in range(0, c.size, CENTRES):
            place = i if by_span else 0
            distances_of_four(panels, centres, i, kind, kernels[place : place + CENTRES])
            for j in range(min(CENTRES, c.size - i)):
                row = kernels[place + j, :wide]
                for t in range(wide):
                    row[t] = exp2_of_product(row[t], rate)
                _taken(row, c[i + j], sides[i + j], by_span, room)
        _ended(kernels, sides, by_span, wide, room, total[first:last], count[first:last], nearest[first:last])
    restore(before)


@njit(nogil=True, cache=True)
def near_known(across, places, at, c_x, c, sides, wanted, reach, total, count, nearest):
    """The same from a kernel that is held: rows `places` of it are the centres, columns `at` the rows."""
    widest()
    before = flush_tiny()
    by_span = np.isnan(reach).any()
    kernels, room = np.zeros((c.size if by_span else 1, BLOCK)), np.empty((9, BLOCK))
    for first in range(0, at.size, BLOCK):
        last = min(first + BLOCK, at.size)
        wide, column = -(-(last - first) // LANES) * LANES, at[first:last]
        _begun(c_x[first:last], wanted[first:last], reach[first:last], room)
        for i in range(c.size):
            row, known = kernels[i if by_span else 0, :wide], across[places[i]]
            for t in range(column.size):
                row[t] = known[column[t]]
            _taken(row, c[i], sides[i], by_span, room)
        _ended(kernels, sides, by_span, wide, room, total[first:last], count[first:last], nearest[first:last])
    restore(before)
