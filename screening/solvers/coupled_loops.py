"""Compiled iterations of Crammer and Singer's dual; everything in float64, K in its own precision."""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit
from screening.solvers.loops import SMALLEST


@njit(nogil=True, cache=True)
def _row_solution(linear, own, bound, bend, out):
    """min 1/2 bend |a|^2 + linear'a, a_m <= bound [m = own], sum a = 0.

    a_m = min(bound_m, (level - linear_m) / bend); the level is found by adding classes in the order in
    which they leave their bound.
    """
    k = linear.size
    leaves = linear.copy()
    leaves[own] += bend * bound
    order = np.argsort(-leaves)
    level = leaves[order[0]] - bend * bound
    r = 1
    while r < k and level < r * leaves[order[r]]:
        level += leaves[order[r]]
        r += 1
    level /= r
    for m in range(k):
        out[m] = min(bound if m == own else 0.0, (level - linear[m]) / bend)


@njit(nogil=True, cache=True)
def crammer_singer_steps(gram, codes, c, upper, weights, gradient, tol, limit):
    """Up to `limit` row steps, in place, (n_classes, n), until no row violates its conditions by `tol`."""
    k, n = weights.shape
    linear, out = np.empty(k), np.empty(k)
    steps = 0
    while steps < limit:
        worst, i = tol, -1
        for t in range(n):
            highest, lowest = -np.inf, np.inf
            for m in range(k):
                now = gradient[m, t]
                highest = max(highest, now)
                if weights[m, t] < (upper[t] if m == codes[t] else 0.0):
                    lowest = min(lowest, now)
            if highest - lowest > worst:
                worst, i = highest - lowest, t
        if i < 0:
            break
        bend = max(c[i] * c[i] * gram[i, i], SMALLEST)
        for m in range(k):
            linear[m] = gradient[m, i] - bend * weights[m, i]
        _row_solution(linear, codes[i], upper[i], bend, out)
        row = gram[i]
        for m in range(k):
            change = (out[m] - weights[m, i]) * c[i]
            weights[m, i] = out[m]
            if change != 0.0:
                own = gradient[m]
                for t in range(n):
                    own[t] += change * c[t] * row[t]
        steps += 1
    return steps
