"""An estimator of the caller, cross-validated and judged like every other method."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import Classifier, as_array


class WrappedEstimator(Classifier):
    """A scikit-learn classifier of the caller.

    Scores are its probabilities where it has ``predict_proba`` (of two classes less one
    half), and otherwise its decisions. Its state identifies a fit and cannot be restored,
    so a model of it is never stored.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fit.
    """

    storable = False
    linear = False

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def check_parameters(self) -> None:
        """Raise ValueError unless the estimator has scores."""
        has_scores = hasattr(self.estimator, "predict_proba") or hasattr(
            self.estimator, "decision_function"
        )
        if not has_scores:
            raise ValueError(
                "the estimator has neither predict_proba nor decision_function"
            )

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        self.estimator_ = clone(self.estimator).fit(x, codes)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return scores, (n_rows,) or a column a class."""
        check_is_fitted(self, "estimator_")
        rows = self._rows(X)
        if not hasattr(self.estimator_, "predict_proba"):
            return np.asarray(self.estimator_.decision_function(rows))
        chances = np.asarray(self.estimator_.predict_proba(rows))
        return chances[:, 1] - 0.5 if chances.shape[1] == 2 else chances

    def state(self) -> dict[str, np.ndarray]:
        """Return the classes, and a digest of the fitted estimator."""
        check_is_fitted(self, "estimator_")
        digest = np.frombuffer(bytes.fromhex(joblib.hash(self.estimator_)), np.uint8)
        return {"classes": as_array(self.classes_), "digest": digest}
