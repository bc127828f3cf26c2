"""Multi-class machine over a scheme: which decision functions there are and how they are solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening import solvers
from screening.machines.base import KernelMachine
from screening.machines.passes import fit_passes
from screening.machines.schemes import SCHEMES, Classes


class MultiClassSVM(ClassifierMixin, KernelMachine):
    """Multi-class SVM, trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, optional
        ``Gaussian(gamma="scale")`` if None.
    C : float, > 0
        Cost of a row on the wrong side.
    scheme : {"one_vs_rest", "one_vs_one", "crammer_singer", "simplified"}
        One decision function a class, one a pair of classes (votes), or all classes in one problem.
    factor : Factor, optional
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
    seed : int
        Of those folds.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of the margin or, where that is less, of the
        change that one row at its bound makes.
    """

    kind = "multi_class"

    def __init__(
        self,
        kernel: Any = None,
        C: float = 1.0,
        scheme: str = "one_vs_rest",
        factor: Any = None,
        passes: int = 1,
        cost_ratio: float | str = 1.0,
        normalise: bool = False,
        stop: str = "fixed",
        seed: int = 0,
        tol: float = 1e-3,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.scheme = scheme
        self.factor = factor
        self.passes = passes
        self.cost_ratio = cost_ratio
        self.normalise = normalise
        self.stop = stop
        self.seed = seed
        self.tol = tol

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {self.scheme!r}")
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        if self.cost_ratio != "balanced" and (isinstance(self.cost_ratio, str) or not self.cost_ratio > 0):
            raise ValueError(f"cost_ratio must be > 0 or 'balanced', got {self.cost_ratio!r}")
        if self.scheme != "one_vs_rest" and self.cost_ratio not in (1.0, "balanced"):
            raise ValueError(
                f"cost_ratio {self.cost_ratio!r} needs scheme one_vs_rest, not {self.scheme}; 'balanced' fits"
            )

    def fit(self, X: Any, y: Any, groups: Any = None) -> MultiClassSVM:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Two or more distinct labels.
        groups : array-like of shape (n_rows,), optional
            What inner folds must not split.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.check_parameters()
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("MultiClassSVM needs rows of 2 classes or more; the labels hold one class only")
        x = np.ascontiguousarray(X)
        kernel = self._kernel.resolved(x)
        n_passes = self._passes_wanted(x, codes, None if groups is None else np.asarray(groups))
        # All classes at once need the whole of it.
        by_rows = self.scheme in ("one_vs_rest", "one_vs_one")
        n_solutions = (n_passes + 1) * len(self.classes_)
        gram: Any = solvers.gram_within(kernel, x, n_solutions) if by_rows else kernel(x, x)
        scheme = SCHEMES[self.scheme](Classes(codes, len(self.classes_)), self.C, self.cost_ratio, self.tol)
        passes = fit_passes(
            kernel,
            x,
            gram,
            scheme.labels,
            np.bincount(codes),
            lambda c: scheme.solve(gram, c),
            self.factor,
            n_passes,
            self.normalise,
        )
        self._keep(passes)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One score a class, (n_rows, n_classes) in ``classes_`` order.

        Of two classes it is (n_rows,), half the difference of their scores, as scikit-learn asks.
        """
        scores = self.class_scores(X)
        return (scores[:, 1] - scores[:, 0]) / 2.0 if len(self.classes_) == 2 else scores

    def class_scores(self, X: Any) -> np.ndarray:
        """One score a class, (n_rows, n_classes), also where there are two classes."""
        decisions = self._decisions(X)
        return SCHEMES[self.scheme].scores(decisions)

    def predict(self, X: Any) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,): the class with the largest score."""
        scores = self.class_scores(X)
        return self.classes_[scores.argmax(axis=1)]

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return SCHEMES[self.scheme].scores(decisions).argmax(axis=1)
