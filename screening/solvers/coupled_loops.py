"""Compiled iterations of the duals of several classes; everything in float64, K in its own precision."""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit

SMALLEST = 1e-300


@njit(nogil=True, cache=True)
def coupled_steps(gram, codes, coupling, c, upper, alphas, gradient, tol, limit):
    """Up to `limit` coordinate steps, in place, until no projected gradient exceeds `tol`; their number."""
    n = c.size
    bend = np.empty(n)
    for t in range(n):
        bend[t] = max(coupling[codes[t], codes[t]] * c[t] * c[t] * gram[t, t], SMALLEST)
    weights = np.empty(coupling.shape[0])
    steps = 0
    while steps < limit:
        best, worst, i = -1.0, 0.0, -1
        for t in range(n):
            slope = gradient[t]
            if (slope < 0.0 and alphas[t] < upper[t]) or (slope > 0.0 and alphas[t] > 0.0):
                worst = max(worst, abs(slope))
                gain = slope * slope / bend[t]
                if gain > best:
                    best, i = gain, t
        if worst <= tol:
            break
        wanted = min(max(alphas[i] - gradient[i] / bend[i], 0.0), upper[i])
        change = wanted - alphas[i]
        alphas[i] = wanted
        for m in range(weights.size):
            weights[m] = coupling[codes[i], m] * c[i] * change
        row = gram[i]
        for t in range(n):
            gradient[t] += weights[codes[t]] * c[t] * row[t]
        steps += 1
    return steps


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
