"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from screening.errors import ModelError
from screening.machines.base import as_array


class Logistic(ClassifierMixin, BaseEstimator):
    """Logistic regression with an L2 penalty, two classes or more.

    Parameters
    ----------
    C : float, > 0
        Inverse of the penalty.
    class_weight : {"none", "balanced"} or dict from class to weight
        "balanced" weighs classes by the inverse of their numbers.
    max_iter : int
    """

    linear = True

    def __init__(
        self, C: float = 1.0, class_weight: str | dict[Any, float] = "none", max_iter: int = 2000
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

    def fit(self, X: Any, y: Any) -> Logistic:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.check_parameters()
        weight = None if self.class_weight == "none" else self.class_weight
        machine = LogisticRegression(C=self.C, class_weight=weight, max_iter=self.max_iter).fit(X, y)
        self.classes_ = machine.classes_
        self.coef_ = machine.coef_
        self.intercept_ = machine.intercept_
        self.n_iter_ = int(np.max(machine.n_iter_))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds, (n_rows,); of more than two classes one score a class, (n_rows, n_classes)."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        scores = x @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays, none of dtype object."""
        check_is_fitted(self)
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "classes": as_array(self.classes_),
            "n_iter": np.asarray(self.n_iter_),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Logistic:
        """Take over a fitted state; ModelError if arrays are missing or do not fit each other."""
        try:
            coef, intercept, classes = state["coef"], state["intercept"], state["classes"]
            n_iter = int(state["n_iter"])
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        n_outputs = len(classes) if len(classes) > 2 else 1
        if coef.ndim != 2 or len(coef) != n_outputs or intercept.shape != (n_outputs,):
            raise ModelError("the model's arrays do not fit each other")
        self.coef_, self.intercept_, self.classes_, self.n_iter_ = coef, intercept, classes, n_iter
        self.n_features_in_ = coef.shape[1]
        return self
