"""The dual problem every machine poses, what it is measured by, and what a solution of it must satisfy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.pairwise import weighted_rows
from screening.kernels.simd import maximum
from screening.solvers.kernel_rows import Gram, KernelRows

# An alpha this close to a bound, relative to it, is at the bound.
AT_BOUND = 1e-8
# Differences of f below this share of its level are not resolved: rounding, of float32 where rows are made
# as they are asked for.
RESOLVED, RESOLVED_BY_ROWS = 1e-6, 1e-3


@dataclass(frozen=True)
class Problem:
    """min 1/2 a'Qa + p'a with Q_ij = s_i s_j c_i c_j K_ij, 0 <= a <= upper, sum s_i a_i = total.

    K~ is never formed here: the Gram stays as it is and c enters beside it.
    """

    gram: Gram  # base kernel K, (n, n)
    signs: np.ndarray  # +1 or -1
    c: np.ndarray  # > 0, factor at the rows; ones for the plain kernel
    linear: np.ndarray  # p
    upper: np.ndarray  # > 0, bound of each alpha (the row's cost)
    # right-hand side of the equality; None where there is none (then there is no intercept)
    total: float | None

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Of K, in one piece: that of an array is a number in each of its rows, a line of the cache apart."""
        return np.ascontiguousarray(self.gram.diagonal(), float)

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        """Largest K~_ii, largest change of f that a row at its bound makes at itself, largest |p|."""
        given = (
            np.ascontiguousarray(values, float)
            for values in (self.c, self.diagonal, self.upper, self.linear)
        )
        largest, reach, margin = sizes(*given)
        return largest, reach, margin

    @property
    def largest(self) -> float:
        """Largest K~_ii."""
        return self._sizes[0]

    @property
    def has_margin(self) -> bool:
        """Whether p says how large f is."""
        return self._sizes[2] > 0

    @cached_property
    def scale(self) -> float:
        """Largest unit in which a violation of the optimality conditions is measured.

        The change of f that one row at its bound makes at itself, but at most |p| (the margin): multiplying c
        by a number and every bound by its inverse square then leaves the stopping rule as it was.
        """
        _, reach, margin = self._sizes
        return max(min(reach, margin) if margin > 0 else reach, np.finfo(float).tiny)

    def unit(self, alphas: np.ndarray, signs: np.ndarray, levels: np.ndarray) -> float:
        """Unit in which a violation is measured at these alphas: ``scale``, or less where p = 0.

        Without a margin nothing but the solution says how large f is: where c spans twelve decades its level
        is 1e-24 of what a row of the largest c could do. Then the unit is at most that level sum alpha_i g_i
        / sum alpha_i (g the gradient) and the spread of g, which a wide kernel makes small. `levels` are -s
        g, of all points or of some; alphas may have any unit.
        """
        if self.total is None or self.has_margin:
            return self.scale
        total = float(alphas.sum())
        if not total > 0.0:
            return self.scale
        level = -float((signs * alphas) @ levels) / total
        resolved = RESOLVED_BY_ROWS if isinstance(self.gram, KernelRows) else RESOLVED
        least = max(min(level, float(np.ptp(levels))), resolved * level)
        return max(min(self.scale, least), np.finfo(float).tiny)

    def gradient(self, alphas: np.ndarray) -> np.ndarray:
        """Qa + p, shape (n,)."""
        used = np.flatnonzero(alphas)
        signed = (self.signs * self.c * alphas)[used]
        columns = self.gram if len(used) == len(alphas) else self.gram[:, used]
        return self.signs * self.c * (columns @ signed) + self.linear

    def objective(self, alphas: np.ndarray) -> float:
        """1/2 a'Qa + p'a."""
        return float(0.5 * alphas @ (self.gradient(alphas) + self.linear))

    def free(self, alphas: np.ndarray) -> np.ndarray:
        """Mask of the alphas strictly between their bounds."""
        return (alphas > AT_BOUND * self.upper) & (
            alphas < (1.0 - AT_BOUND) * self.upper
        )


@dataclass(frozen=True)
class Solution:
    """Decision f(x) = sum_i s_i alphas_i c_i c(x) K(x_i, x) + intercept."""

    alphas: np.ndarray
    intercept: float  # 0 where the problem has no equality constraint
    # largest violation, in units of ``Problem.unit``; at most the tolerance where the solver converged
    gap: float
    n_iter: int


@dataclass(frozen=True)
class Solutions:
    """Solutions of problems over the same rows, alphas (m, n), as ``Solution`` has them."""

    alphas: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    n_iters: np.ndarray

    def __getitem__(self, at: int) -> Solution:
        return Solution(
            self.alphas[at],
            float(self.intercepts[at]),
            float(self.gaps[at]),
            int(self.n_iters[at]),
        )


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
        inside = (
            inside and alphas[t] >= 0.0 and alphas[t] <= upper[t] * (1.0 + AT_BOUND)
        )
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
