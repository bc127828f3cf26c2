"""An ensemble that is compared with, not stored: no public interface gives it as plain arrays."""

from __future__ import annotations

import numpy as np
from imblearn.ensemble import EasyEnsembleClassifier
from numpy.typing import ArrayLike
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.machines.classifier import Classifier, check_whole

_SMALLEST = 1e-9


class EasyEnsemble(Classifier):
    """AdaBoost on several balanced under-samples (Liu, Wu and Zhou 2009).

    Parameters
    ----------
    n_estimators : int, > 0
        Under-samples.
    n_rounds : int, > 0
        Boosting rounds in each.
    seed : int
    """

    @property
    def linear(self) -> bool:
        return False

    def __init__(self, n_estimators: int = 10, n_rounds: int = 10, seed: int = 0) -> None:
        self.n_estimators = n_estimators
        self.n_rounds = n_rounds
        self.seed = seed

    def check_parameters(self) -> None:
        check_whole(self, "n_estimators", "n_rounds")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=self.n_rounds)
        ensemble = EasyEnsembleClassifier(
            n_estimators=self.n_estimators, estimator=boosted, random_state=self.seed
        )
        self.model_ = ensemble.fit(x, codes)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes)."""
        check_is_fitted(self)
        logs = np.log(np.clip(self.model_.predict_proba(self._rows(X)), _SMALLEST, 1.0))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs
