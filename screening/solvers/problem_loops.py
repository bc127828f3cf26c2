"""Compiled: what a problem is measured by, and the levels of its points."""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit
from screening.kernels.loops import weighted_rows
from screening.kernels.vector import maximum
from screening.solvers.problem import AT_BOUND


@njit(nogil=True, cache=True)
def sizes(c, diagonal, upper, linear):
    """Largest K~_ii, largest change of f that a row at its bound makes at itself, largest |p|."""
    largest, reach, margin = 0.0, 0.0, 0.0
    for t in range(c.size):
        square = c[t] * c[t]
        largest = maximum(largest, square * diagonal[t])
        reach = maximum(reach, upper[t] * square * diagonal[t])
        margin = maximum(margin, abs(linear[t]))
    return largest, reach, margin


@njit(nogil=True, cache=True)
def within(alphas, signs, upper):
    """Whether alphas are within their bounds, the sum of the bounds and the signed one of the alphas."""
    inside, reach, total = True, 0.0, 0.0
    for t in range(alphas.size):
        inside = inside and alphas[t] >= 0.0 and alphas[t] <= upper[t] * (1.0 + AT_BOUND)
        reach += upper[t]
        total += signs[t] * alphas[t]
    return inside, reach, total


@njit(nogil=True, cache=True)
def levels(equality, signs, c, linear, alphas, gram):
    """v = -s * gradient (with the equality), the gradient itself without."""
    n = alphas.size
    weights, v = np.empty(n), np.zeros(n)
    for t in range(n):
        weights[t] = signs[t] * c[t] * alphas[t]
    (used,) = weights.nonzero()
    weighted_rows(gram, used, weights[used], v)
    for t in range(n):
        gradient = signs[t] * c[t] * v[t] + linear[t]
        v[t] = -signs[t] * gradient if equality else gradient
    return v


@njit(nogil=True, cache=True)
def certificate(signs, upper, alphas, v):
    """Intercept and largest violation under an equality, from the levels of all points.

    The mean level of the free alphas; where there is none the middle of the interval that is allowed. An
    alpha that rounding keeps off its bound must not count, or it would move the intercept to an end.
    """
    total, count = 0.0, 0
    top, bottom = -np.inf, np.inf
    for t in range(v.size):
        margin = AT_BOUND * upper[t]
        rises, falls = alphas[t] < upper[t] - margin, alphas[t] > margin
        if rises and falls:
            total += v[t]
            count += 1
        if rises if signs[t] > 0 else falls:
            top = max(top, v[t])
        if falls if signs[t] > 0 else rises:
            bottom = min(bottom, v[t])
    if count:
        intercept = total / count
    elif np.isfinite(top) and np.isfinite(bottom):
        intercept = (top + bottom) / 2.0
    else:
        intercept = top if np.isfinite(top) else bottom if np.isfinite(bottom) else 0.0
    return intercept, max(0.0, top - bottom)
