"""Random forests for rare classes, grown by scikit-learn, kept and scored as plain arrays."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from screening.machines.base import Checked
from screening.machines.fitted import FittedTrees
from screening.machines.trees import DEEPEST, Trees

_WEIGHTS = ("none", "balanced", "balanced_subsample")


class _Forest(ClassifierMixin, Checked, FittedTrees):
    """What the forests share: everything but how their trees grow."""

    reads = np.float32
    n_estimators: int
    max_depth: int | None
    min_samples_leaf: int
    seed: int

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[Any]:
        """Fitted decision trees on float32 rows and codes of their classes."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        for name in ("n_estimators", "min_samples_leaf", "max_depth"):
            value = getattr(self, name)
            if name == "max_depth" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number > 0, got {value!r}")

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        # Trees split at float32 values; rows are cast once here, not once a tree.
        X, y = validate_data(self, X, y, dtype=np.float32, order="C")
        check_classification_targets(y)
        self.check_parameters()
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        self.trees_ = Trees.of(self._grown(X, codes))
        return self

    def _depth(self) -> int:
        return DEEPEST if self.max_depth is None else min(self.max_depth, DEEPEST)

    def predict(self, X: Any) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


class RandomForest(_Forest):
    """Random forest (Breiman 2001) that weighs the classes of each tree's bootstrap sample alike.

    Parameters
    ----------
    n_estimators : int, > 0
        Trees.
    max_depth : int or None
    min_samples_leaf : int, > 0
    class_weight : {"none", "balanced", "balanced_subsample"} or dict from class to weight
        Weights by the inverse of a class's numbers among all rows, or in each tree's sample (the weighted
        forest of Chen, Liaw and Breiman 2004).
    seed : int

    References
    ----------
    Breiman 2001, Random forests, Machine Learning 45.
    Chen, Liaw and Breiman 2004, Using random forest to learn imbalanced data, Berkeley report 666.
    """

    def __init__(
        self,
        n_estimators: int = 100,
        max_depth: int | None = None,
        min_samples_leaf: int = 3,
        class_weight: str | dict[Any, float] = "balanced_subsample",
        seed: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.class_weight = class_weight
        self.seed = seed

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.class_weight, dict) and self.class_weight not in _WEIGHTS:
            raise ValueError(f"class_weight must be one of {', '.join(_WEIGHTS)}, got {self.class_weight!r}")

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[Any]:
        from sklearn.ensemble import RandomForestClassifier

        weight: Any = None if self.class_weight == "none" else self.class_weight
        if isinstance(weight, dict):
            weight = {code: weight.get(name, 1.0) for code, name in enumerate(self.classes_)}
        forest = RandomForestClassifier(
            n_estimators=self.n_estimators,
            max_depth=self._depth(),
            min_samples_leaf=self.min_samples_leaf,
            class_weight=weight,
            random_state=self.seed,
            n_jobs=1,  # folds are fitted side by side already
        )
        return forest.fit(x, codes).estimators_


class BalancedForest(_Forest):
    """Random forest whose every tree draws as many rows of each class as the rarest has.

    Parameters
    ----------
    n_estimators : int, > 0
        Trees.
    max_depth : int or None
    min_samples_leaf : int, > 0
    seed : int

    References
    ----------
    Chen, Liaw and Breiman 2004, Using random forest to learn imbalanced data, Berkeley report 666.
    """

    def __init__(
        self, n_estimators: int = 100, max_depth: int | None = None, min_samples_leaf: int = 1, seed: int = 0
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.seed = seed

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[Any]:
        from sklearn.tree import DecisionTreeClassifier

        rng = np.random.default_rng(self.seed)
        members = [np.flatnonzero(codes == code) for code in range(len(self.classes_))]
        fewest = min(map(len, members))
        trees = []
        for _ in range(self.n_estimators):
            drawn = np.concatenate([rng.choice(rows, fewest) for rows in members])
            tree = DecisionTreeClassifier(
                max_features="sqrt",
                max_depth=self._depth(),
                min_samples_leaf=self.min_samples_leaf,
                random_state=int(rng.integers(2**31)),
            )
            trees.append(tree.fit(x[drawn], codes[drawn], check_input=False))
        return trees
