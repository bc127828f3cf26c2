"""Boosted trees: LightGBM's, stored as plain arrays; without it scikit-learn's, compared only."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.machines.classifier import ByClass, check_class_weight, weight_by_class
from screening.machines.tree_machine import TreeMachine
from screening.machines.trees import DEEPEST, Trees, in_preorder, rounded_down

# Bits of `decision_type` in LightGBM's text: a split by category, and what it takes for missing.
_BY_CATEGORY, _MISSING = 0b0001, 0b1100


class Boosting(TreeMachine):
    """Gradient boosting of trees on histograms.

    LightGBM's where it can be imported: its model, a documented text, is read once after training, and what
    is stored and scored is `Trees`. Otherwise scikit-learn's, whose trees no public interface gives.

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

    _whole = ("n_rounds", "max_leaf_nodes", "min_samples_leaf")

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
        super().check_parameters()
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
            text = self._by_lightgbm(library, x, codes, weight).model_to_string()
            self.trees_ = read_text(text, len(self.classes_))

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

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        if hasattr(self, "trees_"):
            return self.trees_.sums(rows)
        return np.asarray(self.model_.decision_function(rows)).reshape(len(rows), -1)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes)."""
        check_is_fitted(self)
        sums = self._sums(self._rows(X))
        return sums[:, 0] if sums.shape[1] == 1 else log_softmax(sums, axis=1)

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        super().restore(state)
        rounds, odd = divmod(self.trees_.n_trees, self.trees_.value.shape[1])
        # LightGBM stops early where nothing is left to split.
        if odd or (rounds > self.n_rounds):
            raise ModelError(
                f"the model has {self.trees_.n_trees} trees, too many or not as many of each class"
            )
        return self


def lightgbm() -> ModuleType | None:
    """The library; None where it is not installed, or its own libraries (libgomp) are not."""
    try:
        import lightgbm as library
    except (ImportError, OSError):
        return None
    return library


def read_text(text: str, n_classes: int) -> Trees:
    """Trees of a model in LightGBM's text format, version 4; of several classes they come in turn.

    The first trees carry the base score, so that log odds are the sum of leaves and nothing else.

    Raises
    ------
    ValueError
        The model has what these trees have not: splits by category or with a side for missing values, or
        linear leaves.
    """
    n_outputs = 1 if n_classes == 2 else n_classes
    feature, threshold, value = [], [], []
    for number, block in enumerate(text.split("\nend of trees")[0].split("\nTree=")[1:]):
        table = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        column, left, right, kind = (
            np.array(table[key].split(), np.int64)
            for key in ("split_feature", "left_child", "right_child", "decision_type")
        )
        if table["num_cat"] != "0" or table["is_linear"] != "0" or (kind & (_BY_CATEGORY | _MISSING)).any():
            raise ValueError("only numeric splits without a side for missing values are read")
        leaves = np.array(table["leaf_value"].split(), np.float64)
        # Inner nodes come first; a child below zero is a leaf, -1 the first of them.
        none = np.full(len(leaves), -1)
        at = [np.concatenate([np.where(side < 0, len(column) + ~side, side), none]) for side in (left, right)]
        order = in_preorder(*at)
        limits = np.array(table["threshold"].split(), np.float64)
        feature.append(np.concatenate([column, none])[order])
        threshold.append(np.concatenate([limits, np.zeros(len(leaves))])[order])
        added = np.zeros((len(leaves), n_outputs))
        added[:, number % n_outputs] = leaves[order[order >= len(column)] - len(column)]
        value.append(added)
    return Trees(
        np.concatenate(feature).astype(np.int32),
        rounded_down(np.concatenate(threshold)),
        np.concatenate(value),
    )
