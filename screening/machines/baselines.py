"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

import warnings
from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening.machines.base import Checked
from screening.machines.fitted import FittedLinear


class Logistic(ClassifierMixin, Checked, FittedLinear):
    """Logistic regression with an L2 penalty, two classes or more.

    Parameters
    ----------
    C : float, > 0
        Inverse of the penalty.
    class_weight : {"none", "balanced"} or dict from class to weight
        "balanced" weighs classes by the inverse of their numbers.
    max_iter : int
    """

    def __init__(
        self, C: float = 1.0, class_weight: str | dict[Hashable, float] = "none", max_iter: int = 2000
    ) -> None:
        self.C = C
        self.class_weight = class_weight
        self.max_iter = max_iter

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        if not isinstance(self.class_weight, dict) and self.class_weight not in ("none", "balanced"):
            raise ValueError(f"class_weight must be 'none' or 'balanced', got {self.class_weight!r}")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Logistic:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        x, answers = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("logistic regression needs rows of two classes or more, got one class")
        weight = self._by_class(codes)[codes]
        coef, self.n_iter_ = _most_likely(x, codes, weight, self.C, self.max_iter)
        self.coef_, self.intercept_ = coef[:, :-1], coef[:, -1]
        return self

    def _by_class(self, codes: np.ndarray) -> np.ndarray:
        """What a row of each class weighs, (n_classes,)."""
        if isinstance(self.class_weight, dict):
            return compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        counts = np.bincount(codes)
        return (
            len(codes) / (len(counts) * counts) if self.class_weight == "balanced" else np.ones(len(counts))
        )

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _most_likely(
    x: np.ndarray, codes: np.ndarray, weight: np.ndarray, cost: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """Coefficients of the least penalised loss, an intercept behind each output's, and the steps to it.

    The loss and the way to its minimum are scikit-learn's, whose linear models take longer to import than all
    folds of a ward to fit.
    """
    from scipy.optimize import minimize

    n_classes = int(codes.max()) + 1
    shape = (1 if n_classes == 2 else n_classes, x.shape[1] + 1)
    share, penalty = weight / weight.sum(), 1 / (cost * weight.sum())
    true = codes == np.arange(n_classes)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef = flat.reshape(shape)
        slopes = coef[:, :-1]
        # Of two classes the first has the score 0.
        scores = np.zeros(true.shape)
        scores[-len(coef) :] = slopes @ x.T + coef[:, -1:]
        scores -= scores.max(axis=0)
        chances = np.exp(scores)
        total = chances.sum(axis=0)
        error = (share * (chances / total - true))[-len(coef) :]
        gradient = np.column_stack([error @ x + penalty * slopes, error.sum(axis=1)])
        value = share @ (np.log(total) - scores[codes, np.arange(len(x))])
        return float(value + penalty / 2 * np.square(slopes).sum()), gradient.ravel()

    options = {"maxiter": max_iter, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    if not found.success:
        warnings.warn(f"logistic regression stopped early: {found.message}", ConvergenceWarning, stacklevel=3)
    return found.x.reshape(shape), int(found.nit)
