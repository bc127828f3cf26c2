"""Gradient boosting of trees on histograms, by scikit-learn and by LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError, RecipeError
from screening.estimators.base import (
    ByClass,
    WeightedClassifier,
    as_array,
    check_class_weight,
    check_whole,
    class_log_odds,
    weight_of_rows,
)
from screening.estimators.forests import Trees, TreesClassifier, rounded_down
from screening.threads import limit_libraries, n_threads

_LIGHTGBM = 'LightGBM: pip install "screening[boosting]"'
# Rows on which the trees that were read are compared with scikit-learn's decisions.
_N_CHECKED_ROWS = 1000
# Tolerance of that comparison, as a share of a leaf: leaves are stored as float32, and
# trees that were read wrongly would differ by whole leaves.
_LEAF_ROUNDING = 1e-6


@dataclass(eq=False, repr=False)
class _Boosted(WeightedClassifier):
    """Base of both: parameters, and scores from sums over trees.

    Parameters
    ----------
    learning_rate : float, > 0
    n_rounds : int, > 0
        Number of trees; with more than two classes of each class.
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

    # Splits are at float32 values: those of a table, and those that forests see.
    input_dtype = np.float32
    supports_bundles = True
    relative_time = 12.0
    max_rows = 1_000_000
    linear = False

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        check_whole(self, "n_rounds", "max_leaf_nodes", "min_samples_leaf")
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be > 0, got {self.learning_rate!r}")
        if self.max_leaf_nodes < 2:
            raise ValueError(f"max_leaf_nodes must be > 1, got {self.max_leaf_nodes!r}")
        check_class_weight(self.class_weight, "none", "balanced")

    def _weights(self, codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        return weight_of_rows(self.class_weight, self.classes_, codes, weights)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log odds, as ``class_log_odds`` does."""
        check_is_fitted(self)
        rows = self._rows(X)
        n_classes = len(self.classes_)
        sums = self._sums(rows)
        if n_classes == 2:
            return np.reshape(sums, len(rows))
        return class_log_odds(np.reshape(sums, (len(rows), n_classes)))

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        """Return the raw sums over trees, one per row and output."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class HistogramBoosting(_Boosted, TreesClassifier):
    """Gradient boosting by scikit-learn, stored and scored as arrays of its trees.

    Parameters are those of ``Boosting``, and those below.

    Parameters
    ----------
    max_depth : int, > 0, or None
        Splits between a tree's root and any leaf; None for no limit.
    l2_regularization : float, >= 0
        Number of rows by which the value of a leaf is shrunk: a leaf of as many rows
        has half of its value. scikit-learn adds a constant to the leaf's sum of second
        derivatives, which are small where cases are rare; here the constant follows
        them.
    max_features : float, in (0, 1]
        Share of the columns that are drawn for each split.

    References
    ----------
    Friedman 2001, Greedy function approximation: a gradient boosting machine, Annals of
    Statistics 29.
    """

    max_depth: int | None = None
    l2_regularization: float = 0.0
    max_features: float = 1.0

    name = "histogram_boosting"

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        super().check_parameters()
        if self.max_depth is not None:
            check_whole(self, "max_depth")
        if not (np.isfinite(self.l2_regularization) and self.l2_regularization >= 0):
            raise ValueError(
                f"l2_regularization must be >= 0, got {self.l2_regularization!r}"
            )
        if not 0 < self.max_features <= 1:
            raise ValueError(
                f"max_features must be in (0, 1], got {self.max_features!r}"
            )

    def _learn(
        self, x: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        row_weights = self._weights(codes, weights)
        l2_regularization = self.l2_regularization * _mean_hessian(codes, row_weights)
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_rounds,
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=l2_regularization,
            max_features=self.max_features,
            early_stopping=False,
            random_state=self.seed,
        )
        # Equal weights give the same bins as none, in a fifth of the time.
        sample_weight = None if (row_weights == 1).all() else row_weights
        # One thread, so that a training gives the same bytes on any number of cores;
        # folds are fitted concurrently.
        with limit_libraries({"openmp": 1}):
            model.fit(x, codes, sample_weight=sample_weight)
        self.trees_ = _boosted_trees(model)
        # Boosting starts from one value for all rows, unless trees were read wrongly.
        rows = x[:: max(1, len(x) // _N_CHECKED_ROWS)]
        decisions = model.decision_function(rows).reshape(len(rows), -1)
        start = decisions - self.trees_.sums(rows)
        self.start_ = start.mean(axis=0)
        leaves = self.trees_.value
        tolerance = _LEAF_ROUNDING * len(leaves) * np.abs(leaves).max()
        if np.ptp(start, axis=0).max() > tolerance:
            raise RecipeError(
                "this version of scikit-learn stores boosted trees differently; "
                "install version 1.7"
            )

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.trees_.sums(rows) + self.start_

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, for ``restore``."""
        return super().state() | {"start": self.start_}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        self.start_ = state["start"]
        return super().restore(state)


def _mean_hessian(codes: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean second derivative of the log loss before the first tree.

    Over rows and classes; p (1 - p) with two classes, one of them with the share p.

    Parameters
    ----------
    codes : int ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    """
    shares = np.bincount(codes, weights=weights) / weights.sum()
    hessian = np.mean(shares * (1 - shares))
    return float(weights.mean() * hessian)


def _boosted_trees(model: HistGradientBoostingClassifier) -> Trees:
    """Return the trees of a fitted model; a leaf adds to the output of its tree.

    scikit-learn has no public name for the nodes of these trees (one record each, in
    preorder). Every fit checks against the model's own decisions that they were read
    correctly.
    """
    feature = []
    threshold = []
    value = []
    for trees_of_round in model._predictors:
        outputs = np.arange(len(trees_of_round))
        for output, tree in enumerate(trees_of_round):
            nodes = tree.nodes
            leaf = nodes["is_leaf"] == 1
            feature.append(np.where(leaf, -1, nodes["feature_idx"]))
            threshold.append(np.where(leaf, 0.0, nodes["num_threshold"]))
            value.append(np.outer(nodes["value"][leaf], outputs == output))
    return Trees(
        np.concatenate(feature).astype(np.int32),
        rounded_down(np.concatenate(threshold)),
        np.concatenate(value).astype(np.float32),
    )


class Boosting(_Boosted):
    """Gradient boosting by LightGBM, stored as LightGBM's own text.

    Parameters
    ----------
    learning_rate : float, > 0
    n_rounds : int, > 0
        Number of trees; with more than two classes of each class.
    max_leaf_nodes : int, > 1
    min_samples_leaf : int, > 0
    class_weight : {"none", "balanced"} or dict from class to weight
    seed : int

    References
    ----------
    Ke et al. 2017, LightGBM: a highly efficient gradient boosting decision tree, NIPS
    30.
    """

    name = "boosting"

    @staticmethod
    def missing_requirement() -> str | None:
        """Return how to install LightGBM, None if it is installed."""
        return None if lightgbm() else _LIGHTGBM

    def _learn(
        self, x: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        library = _require_lightgbm(RecipeError)
        settings = self._settings()
        row_weights = self._weights(codes, weights)
        rows = library.Dataset(x, codes, weight=row_weights, params=settings)
        booster = library.train(settings, rows, num_boost_round=self.n_rounds)
        self.text_ = booster.model_to_string()
        self.model_ = library.Booster(model_str=self.text_)

    def _settings(self) -> dict[str, Any]:
        """Return LightGBM's parameters."""
        settings: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaf_nodes,
            "min_data_in_leaf": self.min_samples_leaf,
            "seed": self.seed,
            # The same training gives the same bytes; folds are fitted concurrently.
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            # The encoder leaves no missing values, so no split needs a side for them.
            "use_missing": False,
            "feature_pre_filter": False,
            "verbosity": -1,
        }
        n_classes = len(self.classes_)
        if n_classes == 2:
            settings["objective"] = "binary"
        else:
            settings["objective"] = "multiclass"
            settings["num_class"] = n_classes
        return settings

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.model_.predict(rows, raw_score=True, num_threads=n_threads())

    def state(self) -> dict[str, np.ndarray]:
        """Return LightGBM's text as bytes, and the classes."""
        check_is_fitted(self)
        text = np.frombuffer(self.text_.encode(), np.uint8)
        return {"classes": as_array(self.classes_), "text": text}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        self.classes_ = state["classes"]
        self.text_ = state["text"].tobytes().decode()
        self.model_ = _require_lightgbm(ModelError).Booster(model_str=self.text_)
        self.n_features_in_ = self.model_.num_feature()
        return self


def lightgbm() -> ModuleType | None:
    """Return LightGBM; None if it or a library that it needs is not installed."""
    try:
        import lightgbm as library
    except (ImportError, OSError):  # OSError without libgomp
        return None
    return library


def _require_lightgbm(error: type[Exception]) -> ModuleType:
    """Return the library; raise the error if it is not installed."""
    library = lightgbm()
    if library is None:
        raise error(f"a model of recipe boosting needs {_LIGHTGBM}")
    return library
