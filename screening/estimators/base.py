"""What the estimators share: scikit-learn's surface, checks of rows, and their fitted state as arrays."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening.kernels import Precision

ByClass = str | dict[Hashable, float]


class Estimator(BaseEstimator):
    """An estimator whose fitted state is plain arrays; rows are checked as scikit-learn asks."""

    classes_: np.ndarray
    n_features_in_: int
    reads: Precision = np.float64
    # Parameters of the constructor that a recipe names elsewhere than in its [parameters].
    composed: tuple[str, ...] = ()
    # Whether a fitted one can be kept as plain arrays.
    storable = True
    # True if it learns from the columns of a category as from one (`data.encoding.Bundles`).
    bundled = False

    @property
    def most_rows(self) -> int:
        """Rows that it learns from: a stratified sample where there are more, another in every fold."""
        return sys.maxsize

    @staticmethod
    def lacks() -> str | None:
        """What must be installed before it can be fitted; None where nothing is missing."""
        return None

    @property
    def linear(self) -> bool:
        """Whether scores are the decisions themselves, so that machines may be averaged before the rows."""
        return True

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """f(x), (n_rows,), or one score a class."""
        raise NotImplementedError

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays, none of dtype object."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over the fitted state of a machine of the same parameters."""
        raise NotImplementedError

    def _rows(self, X: ArrayLike) -> np.ndarray:
        """Rows to decide on, checked as scikit-learn asks."""
        return validate_data(self, X, reset=False, dtype=self.reads, order="C")


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
            raise ValueError(
                "the labels hold 1 class; there must be at least 2 classes"
            )
        self._learn(x, codes)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[
            (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        ]


def as_array(classes: np.ndarray) -> np.ndarray:
    """Class names as an array that needs no pickle."""
    return classes.astype(str) if classes.dtype == object else classes


def class_log_odds(logs: np.ndarray) -> np.ndarray:
    """Log odds of each class against all others, (n_rows, n_classes), of two those of the second, (n_rows,).

    `logs`, (n_rows, n_classes): log probabilities of the classes, or what differs from them by a number a
    row. Log odds rank as probabilities do, and are spread alike near 0 and near 1.
    """
    others = [
        logsumexp(np.delete(logs, m, axis=1), axis=1) for m in range(logs.shape[1])
    ]
    odds = logs - np.column_stack(others)
    return odds[:, 1] if odds.shape[1] == 2 else odds


def check_whole(machine: Estimator, *names: str) -> None:
    """Refuse parameters that are no whole numbers > 0 (ValueError naming the first)."""
    for name in names:
        value = getattr(machine, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number > 0, got {value!r}")


def check_class_weight(weight: ByClass, *names: str) -> None:
    """Refuse what is none of these names nor a dict (ValueError)."""
    if not isinstance(weight, dict) and weight not in names:
        raise ValueError(
            f"class_weight must be one of {', '.join(names)}, got {weight!r}"
        )


def weight_by_class(
    weight: ByClass, classes: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """What a row of each class weighs, (n_classes,); balanced, the rows of every class weigh alike."""
    if isinstance(weight, dict):
        return compute_class_weight(weight, classes=classes, y=classes)
    counts = np.bincount(codes)
    return (
        len(codes) / (len(counts) * counts)
        if weight == "balanced"
        else np.ones(len(counts))
    )
