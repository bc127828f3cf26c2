"""One-class machine: the region where normal rows live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import validate_data

from screening.estimators.kernel_machine import (
    Fit,
    KernelMachine,
    Rows,
    rows_that_count,
)
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.training import solved
from screening.factors.first_pass import DualSolution, Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.solvers import Problem, gram_within
from screening.solvers.kernel_rows import Gram

ON_BOUNDARY = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(OutlierMixin, KernelMachine):
    """One-class SVM (Schoelkopf et al. 1999), trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    {of_all}
    nu : float in (0, 1]
        Largest share of training rows outside, smallest share of support vectors.

    Attributes
    ----------
    offset_ : float
        rho; ``decision_function`` is ``score_samples`` - rho, > 0 for normal rows.

    Notes
    -----
    Solved with sum alpha = 1 and 0 <= alpha_i <= 1 / (nu n); scikit-learn's decision is nu n times this one.
    The scale of c changes nothing but numerics here, so c is always divided by its root mean square.
    Sparse X is refused (TypeError): every method here measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import OneClassSVM
    >>> normal = np.random.default_rng(0).normal(size=(60, 2))
    >>> OneClassSVM(nu=0.1, gamma=0.1).fit(normal).predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    nu: float = 0.1

    name: ClassVar[str] = "one_class"

    def check_parameters(self) -> None:
        super().check_parameters()
        if not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], got {self.nu!r}")

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> OneClassSVM:
        """Fit to normal rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            How often a row counts: as if it stood there so many times.
        """
        (passes,) = self._fitted([self.factor], X, None, sample_weight)
        self._keep(passes)
        return self

    def _rows_to_learn(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> Rows:
        x = validate_data(self, X, dtype=np.float64)
        self.check_parameters()
        return rows_that_count(
            x, np.zeros(len(x), int), sample_weight, bool(self._n_passes)
        )

    def _near_boundary(
        self, kernel: Kernel, whole: Rows, first: Landmarks
    ) -> np.ndarray:
        """Rows outside, and as many again on their inner side."""
        x = np.ascontiguousarray(whole.x[first.rows])
        dual = solved(
            self._problem(kernel(x, x), np.ones(len(x)), first.weights), self.tol
        )
        scores = expansion_at(kernel, whole.x, x, dual.weights)[:, 0]
        return scores <= np.quantile(scores, min(1.0, 2.0 * self.nu))

    def _trained(
        self, factors: Sequence[Factor | None], fit: Fit
    ) -> list[KernelExpansion]:
        n_rows, weights = len(fit.rows.x), fit.rows.weights
        # A one-class fit looks at a fifth of the Gram's rows or less: of many rows it makes them itself.
        gram = gram_within(fit.kernel, fit.cache, n_solutions=0)

        def solve(factors: Sequence[np.ndarray]) -> list[DualSolution]:
            tol = self._tol(n_rows) / weights.max()
            return [
                solved(self._problem(gram, c[:, 0], weights), tol, fit.cache)
                for c in factors
            ]

        labels = np.ones((n_rows, 1), np.int8)
        counts = np.array([n_rows])
        problem = PassProblem(fit.cache, fit.kernel, gram, labels, counts, solve)
        machines = fit_passes(problem, factors, fit.n_passes, normalise=True)
        # Rows on the boundary are inside, whatever the last digit of their decision says.
        return fit.numbered(
            [
                one.moved(-ON_BOUNDARY * abs(float(one.last.dual.intercept[0])))
                for one in machines
            ]
        )

    def _problem(self, gram: Gram, c: np.ndarray, weights: np.ndarray) -> Problem:
        ones = np.ones(len(weights))
        upper = weights / (self.nu * weights.sum())
        return Problem(
            gram=gram, signs=ones, c=c, linear=0.0 * ones, upper=upper, total=1.0
        )

    def relative(self) -> OneClassSVM:
        """Itself, its decision in units of rho: a row far from all has -1, whichever rows were learned.

        Machines of several folds are comparable then, and may be averaged: what they can say at most is one
        number, where rho differs from fold to fold.
        """
        self._keep(self._passes.divided(self.offset_))
        return self

    @property
    def offset_(self) -> float:
        """rho."""
        return -float(self.intercept_[0])

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """f(x) + rho, (n_rows,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: ArrayLike) -> np.ndarray:
        """+1 for normal rows, -1 for the others, (n_rows,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
