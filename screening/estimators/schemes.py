"""Schemes that make a multi-class machine of decision functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np

from screening.estimators.training import (
    MIN_ALPHA_SHARE,
    Training,
    expand_rows,
    join_outputs,
    solve_two_class_each,
)
from screening.factors.first_pass import DualSolution
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import Gram
from screening.solvers.coupled import (
    CoupledProblem,
    CrammerSingerProblem,
    solve_coupled,
    solve_crammer_singer,
)
from screening.solvers.problem import AT_BOUND


@dataclass(frozen=True)
class OneVsRest:
    """One decision function per class: that class against all others.

    Parameters
    ----------
    codes : int ndarray of shape (n_rows,)
        Class numbers, 0 to n_classes - 1.
    n_classes : int
    weights : ndarray of shape (n_rows,)
        Number of rows that each row represents.
    C : float
    cost_ratio : float or "balanced"
    tol : float

    Attributes
    ----------
    relative_work : float
        Work of a decision function, in fits of a machine of two classes.
    """

    relative_work: ClassVar[float] = 1.0

    codes: np.ndarray
    n_classes: int
    weights: np.ndarray
    C: float
    cost_ratio: float | str
    tol: float

    @property
    def solve_key(self) -> Hashable:
        """Key of what ``solve`` does: equal for equal problems on one Gram matrix."""
        rows = self.codes.tobytes(), self.weights.tobytes()
        return type(self), self.C, self.cost_ratio, self.tol, *rows

    @cached_property
    def labels(self) -> np.ndarray:
        """1, -1, or 0 for a row that an output leaves out, (n_rows, n_outputs)."""
        return np.where(self._is_own_class, 1, -1).astype(np.int8)

    @property
    def _is_own_class(self) -> np.ndarray:
        return self.codes[:, None] == np.arange(self.n_classes)

    def solve(
        self,
        gram: Gram,
        c_of_passes: Sequence[np.ndarray],
        cache: KernelCache | None = None,
    ) -> list[DualSolution]:
        """Solve for each c; by default one C-SVC per column of ``labels``.

        Parameters
        ----------
        gram : ndarray of shape (n_rows, n_rows) or KernelRows
        c_of_passes : sequence of ndarray of shape (n_rows, 1) or (n_rows, n_outputs)
        cache : KernelCache, optional
            Cache of the Gram matrix.
        """
        by_output = []
        for m, labels in enumerate(self.labels.T):
            # A factor of all outputs together has one column.
            columns = [c[:, m % c.shape[1]] for c in c_of_passes]
            c_of_output = np.stack(columns)
            by_output.append(self._solve_output(gram, cache, labels, c_of_output))
        return [join_outputs(duals) for duals in zip(*by_output, strict=True)]

    def _solve_output(
        self,
        gram: Gram,
        cache: KernelCache | None,
        labels: np.ndarray,
        c_of_passes: np.ndarray,
    ) -> list[DualSolution]:
        """Solve one output for each c, (n_passes, n_rows), without rows labelled 0."""
        costs = self._costs(labels)
        whole = Training(gram, labels, c_of_passes[0], costs, self.tol, cache=cache)
        inside = np.flatnonzero(labels)
        if len(inside) == len(labels):
            return solve_two_class_each(whole, c_of_passes)
        part = whole.take(inside)
        duals = solve_two_class_each(part, c_of_passes[:, inside])
        return [expand_rows(dual, inside, len(labels)) for dual in duals]

    def _costs(self, labels: np.ndarray) -> np.ndarray:
        ratio = self.cost_ratio
        weights = self.weights
        if ratio == "balanced":
            ratio = weights[labels < 0].sum() / weights[labels > 0].sum()
        cost_of_label = np.where(labels > 0, float(ratio), 1.0)
        return self.C * cost_of_label * weights

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        """Return the least margin of each row, (n_rows,); below 1 it has a loss."""
        margins = np.where(self.labels != 0, self.labels * decisions, np.inf)
        return margins.min(axis=1)

    @staticmethod
    def scores(decisions: np.ndarray) -> np.ndarray:
        """Return scores (n_rows, n_classes) from decisions (n_rows, n_outputs)."""
        return decisions


class OneVsOne(OneVsRest):
    """One decision function per pair of classes; the later class is positive."""

    @cached_property
    def labels(self) -> np.ndarray:
        """1, -1, or 0 for a row of neither class, (n_rows, n_pairs)."""
        pairs = [
            (self.codes == b).astype(int) - (self.codes == a)
            for a, b in combinations(range(self.n_classes), 2)
        ]
        return np.column_stack(pairs).astype(np.int8)

    @staticmethod
    def scores(decisions: np.ndarray) -> np.ndarray:
        """Return votes plus summed margins, (n_rows, n_classes).

        Margins are squashed below 1/3, so that they only break ties. For two classes
        the scores are the margin itself, -f and f.
        """
        n_pairs = decisions.shape[1]
        n_classes = (1 + math.isqrt(1 + 8 * n_pairs)) // 2
        votes = np.zeros((len(decisions), n_classes))
        margins = np.zeros_like(votes)
        pairs = combinations(range(n_classes), 2)
        for (a, b), decision in zip(pairs, decisions.T, strict=True):
            votes[:, a] += decision <= 0
            votes[:, b] += decision > 0
            margins[:, a] -= decision
            margins[:, b] += decision
        if n_classes == 2:
            return margins
        # Below a third in size, so that no margin outweighs a vote.
        share_of_vote = margins / (3.0 * (np.abs(margins) + 1.0))
        return votes + share_of_vote


class _JointSolution(NamedTuple):
    """Solution of one problem for all classes."""

    weights: np.ndarray  # (n_rows, n_classes)
    alphas: np.ndarray  # (n_rows,)
    gap: float
    n_iter: int


class AllAtOnce(OneVsRest):
    """Base of schemes with one problem for all classes, without intercept."""

    def solve(
        self,
        gram: Gram,
        c_of_passes: Sequence[np.ndarray],
        cache: KernelCache | None = None,
    ) -> list[DualSolution]:
        """Solve for each c, as ``OneVsRest.solve``; the Gram matrix is an array."""
        assert isinstance(gram, np.ndarray)  # see `MultiClassSVM.by_rows`
        weights = self.weights
        upper = float(self.C) * weights
        if self.cost_ratio == "balanced":
            class_size = np.bincount(self.codes, weights)[self.codes]
            upper = self.C * weights.sum() / (self.n_classes * class_size) * weights
        duals = []
        for c in c_of_passes:
            solution = self._solve_jointly(gram, c[:, 0], upper)
            duals.append(_as_dual(solution, upper))
        return duals

    def _solve_jointly(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> _JointSolution:
        """Solve for one c, (n_rows,), with a bound of each alpha, (n_rows,)."""
        raise NotImplementedError


def _as_dual(solution: _JointSolution, upper: np.ndarray) -> DualSolution:
    """Return the solution of a joint problem as one of separate outputs."""
    sizes = np.abs(solution.weights)
    is_support = sizes > MIN_ALPHA_SHARE * sizes.max(initial=0.0)
    weights = np.where(is_support, solution.weights, 0.0)
    alphas = solution.alphas
    free = (alphas > AT_BOUND * upper) & (alphas < (1.0 - AT_BOUND) * upper)
    return DualSolution(
        weights=weights,
        intercept=np.zeros(weights.shape[1]),
        margin=(weights != 0) & free[:, None],
        gap=solution.gap,
        n_iter=solution.n_iter,
    )


class CrammerSinger(AllAtOnce):
    """Crammer and Singer (2001): a row's class exceeds the best other one by 1."""

    relative_work = 100.0

    def _solve_jointly(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> _JointSolution:
        problem = CrammerSingerProblem(gram, self.codes, self.n_classes, c, upper)
        weights, gap, n_iter = solve_crammer_singer(problem, self.tol)
        return _JointSolution(weights, weights[problem.is_own_class], gap, n_iter)

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        """Return the own class's decision above the best other one, (n_rows,)."""
        of_others = np.where(self._is_own_class, -np.inf, decisions)
        return decisions[self._is_own_class] - of_others.max(axis=1)


class Simplified(AllAtOnce):
    """He et al. (2012): one alpha per row for all k classes.

    f_m = sum_i a_i K(x_i, x) ([y_i = m] - [y_i != m] / (k - 1)).
    """

    relative_work = 10.0

    def _solve_jointly(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> _JointSolution:
        k = self.n_classes
        coupling = np.full((k, k), -k / (k - 1.0) ** 2)
        np.fill_diagonal(coupling, k / (k - 1.0))
        problem = CoupledProblem(gram, self.codes, coupling, c, upper)
        alphas, gap, n_iter = solve_coupled(problem, self.tol)
        signs = np.where(self._is_own_class, 1.0, -1.0 / (k - 1.0))
        weights = alphas[:, None] * signs
        return _JointSolution(weights, alphas, gap, n_iter)

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        """Return the own class's decision above the mean of the others, (n_rows,)."""
        # Decisions sum to 0.
        k = self.n_classes
        return k / (k - 1.0) * decisions[self._is_own_class]


SCHEMES: dict[str, type[OneVsRest]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
    "crammer_singer": CrammerSinger,
    "simplified": Simplified,
}
