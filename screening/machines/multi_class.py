"""Multi-class machine over a scheme: which decision functions there are and how they are solved."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from screening import solvers
from screening.factors.base import Factor
from screening.kernels.base import Kernel
from screening.machines import landmarks
from screening.machines.base import KernelMachine, check_labels, classes_and_codes
from screening.machines.kernel_sums import Basis
from screening.machines.passes import Passes, fit_passes
from screening.machines.sample_weight import ClassWeight, resolve_sample_weight
from screening.machines.schemes import SCHEMES, OneVsRest
from screening.solvers.kernel_rows import Gram


class MultiClassSVM(ClassifierMixin, KernelMachine):
    """Multi-class SVM, trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" is another word for it. A value has its own gamma.
    C : float, > 0
        Cost of a row on the wrong side.
    scheme : {"one_vs_rest", "one_vs_one", "crammer_singer", "simplified"}
        One decision function a class, one a pair of classes (votes), or all classes in one problem.
    factor : Factor, optional
        What c is, such as ``screening.factors.MarginDecay(kappa=0.5)``; the plain machine if None.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    cost_ratio : float > 0 or "balanced"
        Of a machine's positive rows to its negative rows; "balanced" is the inverse ratio of their numbers.
        One problem for all classes has no positive rows: "balanced" weighs each class by its inverse number
        there, and a ratio is for "one_vs_rest" only.
    normalise : bool
        Divide each factor by its root mean square over the training rows, so that it does not act on C.
    stop : {"fixed", "inner"}
        "inner" trains another pass only while it gains on inner folds (geometric mean of recalls),
        ``passes`` at most.
    random_state : int, RandomState or None
        Of those folds, and of landmarks.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of the margin or, where that is less, of the
        change that one row at its bound makes.
    approximation : {"none", "landmarks"}
        "landmarks" trains on ``n_landmarks`` rows that stand for all, each with the cost of those it stands
        for (see ``machines.landmarks``); exact where there are no more rows than that.
    n_landmarks : int, >= 2
        Rows trained on where "landmarks" are asked for.
    gamma : float > 0, "scale" or "scale*F"
        Of a kernel given by name.
    class_weight : dict or "balanced", optional
        Times C for the rows of a class; "balanced" is n_rows / (n_classes * rows of the class).

    Notes
    -----
    Sparse X is refused (TypeError): every method here measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import MultiClassSVM
    >>> middles = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 20, axis=0)
    >>> X = middles + np.random.default_rng(0).normal(size=(60, 2))
    >>> machine = MultiClassSVM(gamma=0.5).fit(X, np.repeat(["gland", "lesion", "zone"], 20))
    >>> machine.predict([[4.0, 0.0], [0.0, 4.0]])
    array(['lesion', 'zone'], dtype='<U6')
    """

    kind = "multi_class"

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        C: float = 1.0,
        scheme: str = "one_vs_rest",
        factor: Factor | None = None,
        passes: int = 1,
        cost_ratio: float | str = 1.0,
        normalise: bool = False,
        stop: str = "fixed",
        random_state: int | np.random.RandomState | None = 0,
        tol: float = 1e-3,
        approximation: str = "none",
        n_landmarks: int = 8000,
        gamma: float | str = "scale",
        class_weight: ClassWeight = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.scheme = scheme
        self.factor = factor
        self.passes = passes
        self.cost_ratio = cost_ratio
        self.normalise = normalise
        self.stop = stop
        self.random_state = random_state
        self.tol = tol
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.gamma = gamma
        self.class_weight = class_weight

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {self.scheme!r}")
        if self.cost_ratio != "balanced" and (isinstance(self.cost_ratio, str) or not self.cost_ratio > 0):
            raise ValueError(f"cost_ratio must be > 0 or 'balanced', got {self.cost_ratio!r}")
        if self.scheme != "one_vs_rest" and self.cost_ratio not in (1.0, "balanced"):
            raise ValueError(
                f"cost_ratio {self.cost_ratio!r} needs scheme one_vs_rest, not {self.scheme}; 'balanced' fits"
            )

    @property
    def by_rows(self) -> bool:
        return self.scheme in ("one_vs_rest", "one_vs_one")  # the others solve for all classes at once

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> MultiClassSVM:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Two or more distinct labels.
        sample_weight : array-like of shape (n_rows,), optional
            Times C for each row: as if it stood there so many times.
        groups : array-like of shape (n_rows,), optional
            What inner folds must not split.
        """
        (passes,) = self._trained([self.factor], X, y, sample_weight, groups)
        self._keep(passes)
        return self

    def fit_each(
        self, factors: Sequence[Factor], X: ArrayLike, y: ArrayLike, **known: Any
    ) -> Sequence[MultiClassSVM]:
        """As the base has it, all on one first pass, and each second pass from the one before."""
        if self.stop != "fixed":  # then each factor has as many passes as it gains by
            return super().fit_each(factors, X, y, **known)
        machines = []
        for factor, passes in zip(factors, self._trained(factors, X, y, **known), strict=True):
            machine = copy(self)
            machine.factor = factor
            machine._keep(passes)
            machines.append(machine)
        return machines

    def _trained(
        self,
        factors: Sequence[Factor | None],
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> list[Passes]:
        given, answers = self._learned(X, y)
        check_labels(answers)
        self.check_parameters()
        self.classes_, codes = classes_and_codes(answers)
        if len(self.classes_) < 2:
            raise ValueError("MultiClassSVM needs rows of 2 classes or more; the labels hold one class only")
        counted = resolve_sample_weight(
            sample_weight, given, codes, self.class_weight, self.classes_, bool(self._n_passes)
        )
        x, codes, weights = np.ascontiguousarray(counted.of(given)), counted.of(codes), counted.weights
        kernel = self._kernel.resolved(x, counted.given)
        n_passes = self._passes_wanted(
            x, codes, None if groups is None else counted.of(np.asarray(groups)), counted.class_weight
        )
        # Factors see how common each class is among all rows.
        class_counts = counted.per_class(len(self.classes_))
        chosen = self._landmarks(kernel, x, codes)
        if chosen is not None:
            x, codes, weights = x[chosen.rows], codes[chosen.rows], weights[chosen.rows] * chosen.weights
        n_solutions = (n_passes + 1) * len(self.classes_)
        gram: Gram = solvers.gram_within(kernel, x, n_solutions) if self.by_rows else kernel(x, x)
        scheme = self._scheme(codes, weights)
        machines = fit_passes(
            kernel,
            x,
            gram,
            scheme.labels,
            class_counts,
            partial(scheme.solve, gram),
            factors,
            n_passes,
            self.normalise,
            name=scheme.name,
        )
        rows = counted.rows if chosen is None else counted.rows[chosen.rows]
        return [replace(passes, support=rows[passes.support]) for passes in machines]

    def _scheme(self, codes: np.ndarray, weights: np.ndarray) -> OneVsRest:
        """The scheme over rows of these classes that stand for so many each."""
        tol = self._tol(len(codes))
        return SCHEMES[self.scheme](codes, len(self.classes_), weights, self.C, self.cost_ratio, tol)

    def _landmarks(self, kernel: Kernel, x: np.ndarray, codes: np.ndarray) -> landmarks.Landmarks | None:
        """The rows to train on; None for all of them. Near are those close to any of the boundaries."""
        if self.approximation == "none" or self.n_landmarks >= len(x):
            return None

        def near(first: landmarks.Landmarks) -> np.ndarray:
            rows = np.ascontiguousarray(x[first.rows])
            pilot = self._scheme(codes[first.rows], first.weights)
            (dual,) = pilot.solve(kernel(rows, rows), [np.ones((len(rows), 1))])
            decisions = Basis(kernel, rows).times(x, dual.weights) + dual.intercept
            return self._scheme(codes, np.ones(len(x))).margins(decisions) < landmarks.NEAR_MARGIN

        return landmarks.choose(x, codes, int(self.n_landmarks), near, self._seed)

    @property
    def linear(self) -> bool:
        return self.scheme != "one_vs_one"  # votes

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        return SCHEMES[self.scheme].scores(decisions)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes), also where there are two classes."""
        return self.scores_from(self._decisions(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes) in ``classes_`` order.

        Of two classes it is (n_rows,), half the difference of their scores, as scikit-learn asks.
        """
        scores = self.class_scores(X)
        return (scores[:, 1] - scores[:, 0]) / 2.0 if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,): the class with the largest score."""
        scores = self.class_scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return self.scores_from(decisions).argmax(axis=1)
