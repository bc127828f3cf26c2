"""Ensembles that are compared with, not stored: no public interface gives them as plain arrays."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

_SMALLEST = 1e-9


class _Ensemble(ClassifierMixin, BaseEstimator):
    """What the ensembles share: scores are log odds of the ensemble's probability."""

    linear = False

    def _model(self) -> BaseEstimator:
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        for name, value in self.get_params().items():
            if name in ("seed", "class_weight") or value is None:
                continue
            if isinstance(value, (str, bool)) or not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be > 0, got {value!r}")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        x, answers = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        self.model_ = self._model().fit(x, codes)
        return self

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes)."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        share = np.clip(self.model_.predict_proba(x), _SMALLEST, 1.0)
        logs = np.log(share)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


class EasyEnsemble(_Ensemble):
    """AdaBoost on several balanced under-samples (Liu, Wu and Zhou 2009).

    Parameters
    ----------
    n_estimators : int, > 0
        Under-samples.
    n_rounds : int, > 0
        Boosting rounds in each.
    seed : int
    """

    def __init__(self, n_estimators: int = 10, n_rounds: int = 10, seed: int = 0) -> None:
        self.n_estimators = n_estimators
        self.n_rounds = n_rounds
        self.seed = seed

    def _model(self) -> BaseEstimator:
        from imblearn.ensemble import EasyEnsembleClassifier
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=self.n_rounds)
        return EasyEnsembleClassifier(
            n_estimators=self.n_estimators, estimator=boosted, random_state=self.seed
        )
