"""One-class machine: the region where normal rows live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import validate_data

from screening import solvers
from screening.factors.base import Factor
from screening.kernels.base import Kernel
from screening.kernels.kernel_cache import EXACT_ROWS
from screening.machines import landmarks
from screening.machines.base import KernelMachine
from screening.machines.kernel_sums import Basis
from screening.machines.passes import fit_passes
from screening.machines.sample_weight import resolve_sample_weight
from screening.machines.training import Dual, solved
from screening.solvers.kernel_rows import Gram

ON_BOUNDARY = 1e-9


class OneClassSVM(OutlierMixin, KernelMachine):
    """One-class SVM (Schoelkopf et al. 1999), trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" is another word for it. A value has its own gamma.
    nu : float in (0, 1]
        Largest share of training rows outside, smallest share of support vectors.
    factor : Factor, optional
        What c is, such as ``screening.factors.MarginDecay(kappa=0.5)``; the plain machine if None.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of the change one row at its bound makes or,
        where that is less, of the level and of the spread of f (``solvers.Problem.unit``).
    approximation : {"none", "landmarks"}
        "landmarks" trains on ``n_landmarks`` rows that stand for all (see ``machines.landmarks``).
    n_landmarks : int, >= 2
        Rows trained on where "landmarks" are asked for.
    random_state : int, RandomState or None
        Draws the landmarks.
    gamma : float > 0, "scale" or "scale*F"
        Of a kernel given by name.

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

    kind = "one_class"

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        nu: float = 0.1,
        factor: Factor | None = None,
        passes: int = 1,
        tol: float = 1e-3,
        approximation: str = "none",
        n_landmarks: int = 8000,
        random_state: int | np.random.RandomState | None = 0,
        gamma: float | str = "scale",
    ) -> None:
        self.kernel = kernel
        self.nu = nu
        self.factor = factor
        self.passes = passes
        self.tol = tol
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.gamma = gamma

    def check_parameters(self) -> None:
        super().check_parameters()
        if not 0 < self.nu <= 1:
            raise ValueError(f"nu must be in (0, 1], got {self.nu!r}")

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> OneClassSVM:
        """Fit to normal rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            How often a row counts: as if it stood there so many times.
        """
        x = np.ascontiguousarray(validate_data(self, X, dtype=np.float64))
        self.check_parameters()
        counted = resolve_sample_weight(sample_weight, x, repeat=bool(self._n_passes))
        x, own = np.ascontiguousarray(counted.of(x)), counted.weights
        kernel = self._kernel.resolved(x, counted.given)
        chosen = None
        if self.approximation != "none" and self.n_landmarks < len(x):
            chosen = self._landmarks(kernel, x)
            x = np.ascontiguousarray(x[chosen.rows])
        weights = own if chosen is None else chosen.weights * own[chosen.rows]
        n_rows = len(x)
        # A one-class fit looks at a fifth of the Gram's rows or less: of many rows it makes them itself.
        gram: Gram = kernel(x, x) if n_rows <= EXACT_ROWS else solvers.KernelRows(x, kernel)

        def solve(factors: Sequence[np.ndarray]) -> list[Dual]:
            tol = self._tol(n_rows) / weights.max()
            return [solved(self._problem(gram, c[:, 0], weights), tol) for c in factors]

        labels = np.ones((n_rows, 1), np.int8)
        counts = np.array([n_rows])
        (passes,) = fit_passes(
            kernel, x, gram, labels, counts, solve, [self.factor], self._n_passes, normalise=True
        )
        rows = counted.rows if chosen is None else counted.rows[chosen.rows]
        # Rows on the boundary are inside, whatever the last digit of their decision says.
        passes = passes.moved(-ON_BOUNDARY * abs(float(passes.last.dual.intercept[0])))
        self._keep(replace(passes, support=rows[passes.support]))
        return self

    def _problem(self, gram: Gram, c: np.ndarray, weights: np.ndarray) -> solvers.Problem:
        ones = np.ones(len(weights))
        upper = weights / (self.nu * weights.sum())
        return solvers.Problem(gram=gram, signs=ones, c=c, linear=0.0 * ones, upper=upper, total=1.0)

    def _landmarks(self, kernel: Kernel, x: np.ndarray) -> landmarks.Landmarks:
        """The rows to train on; near are those outside, and as many again on their inner side."""

        def near(first: landmarks.Landmarks) -> np.ndarray:
            rows = np.ascontiguousarray(x[first.rows])
            dual = solved(self._problem(kernel(rows, rows), np.ones(len(rows)), first.weights), self.tol)
            scores = Basis(kernel, rows).times(x, dual.weights)[:, 0]
            return scores <= np.quantile(scores, min(1.0, 2.0 * self.nu))

        return landmarks.choose(x, np.zeros(len(x), int), int(self.n_landmarks), near, self._seed)

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
