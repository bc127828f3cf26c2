"""What machines made of trees share: checks, classes, and their state as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from screening.errors import ModelError
from screening.machines.base import as_array
from screening.machines.trees import Trees


class TreeMachine(ClassifierMixin, BaseEstimator):
    """A classifier that is nothing but trees once it is fitted."""

    linear = False
    _whole: ClassVar[
        tuple[str, ...]
    ]  # parameters that are whole numbers > 0, or None where that is the default
    classes_: np.ndarray
    trees_: Trees

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Learn from float32 rows and codes of their classes."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes)."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        for name in self._whole:
            value = getattr(self, name)
            if name == "max_depth" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number > 0, got {value!r}")

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        # Trees split at float32 values; rows are cast once here, not once a tree.
        X, y = validate_data(self, X, y, dtype=np.float32, order="C")
        check_classification_targets(y)
        self.check_parameters()
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        self._learn(X, codes)
        return self

    def _rows(self, X: Any) -> np.ndarray:
        return validate_data(self, X, reset=False, dtype=np.float32, order="C")

    def predict(self, X: Any) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays, none of dtype object."""
        check_is_fitted(self)
        own = {"classes": as_array(self.classes_), "n_features": np.asarray(self.n_features_in_)}
        return own | self.trees_.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> Any:
        """Take over a fitted state; ModelError if arrays are missing or describe no such trees."""
        try:
            classes, n_features = state["classes"], state["n_features"]
            if classes.ndim != 1 or len(classes) < 2 or n_features.shape or n_features.dtype.kind not in "iu":
                raise ModelError("the model's arrays do not fit each other")
            trees = Trees.from_state(state, int(n_features), len(classes))
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        self.trees_, self.classes_, self.n_features_in_ = trees, classes, int(n_features)
        return self
