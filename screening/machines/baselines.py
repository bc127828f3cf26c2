"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

import warnings
from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike

from screening.machines.base import Checked, check_labels
from screening.machines.fitted import FittedLinear
from screening.machines.surface import ClassifierMixin
from screening.statistics.logistic import coefficients


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
        x, answers = self._learned(X, y)
        check_labels(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("logistic regression needs rows of two classes or more, got one class")
        weight = self._by_class(codes)[codes]
        coef, self.n_iter_, arrived = coefficients(x, codes, weight, 1 / self.C, self.max_iter)
        if not arrived:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(f"stopped early, after {self.n_iter_} steps", ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = coef[:, :-1], coef[:, -1]
        return self

    def _by_class(self, codes: np.ndarray) -> np.ndarray:
        """What a row of each class weighs, (n_classes,)."""
        if isinstance(self.class_weight, dict):
            from sklearn.utils.class_weight import compute_class_weight

            return compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        counts = np.bincount(codes)
        return (
            len(codes) / (len(counts) * counts) if self.class_weight == "balanced" else np.ones(len(counts))
        )

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
