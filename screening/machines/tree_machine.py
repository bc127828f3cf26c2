"""What machines made of trees share as estimators: how they are checked, fitted and asked."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening.machines.base import Checked
from screening.machines.fitted import FittedTrees


class TreeMachine(ClassifierMixin, Checked, FittedTrees):
    """A classifier that is nothing but trees once it is fitted."""

    reads = np.float32
    # Parameters that are whole numbers > 0, or None where that is the default.
    _whole: ClassVar[tuple[str, ...]]

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Learn from float32 rows and codes of their classes."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        for name in self._whole:
            value = getattr(self, name)
            if name == "max_depth" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number > 0, got {value!r}")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        # Trees split at float32 values; rows are cast once here, not once a tree.
        x, answers = validate_data(self, X, y, dtype=np.float32, order="C")
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
