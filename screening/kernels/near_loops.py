"""Compiled: which support vectors of a side are near, by feature-space distance, without a matrix of them."""

from __future__ import annotations

import numpy as np

from screening.kernels.compiled import CENTRES, PANEL
from screening.kernels.kept import njit
from screening.kernels.loops import distances_of_four, exp2_of_product, laid_out
from screening.kernels.vector import flush_tiny, maximum, restore, widest

BLOCK = 128


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
    n_centres = c.size
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL))
    distances = np.empty((len(centres), BLOCK))
    own, lowest, highest = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        laid_out(x, first, width, panels)
        for i in range(0, n_centres, CENTRES):
            distances_of_four(panels, centres, i, kind, distances[i : i + CENTRES])
        here = c_x[first : first + width]
        for t in range(width):
            own[t] = here[t] * here[t]
            lowest[t], highest[t] = np.inf, -np.inf
        for i in range(n_centres):
            row = distances[i]
            square, twice = c[i] * c[i], 2.0 * c[i]
            for t in range(width):
                across = twice * here[t] * exp2_of_product(row[t], rate)
                row[t] = maximum(own[t] + square - across, 0.0)
            for t in range(width):
                lowest[t] = -maximum(-lowest[t], -row[t])
                highest[t] = maximum(highest[t], row[t])
        side, limit = wanted[first : first + width], reach[first : first + width]
        sums, counts = total[first : first + width], count[first : first + width]
        low = nearest[first : first + width]
        for t in range(width):
            if np.isnan(limit[t]):
                highest[t] = (lowest[t] + highest[t]) / 2.0
            else:
                highest[t] = limit[t]
        for i in range(n_centres):
            row, mine = distances[i], sides[i]
            for t in range(width):
                near = row[t] if mine * side[t] > 0.0 else np.inf
                low[t] = -maximum(-low[t], -near)
                inside = near < highest[t]
                sums[t] += near if inside else 0.0
                counts[t] += 1.0 if inside else 0.0
    restore(before)
