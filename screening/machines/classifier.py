"""What classifiers that are no kernel machines share as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening.machines.base import Estimator

ByClass = str | dict[Hashable, float]


class Classifier(ClassifierMixin, Estimator):
    """A classifier that learns from codes of two classes or more."""

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Learn from rows and the numbers of their classes."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        x, answers = validate_data(self, X, y, dtype=self.reads, order="C")
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        self._learn(x, codes)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def check_whole(machine: Estimator, *names: str) -> None:
    """Refuse parameters that are no whole numbers > 0 (ValueError naming the first)."""
    for name in names:
        value = getattr(machine, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number > 0, got {value!r}")


def check_class_weight(weight: ByClass) -> None:
    """Refuse what is neither "none" nor "balanced" nor a dict (ValueError)."""
    if not isinstance(weight, dict) and weight not in ("none", "balanced"):
        raise ValueError(f"class_weight must be 'none' or 'balanced', got {weight!r}")


def weight_by_class(weight: ByClass, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What a row of each class weighs, (n_classes,); balanced, the rows of every class weigh alike."""
    if isinstance(weight, dict):
        return compute_class_weight(weight, classes=classes, y=classes)
    counts = np.bincount(codes)
    return len(codes) / (len(counts) * counts) if weight == "balanced" else np.ones(len(counts))
