"""Compiled: the optimum over the free alphas alone, which pair after pair reaches slowly where K is smooth.

An active-set Newton step: the free alphas go to where their levels v agree, and one that meets its bound on
the way stays there while the others go on. The inverse of their block is made by exchanges, a row at a time,
and an alpha that stays is exchanged back, so that going on without it costs no new factorisation.
"""

from __future__ import annotations

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.simd import (
    flush_subnormals,
    restore_control_word,
    use_widest_vectors,
)
from screening.solvers.kernel_rows import fetch

# Share of its diagonal that is added to the block, above the rounding of float32 rows. The objective then has
# the distance from here added to it, so each solve goes downhill and the next one goes on.
RIDGE = 1e-6


@njit
def subtract(row, factor, other):
    for j in range(row.size):
        row[j] -= factor * other[j]


@njit
def leave(inverse, k, inside):
    """Take k out of the inverse."""
    inside[k] = False
    _exchange(inverse, k, inside)


@njit
def _exchange(matrix, k, inside):
    """Principal pivot at k, over the rows inside; a second one takes it back."""
    own = matrix[k]
    pivot = own[k]
    for i in range(inside.size):
        if inside[i] and i != k:
            row = matrix[i]
            factor = row[k] / pivot
            subtract(row, factor, own)
            row[k] = -factor
    for j in range(own.size):
        own[j] /= pivot
    own[k] = 1.0 / pivot


@njit
def invert(free, c, inside, rows):
    """Inverse of the rescaled kernel over the points `free`; `inside` tells which of them it took."""
    n = free.size
    matrix = np.empty((n, n))
    for a in range(n):
        i = free[a]
        row = fetch(i, rows)
        for b in range(n):
            matrix[a, b] = c[i] * c[free[b]] * row[free[b]]
        matrix[a, a] *= 1.0 + RIDGE
    inside[:] = True
    for a in range(n):
        # A row that says what others said already has nothing left to turn on.
        inside[a] = matrix[a, a] > 0.0
        if inside[a]:
            _exchange(matrix, a, inside)
    return matrix


@njit
def go(free, inverse, inside, owed, s, upper, alpha, v, moved):
    """Move the alphas inside to the optimum over them, their signed sum growing by `owed`.

    Adds to `moved` how far each went, signed, and returns what is still owed once all are at bounds.
    """
    n = free.size
    # The inverse times the levels, and times ones; their difference keeps the equality.
    of_levels, of_ones, direction = np.zeros(n), np.zeros(n), np.zeros(n)
    for b in range(n):
        if inside[b]:
            subtract(of_levels, -v[free[b]], inverse[b])
            subtract(of_ones, -1.0, inverse[b])
    for _ in range(n):
        total, weight = -owed, 0.0
        for a in range(n):
            if inside[a]:
                total += of_levels[a]
                weight += of_ones[a]
        if not weight > 0.0:
            break
        left, last = owed, -1
        for a in range(n):
            if inside[a]:
                direction[a] = of_levels[a] - total / weight * of_ones[a]
                left -= direction[a]
                last = a
        direction[last] += left  # what rounding left over, where the inverse is large
        step, blocking = 1.0, -1
        for a in range(n):
            if inside[a]:
                t, rise = free[a], s[free[a]] * direction[a]
                if rise > 0.0 and upper[t] - alpha[t] < step * rise:
                    step, blocking = (upper[t] - alpha[t]) / rise, a
                elif rise < 0.0 and alpha[t] < -step * rise:
                    step, blocking = -alpha[t] / rise, a
        for a in range(n):
            if inside[a]:
                t, change = free[a], step * direction[a]
                alpha[t] = min(max(alpha[t] + s[t] * change, 0.0), upper[t])
                moved[a] += change
                of_levels[a] -= change
        owed *= 1.0 - step
        if blocking < 0:
            break
        t = free[blocking]
        alpha[t] = upper[t] if s[t] * direction[blocking] > 0.0 else 0.0
        pivot = inverse[blocking, blocking]
        level, one = of_levels[blocking] / pivot, of_ones[blocking] / pivot
        for a in range(n):
            of_levels[a] -= inverse[a, blocking] * level
            of_ones[a] -= inverse[a, blocking] * one
        leave(inverse, blocking, inside)
    return owed


@njit
def spread(free, moved, c, v, rows):
    """Bring the levels of all points up to date with what `moved`."""
    for a in range(free.size):
        if moved[a] != 0.0:
            i = free[a]
            row = fetch(i, rows)
            weight = c[i] * moved[a]
            for t in range(v.size):
                v[t] -= c[t] * weight * row[t]


@njit(nogil=True, cache=True)
def newton_on_free_set(s, c, upper, alpha, v, rows):
    """Move all free alphas to their optimum, and the levels v of all points with them."""
    use_widest_vectors()
    before = flush_subnormals()
    free = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    inside, moved = np.empty(free.size, np.bool_), np.zeros(free.size)
    inverse = invert(free, c, inside, rows)
    go(free, inverse, inside, 0.0, s, upper, alpha, v, moved)
    spread(free, moved, c, v, rows)
    restore_control_word(before)
