"""Duals of several classes at once, without equality over the rows: a coupling of labels, and Crammer-Singer.

Both are solved exactly, the row that violates its conditions most first. c enters beside K, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.solvers.problem import AT_BOUND

MAX_STEPS = 10_000_000


@dataclass(frozen=True)
class CoupledProblem:
    """min 1/2 a'Ga - 1'a with G_ij = coupling[y_i, y_j] c_i c_j K_ij, 0 <= a <= upper.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
    codes : ndarray of int, shape (n,)
        Class numbers.
    coupling : ndarray of shape (n_classes, n_classes)
        Positive semidefinite.
    c, upper : ndarray of shape (n,)
    """

    gram: np.ndarray
    codes: np.ndarray
    coupling: np.ndarray
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """Unit of violations: the change one row at its bound makes at itself, at most the margin 1."""
        return _scale(self.gram, self.c, self.upper)

    def gradient(self, alphas: np.ndarray) -> np.ndarray:
        """Ga - 1, shape (n,)."""
        own = self.codes[:, None] == np.arange(len(self.coupling))
        sums = self.gram @ (own * (self.c * alphas)[:, None])
        return self.c * np.einsum("im,im->i", sums, self.coupling[self.codes]) - 1.0

    def objective(self, alphas: np.ndarray) -> float:
        return float(0.5 * alphas @ (self.gradient(alphas) - 1.0))

    def gap(self, alphas: np.ndarray) -> float:
        """Largest violation of the optimality conditions, in units of ``scale``."""
        gradient = self.gradient(alphas)
        down = np.where(alphas > AT_BOUND * self.upper, gradient, 0.0)
        up = np.where(alphas < (1.0 - AT_BOUND) * self.upper, -gradient, 0.0)
        return float(max(down.max(), up.max(), 0.0) / self.scale)


@dataclass(frozen=True)
class CrammerSingerProblem:
    """min 1/2 sum_m A_m' K~ A_m + sum_im A_im (1 - [y_i = m]), A_im <= [y_i = m] upper_i, rows sum to 0.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
    codes : ndarray of int, shape (n,)
    n_classes : int
    c, upper : ndarray of shape (n,)
    """

    gram: np.ndarray
    codes: np.ndarray
    n_classes: int
    c: np.ndarray
    upper: np.ndarray

    @property
    def scale(self) -> float:
        """As ``CoupledProblem.scale``."""
        return _scale(self.gram, self.c, self.upper)

    @property
    def own(self) -> np.ndarray:
        """[y_i = m], shape (n, n_classes)."""
        return self.codes[:, None] == np.arange(self.n_classes)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """K~ A + 1 - [y_i = m], shape (n, n_classes)."""
        c = self.c[:, None]
        return c * (self.gram @ (c * weights)) + ~self.own

    def objective(self, weights: np.ndarray) -> float:
        return float(0.5 * np.sum(weights * (self.gradient(weights) + ~self.own)))

    def gap(self, weights: np.ndarray) -> float:
        """Largest violation of the optimality conditions, in units of ``scale``."""
        gradient = self.gradient(weights)
        bound = np.where(self.own, self.upper[:, None], 0.0)
        free = weights < bound - AT_BOUND * self.upper[:, None]
        lowest = np.where(free, gradient, np.inf).min(axis=1)
        return float(np.max(gradient.max(axis=1) - lowest, initial=0.0) / self.scale)


def _scale(gram: np.ndarray, c: np.ndarray, upper: np.ndarray) -> float:
    reach = float(np.max(upper * np.square(c) * gram.diagonal()))
    return max(min(reach, 1.0), np.finfo(float).tiny)


def solve_coupled(problem: CoupledProblem, tol: float = 1e-3) -> tuple[np.ndarray, float, int]:
    """Alphas (n,), gap and number of steps; ``tol`` is in units of ``problem.scale``."""
    from screening.solvers.coupled_loops import coupled_steps

    alphas = np.zeros(len(problem.c))
    n_iter = coupled_steps(
        np.ascontiguousarray(problem.gram),
        problem.codes.astype(np.int64),
        np.asarray(problem.coupling, float),
        problem.c.astype(float),
        problem.upper.astype(float),
        alphas,
        tol * problem.scale,
        MAX_STEPS,
    )
    return alphas, problem.gap(alphas), int(n_iter)


def solve_crammer_singer(problem: CrammerSingerProblem, tol: float = 1e-3) -> tuple[np.ndarray, float, int]:
    """Weights A (n, n_classes), gap and number of steps; ``tol`` is in units of ``problem.scale``."""
    from screening.solvers.coupled_loops import crammer_singer_steps

    weights = np.zeros((problem.n_classes, len(problem.c)))
    n_iter = crammer_singer_steps(
        np.ascontiguousarray(problem.gram),
        problem.codes.astype(np.int64),
        problem.c.astype(float),
        problem.upper.astype(float),
        weights,
        tol * problem.scale,
        MAX_STEPS,
    )
    weights = np.ascontiguousarray(weights.T)
    return weights, problem.gap(weights), int(n_iter)
