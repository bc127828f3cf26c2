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
def _added(row, mine, side, limit, total, count, nearest):
    for t in range(row.size):
        near = row[t] if mine * side[t] > 0.0 else np.inf
        nearest[t] = -maximum(-nearest[t], -near)
        inside = near < limit[t]
        total[t] += near if inside else 0.0
        count[t] += 1.0 if inside else 0.0


@njit(inline="always")
def _counted(apart, sides, wanted, reach, room, total, count, nearest):
    """Sum, number and smallest of the distances of a block of rows, in whole lanes, to the centres."""
    wide, width = apart.shape[1], wanted.size
    side, limit, lowest, highest = room[0, :wide], room[1, :wide], room[2, :wide], room[3, :wide]
    sums, counts, low = room[4, :wide], room[5, :wide], room[6, :wide]
    room[:], low[:], lowest[:], highest[:] = 0.0, np.inf, np.inf, -np.inf
    side[:width], limit[:width] = wanted, reach
    if np.isnan(limit).any():
        for i in range(sides.size):
            _spanned(apart[i], lowest, highest)
        for t in range(width):
            if np.isnan(limit[t]):
                limit[t] = (lowest[t] + highest[t]) / 2.0
    for i in range(sides.size):
        _added(apart[i], sides[i], side, limit, sums, counts, low)
    total[:], count[:], nearest[:] = sums[:width], counts[:width], low[:width]


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
    apart, room = np.zeros((len(centres), BLOCK)), np.empty((7, BLOCK))
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        laid_out(x, first, last - first, panels)
        for i in range(0, c.size, CENTRES):
            distances_of_four(panels, centres, i, kind, apart[i : i + CENTRES])
        for i in range(c.size):
            row = apart[i, : last - first]
            for t in range(row.size):
                row[t] = exp2_of_product(row[t], rate)
            _apart(row, c[i], c_x[first:last])
        lanes = apart[:, : -(-(last - first) // LANES) * LANES]
        _counted(
            lanes, sides, wanted[first:last], reach[first:last], room,
            total[first:last], count[first:last], nearest[first:last],
        )  # fmt: skip
    restore(before)


@njit(nogil=True, cache=True)
def apart_within(across, places, at, c_x, c):
    """The same distances from a kernel that is held: centres are its rows `places`, rows its columns `at`."""
    widest()
    before = flush_tiny()
    apart = np.zeros((c.size, -(-at.size // LANES) * LANES))
    for i in range(c.size):
        row, known = apart[i, : at.size], across[places[i]]
        for t in range(at.size):
            row[t] = known[at[t]]
        _apart(row, c[i], c_x)
    restore(before)
    return apart


@njit(nogil=True, cache=True)
def near_among(apart, sides, wanted, reach, total, count, nearest):
    """As `near_block`, of distances that are held."""
    widest()
    before = flush_tiny()
    room = np.empty((7, BLOCK))
    for first in range(0, wanted.size, BLOCK):
        last = min(first + BLOCK, wanted.size)
        lanes = apart[:, first : min(first + BLOCK, apart.shape[1])]
        _counted(
            lanes, sides, wanted[first:last], reach[first:last], room,
            total[first:last], count[first:last], nearest[first:last],
        )  # fmt: skip
    restore(before)
