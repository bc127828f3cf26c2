"""Random forests for rare classes, grown by scikit-learn, kept and scored as plain arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.machines.base import Classifier, as_array, check_whole
from screening.machines.trees import DEEPEST, Trees

_WEIGHTS = ("none", "balanced", "balanced_subsample")


class _Forest(Classifier):
    """What the forests share: everything but how their trees grow."""

    # Trees split at float32 values; rows are cast once, not once a tree.
    reads = np.float32
    trees_: Trees
    n_estimators: int
    max_depth: int | None

    def check_parameters(self) -> None:
        check_whole(self, "n_estimators", "min_samples_leaf")
        if self.max_depth is not None:
            check_whole(self, "max_depth")

    @property
    def linear(self) -> bool:
        return False

    def state(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        own = {"classes": as_array(self.classes_), "n_features": np.asarray(self.n_features_in_)}
        return own | self.trees_.state()

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[DecisionTreeClassifier]:
        """Fitted decision trees on float32 rows and codes of their classes."""
        raise NotImplementedError

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        self.trees_ = Trees.of(self._grown(x, codes))

    def _depth(self) -> int:
        return DEEPEST if self.max_depth is None else min(self.max_depth, DEEPEST)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Mean share of each class in the leaves that a row reaches, (n_rows, n_classes)."""
        check_is_fitted(self)
        return self.trees_.shares(self._rows(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes).

        Half a vote is added for each class (the empirical logit): a unanimous forest is as sure as its number
        of trees allows, not infinitely, and no two probabilities are clipped to the same score.
        """
        shares = self.predict_proba(X)
        n_trees, n_classes = self.trees_.n_trees, shares.shape[1]
        logs = np.log((n_trees * shares + 0.5) / (n_trees + 0.5 * n_classes))
        return logs[:, 1] - logs[:, 0] if n_classes == 2 else logs

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        try:
            classes, n_features = state["classes"], state["n_features"]
            if classes.ndim != 1 or len(classes) < 2 or n_features.shape or n_features.dtype.kind not in "iu":
                raise ModelError("the model's arrays do not fit each other")
            trees = Trees.from_state(state, int(n_features), len(classes))
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        self.trees_, self.classes_, self.n_features_in_ = trees, classes, int(n_features)
        n_trees, value = self.trees_.n_trees, self.trees_.value
        if self.n_estimators != n_trees:
            raise ModelError(f"the model has {n_trees} trees where there should be {self.n_estimators}")
        if not ((value >= 0) & (value <= 1)).all():
            raise ModelError("the model's trees have values out of range")
        return self


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
        class_weight: str | dict[Hashable, float] = "balanced_subsample",
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

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[DecisionTreeClassifier]:
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

    def _grown(self, x: np.ndarray, codes: np.ndarray) -> list[DecisionTreeClassifier]:
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
