"""The dual problem that every machine solves, and the optimality of its solutions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from screening.kernels.jit import njit
from screening.kernels.pairwise import add_weighted_rows
from screening.kernels.simd import maximum
from screening.solvers.kernel_rows import Gram, KernelRows

# An alpha this close to a bound, relative to it, is at the bound.
AT_BOUND = 1e-8
# Differences of f below this share of its level are rounding, of float64 rows.
_RESOLUTION = 1e-6
# The same of float32 rows that are computed one by one.
_RESOLUTION_BY_ROWS = 1e-3


class _Sizes(NamedTuple):
    """Sizes by which a problem is scaled."""

    largest: float  # largest K~_ii
    reach: float  # largest change of f that a row at its bound makes at itself
    margin: float  # largest |p|


@dataclass(frozen=True)
class Problem:
    """The dual min 1/2 a'Qa + p'a with 0 <= a <= upper and sum s_i a_i = total.

    Q_ij = s_i s_j c_i c_j K_ij. K~ is never formed: the Gram matrix stays as it is and
    c enters beside it.

    Parameters
    ----------
    gram : ndarray of shape (n, n) or KernelRows
        The base kernel K.
    signs : ndarray of shape (n,)
        s, +1 or -1.
    c : ndarray of shape (n,)
        Factor at the rows, > 0; ones for the plain kernel.
    linear : ndarray of shape (n,)
        p.
    upper : ndarray of shape (n,)
        Bound of each alpha (the row's cost), > 0.
    total : float or None
        Right-hand side of the equality; None without an equality, and so no intercept.
    """

    gram: Gram
    signs: np.ndarray
    c: np.ndarray
    linear: np.ndarray
    upper: np.ndarray
    total: float | None

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Diagonal of K, copied to contiguous memory."""
        return np.ascontiguousarray(self.gram.diagonal(), float)

    @cached_property
    def _sizes(self) -> _Sizes:
        arrays = (self.c, self.diagonal, self.upper, self.linear)
        return _Sizes(
            *sizes(*[np.ascontiguousarray(values, float) for values in arrays])
        )

    @property
    def largest(self) -> float:
        """Largest K~_ii."""
        return self._sizes.largest

    @property
    def has_margin(self) -> bool:
        """True if p is not 0, so that it determines how large f is."""
        return self._sizes.margin > 0

    @cached_property
    def scale(self) -> float:
        """Largest unit in which a violation of the optimality conditions is measured.

        It is the change of f that one row at its bound makes at itself, but at most |p|
        (the margin). Multiplying c by a number and every bound by its inverse square
        then leaves the stopping rule unchanged.
        """
        scale = self._sizes.reach
        if self.has_margin:
            scale = min(scale, self._sizes.margin)
        return max(scale, np.finfo(float).tiny)

    def unit(self, alphas: np.ndarray, signs: np.ndarray, levels: np.ndarray) -> float:
        """Return the unit of violations at some alphas: ``scale``, or less if p = 0.

        Without a margin only the solution determines how large f is: if c spans twelve
        decades, its level is 1e-24 of what a row of the largest c could add. The unit
        is then at most that level, sum alpha_i g_i / sum alpha_i for the gradient g,
        and at most the spread of g, which a wide kernel makes small.

        Parameters
        ----------
        alphas, signs : ndarray of shape (m,)
            Of all points or of some; alphas may have any unit.
        levels : ndarray of shape (m,)
            -s g.
        """
        if self.total is None or self.has_margin:
            return self.scale
        total = float(alphas.sum())
        if not total > 0.0:
            return self.scale
        level = -float((signs * alphas) @ levels) / total
        by_rows = isinstance(self.gram, KernelRows)
        resolution = _RESOLUTION_BY_ROWS if by_rows else _RESOLUTION
        spread = float(np.ptp(levels))
        least = max(min(level, spread), resolution * level)
        return max(min(self.scale, least), np.finfo(float).tiny)

    def gradient(self, alphas: np.ndarray) -> np.ndarray:
        """Return Qa + p, shape (n,)."""
        used = np.flatnonzero(alphas)
        signed = (self.signs * self.c * alphas)[used]
        columns = self.gram if len(used) == len(alphas) else self.gram[:, used]
        return self.signs * self.c * (columns @ signed) + self.linear

    def free(self, alphas: np.ndarray) -> np.ndarray:
        """Return the mask of alphas strictly between their bounds."""
        above_zero = alphas > AT_BOUND * self.upper
        below_bound = alphas < (1.0 - AT_BOUND) * self.upper
        return above_zero & below_bound


@dataclass(frozen=True)
class Solution:
    """Decision f(x) = sum_i s_i alphas_i c_i c(x) K(x_i, x) + intercept.

    Parameters
    ----------
    alphas : ndarray of shape (n,)
    intercept : float
        0 if the problem has no equality constraint.
    gap : float
        Largest violation, in units of ``Problem.unit``; at most the tolerance if the
        solver converged.
    n_iter : int
    """

    alphas: np.ndarray
    intercept: float
    gap: float
    n_iter: int


@dataclass(frozen=True)
class Solutions:
    """Solutions of m problems over the same rows, each as ``Solution``.

    Parameters
    ----------
    alphas : ndarray of shape (m, n)
    intercepts, gaps, n_iters : ndarray of shape (m,)
    """

    alphas: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    n_iters: np.ndarray

    def __getitem__(self, index: int) -> Solution:
        return Solution(
            self.alphas[index],
            float(self.intercepts[index]),
            float(self.gaps[index]),
            int(self.n_iters[index]),
        )


@njit(nogil=True, cache=True)
def sizes(c, diagonal, upper, linear):
    """Return largest K~_ii, reach and margin, as the fields of ``_Sizes``."""
    largest = 0.0
    reach = 0.0
    margin = 0.0
    for t in range(c.size):
        square = c[t] * c[t]
        largest = maximum(largest, square * diagonal[t])
        reach = maximum(reach, upper[t] * square * diagonal[t])
        margin = maximum(margin, abs(linear[t]))
    return largest, reach, margin


@njit(nogil=True, cache=True)
def check_alphas(alphas, signs, upper):
    """Return whether alphas are within bounds, sum of bounds, signed sum of alphas."""
    inside = True
    reach = 0.0
    total = 0.0
    for t in range(alphas.size):
        below_bound = alphas[t] <= upper[t] * (1.0 + AT_BOUND)
        inside = inside and alphas[t] >= 0.0 and below_bound
        reach += upper[t]
        total += signs[t] * alphas[t]
    return inside, reach, total


@njit(nogil=True, cache=True)
def levels(equality, signs, c, linear, alphas, gram):
    """Return v = -s * gradient with an equality, the gradient itself without, (n,)."""
    n = alphas.size
    weights = np.empty(n)
    v = np.zeros(n)
    for t in range(n):
        weights[t] = signs[t] * c[t] * alphas[t]
    (used,) = weights.nonzero()
    add_weighted_rows(gram, used, weights[used], v)
    for t in range(n):
        gradient = signs[t] * c[t] * v[t] + linear[t]
        v[t] = -signs[t] * gradient if equality else gradient
    return v


@njit
def _middle(top, bottom):
    """Return the middle of an interval, or its only finite end, or 0."""
    if np.isfinite(top) and np.isfinite(bottom):
        return (top + bottom) / 2.0
    if np.isfinite(top):
        return top
    if np.isfinite(bottom):
        return bottom
    return 0.0


@njit(nogil=True, cache=True)
def certificate(signs, upper, alphas, v):
    """Return intercept and largest violation under an equality.

    They follow from the levels v of all points. The intercept is the mean level of the
    free alphas, or the middle of the allowed interval if none is free. An alpha that
    rounding keeps off its bound must not count as free: it would move the intercept to
    an end of the interval.
    """
    total = 0.0
    count = 0
    top = -np.inf
    bottom = np.inf
    for t in range(v.size):
        margin = AT_BOUND * upper[t]
        rises = alphas[t] < upper[t] - margin
        falls = alphas[t] > margin
        if rises and falls:
            total += v[t]
            count += 1
        if rises if signs[t] > 0 else falls:
            top = max(top, v[t])
        if falls if signs[t] > 0 else rises:
            bottom = min(bottom, v[t])
    intercept = total / count if count else _middle(top, bottom)
    return intercept, max(0.0, top - bottom)
