"""Bases of the estimators: scikit-learn's interface, and fitted state as arrays."""

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
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    validate_data,
)

from screening.kernels import Precision

ByClass = str | dict[Hashable, float]
"""Class weights: a rule's name, or a weight per class."""


class Estimator(BaseEstimator):
    """Base of estimators whose fitted state is plain arrays.

    Attributes
    ----------
    input_dtype : type
        Type to which ``X`` is converted.
    component_parameters : tuple of str
        Constructor parameters that a recipe sets outside its [parameters] table,
        such as in [kernel].
    storable : bool
        Whether a fitted estimator can be stored as plain arrays.
    supports_bundles : bool
        Whether it learns as well from one column per categorical variable
        (``data.encoding.Bundles``) as from one column per category.
    relative_time : float
        Time of a fit, very roughly, as a multiple of that of a linear or kernel
        machine. The longest fits of a training begin first.
    requires_training : bool
        Whether decisions depend on the training rows. If not, all machines of an
        ensemble decide alike.
    """

    classes_: np.ndarray
    n_features_in_: int
    input_dtype: Precision = np.float64
    component_parameters: tuple[str, ...] = ()
    storable = True
    supports_bundles = False
    relative_time = 1.0
    requires_training = True

    @property
    def max_rows(self) -> int:
        """Largest number of training rows.

        Each fold draws its own stratified sample from a larger table.
        """
        return sys.maxsize

    @staticmethod
    def missing_requirement() -> str | None:
        """Return what must be installed before it can be fitted; None if nothing."""
        return None

    @property
    def linear(self) -> bool:
        """True if scores are decisions, so that machines can be averaged first."""
        return True

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return f(x), shape (n_rows,), or one score per class (n_rows, n_classes)."""
        raise NotImplementedError

    def decide(self, x: np.ndarray) -> np.ndarray:
        """Return the scores that machines of folds are averaged by, of checked rows.

        Shape (n_rows,), (n_rows, 1) or (n_rows, n_classes).
        """
        return self.decision_function(x)

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, none of dtype object."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state of an estimator with the same parameters."""
        raise NotImplementedError

    def _rows(self, X: ArrayLike) -> np.ndarray:
        """Return rows to decide on, checked as scikit-learn does."""
        return validate_data(self, X, reset=False, dtype=self.input_dtype, order="C")


class Classifier(ClassifierMixin, Estimator):
    """Base of classifiers that learn from class numbers of two or more classes."""

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Learn from rows (n_rows, n_features) and class numbers (n_rows,)."""
        raise NotImplementedError

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return checked rows and class numbers; set `classes_`."""
        x, labels = validate_data(self, X, y, dtype=self.input_dtype, order="C")
        check_classification_targets(labels)
        self.check_parameters()
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "the labels contain 1 class; there must be at least 2 classes"
            )
        return x, codes

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        x, codes = self._checked(X, y)
        self._learn(x, codes)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return labels out of ``classes_``, shape (n_rows,)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            codes = (scores > 0).astype(int)
        else:
            codes = scores.argmax(axis=1)
        return self.classes_[codes]


class WeightedClassifier(Classifier):
    """Base of classifiers whose rows may count more or less."""

    def _learn(
        self, x: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Learn from rows, class numbers and weights > 0, (n_rows,); None for 1."""
        raise NotImplementedError

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            How much each row counts, >= 0.

        Returns
        -------
        self
        """
        x, codes = self._checked(X, y)
        if sample_weight is None:
            self._learn(x, codes)
            return self
        weights = check_weights(x, codes, sample_weight)
        is_counted = weights > 0
        self._learn(x[is_counted], codes[is_counted], weights[is_counted])
        return self


def as_array(classes: np.ndarray) -> np.ndarray:
    """Return class names as an array that can be stored without pickle."""
    return classes.astype(str) if classes.dtype == object else classes


def class_log_odds(logs: np.ndarray) -> np.ndarray:
    """Return log odds of each class against all others.

    They rank as probabilities do, and are spread equally near 0 and near 1.

    Parameters
    ----------
    logs : ndarray of shape (n_rows, n_classes)
        Log probabilities of the classes, up to a constant per row.

    Returns
    -------
    ndarray of shape (n_rows, n_classes), or (n_rows,) of the second of two classes
    """
    of_others = []
    for m in range(logs.shape[1]):
        others = np.delete(logs, m, axis=1)
        of_others.append(logsumexp(others, axis=1))
    odds = logs - np.column_stack(of_others)
    return odds[:, 1] if odds.shape[1] == 2 else odds


def check_whole(machine: Estimator, *names: str) -> None:
    """Raise ValueError unless these parameters are integers > 0."""
    for name in names:
        value = getattr(machine, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number > 0, got {value!r}")


def check_class_weight(weight: ByClass, *names: str) -> None:
    """Raise ValueError unless class weights are a dict or one of these names."""
    if not isinstance(weight, dict) and weight not in names:
        raise ValueError(
            f"class_weight must be one of {', '.join(names)}, got {weight!r}"
        )


def check_weights(
    x: np.ndarray, codes: np.ndarray, sample_weight: ArrayLike
) -> np.ndarray:
    """Check the weights of rows; return them as floats, shape (n_rows,).

    Raise ValueError if one is negative or not finite, their sum overflows, or a class
    is left without rows.
    """
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    check_consistent_length(x, weights)
    if weights.ndim != 1 or (weights < 0).any():
        raise ValueError("sample_weight must have one number >= 0 for each row")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise ValueError("the sum of sample_weight is infinite: give smaller numbers")
    if not weights.any():
        raise ValueError("the sample weight of every row is zero")
    with_weight = np.unique(codes[weights > 0])
    if len(with_weight) < len(np.unique(codes)):
        raise ValueError("sample_weight leaves a class without rows")
    return weights


def weight_by_class(
    weight: ByClass,
    classes: np.ndarray,
    codes: np.ndarray,
    row_weights: np.ndarray | None,
) -> np.ndarray:
    """Return the weight of a row of each class, shape (n_classes,).

    With "balanced" the rows of every class have the same total weight; with any other
    name all weights are 1.
    """
    if isinstance(weight, dict):
        return compute_class_weight(weight, classes=classes, y=classes)
    counts = np.bincount(codes, row_weights)
    if weight == "balanced":
        return counts.sum() / (len(counts) * counts)
    return np.ones(len(counts))


def weight_of_rows(
    weight: ByClass, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return the weight of each row, (n_rows,): of its class times its own, if any."""
    of_class = weight_by_class(weight, classes, codes, weights)[codes]
    return of_class if weights is None else of_class * weights
