"""An estimator of the caller, cross-validated and judged like every other method."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import Classifier, as_array

# Training rows whose decisions identify a fit.
N_ROWS_OF_DIGEST = 1_000


class WrappedEstimator(Classifier):
    """A scikit-learn classifier of the caller.

    Scores are its probabilities if it has ``predict_proba`` (of two classes less one
    half), and otherwise its decisions, one column per class if there are more than two.
    Its state identifies a fit and cannot be restored, so a model of it is never stored.

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

        self._refuse_pairwise_decisions()

    def _refuse_pairwise_decisions(self) -> None:
        """Raise ValueError if decisions are set to be those of pairs of classes."""
        if hasattr(self.estimator, "predict_proba"):
            return
        for name, value in self.estimator.get_params().items():
            if name.endswith("decision_function_shape") and value == "ovo":
                raise ValueError(
                    f"{name}='ovo' gives one decision per pair of classes; set it to "
                    "'ovr'"
                )

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        self.estimator_ = clone(self.estimator).fit(x, codes)
        decisions = self.decision_function(x[:N_ROWS_OF_DIGEST])
        n_classes = len(self.classes_)
        n_columns = 1 if decisions.ndim == 1 else decisions.shape[1]
        n_needed = 1 if n_classes == 2 else n_classes
        if n_columns != n_needed:
            raise ValueError(
                f"the estimator returns {n_columns} columns of decisions for "
                f"{n_classes} classes; expected one column per class"
            )
        # Of decisions, since attributes need not be possible to serialize.
        digest = sha256(np.ascontiguousarray(decisions, float).tobytes()).digest()
        self.digest_ = np.frombuffer(digest, np.uint8)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return scores, shape (n_rows,) or (n_rows, n_classes)."""
        check_is_fitted(self, "estimator_")
        rows = self._rows(X)
        if not hasattr(self.estimator_, "predict_proba"):
            return np.asarray(self.estimator_.decision_function(rows))
        chances = np.asarray(self.estimator_.predict_proba(rows))
        return chances[:, 1] - 0.5 if chances.shape[1] == 2 else chances

    def state(self) -> dict[str, np.ndarray]:
        """Return the classes, and a digest of decisions of the fitted estimator."""
        check_is_fitted(self, "estimator_")
        return {"classes": as_array(self.classes_), "digest": self.digest_}
