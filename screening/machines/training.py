"""One pass of a kernel machine as a problem to solve, in a form remedies can wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from screening import solvers
from screening.machines.passes import Dual
from screening.solvers.kernel_rows import Gram

# A row whose alpha is below this share of the largest is no support vector.
SUPPORT = 1e-8


@dataclass(frozen=True)
class Training:
    """What one two-class pass trains on.

    Parameters
    ----------
    gram : ndarray of shape (n, n) or KernelRows
        Base kernel K.
    labels : ndarray of shape (n,)
        +1 or -1.
    c : ndarray of shape (n,)
    costs : ndarray of shape (n,)
        Bound of each alpha.
    tol : float
    groups : ndarray of shape (n,), optional
        What a remedy that validates inside must not split.
    counts : ndarray of shape (n,), optional
        How many rows each stands for; one if None.
    """

    gram: Gram
    labels: np.ndarray
    c: np.ndarray
    costs: np.ndarray
    tol: float
    groups: np.ndarray | None = None
    counts: np.ndarray | None = None

    @property
    def whole(self) -> np.ndarray:
        """The kernel matrix, made here where only its rows were to be had."""
        every = np.arange(len(self.labels))
        return self.gram if isinstance(self.gram, np.ndarray) else self.gram[np.ix_(every, every)]

    def take(self, rows: np.ndarray) -> Training:
        """The same problem on some of its rows."""
        gram = (
            self.gram.part(rows)
            if isinstance(self.gram, solvers.KernelRows)
            else self.gram[np.ix_(rows, rows)]
        )
        return replace(
            self,
            gram=gram,
            labels=self.labels[rows],
            c=self.c[rows],
            costs=self.costs[rows],
            groups=None if self.groups is None else self.groups[rows],
            counts=None if self.counts is None else self.counts[rows],
        )


Solve = Callable[[Training], Dual]


def solve_two_class(training: Training) -> Dual:
    """C-SVC: min 1/2 a'Qa - 1'a, 0 <= a <= costs, sum s_i a_i = 0."""
    return solve_two_class_each(training, training.c[None])[0]


def two_class_problem(training: Training) -> solvers.Problem:
    """The dual of the C-SVC."""
    return solvers.Problem(
        gram=training.gram,
        signs=training.labels.astype(float),
        c=training.c,
        linear=-np.ones(len(training.c)),
        upper=training.costs,
        total=0.0,
    )


def solve_two_class_each(training: Training, factors: np.ndarray) -> list[Dual]:
    """The same at each of several c, (m, n), in place of ``training.c``."""
    problem = two_class_problem(training)
    problems = [replace(problem, c=c) for c in factors]
    return duals_of(problem, solvers.solve_each(problems, training.tol))


def solved(problem: solvers.Problem, tol: float) -> Dual:
    """Solve, and drop what is too small to be a support vector."""
    return dual_of(problem, solvers.solve(problem, tol))


def dual_of(problem: solvers.Problem, solution: solvers.Solution) -> Dual:
    """A solution as a dual, without what is too small to be a support vector."""
    return duals_of(problem, [solution])[0]


def duals_of(problem: solvers.Problem, solutions: Sequence[solvers.Solution]) -> list[Dual]:
    """Solutions, at whatever c, as duals."""
    alphas = without_dust(np.stack([each.alphas for each in solutions]))
    margin = (alphas > 0) & problem.free(alphas)
    weights = problem.signs * alphas
    return [
        Dual(weights[k][:, None], np.array([each.intercept]), margin[k][:, None], each.gap, each.n_iter)
        for k, each in enumerate(solutions)
    ]


def without_dust(alphas: np.ndarray) -> np.ndarray:
    """Alphas, (n,) or (m, n) of m solutions, with what is too small to be a support vector's put to 0."""
    return np.where(alphas > SUPPORT * alphas.max(axis=-1, initial=0.0, keepdims=True), alphas, 0.0)


def embedded(dual: Dual, rows: np.ndarray, n_rows: int) -> Dual:
    """A dual over some rows as one over all of them, zero elsewhere."""
    weights = np.zeros((n_rows, dual.weights.shape[1]))
    margin = np.zeros(weights.shape, bool)
    weights[rows], margin[rows] = dual.weights, dual.margin
    return replace(dual, weights=weights, margin=margin)


def joined(duals: Sequence[Dual]) -> Dual:
    """Several one-output duals as one of several outputs."""
    return Dual(
        weights=np.hstack([dual.weights for dual in duals]),
        intercept=np.concatenate([dual.intercept for dual in duals]),
        margin=np.hstack([dual.margin for dual in duals]),
        gap=max(dual.gap for dual in duals),
        n_iter=sum(dual.n_iter for dual in duals),
    )
