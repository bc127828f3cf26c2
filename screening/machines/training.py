"""One pass of a kernel machine: the problem, in a form remedies can wrap, and its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from screening import solvers
from screening.kernels import Scale
from screening.solvers.kernel_rows import Gram

# A row whose alpha is below this share of the largest is no support vector.
SUPPORT = 1e-8


@dataclass(frozen=True)
class Dual:
    """What solving one pass gives: f_m(x) = sum_i weights_im c_i c(x) K(x_i, x) + intercept_m."""

    weights: np.ndarray  # (n_rows, n_outputs): alpha_i with its sign; exactly 0 off the support
    intercept: np.ndarray  # (n_outputs,)
    margin: np.ndarray  # bool, as weights: 0 < alpha_i < bound
    gap: float  # largest over the outputs
    n_iter: int  # summed over the outputs
    noted: dict[str, np.ndarray] = field(default_factory=dict)  # what a remedy wants kept and told, by name


@dataclass(frozen=True)
class Pass:
    """One trained pass over the basis rows (the training rows, later the support vectors of any pass)."""

    dual: Dual
    labels: np.ndarray  # (n_basis, n_outputs): +1, -1, or 0 for a row outside the output's problem
    c: np.ndarray  # (n_basis, 1) or (n_basis, n_outputs): product of the factors of all passes before
    scale: Scale | None = None  # how log c of the next pass is scaled and bounded; None in the last
    # The factor's parameters, one dict an output (one in all for a joint factor); empty in the last
    # pass.
    remembered: tuple[dict[str, np.ndarray], ...] = ()

    @property
    def coefficients(self) -> np.ndarray:
        """weights * c, (n_basis, n_outputs)."""
        return self.dual.weights * self.c

    def take(self, kept: np.ndarray) -> Pass:
        of = self.dual
        dual = Dual(of.weights[kept], of.intercept, of.margin[kept], of.gap, of.n_iter, of.noted)
        return Pass(dual, self.labels[kept], self.c[kept], self.scale, self.remembered)


@dataclass(frozen=True)
class Training:
    """What one two-class pass trains on."""

    gram: Gram  # base kernel K
    labels: np.ndarray  # +1 or -1
    c: np.ndarray
    costs: np.ndarray  # bound of each alpha
    tol: float
    groups: np.ndarray | None = None  # what a remedy that validates inside must not split
    counts: np.ndarray | None = None  # how many rows each stands for; one if None

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
