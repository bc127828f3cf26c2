"""What a user would pick instead of a kernel machine, with the same surface for training and persistence."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.kernels.threads import n_threads
from screening.machines.base import (
    ByClass,
    Classifier,
    as_array,
    check_class_weight,
    check_whole,
    class_log_odds,
    weight_by_class,
)
from screening.machines.forests import DEEPEST


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

    def __init__(self, C: float = 1.0, class_weight: ByClass = "none", max_iter: int = 2000) -> None:
        self.C = C
        self.class_weight = class_weight
        self.max_iter = max_iter

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if not (np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be > 0, got {self.C!r}")
        check_whole(self, "max_iter")
        check_class_weight(self.class_weight)

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        weight = weight_by_class(self.class_weight, self.classes_, codes)[codes]
        model = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(x, codes, weight)
        self.coef_, self.intercept_, self.n_iter_ = model.coef_, model.intercept_, int(model.n_iter_.max())

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
        try:
            coef, intercept, classes = state["coef"], state["intercept"], state["classes"]
            n_iter = int(state["n_iter"])
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        n_outputs = len(classes) if len(classes) > 2 else 1
        if coef.ndim != 2 or len(coef) != n_outputs or intercept.shape != (n_outputs,):
            raise ModelError("the model's arrays do not fit each other")
        self.coef_, self.intercept_, self.classes_, self.n_iter_ = coef, intercept, classes, n_iter
        self.n_features_in_ = coef.shape[1]
        return self


NEEDED = 'LightGBM: pip install "screening[boosting]"'


class Boosting(Classifier):
    """Gradient boosting of trees on histograms.

    LightGBM's where it can be imported: its own text is what is stored, and it reads and scores it. Otherwise
    scikit-learn's, which nothing but a pickle would store.

    Parameters
    ----------
    learning_rate : float, > 0
    n_rounds : int, > 0
        Trees, of each class where there are more than two.
    max_leaf_nodes : int, > 1
    min_samples_leaf : int, > 0
    class_weight : {"none", "balanced"} or dict from class to weight
    seed : int

    References
    ----------
    Friedman 2001, Greedy function approximation: a gradient boosting machine, Annals of Statistics 29.
    Ke et al. 2017, LightGBM: a highly efficient gradient boosting decision tree, NIPS 30.
    """

    # Both libraries split at float32 values here: what a table holds, and what forests see.
    reads = np.float32

    @property
    def linear(self) -> bool:
        return False

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_rounds: int = 100,
        max_leaf_nodes: int = 15,
        min_samples_leaf: int = 10,
        class_weight: ByClass = "none",
        seed: int = 0,
    ) -> None:
        self.learning_rate = learning_rate
        self.n_rounds = n_rounds
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.class_weight = class_weight
        self.seed = seed

    def check_parameters(self) -> None:
        check_whole(self, "n_rounds", "max_leaf_nodes", "min_samples_leaf")
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be > 0, got {self.learning_rate!r}")
        if self.max_leaf_nodes < 2:
            raise ValueError(f"max_leaf_nodes must be > 1, got {self.max_leaf_nodes!r}")
        check_class_weight(self.class_weight)

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        weight = weight_by_class(self.class_weight, self.classes_, codes)[codes]
        library = lightgbm()
        if library is None:
            self.model_ = self._by_scikit_learn(x, codes, weight)
        else:
            self.text_ = self._by_lightgbm(library, x, codes, weight).model_to_string()
            self.model_ = library.Booster(model_str=self.text_)

    def _by_scikit_learn(self, x: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> Any:
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_rounds,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            early_stopping=False,
            random_state=self.seed,
        )
        return model.fit(x, codes, sample_weight=weight)

    def _by_lightgbm(self, library: ModuleType, x: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> Any:
        n_classes = len(self.classes_)
        several = {"objective": "multiclass", "num_class": n_classes}
        settings = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaf_nodes,
            "min_data_in_leaf": self.min_samples_leaf,
            "max_depth": DEEPEST,
            "seed": self.seed,
            # The same training gives the same bytes; folds are fitted side by side already.
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            # The encoder leaves nothing missing, so that no split needs a side for it.
            "use_missing": False,
            "feature_pre_filter": False,
            "verbosity": -1,
        } | ({"objective": "binary"} if n_classes == 2 else several)
        rows = library.Dataset(x, codes, weight=weight, params=settings)
        return library.train(settings, rows, num_boost_round=self.n_rounds)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each against the rest, (n_rows, n_classes)."""
        check_is_fitted(self)
        rows = self._rows(X)
        if hasattr(self, "text_"):
            sums = self.model_.predict(rows, raw_score=True, num_threads=n_threads())
        else:
            sums = self.model_.decision_function(rows)
        n_classes = len(self.classes_)
        sums = np.reshape(sums, len(rows) if n_classes == 2 else (len(rows), n_classes))
        return sums if n_classes == 2 else class_log_odds(sums)

    def state(self) -> dict[str, np.ndarray]:
        """LightGBM's text as bytes, and what it does not hold."""
        check_is_fitted(self)
        text = np.frombuffer(self.text_.encode(), np.uint8)
        return {"classes": as_array(self.classes_), "text": text}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        library = lightgbm()
        if library is None:
            raise ModelError(f"the model is one of boosted trees, and scoring it needs {NEEDED}")
        try:
            classes, text = state["classes"], state["text"].tobytes().decode()
            model = library.Booster(model_str=text)
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        except (ValueError, library.basic.LightGBMError):
            raise ModelError("LightGBM cannot read the model's text") from None
        if model.num_model_per_iteration() != (1 if len(classes) == 2 else len(classes)):
            raise ModelError("the model's arrays do not fit each other")
        self.classes_, self.text_, self.model_ = classes, text, model
        self.n_features_in_ = model.num_feature()
        return self


def lightgbm() -> ModuleType | None:
    """The library; None where it is not installed, or its own libraries (libgomp) are not."""
    try:
        import lightgbm as library
    except (ImportError, OSError):
        return None
    return library


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
        # A fifth of the time that all imports take, for one baseline that is compared with only.
        from imblearn.ensemble import EasyEnsembleClassifier

        boosted = AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=self.n_rounds)
        ensemble = EasyEnsembleClassifier(
            n_estimators=self.n_estimators, estimator=boosted, random_state=self.seed
        )
        self.model_ = ensemble.fit(x, codes)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each against the rest, (n_rows, n_classes)."""
        check_is_fitted(self)
        logs = np.log(np.clip(self.model_.predict_proba(self._rows(X)), _SMALLEST, 1.0))
        return class_log_odds(logs)
