"""Baselines that a user would try instead of a kernel machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import (
    ByClass,
    Classifier,
    WeightedClassifier,
    as_array,
    check_class_weight,
    check_whole,
    class_log_odds,
    weight_of_rows,
)


@dataclass(eq=False, repr=False)
class Logistic(WeightedClassifier):
    """Logistic regression with an L2 penalty, two classes or more.

    Parameters
    ----------
    C : float, > 0
        Inverse of the penalty.
    class_weight : {"none", "balanced"} or dict from class to weight
        "balanced" weights classes by the inverse of their numbers.
    max_iter : int, > 0
    """

    C: float = 1.0
    class_weight: ByClass = "none"
    max_iter: int = 2000

    name = "logistic"
    max_rows = 100_000

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        check_whole(self, "max_iter")
        check_class_weight(self.class_weight, "none", "balanced")

    def _learn(
        self, x: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        row_weights = weight_of_rows(self.class_weight, self.classes_, codes, weights)
        model = LogisticRegression(C=self.C, max_iter=self.max_iter)
        model.fit(x, codes, row_weights)
        self.coef_ = model.coef_
        self.intercept_ = model.intercept_
        self.n_iter_ = int(model.n_iter_.max())

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log odds, as ``class_log_odds`` does."""
        check_is_fitted(self)
        return self.decide(self._rows(X))

    def decide(self, x: np.ndarray) -> np.ndarray:
        """Return what ``decision_function`` does, of rows that a caller has checked."""
        scores = x @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else class_log_odds(scores)

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, for ``restore``."""
        check_is_fitted(self)
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "classes": as_array(self.classes_),
            "n_iter": np.asarray(self.n_iter_),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        self.coef_ = state["coef"]
        self.intercept_ = state["intercept"]
        self.classes_ = state["classes"]
        self.n_iter_ = int(state["n_iter"])
        self.n_features_in_ = self.coef_.shape[1]
        return self


# Probabilities below this are raised to it, so that their logarithm is finite.
_MIN_PROBABILITY = 1e-9


@dataclass(eq=False, repr=False)
class EasyEnsemble(Classifier):
    """AdaBoost on several balanced under-samples (Liu, Wu and Zhou 2009).

    Parameters
    ----------
    n_estimators : int, > 0
        Number of under-samples.
    n_rounds : int, > 0
        Boosting rounds in each.
    seed : int
    """

    n_estimators: int = 10
    n_rounds: int = 10
    seed: int = 0

    name = "easy_ensemble"
    storable = False  # its trees are not plain arrays
    linear = False

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        check_whole(self, "n_estimators", "n_rounds")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        # Imported here: it takes a fifth of the time of all imports, for a baseline
        # that is never used alone.
        from imblearn.ensemble import EasyEnsembleClassifier

        boosted = AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=2), n_estimators=self.n_rounds
        )
        ensemble = EasyEnsembleClassifier(
            n_estimators=self.n_estimators, estimator=boosted, random_state=self.seed
        )
        self.model_ = ensemble.fit(x, codes)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log odds, as ``class_log_odds`` does."""
        check_is_fitted(self)
        probabilities = self.model_.predict_proba(self._rows(X))
        return class_log_odds(np.log(np.clip(probabilities, _MIN_PROBABILITY, 1.0)))
