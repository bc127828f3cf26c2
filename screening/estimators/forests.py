"""Random forests for rare classes, grown by scikit-learn, kept and scored as plain arrays of their trees."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.estimators.base import Classifier, as_array, check_whole
from screening.kernels.jit import njit
from screening.kernels.threads import run_in_threads

# No tree that learned from patients comes near; a forged chain of millions of nodes would take as many steps.
DEEPEST = 1000
_TASK = 2048  # rows a thread takes at a time
# Rows that a tree draws at most: of 10^5 rows a forest learns what its trees learn together.
MOST_DRAWN = 5_000


class Trees:
    """Trees one after another, each in preorder: a left child follows its parent.

    In that order the leaves alone tell where right children and next trees begin, so there are no links to
    store, and none that could be forged. Columns of inner nodes, -1 for a leaf; rows with values up to the
    threshold go left; and what each leaf adds for each class, (n_leaves, n_outputs), of two classes only for
    the second one. ModelError where the arrays describe no whole trees, or deeper ones than ``DEEPEST``.
    """

    def __init__(self, feature: np.ndarray, threshold: np.ndarray, value: np.ndarray) -> None:
        types = (feature.dtype, threshold.dtype, value.dtype)
        if types != (np.int32, np.float32, np.float32) or feature.ndim != 1 or value.ndim != 2:
            raise ModelError("the model's trees are not of the types they are stored in")
        leaf = feature < 0
        n_leaves = int(leaf.sum())
        n_trees = 2 * n_leaves - len(feature)  # a tree has one leaf more than inner nodes
        if threshold.shape != feature.shape or len(value) != n_leaves or n_trees < 1:
            raise ModelError("the model's arrays do not fit each other")
        if not (np.isfinite(threshold).all() and np.isfinite(value).all()):
            raise ModelError("the model's trees have values that are not finite")
        self.feature, self.threshold, self.value = (
            np.ascontiguousarray(each) for each in (feature, threshold, value)
        )
        self._onward, self._starts = np.empty(len(feature), np.uint32), np.empty(n_trees, np.uint32)
        if not _linked(self.feature, self._onward, self._starts, DEEPEST):
            raise ModelError(f"the model's trees are not whole, or deeper than {DEEPEST}")

    @property
    def n_trees(self) -> int:
        """How many trees."""
        return len(self._starts)

    @classmethod
    def of(cls, fitted: Sequence[DecisionTreeClassifier]) -> Trees:
        """Fitted decision trees of scikit-learn, through their public ``tree_``; values are shares."""
        feature, threshold, value = [], [], []
        for tree in (each.tree_ for each in fitted):
            order = in_preorder(tree.children_left, tree.children_right)
            leaf = tree.children_left[order] < 0
            feature.append(np.where(leaf, -1, tree.feature[order]))
            threshold.append(np.where(leaf, 0.0, tree.threshold[order]))
            shares = tree.value[order[leaf], 0]
            value.append(shares / shares.sum(axis=1, keepdims=True))
        shares = np.concatenate(value)
        return cls(
            np.concatenate(feature).astype(np.int32),
            rounded_down(np.concatenate(threshold)),
            (shares[:, 1:] if shares.shape[1] == 2 else shares).astype(np.float32),
        )

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Sum over the trees of the values of the leaf where a row arrives, (n_rows, n_outputs).

        A row's result depends neither on the rows beside it nor on the number of threads.
        """
        rows = np.ascontiguousarray(x, np.float32)
        walk = (self.feature, self.threshold, self._onward, self._starts, self.value)
        out = np.zeros((len(rows), self.value.shape[1]))

        def task(first: int) -> None:
            _add_leaves(rows, first, min(first + _TASK, len(rows)), *walk, out)

        run_in_threads(task, range(0, len(rows), _TASK))
        return out

    def shares(self, x: np.ndarray) -> np.ndarray:
        """Mean over the trees, (n_rows, n_classes), where values are shares of classes."""
        mean = self.sums(x) / self.n_trees
        return np.hstack([1 - mean, mean]) if mean.shape[1] == 1 else mean

    def state(self) -> dict[str, np.ndarray]:
        """What is stored."""
        return {"feature": self.feature, "threshold": self.threshold, "value": self.value}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray], n_features: int, n_classes: int) -> Trees:
        """Inverse of ``state``; ModelError where the arrays do not describe trees on such rows."""
        trees = cls(state["feature"], state["threshold"], state["value"])
        if trees.feature.min() < -1 or trees.feature.max() >= n_features:
            raise ModelError("the model's trees look at columns that are not there")
        if trees.value.shape[1] != (1 if n_classes == 2 else n_classes):
            raise ModelError("the model's trees tell of other classes")
        return trees


def in_preorder(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Nodes of one tree from the root, every left child right after its parent; a leaf has children -1."""
    order = np.empty(len(left), np.int64)
    _preorder(left, right, order)
    return order


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 not above each threshold: no float32 value lies between the two.

    So float32 rows, which scikit-learn's trees cast to, go the same way at either.
    """
    nearest = threshold.astype(np.float32)
    return np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest)


@njit(nogil=True, cache=True)
def _preorder(left, right, order):
    """Fill `order` with the nodes of one tree, every left child right after its parent; -1 marks no child."""
    waiting = np.empty(left.size, np.int64)
    waiting[0], height = 0, 1
    for place in range(order.size):
        height -= 1
        node = waiting[height]
        order[place] = node
        if left[node] >= 0:
            waiting[height], waiting[height + 1] = right[node], left[node]
            height += 2


@njit(nogil=True, cache=True)
def _linked(feature, onward, starts, deepest):
    """Find where nodes in preorder lead and where trees start; False unless all are whole, none too deep.

    Which nodes are leaves (feature < 0) is all there is to know: a left child follows its parent, and a right
    child follows the last leaf on its left. `onward` is the right child of an inner node, and of a leaf its
    number among the leaves.
    """
    # Inner nodes whose right child has not come yet, and their depths.
    waiting, depths = np.empty(deepest, np.int64), np.empty(deepest, np.int64)
    height, depth, n_trees, n_leaves, after_leaf = 0, 0, 0, 0, True
    for node in range(feature.size):
        if not after_leaf:
            depth += 1
        elif height > 0:
            height -= 1
            onward[waiting[height]] = node
            depth = depths[height] + 1
        else:
            if n_trees == starts.size:
                return False
            starts[n_trees] = node
            n_trees += 1
            depth = 0
        after_leaf = feature[node] < 0
        if after_leaf:
            onward[node] = n_leaves
            n_leaves += 1
        elif depth == deepest:
            return False
        else:
            waiting[height], depths[height] = node, depth
            height += 1
    return after_leaf and height == 0 and n_trees == starts.size


@njit(nogil=True, cache=True)
def _add_leaves(x, start, stop, feature, threshold, onward, starts, value, out):
    """Add to rows start .. stop - 1 of `out` the values of the leaves that they reach, tree after tree.

    One row after another with a branch a step: the processor guesses ahead, which is quicker than several
    rows in step. Unsigned numbers, because numba wraps an index that might be negative.
    """
    for tree in range(starts.size):
        root = starts[tree]
        for r in range(start, stop):
            row, node = x[r], root
            column = feature[node]
            while column >= 0:
                if row[np.uint32(column)] <= threshold[node]:
                    node += np.uint32(1)
                else:
                    node = onward[node]
                column = feature[node]
            leaf = onward[node]
            for o in range(value.shape[1]):
                out[r, o] += value[leaf, o]


_WEIGHTS = ("none", "balanced", "balanced_subsample")


class TreesClassifier(Classifier):
    """What is kept as arrays of its trees, and nothing that a pickle would hold."""

    # Trees split at float32 values; rows are cast once, not once a tree.
    reads = np.float32
    trees_: Trees

    @property
    def linear(self) -> bool:
        return False

    def state(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        own = {"classes": as_array(self.classes_), "n_features": np.asarray(self.n_features_in_)}
        return own | self.trees_.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        try:
            classes, n_features = state["classes"], state["n_features"]
            if classes.ndim != 1 or len(classes) < 2 or n_features.shape or n_features.dtype.kind not in "iu":
                raise ModelError("the model's arrays do not fit each other")
            trees = Trees.from_state(state, int(n_features), len(classes))
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        self.trees_, self.classes_, self.n_features_in_ = trees, classes, int(n_features)
        if trees.n_trees != self._n_trees:
            raise ModelError(f"the model has {trees.n_trees} trees where there should be {self._n_trees}")
        return self

    @property
    def _n_trees(self) -> int:
        """Trees that its parameters ask for."""
        raise NotImplementedError


class _Forest(TreesClassifier):
    """What the forests share: everything but how their trees grow."""

    n_estimators: int
    max_depth: int | None
    most_rows = 20 * MOST_DRAWN

    def check_parameters(self) -> None:
        check_whole(self, "n_estimators", "min_samples_leaf")
        if self.max_depth is not None:
            check_whole(self, "max_depth")

    def _draw(self, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Of each tree its seed, the rows that it learns from and their weights."""
        raise NotImplementedError

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        trees = []
        # Of a thousand trees, looking at their parameters again takes as long as growing many of them.
        with config_context(skip_parameter_validation=True):
            for seed, rows, weights in self._draw(codes):
                tree = DecisionTreeClassifier(
                    max_features="sqrt",
                    max_depth=DEEPEST if self.max_depth is None else min(self.max_depth, DEEPEST),
                    min_samples_leaf=self.min_samples_leaf,
                    random_state=seed,
                )
                trees.append(tree.fit(x[rows], codes[rows], sample_weight=weights, check_input=False))
        self.trees_ = Trees.of(trees)

    @property
    def _n_trees(self) -> int:
        return self.n_estimators

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Mean share of each class in the leaves that a row reaches, (n_rows, n_classes)."""
        check_is_fitted(self)
        return self.trees_.shares(self._rows(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes of each one against the rest, (n_rows, n_classes).

        Half a vote is added for each class (the empirical logit): a unanimous forest is as sure as its number
        of trees allows, not infinitely, and no two probabilities are clipped to the same score.
        """
        shares = self.predict_proba(X)
        n_trees, n_classes = self.trees_.n_trees, shares.shape[1]
        total = n_trees + 0.5 * n_classes
        own, rest = n_trees * shares + 0.5, n_trees * (1 - shares) + 0.5 * (n_classes - 1)
        odds = np.log(own / total) - np.log(rest / total)
        return odds[:, 1] if n_classes == 2 else odds

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        super().restore(state)
        if not ((self.trees_.value >= 0) & (self.trees_.value <= 1)).all():
            raise ModelError("the model's trees have values out of range")
        return self


class RandomForest(_Forest):
    """Random forest (Breiman 2001) that weighs the classes of each tree's bootstrap sample alike.

    A tree draws as many rows as there are, 5,000 at most.

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

    name = "random_forest"

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

    def _draw(self, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        # The trees of scikit-learn's RandomForestClassifier, which for every tree looks at all rows, drawn or
        # not: of many rows that takes longer than to grow it.
        numbers = np.random.RandomState(self.seed)
        n_classes = len(self.classes_)
        first_of_class = np.unique(codes, return_index=True)[1]
        of_class = np.ones(n_classes)
        if isinstance(self.class_weight, dict):
            of_class = np.array([self.class_weight.get(name, 1.0) for name in self.classes_])
        elif self.class_weight == "balanced":
            of_class = len(codes) / (n_classes * np.bincount(codes))
        for _ in range(self.n_estimators):
            seed = numbers.randint(np.iinfo(np.int32).max)
            n_drawn = min(len(codes), MOST_DRAWN)
            drawn = np.random.RandomState(seed).randint(0, len(codes), n_drawn)
            times = np.bincount(drawn, minlength=len(codes))
            # A class that was not drawn keeps its place by a row without weight.
            rows = np.union1d(np.flatnonzero(times), first_of_class)
            if self.class_weight == "balanced_subsample":
                counts = np.bincount(codes, times, n_classes)
                of_class = n_drawn / (np.count_nonzero(counts) * np.maximum(counts, 1))
            yield seed, rows, times[rows] * of_class[codes[rows]]


class BalancedForest(_Forest):
    """Random forest whose every tree draws as many rows of each class as the rarest has.

    5,000 rows in all at most.

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

    name = "balanced_forest"

    def __init__(
        self, n_estimators: int = 100, max_depth: int | None = None, min_samples_leaf: int = 1, seed: int = 0
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.seed = seed

    def _draw(self, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(self.seed)
        members = [np.flatnonzero(codes == code) for code in range(len(self.classes_))]
        fewest = min(*map(len, members), MOST_DRAWN // len(members))
        for _ in range(self.n_estimators):
            drawn = np.concatenate([rng.choice(rows, fewest) for rows in members])
            yield int(rng.integers(2**31)), drawn, np.ones(len(drawn))
