"""The dual problem every machine poses, and what a solution of it must satisfy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Base kernel K.
    signs : ndarray of shape (n,)
        +1 or -1.
    c : ndarray of shape (n,), > 0
        Factor at the rows; ones for the plain kernel.
    linear : ndarray of shape (n,)
        p.
    upper : ndarray of shape (n,), > 0
        Bound of each alpha (the row's cost).
    total : float or None
        Right-hand side of the equality constraint; None where there is none (then there is no intercept).
    """

    gram: Gram
    signs: np.ndarray
    c: np.ndarray
    linear: np.ndarray
    upper: np.ndarray
    total: float | None

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Of K, in one piece: that of an array is a number in each of its rows, a line of the cache apart."""
        return np.ascontiguousarray(self.gram.diagonal(), float)

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        """Largest K~_ii, largest change of f that a row at its bound makes at itself, largest |p|."""
        from screening.kernels.compiled import prepare

        prepare()
        from screening.solvers.problem_loops import sizes

        given = (
            np.ascontiguousarray(each, float) for each in (self.c, self.diagonal, self.upper, self.linear)
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
        return bool(np.any(self.linear))

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
        is 1e-24 of what a row of the largest c could do. Then the unit is at most that level
        sum alpha_i g_i / sum alpha_i (g the gradient) and the spread of g, which a wide kernel makes small.

        Parameters
        ----------
        alphas, signs, levels : ndarray of shape (n,)
            Alphas in any unit, signs and -s g, of all points or of some.
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
        return (alphas > AT_BOUND * self.upper) & (alphas < (1.0 - AT_BOUND) * self.upper)

    def certificate(self, alphas: np.ndarray) -> tuple[float, float]:
        """Intercept and optimality gap of ``alphas``.

        The gap is the largest violation of the optimality conditions in units of ``unit``; 0 at the optimum.
        """
        gradient = self.gradient(alphas)
        down = alphas > AT_BOUND * self.upper  # may decrease
        up = alphas < (1.0 - AT_BOUND) * self.upper  # may increase
        if self.total is None:
            violation = np.where(up, -gradient, -np.inf).max(initial=0.0)
            return 0.0, float(max(violation, np.where(down, gradient, -np.inf).max(initial=0.0)) / self.scale)
        levels, plus = -self.signs * gradient, self.signs > 0
        highest = levels[np.where(plus, up, down)].max(initial=-np.inf)
        lowest = levels[np.where(plus, down, up)].min(initial=np.inf)
        intercept, gap = between(levels[up & down], highest, lowest)
        return intercept, gap / self.unit(alphas, self.signs, levels)


def between(free: np.ndarray, highest: float, lowest: float) -> tuple[float, float]:
    """Intercept and largest violation, from the levels of the free alphas and the ends of what moves.

    The mean level of the free alphas; where there is none the middle of the interval that is allowed. An
    alpha that rounding keeps off its bound must not count, or it would move the intercept to an end.

    Parameters
    ----------
    free : ndarray of shape (n_free,)
    highest, lowest : float
        Level of those that v may pull up, and of those that it may pull down.
    """
    if len(free):
        intercept = float(free.mean())
    else:
        ends = [end for end in (highest, lowest) if np.isfinite(end)]
        intercept = float(np.mean(ends)) if ends else 0.0
    return intercept, float(max(0.0, highest - lowest))


@dataclass(frozen=True)
class Solution:
    """Decision f(x) = sum_i s_i alphas_i c_i c(x) K(x_i, x) + intercept.

    Parameters
    ----------
    alphas : ndarray of shape (n,)
    intercept : float
        0 where the problem has no equality constraint.
    gap : float
        ``Problem.certificate``: at most the tolerance where the solver converged.
    n_iter : int
    """

    alphas: np.ndarray
    intercept: float
    gap: float
    n_iter: int


@dataclass(frozen=True)
class Solutions:
    """Solutions of problems over the same rows, as ``Solution`` has them.

    Parameters
    ----------
    alphas : ndarray of shape (m, n)
    intercepts, gaps, n_iters : ndarray of shape (m,)
    """

    alphas: np.ndarray
    intercepts: np.ndarray
    gaps: np.ndarray
    n_iters: np.ndarray

    def __getitem__(self, at: int) -> Solution:
        return Solution(
            self.alphas[at], float(self.intercepts[at]), float(self.gaps[at]), int(self.n_iters[at])
        )
