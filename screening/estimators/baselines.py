"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

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
    as_array,
    check_class_weight,
    check_whole,
    class_log_odds,
    weight_by_class,
)


@dataclass(eq=False, repr=False)
class Logistic(Classifier):
    """Logistic regression with an L2 penalty, two classes or more.

    Parameters
    ----------
    C : float, > 0
        Inverse of the penalty.
    class_weight : {"none", "balanced"} or dict from class to weight
        "balanced" weighs classes by the inverse of their numbers.
    max_iter : int
    """

    C: float = 1.0
    class_weight: ByClass = "none"
    max_iter: int = 2000

    name = "logistic"
    most_rows = 100_000

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        check_whole(self, "max_iter")
        check_class_weight(self.class_weight, "none", "balanced")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        weight = weight_by_class(self.class_weight, self.classes_, codes)[codes]
        model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(
            x, codes, weight
        )
        self.coef_, self.intercept_, self.n_iter_ = (
            model.coef_,
            model.intercept_,
            int(model.n_iter_.max()),
        )

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each against the rest, (n_rows, n_classes)."""
        check_is_fitted(self)
        scores = self._rows(X) @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else class_log_odds(scores)

    def state(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "classes": as_array(self.classes_),
            "n_iter": np.asarray(self.n_iter_),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        self.coef_, self.intercept_, self.classes_ = (
            state["coef"],
            state["intercept"],
            state["classes"],
        )
        self.n_iter_, self.n_features_in_ = int(state["n_iter"]), self.coef_.shape[1]
        return self


_SMALLEST = 1e-9


@dataclass(eq=False, repr=False)
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

    n_estimators: int = 10
    n_rounds: int = 10
    seed: int = 0

    name = "easy_ensemble"
    storable = False  # its trees are no plain arrays
    linear = False

    def check_parameters(self) -> None:
        check_whole(self, "n_estimators", "n_rounds")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        # A fifth of the time that all imports take, for one baseline that is compared with only.
        from imblearn.ensemble import EasyEnsembleClassifier

        boosted = AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=2), n_estimators=self.n_rounds
        )
        ensemble = EasyEnsembleClassifier(
            n_estimators=self.n_estimators, estimator=boosted, random_state=self.seed
        )
        self.model_ = ensemble.fit(x, codes)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each against the rest, (n_rows, n_classes)."""
        check_is_fitted(self)
        logs = np.log(np.clip(self.model_.predict_proba(self._rows(X)), _SMALLEST, 1.0))
        return class_log_odds(logs)
