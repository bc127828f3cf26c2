"""Gradient boosting of trees on histograms: scikit-learn's, stored as arrays, and LightGBM's, as its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from screening.errors import ModelError, RecipeError
from screening.estimators.base import (
    ByClass,
    Classifier,
    as_array,
    check_class_weight,
    check_whole,
    class_log_odds,
    weight_by_class,
)
from screening.estimators.forests import Trees, TreesClassifier, rounded_down
from screening.kernels.threads import n_threads

NEEDED = 'LightGBM: pip install "screening[boosting]"'
_LOOKED_AT = (
    1000  # rows on which the trees as read are held to the library's own decisions
)
# Of a leaf, which is stored as float32; trees that were misread would be off by whole leaves.
_ROUNDING = 1e-6


@dataclass(eq=False, repr=False)
class _Boosted(Classifier):
    """What both share: parameters, and scores from the sums of trees.

    Parameters
    ----------
    learning_rate : float, > 0
    n_rounds : int, > 0
        Trees, of each class where there are more than two.
    max_leaf_nodes : int, > 1
    min_samples_leaf : int, > 0
    class_weight : {"none", "balanced"} or dict from class to weight
    seed : int
    """

    learning_rate: float = 0.1
    n_rounds: int = 100
    max_leaf_nodes: int = 15
    min_samples_leaf: int = 10
    class_weight: ByClass = "none"
    seed: int = 0

    # Both libraries split at float32 values here: what a table holds, and what forests see.
    reads = np.float32
    bundled = True
    most_rows = 1_000_000
    linear = False

    def check_parameters(self) -> None:
        check_whole(self, "n_rounds", "max_leaf_nodes", "min_samples_leaf")
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be > 0, got {self.learning_rate!r}")
        if self.max_leaf_nodes < 2:
            raise ValueError(f"max_leaf_nodes must be > 1, got {self.max_leaf_nodes!r}")
        check_class_weight(self.class_weight, "none", "balanced")

    def _weights(self, codes: np.ndarray) -> np.ndarray:
        return weight_by_class(self.class_weight, self.classes_, codes)[codes]

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each against the rest, (n_rows, n_classes)."""
        check_is_fitted(self)
        rows = self._rows(X)
        n_classes = len(self.classes_)
        sums = np.reshape(
            self._sums(rows), len(rows) if n_classes == 2 else (len(rows), n_classes)
        )
        return sums if n_classes == 2 else class_log_odds(sums)

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class HistogramBoosting(_Boosted, TreesClassifier):
    """Gradient boosting of trees on histograms, by scikit-learn, kept and scored as arrays of its trees.

    References
    ----------
    Friedman 2001, Greedy function approximation: a gradient boosting machine, Annals of Statistics 29.
    """

    name = "histogram_boosting"

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_rounds,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            early_stopping=False,
            random_state=self.seed,
        )
        weight = self._weights(codes)
        # The same training gives the same bytes on any number of cores; folds are fitted side by side.
        with threadpool_limits(1, user_api="openmp"):
            # Equal weights give the same bins as none, in a fifth of the time.
            model.fit(x, codes, sample_weight=None if (weight == 1).all() else weight)
        self.trees_ = boosted_trees(model)
        # What boosting starts from is the same for every row, or the trees were not read as they are.
        rows = x[:: max(1, len(x) // _LOOKED_AT)]
        start = model.decision_function(rows).reshape(len(rows), -1) - self.trees_.sums(
            rows
        )
        self.start_ = start.mean(axis=0)
        if (
            np.ptp(start, axis=0).max()
            > _ROUNDING * len(self.trees_.value) * np.abs(self.trees_.value).max()
        ):
            raise RecipeError(
                "this version of scikit-learn keeps boosted trees in another way; take 1.7"
            )

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.trees_.sums(rows) + self.start_

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"start": self.start_}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        self.start_ = state["start"]
        return super().restore(state)


def boosted_trees(model: HistGradientBoostingClassifier) -> Trees:
    """The trees of a fitted model; a leaf adds to the output that its tree was grown for.

    scikit-learn has no public name for the nodes of these trees (a record each, in preorder). That this reads
    them rightly is seen at every fit, by what the model itself decides.
    """
    feature, threshold, value = [], [], []
    for of_round in model._predictors:
        for output, nodes in enumerate(tree.nodes for tree in of_round):
            leaf = nodes["is_leaf"] == 1
            feature.append(np.where(leaf, -1, nodes["feature_idx"]))
            threshold.append(np.where(leaf, 0.0, nodes["num_threshold"]))
            value.append(
                np.outer(nodes["value"][leaf], np.arange(len(of_round)) == output)
            )
    return Trees(
        np.concatenate(feature).astype(np.int32),
        rounded_down(np.concatenate(threshold)),
        np.concatenate(value).astype(np.float32),
    )


class Boosting(_Boosted):
    """Gradient boosting of trees on histograms, by LightGBM: its own text is what is stored.

    References
    ----------
    Ke et al. 2017, LightGBM: a highly efficient gradient boosting decision tree, NIPS 30.
    """

    name = "boosting"

    @staticmethod
    def lacks() -> str | None:
        return None if lightgbm() else NEEDED

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        library = _needed(RecipeError)
        n_classes = len(self.classes_)
        several = {"objective": "multiclass", "num_class": n_classes}
        settings = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaf_nodes,
            "min_data_in_leaf": self.min_samples_leaf,
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
        rows = library.Dataset(x, codes, weight=self._weights(codes), params=settings)
        self.text_ = library.train(
            settings, rows, num_boost_round=self.n_rounds
        ).model_to_string()
        self.model_ = library.Booster(model_str=self.text_)

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.model_.predict(rows, raw_score=True, num_threads=n_threads())

    def state(self) -> dict[str, np.ndarray]:
        """LightGBM's text as bytes, and what it does not hold."""
        check_is_fitted(self)
        text = np.frombuffer(self.text_.encode(), np.uint8)
        return {"classes": as_array(self.classes_), "text": text}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        self.classes_, self.text_ = state["classes"], state["text"].tobytes().decode()
        self.model_ = _needed(ModelError).Booster(model_str=self.text_)
        self.n_features_in_ = self.model_.num_feature()
        return self


def lightgbm() -> ModuleType | None:
    """The library; None where it is not installed, or its own libraries (libgomp) are not."""
    try:
        import lightgbm as library
    except (ImportError, OSError):
        return None
    return library


def _needed(error: type[Exception]) -> ModuleType:
    library = lightgbm()
    if library is None:
        raise error(f"a model of recipe boosting needs {NEEDED}")
    return library
