"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
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
        weight = None if self.class_weight == "none" else self.class_weight
        machine = LogisticRegression(C=self.C, class_weight=weight, max_iter=self.max_iter).fit(x, answers)
        self.classes_ = machine.classes_
        self.coef_ = machine.coef_
        self.intercept_ = machine.intercept_
        self.n_iter_ = int(np.max(machine.n_iter_))
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
