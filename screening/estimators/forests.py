"""Random forests for rare classes, grown by scikit-learn, kept and scored as plain arrays of their trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import (
    ByClass,
    Classifier,
    as_array,
    check_class_weight,
    check_whole,
    weight_by_class,
)
from screening.kernels.jit import njit
from screening.kernels.threads import run_in_threads

_TASK = 2048  # rows a thread takes at a time
# Rows that a tree draws at most: of 10^5 rows a forest learns what its trees learn together.
MOST_DRAWN = 5_000


class Trees:
    """Trees one after another, each in preorder: a left child follows its parent.

    In that order the leaves alone tell where right children and next trees begin, so there are no links to
    store. Columns of inner nodes, -1 for a leaf; rows with values up to the threshold go left; and what each
    leaf adds for each class, (n_leaves, n_outputs), of two classes only for the second one.
    """

    def __init__(
        self, feature: np.ndarray, threshold: np.ndarray, value: np.ndarray
    ) -> None:
        self.feature, self.threshold, self.value = feature, threshold, value
        n_trees = 2 * np.count_nonzero(feature < 0) - len(
            feature
        )  # one leaf more than inner nodes in each
        self._onward, self._starts = (
            np.empty(len(feature), np.uint32),
            np.empty(n_trees, np.uint32),
        )
        _link(feature, self._onward, self._starts)

    @property
    def n_trees(self) -> int:
        """How many trees."""
        return len(self._starts)

    @classmethod
    def of(cls, fitted: Sequence[DecisionTreeClassifier]) -> Trees:
        """Fitted decision trees of scikit-learn, through their public ``tree_``; values are shares."""
        feature, threshold, value = [], [], []
        for tree in (estimator.tree_ for estimator in fitted):
            order = _preorder(tree.children_left, tree.children_right)
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


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """The largest float32 not above each threshold: no float32 value lies between the two.

    So float32 rows, which scikit-learn's trees cast to, go the same way at either.
    """
    nearest = threshold.astype(np.float32)
    return np.where(
        nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest
    )


@njit(nogil=True, cache=True)
def _preorder(left, right):
    """Nodes of one tree from the root, every left child right after its parent; a leaf has children -1."""
    order, waiting = np.empty(left.size, np.int64), np.empty(left.size, np.int64)
    waiting[0], height = 0, 1
    for position in range(order.size):
        height -= 1
        node = waiting[height]
        order[position] = node
        if left[node] >= 0:
            waiting[height], waiting[height + 1] = right[node], left[node]
            height += 2
    return order


@njit(nogil=True, cache=True)
def _link(feature, onward, starts):
    """Find where nodes in preorder lead and where trees start.

    Which nodes are leaves (feature < 0) is all there is to know: a left child follows its parent, and a right
    child follows the last leaf on its left. `onward` is the right child of an inner node, and of a leaf its
    number among the leaves.
    """
    waiting = np.empty(
        feature.size, np.int64
    )  # inner nodes whose right child has not come yet
    height, n_trees, n_leaves, after_leaf = 0, 0, 0, True
    for node in range(feature.size):
        if after_leaf and height > 0:
            height -= 1
            onward[waiting[height]] = node
        elif after_leaf:
            starts[n_trees] = node
            n_trees += 1
        after_leaf = feature[node] < 0
        if after_leaf:
            onward[node] = n_leaves
            n_leaves += 1
        else:
            waiting[height] = node
            height += 1


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


class TreesClassifier(Classifier):
    """A classifier kept as arrays of its trees."""

    # Trees split at float32 values; rows are cast once, not once a tree.
    reads = np.float32
    linear = False
    trees_: Trees

    def state(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        return {
            "classes": as_array(self.classes_),
            "n_features": np.asarray(self.n_features_in_),
            "feature": self.trees_.feature,
            "threshold": self.trees_.threshold,
            "value": self.trees_.value,
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        self.classes_, self.n_features_in_ = state["classes"], int(state["n_features"])
        self.trees_ = Trees(state["feature"], state["threshold"], state["value"])
        return self


@dataclass(eq=False, repr=False)
class _Forest(TreesClassifier):
    """What the forests share: everything but which rows their trees draw."""

    n_estimators: int = 100
    max_depth: int | None = None
    min_samples_leaf: int = 3

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
                    max_depth=self.max_depth,
                    min_samples_leaf=self.min_samples_leaf,
                    random_state=seed,
                )
                trees.append(
                    tree.fit(
                        x[rows], codes[rows], sample_weight=weights, check_input=False
                    )
                )
        self.trees_ = Trees.of(trees)

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
        own, rest = (
            n_trees * shares + 0.5,
            n_trees * (1 - shares) + 0.5 * (n_classes - 1),
        )
        odds = np.log(own / total) - np.log(rest / total)
        return odds[:, 1] if n_classes == 2 else odds


@dataclass(eq=False, repr=False)
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

    class_weight: ByClass = "balanced_subsample"
    seed: int = 0

    name = "random_forest"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_class_weight(self.class_weight, "none", "balanced", "balanced_subsample")

    def _draw(self, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        # The trees of scikit-learn's RandomForestClassifier, which for every tree looks at all rows, drawn or
        # not: of many rows that takes longer than to grow it.
        numbers = np.random.RandomState(self.seed)
        n_classes = len(self.classes_)
        first_of_class = np.unique(codes, return_index=True)[1]
        of_class = weight_by_class(self.class_weight, self.classes_, codes)
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


@dataclass(eq=False, repr=False)
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

    min_samples_leaf: int = 1
    seed: int = 0

    name = "balanced_forest"

    def _draw(self, codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(self.seed)
        members = [np.flatnonzero(codes == code) for code in range(len(self.classes_))]
        fewest = min(*map(len, members), MOST_DRAWN // len(members))
        for _ in range(self.n_estimators):
            drawn = np.concatenate([rng.choice(rows, fewest) for rows in members])
            yield int(rng.integers(2**31)), drawn, np.ones(len(drawn))
