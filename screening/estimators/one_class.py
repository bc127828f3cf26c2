"""One-class machine: the region where normal rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import validate_data

from screening.estimators.kernel_machine import (
    FitInputs,
    KernelMachine,
    TrainingRows,
    weighted_rows,
)
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.training import solve_dual
from screening.factors.first_pass import DualSolution, Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.solvers import Gram, Problem, gram_within

# With a larger nu most rows are support vectors.
_MAX_NU_BY_ROWS = 0.2
# Rows on the boundary count as inside, whatever the last digits of their decision: the
# boundary moves outwards by this share of rho.
_BOUNDARY_MARGIN = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(OutlierMixin, KernelMachine):
    """One-class SVM (Schoelkopf et al. 1999), trained again on the rescaled kernel.

    Without a factor it is trained once.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" means the same. A Kernel value has its own gamma.
    gamma : float > 0, "scale" or "scale*F"
        Rate of a kernel that is given by name.
    factor : Factor, optional
        Conformal factor, such as ``screening.factors.MarginDecay(kappa=0.5)``; None for
        the plain machine.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of
        ``solvers.Problem.unit``: the margin or, if that is smaller or undefined, the
        change that one row at its bound makes.
    approximation : {"none", "landmarks"}
        "landmarks" trains on ``n_landmarks`` rows, each with the cost of the rows it
        represents (see ``estimators.landmarks``). Exact if there are no more rows than
        that.
    n_landmarks : int, >= 2
        Number of landmarks.
    random_state : int, RandomState or None
        Draws the landmarks.
    nu : float in (0, 1]
        Largest share of training rows outside, smallest share of support vectors.
    score_scale : {"linear", "log"}
        Scale of the scores of a model that consists of several such machines. "linear"
        is f / rho, which tends to -1 far from all support vectors, so that far rows
        tie. "log" is ``log_ratio``, which has the same order and the same sign, and
        separates far rows.

    Attributes
    ----------
    offset_ : float
        rho; ``decision_function`` is ``score_samples`` - rho, > 0 for normal rows.

    Notes
    -----
    Solved with sum alpha = 1 and 0 <= alpha_i <= 1 / (nu n); scikit-learn's decision is
    nu n times this one. The scale of c changes nothing but numerics here, so c is
    always divided by its root mean square. Sparse X raises TypeError: every method here
    measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import OneClassSVM
    >>> normal = np.random.default_rng(0).normal(size=(60, 2))
    >>> OneClassSVM(nu=0.1, gamma=0.1).fit(normal).predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    nu: float = 0.1
    score_scale: str = "linear"

    name: ClassVar[str] = "one_class"

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters and incompatible components."""
        super().check_parameters()
        if not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], got {self.nu!r}")
        if self.score_scale not in ("linear", "log"):
            raise ValueError(
                f"score_scale must be 'linear' or 'log', got {self.score_scale!r}"
            )

    @property
    def by_rows(self) -> bool:
        """True if a fit needs only some rows of the kernel matrix."""
        return self.nu <= _MAX_NU_BY_ROWS

    @property
    def has_log_scores(self) -> bool:
        """True if ``score_scale`` is "log"."""
        return self.score_scale == "log"

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> OneClassSVM:
        """Fit to normal rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            How often a row counts, as if it occurred that many times.

        Returns
        -------
        self
        """
        (expansion,) = self._fit_expansions([self.factor], X, None, sample_weight)
        self._set_fitted(expansion)
        return self

    def _training_rows(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> TrainingRows:
        x = validate_data(self, X, dtype=np.float64)
        self.check_parameters()
        codes = np.zeros(len(x), int)
        return weighted_rows(x, codes, sample_weight, bool(self.n_rescalings))

    def _near_boundary(
        self, kernel: Kernel, whole: TrainingRows, first: Landmarks
    ) -> np.ndarray:
        """Return the mask of rows outside a pilot and as many just inside it."""
        x = np.ascontiguousarray(whole.x[first.rows])
        problem = self._problem(kernel(x, x), np.ones(len(x)), first.weights)
        dual = solve_dual(problem, self.tol)
        scores = expansion_at(kernel, whole.x, x, dual.weights)[:, 0]
        near = min(1.0, 2.0 * self.nu)
        return scores <= np.quantile(scores, near)

    def _train(
        self, factors: Sequence[Factor | None], inputs: FitInputs
    ) -> list[KernelExpansion]:
        n_rows = len(inputs.rows.x)
        weights = inputs.rows.weights
        # A one-class fit needs a fifth of the Gram matrix's rows or fewer: if there are
        # many, they are computed one by one.
        gram = gram_within(inputs.kernel, inputs.cache, n_solutions=0)

        def solve(c_of_passes: Sequence[np.ndarray]) -> list[DualSolution]:
            tol = self._tol(n_rows) / weights.max()
            duals = []
            for c in c_of_passes:
                problem = self._problem(gram, c[:, 0], weights)
                duals.append(solve_dual(problem, tol, inputs.cache))
            return duals

        problem = PassProblem(
            cache=inputs.cache,
            kernel=inputs.kernel,
            gram=gram,
            labels=np.ones((n_rows, 1), np.int8),
            class_counts=np.array([n_rows]),
            solve=solve,
        )
        expansions = []
        for expansion in fit_passes(
            problem, factors, inputs.n_rescalings, normalise=True
        ):
            rho = abs(float(expansion.last.dual.intercept[0]))
            expansions.append(expansion.moved(-_BOUNDARY_MARGIN * rho))
        return inputs.with_row_numbers(expansions)

    def _problem(self, gram: Gram, c: np.ndarray, weights: np.ndarray) -> Problem:
        ones = np.ones(len(weights))
        upper = weights / (self.nu * weights.sum())
        return Problem(
            gram=gram, signs=ones, c=c, linear=0.0 * ones, upper=upper, total=1.0
        )

    def relative(self) -> OneClassSVM:
        """Divide the decision by rho, in place; a row far from all then has -1.

        Machines of several folds are then comparable and can be averaged: their lowest
        decision is the same, while rho differs from fold to fold.
        """
        self._set_fitted(self._expansion.divided(self.offset_))
        return self

    @property
    def offset_(self) -> float:
        """Offset rho of the decision function."""
        return -float(self.intercept_[0])

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """Return f(x) + rho, shape (n_rows,)."""
        return self.decision_function(X) + self.offset_

    def log_ratio(self, X: ArrayLike) -> np.ndarray:
        """Return log((f(x) + rho) / rho), shape (n_rows,).

        It is > 0 for normal rows, as f is, and increases with f. It is computed from
        the exponents of the kernel values, so that rows far from all support vectors
        have different values.
        """
        x = np.ascontiguousarray(self._rows(X))
        return self.passes_kept.scorer.log_ratios(x)[0][:, 0]

    def decide(self, x: np.ndarray) -> np.ndarray:
        """Return the scores that machines of folds are averaged by, of checked rows."""
        if not self.has_log_scores:
            return super().decide(x)
        x = np.ascontiguousarray(x, dtype=np.float64)
        return self._expansion.scorer.log_ratios(x)[0][:, 0]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return +1 for normal rows, -1 for the others, shape (n_rows,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
