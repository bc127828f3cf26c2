"""One pass of a kernel machine: a problem that remedies can wrap, its solution, and how many passes pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from screening.factors.first_pass import DualSolution
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import KernelRows, Problem, Solution, solve, solve_each
from screening.solvers.kernel_rows import Gram

# A row whose alpha is below this share of the largest is no support vector.
SUPPORT = 1e-8


@dataclass(frozen=True)
class Training:
    """What one two-class pass trains on."""

    gram: Gram  # base kernel K
    labels: np.ndarray  # +1 or -1
    c: np.ndarray
    costs: np.ndarray  # bound of each alpha
    tol: float
    groups: np.ndarray | None = (
        None  # what a remedy that validates inside must not split
    )
    counts: np.ndarray | None = None  # how many rows each stands for; one if None
    cache: KernelCache | None = None  # that the Gram is of

    @property
    def whole(self) -> np.ndarray:
        """The kernel matrix, made here where only its rows were to be had."""
        every = np.arange(len(self.labels))
        return (
            self.gram
            if isinstance(self.gram, np.ndarray)
            else self.gram[np.ix_(every, every)]
        )

    def take(self, rows: np.ndarray) -> Training:
        """The same problem on some of its rows."""
        gram = (
            self.gram.part(rows)
            if isinstance(self.gram, KernelRows)
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
            cache=None,
        )


Solve = Callable[[Training], DualSolution]


def solve_two_class(training: Training) -> DualSolution:
    """C-SVC: min 1/2 a'Qa - 1'a, 0 <= a <= costs, sum s_i a_i = 0."""
    return solve_two_class_each(training, training.c[None])[0]


def two_class_problem(training: Training) -> Problem:
    """The dual of the C-SVC."""
    return Problem(
        gram=training.gram,
        signs=training.labels.astype(float),
        c=training.c,
        linear=-np.ones(len(training.c)),
        upper=training.costs,
        total=0.0,
    )


def solve_two_class_each(training: Training, factors: np.ndarray) -> list[DualSolution]:
    """The same at each of several c, (m, n), in place of ``training.c``."""
    problem = two_class_problem(training)
    problems = [replace(problem, c=c) for c in factors]
    return duals_of(problem, solve_each(problems, training.tol, training.cache))


def solved(
    problem: Problem, tol: float, cache: KernelCache | None = None
) -> DualSolution:
    """Solve, and drop what is too small to be a support vector."""
    return duals_of(problem, [solve(problem, tol, cache)])[0]


def duals_of(problem: Problem, solutions: Sequence[Solution]) -> list[DualSolution]:
    """Solutions, at whatever c, without what is too small to be a support vector."""
    alphas = without_dust(np.stack([solution.alphas for solution in solutions]))
    margin = (alphas > 0) & problem.free(alphas)
    weights = problem.signs * alphas
    return [
        DualSolution(
            weights[k][:, None],
            np.array([solution.intercept]),
            margin[k][:, None],
            solution.gap,
            solution.n_iter,
        )
        for k, solution in enumerate(solutions)
    ]


def without_dust(alphas: np.ndarray) -> np.ndarray:
    """Alphas, (n,) or (m, n) of m solutions, with what is too small to be a support vector's put to 0."""
    return np.where(
        alphas > SUPPORT * alphas.max(axis=-1, initial=0.0, keepdims=True), alphas, 0.0
    )


def embedded(dual: DualSolution, rows: np.ndarray, n_rows: int) -> DualSolution:
    """A dual over some rows as one over all of them, zero elsewhere."""
    weights = np.zeros((n_rows, dual.weights.shape[1]))
    margin = np.zeros(weights.shape, bool)
    weights[rows], margin[rows] = dual.weights, dual.margin
    return replace(dual, weights=weights, margin=margin)


def joined(duals: Sequence[DualSolution]) -> DualSolution:
    """Several one-output duals as one of several outputs."""
    return DualSolution(
        weights=np.hstack([dual.weights for dual in duals]),
        intercept=np.concatenate([dual.intercept for dual in duals]),
        margin=np.hstack([dual.margin for dual in duals]),
        gap=max(dual.gap for dual in duals),
        n_iter=sum(dual.n_iter for dual in duals),
    )


# Wu and Chang's theta: the loop goes on while the score gains more than this.
LEAST_GAIN = 1e-3


def inner_folds(
    codes: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified (train, test) row numbers, groups kept whole; every training part holds all classes.

    Fewer folds where the rarest class has fewer rows or groups, none where it has one only.
    """
    n_classes = int(codes.max()) + 1
    holders = [
        np.sum(codes == m) if groups is None else len(np.unique(groups[codes == m]))
        for m in range(n_classes)
    ]
    folds = min(folds, int(min(holders)))
    if folds < 2:
        return
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    for train, test in splitter(folds, shuffle=True, random_state=seed).split(
        codes, codes, groups
    ):
        if len(np.unique(codes[train])) == n_classes:
            yield train, test


def mean_recall(codes: np.ndarray, predicted: np.ndarray) -> float:
    """Geometric mean of the recalls of the classes present; of two classes the G-mean."""
    recalls = [np.mean(predicted[codes == m] == m) for m in np.unique(codes)]
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


def n_passes_by_cv(scores: np.ndarray) -> int:
    """Number of passes after which the next one no longer gains ``LEAST_GAIN``."""
    worth = 0
    while worth + 1 < len(scores) and scores[worth + 1] - scores[worth] > LEAST_GAIN:
        worth += 1
    return worth
