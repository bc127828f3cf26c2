"""Compiled Newton step to the optimum over the free alphas alone.

Pair steps reach it slowly if K is smooth. In an active-set Newton step the free alphas
move to where their levels v agree; one that meets its bound on the way stays there
while the others go on. The inverse of their block is computed by pivots, a row at a
time, and an alpha that stays is pivoted back, so going on without it costs no new
factorization.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.simd import (
    flush_subnormals,
    restore_control_word,
    use_widest_vectors,
)
from screening.solvers.kernel_rows import fetch_row

# Share of its diagonal that is added to the block, above the rounding of float32 rows.
# This adds the distance from the current point to the objective, so each solve goes
# downhill and the next one goes on from there.
_RIDGE = 1e-6


@njit
def _subtract(row, factor, other):
    for j in range(row.size):
        row[j] -= factor * other[j]


@njit
def remove_point(inverse, k, inside):
    """Take point k out of the inverse."""
    inside[k] = False
    _pivot(inverse, k, inside)


@njit
def _pivot(matrix, k, inside):
    """Pivot at k over the rows inside; a second pivot at k undoes it."""
    pivot_row = matrix[k]
    pivot = pivot_row[k]
    for i in range(inside.size):
        if inside[i] and i != k:
            row = matrix[i]
            factor = row[k] / pivot
            _subtract(row, factor, pivot_row)
            row[k] = -factor
    for j in range(pivot_row.size):
        pivot_row[j] /= pivot
    pivot_row[k] = 1.0 / pivot


@njit
def invert(free, c, inside, rows):
    """Return the inverse of the rescaled kernel over the points `free`.

    Points that depend linearly on others are left out: `inside` becomes the mask of
    those taken.
    """
    n = free.size
    matrix = np.empty((n, n))
    for a in range(n):
        i = free[a]
        row = fetch_row(i, rows)
        for b in range(n):
            matrix[a, b] = c[i] * c[free[b]] * row[free[b]]
        matrix[a, a] *= 1.0 + _RIDGE
    inside[:] = True
    for a in range(n):
        # A row that depends linearly on those before has no pivot left.
        inside[a] = matrix[a, a] > 0.0
        if inside[a]:
            _pivot(matrix, a, inside)
    return matrix


@njit
def _first_bound(free, inside, direction, s, upper, alpha):
    """Return how far alphas can go along a direction, and which one meets its bound.

    The step is at most 1, and the index is -1 if none meets its bound.
    """
    step = 1.0
    blocking = -1
    for a in range(free.size):
        if inside[a]:
            t = free[a]
            rise = s[t] * direction[a]
            if rise > 0.0 and upper[t] - alpha[t] < step * rise:
                step = (upper[t] - alpha[t]) / rise
                blocking = a
            elif rise < 0.0 and alpha[t] < -step * rise:
                step = -alpha[t] / rise
                blocking = a
    return step, blocking


@njit
def _sums_inside(inside, of_levels, of_ones, start):
    """Return `start` plus the sum of the levels' solution, and that of the ones'."""
    total = start
    weight = 0.0
    for a in range(inside.size):
        if inside[a]:
            total += of_levels[a]
            weight += of_ones[a]
    return total, weight


@njit
def _set_direction(direction, inside, owed, total, weight, of_levels, of_ones):
    """Set the Newton direction, whose sum is `owed` to the last bit."""
    left = owed
    last = -1
    for a in range(inside.size):
        if inside[a]:
            direction[a] = of_levels[a] - total / weight * of_ones[a]
            left -= direction[a]
            last = a
    # Rounding is large if the inverse is: the last point takes what is left.
    direction[last] += left


@njit
def move_to_optimum(free, inverse, inside, owed, s, upper, alpha, v, moved):
    """Move the alphas inside to the optimum over them, in place.

    Their signed sum grows by `owed`. `moved` is increased by the signed distance of
    each. Returns what is still owed once all are at bounds.
    """
    n = free.size
    # The inverse times the levels, and times ones; their difference keeps the equality.
    of_levels = np.zeros(n)
    of_ones = np.zeros(n)
    direction = np.zeros(n)
    for b in range(n):
        if inside[b]:
            _subtract(of_levels, -v[free[b]], inverse[b])
            _subtract(of_ones, -1.0, inverse[b])
    for _ in range(n):
        total, weight = _sums_inside(inside, of_levels, of_ones, -owed)
        if not weight > 0.0:
            break
        _set_direction(direction, inside, owed, total, weight, of_levels, of_ones)
        step, blocking = _first_bound(free, inside, direction, s, upper, alpha)
        for a in range(n):
            if inside[a]:
                t = free[a]
                change = step * direction[a]
                alpha[t] = min(max(alpha[t] + s[t] * change, 0.0), upper[t])
                moved[a] += change
                of_levels[a] -= change
        owed *= 1.0 - step
        if blocking < 0:
            break
        t = free[blocking]
        alpha[t] = upper[t] if s[t] * direction[blocking] > 0.0 else 0.0
        pivot = inverse[blocking, blocking]
        level_share = of_levels[blocking] / pivot
        ones_share = of_ones[blocking] / pivot
        for a in range(n):
            of_levels[a] -= inverse[a, blocking] * level_share
            of_ones[a] -= inverse[a, blocking] * ones_share
        remove_point(inverse, blocking, inside)
    return owed


@njit
def update_levels(free, moved, c, v, rows):
    """Update the levels v of all points after free alphas have moved."""
    for a in range(free.size):
        if moved[a] != 0.0:
            i = free[a]
            row = fetch_row(i, rows)
            weight = c[i] * moved[a]
            for t in range(v.size):
                v[t] -= c[t] * weight * row[t]


@njit(nogil=True, cache=True)
def newton_on_free_set(s, c, upper, alpha, v, rows):
    """Move all free alphas to their optimum, and update the levels v of all points."""
    use_widest_vectors()
    control_word = flush_subnormals()
    free = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    inside = np.empty(free.size, np.bool_)
    moved = np.zeros(free.size)
    inverse = invert(free, c, inside, rows)
    move_to_optimum(free, inverse, inside, 0.0, s, upper, alpha, v, moved)
    update_levels(free, moved, c, v, rows)
    restore_control_word(control_word)
