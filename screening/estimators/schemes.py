"""How a multi-class machine is made of decision functions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from screening.estimators.training import (
    SUPPORT,
    Training,
    embedded,
    joined,
    solve_two_class_each,
)
from screening.factors.first_pass import DualSolution
from screening.kernels.kernel_cache import KernelCache
from screening.solvers.coupled import (
    CoupledProblem,
    CrammerSingerProblem,
    solve_coupled,
    solve_crammer_singer,
)
from screening.solvers.kernel_rows import Gram
from screening.solvers.problem import AT_BOUND


@dataclass(frozen=True)
class OneVsRest:
    """One decision function a class: that class against all others."""

    codes: np.ndarray  # (n_rows,): class numbers, 0 to n_classes - 1
    n_classes: int
    weights: np.ndarray  # (n_rows,): how many rows each stands for
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
        """(n_rows, n_outputs): 1, -1, or 0 for a row that an output leaves out."""
        return np.where(self._own, 1, -1).astype(np.int8)

    @property
    def _own(self) -> np.ndarray:
        return self.codes[:, None] == np.arange(self.n_classes)

    def solve(
        self,
        gram: Gram,
        factors: Sequence[np.ndarray],
        cache: KernelCache | None = None,
    ) -> list[DualSolution]:
        """At each c one C-SVC for each column of ``labels``, rows labelled 0 left out."""
        of_outputs = [
            self._one(
                gram, cache, labels, np.stack([c[:, m % c.shape[1]] for c in factors])
            )
            for m, labels in enumerate(self.labels.T)
        ]
        return [joined(duals) for duals in zip(*of_outputs, strict=True)]

    def _one(
        self,
        gram: Gram,
        cache: KernelCache | None,
        labels: np.ndarray,
        factors: np.ndarray,
    ) -> list[DualSolution]:
        """One output at each c, (m, n_rows)."""
        whole = Training(
            gram, labels, factors[0], self._costs(labels), self.tol, cache=cache
        )
        inside = np.flatnonzero(labels)
        if len(inside) == len(labels):
            return solve_two_class_each(whole, factors)
        duals = solve_two_class_each(whole.take(inside), factors[:, inside])
        return [embedded(dual, inside, len(labels)) for dual in duals]

    def _costs(self, labels: np.ndarray) -> np.ndarray:
        ratio, weights = self.cost_ratio, self.weights
        if ratio == "balanced":
            ratio = weights[labels < 0].sum() / weights[labels > 0].sum()
        return self.C * np.where(labels > 0, float(ratio), 1.0) * weights

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        """The least margin of each row, (n_rows,): where it is below 1, the row has a loss."""
        return np.where(self.labels != 0, self.labels * decisions, np.inf).min(axis=1)

    @staticmethod
    def scores(decisions: np.ndarray) -> np.ndarray:
        """One score a class from the decisions, (n_rows, n_classes)."""
        return decisions


class OneVsOne(OneVsRest):
    """One decision function a pair of classes, over its rows; the later class is the positive one."""

    @cached_property
    def labels(self) -> np.ndarray:
        codes, n_classes = self.codes, self.n_classes
        pairs = [
            (codes == b).astype(int) - (codes == a)
            for a, b in combinations(range(n_classes), 2)
        ]
        return np.column_stack(pairs).astype(np.int8)

    @staticmethod
    def scores(decisions: np.ndarray) -> np.ndarray:
        """Votes, and the summed margins squashed below 1/3 to break ties, (n_rows, n_classes).

        Of two classes the margin itself: -f and f.
        """
        n_classes = (1 + math.isqrt(1 + 8 * decisions.shape[1])) // 2
        votes = np.zeros((len(decisions), n_classes))
        margins = np.zeros_like(votes)
        for (a, b), decision in zip(
            combinations(range(n_classes), 2), decisions.T, strict=True
        ):
            votes[:, a] += decision <= 0
            votes[:, b] += decision > 0
            margins[:, a] -= decision
            margins[:, b] += decision
        if n_classes == 2:
            return margins
        return votes + margins / (3.0 * (np.abs(margins) + 1.0))


class AllAtOnce(OneVsRest):
    """One problem for all classes, over one kernel and without intercept."""

    def solve(
        self,
        gram: Gram,
        factors: Sequence[np.ndarray],
        cache: KernelCache | None = None,
    ) -> list[DualSolution]:
        assert isinstance(gram, np.ndarray)  # see `MultiClassSVM.by_rows`
        codes, weights = self.codes, self.weights
        upper = float(self.C) * weights
        if self.cost_ratio == "balanced":
            upper = (
                self.C
                * weights.sum()
                / (self.n_classes * np.bincount(codes, weights)[codes])
                * weights
            )
        return [
            self._dual(upper, *self._solution(gram, c[:, 0], upper)) for c in factors
        ]

    def _dual(
        self,
        upper: np.ndarray,
        weights: np.ndarray,
        alphas: np.ndarray,
        gap: float,
        n_iter: int,
    ) -> DualSolution:
        weights = np.where(
            np.abs(weights) > SUPPORT * np.abs(weights).max(initial=0.0), weights, 0.0
        )
        free = (alphas > AT_BOUND * upper) & (alphas < (1.0 - AT_BOUND) * upper)
        return DualSolution(
            weights,
            np.zeros(weights.shape[1]),
            (weights != 0) & free[:, None],
            gap,
            n_iter,
        )

    def _solution(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, int]:
        """Weights (n_rows, n_classes), alphas (n_rows,), gap and steps."""
        raise NotImplementedError


class CrammerSinger(AllAtOnce):
    """Crammer and Singer 2001: a row's own class is to win over the best other one by 1."""

    def _solution(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, int]:
        problem = CrammerSingerProblem(gram, self.codes, self.n_classes, c, upper)
        weights, gap, n_iter = solve_crammer_singer(problem, self.tol)
        return weights, weights[problem.is_own_class], gap, n_iter

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        best_other = np.where(self._own, -np.inf, decisions).max(axis=1)
        return decisions[self._own] - best_other


class Simplified(AllAtOnce):
    """He et al. 2012: one alpha a row, f_m = sum_i a_i K(x_i, x) ([y_i = m] - [y_i != m] / (k - 1))."""

    def _solution(
        self, gram: np.ndarray, c: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, int]:
        k = self.n_classes
        coupling = np.where(np.eye(k, dtype=bool), k / (k - 1.0), -k / (k - 1.0) ** 2)
        problem = CoupledProblem(gram, self.codes, coupling, c, upper)
        alphas, gap, n_iter = solve_coupled(problem, self.tol)
        return (
            alphas[:, None] * np.where(self._own, 1.0, -1.0 / (k - 1.0)),
            alphas,
            gap,
            n_iter,
        )

    def margins(self, decisions: np.ndarray) -> np.ndarray:
        # Decisions sum to 0, so that this is the own one above the mean of the others.
        k = self.n_classes
        return k / (k - 1.0) * decisions[self._own]


SCHEMES: dict[str, type[OneVsRest]] = {
    "one_vs_rest": OneVsRest,
    "one_vs_one": OneVsOne,
    "crammer_singer": CrammerSinger,
    "simplified": Simplified,
}
