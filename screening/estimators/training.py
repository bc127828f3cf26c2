"""One pass of a two-class machine as a problem that remedies can wrap; inner folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from screening.factors.first_pass import DualSolution
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import Gram, KernelRows, Problem, Solution, solve_warm_started

# A row whose alpha is below this share of the largest one is not a support vector.
MIN_ALPHA_SHARE = 1e-8


@dataclass(frozen=True)
class Training:
    """The problem of one two-class pass.

    Parameters
    ----------
    gram : ndarray of shape (n, n) or KernelRows
        The base kernel K.
    labels : ndarray of shape (n,)
        +1 or -1.
    c : ndarray of shape (n,)
    costs : ndarray of shape (n,)
        Bound of each alpha.
    tol : float
    groups : ndarray of shape (n,), optional
        Groups that a remedy's inner folds must not split.
    counts : ndarray of shape (n,), optional
        Number of rows that each row represents; None for one.
    cache : KernelCache, optional
        Cache of the Gram matrix.
    """

    gram: Gram
    labels: np.ndarray
    c: np.ndarray
    costs: np.ndarray
    tol: float
    groups: np.ndarray | None = None
    counts: np.ndarray | None = None
    cache: KernelCache | None = None

    @property
    def whole(self) -> np.ndarray:
        """The kernel matrix as an array, computed if it is given by rows."""
        if isinstance(self.gram, np.ndarray):
            return self.gram
        all_rows = np.arange(len(self.labels))
        return self.gram[np.ix_(all_rows, all_rows)]

    def take(self, rows: np.ndarray) -> Training:
        """Restrict the problem to some of its rows, by index."""
        if isinstance(self.gram, KernelRows):
            gram: Gram = self.gram.part(rows)
        else:
            gram = self.gram[np.ix_(rows, rows)]
        groups = None if self.groups is None else self.groups[rows]
        counts = None if self.counts is None else self.counts[rows]
        return replace(
            self,
            gram=gram,
            labels=self.labels[rows],
            c=self.c[rows],
            costs=self.costs[rows],
            groups=groups,
            counts=counts,
            cache=None,
        )


SolveTraining = Callable[[Training], DualSolution]
"""Solves one pass."""


def solve_two_class(training: Training) -> DualSolution:
    """Solve the C-SVC: min 1/2 a'Qa - 1'a, 0 <= a <= costs, sum s_i a_i = 0."""
    return solve_two_class_each(training, training.c[None])[0]


def two_class_problem(training: Training) -> Problem:
    """Return the dual of the C-SVC."""
    return Problem(
        gram=training.gram,
        signs=training.labels.astype(float),
        c=training.c,
        linear=-np.ones(len(training.c)),
        upper=training.costs,
        total=0.0,
    )


def solve_two_class_each(
    training: Training, c_of_passes: np.ndarray
) -> list[DualSolution]:
    """Solve the C-SVC for several c, (m, n), instead of ``training.c``."""
    problem = two_class_problem(training)
    problems = [replace(problem, c=c) for c in c_of_passes]
    return dual_solutions(
        problem, solve_warm_started(problems, training.tol, training.cache)
    )


def solve_dual(
    problem: Problem, tol: float, cache: KernelCache | None = None
) -> DualSolution:
    """Solve a problem; alphas too small for a support vector become 0."""
    return dual_solutions(problem, solve_warm_started([problem], tol, cache))[0]


def dual_solutions(
    problem: Problem, solutions: Sequence[Solution]
) -> list[DualSolution]:
    """Return solutions, at any c, without alphas too small for a support vector."""
    alphas = drop_small_alphas(np.stack([solution.alphas for solution in solutions]))
    margin = (alphas > 0) & problem.free(alphas)
    weights = problem.signs * alphas
    return [
        DualSolution(
            weights=weights[k][:, None],
            intercept=np.array([solution.intercept]),
            margin=margin[k][:, None],
            gap=solution.gap,
            n_iter=solution.n_iter,
        )
        for k, solution in enumerate(solutions)
    ]


def drop_small_alphas(alphas: np.ndarray) -> np.ndarray:
    """Set alphas, (n,) or (m, n), to 0 if they are too small for a support vector."""
    largest = alphas.max(axis=-1, initial=0.0, keepdims=True)
    return np.where(alphas > MIN_ALPHA_SHARE * largest, alphas, 0.0)


def expand_rows(dual: DualSolution, rows: np.ndarray, n_rows: int) -> DualSolution:
    """Expand a solution over some rows to all rows, 0 elsewhere."""
    weights = np.zeros((n_rows, dual.weights.shape[1]))
    margin = np.zeros(weights.shape, bool)
    weights[rows] = dual.weights
    margin[rows] = dual.margin
    return replace(dual, weights=weights, margin=margin)


def join_outputs(duals: Sequence[DualSolution]) -> DualSolution:
    """Join solutions of one output to one of several outputs."""
    return DualSolution(
        weights=np.hstack([dual.weights for dual in duals]),
        intercept=np.concatenate([dual.intercept for dual in duals]),
        margin=np.hstack([dual.margin for dual in duals]),
        gap=max(dual.gap for dual in duals),
        n_iter=sum(dual.n_iter for dual in duals),
    )


def inner_folds(
    codes: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train, test) row numbers of stratified folds that keep groups whole.

    Every training part contains all classes. There are fewer folds if the rarest class
    has fewer rows or groups, and none if it has only one.
    """
    n_classes = int(codes.max()) + 1
    n_units = []
    for m in range(n_classes):
        of_class = codes == m
        if groups is None:
            n_units.append(int(of_class.sum()))
        else:
            n_units.append(len(np.unique(groups[of_class])))
    n_folds = min(folds, min(n_units))
    if n_folds < 2:
        return
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splitter = kind(n_folds, shuffle=True, random_state=seed)
    for train, test in splitter.split(codes, codes, groups):
        if len(np.unique(codes[train])) == n_classes:
            yield train, test


def mean_recall(codes: np.ndarray, predicted: np.ndarray) -> float:
    """Return the geometric mean of the recalls of the classes that occur.

    For two classes this is the G-mean.
    """
    is_right = predicted == codes
    recalls = [np.mean(is_right[codes == m]) for m in np.unique(codes)]
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


# Wu and Chang's theta: passes go on while the score gains more than this.
_MIN_GAIN = 1e-3


def n_rescalings_by_cv(scores: np.ndarray) -> int:
    """Return the number of rescalings after which the next one gains too little.

    `scores` are cross-validated, (n_max + 1,), of 0, 1, ... rescalings.
    """
    gains = np.diff(scores)
    is_small = np.append(~(gains > _MIN_GAIN), True)
    return int(is_small.argmax())
