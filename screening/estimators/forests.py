"""Random forests for rare classes, grown by scikit-learn and stored as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import (
    ByClass,
    WeightedClassifier,
    as_array,
    check_class_weight,
    check_whole,
    weight_by_class,
)
from screening.kernels.jit import njit
from screening.threads import run_in_threads

# Rows that a thread takes at a time.
_TASK = 4096
# Words whose bits number the leaves of a tree: the shorter, the more rows at a time.
_WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)
_MAX_SMALL_LEAVES = 64
# Rows that small trees are walked with at a time: their columns stay in the cache.
_N_COLUMN_ROWS = 512
# The product of a power of 2 and this number begins with six bits that are its own.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOWEST_BIT = np.empty(64, np.int64)
for _bit in range(64):
    _LOWEST_BIT[(int(_DE_BRUIJN) << _bit & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit
# Rows that a tree draws at most: of 10^5 rows a forest learns what its trees learn
# together.
_MAX_DRAWN_ROWS = 5_000


class Trees:
    """Trees one after another, each in preorder: a left child follows its parent.

    In that order the leaves alone determine where right children and next trees begin,
    so no links are stored.

    Parameters
    ----------
    feature : int32 ndarray of shape (n_nodes,)
        Column that an inner node compares, -1 for a leaf.
    threshold : float32 ndarray of shape (n_nodes,)
        Rows with values up to the threshold go left.
    value : float32 ndarray of shape (n_leaves, n_outputs)
        What each leaf adds for each class; for two classes only for the second one.
    """

    def __init__(
        self, feature: np.ndarray, threshold: np.ndarray, value: np.ndarray
    ) -> None:
        self.feature = feature
        self.threshold = threshold
        self.value = value
        # A tree has one leaf more than inner nodes.
        n_leaves = np.count_nonzero(feature < 0)
        n_trees = 2 * n_leaves - len(feature)
        self._next_node = np.empty(len(feature), np.uint32)
        self._roots = np.empty(n_trees, np.uint32)
        _link(feature, self._next_node, self._roots)
        # Small trees are walked by their leaves, see `_add_leaves_of_small_trees`.
        n_nodes = np.diff(self._roots.astype(int), append=len(feature))
        most_nodes = int(n_nodes.max(initial=0))
        most_leaves = (most_nodes + 1) // 2
        self._is_small = most_leaves <= _MAX_SMALL_LEAVES
        if self._is_small:
            passed = np.zeros(len(feature), np.uint64)
            _pass_leaves(feature, self._next_node, self._roots, passed)
            n_bits = max(most_leaves, 1)
            word = next(word for word in _WORDS if np.iinfo(word).bits >= n_bits)
            self._kept = (~passed).astype(word)
            self._all_leaves = np.array([np.iinfo(word).max], word)
            self._value_by_output = np.ascontiguousarray(value.T)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self._roots)

    @classmethod
    def of(cls, fitted: Sequence[DecisionTreeClassifier]) -> Trees:
        """Return fitted trees of scikit-learn; values are shares of the classes."""
        feature = []
        threshold = []
        value = []
        for estimator in fitted:
            tree = estimator.tree_
            order = _preorder(tree.children_left, tree.children_right)
            leaf = tree.children_left[order] < 0
            feature.append(np.where(leaf, -1, tree.feature[order]))
            threshold.append(np.where(leaf, 0.0, tree.threshold[order]))
            leaf_value = tree.value[order[leaf], 0]
            value.append(leaf_value / leaf_value.sum(axis=1, keepdims=True))
        shares = np.concatenate(value)
        if shares.shape[1] == 2:
            shares = shares[:, 1:]
        return cls(
            np.concatenate(feature).astype(np.int32),
            rounded_down(np.concatenate(threshold)),
            shares.astype(np.float32),
        )

    def take(self, start: int, stop: int) -> Trees:
        """Take the trees of numbers start .. stop - 1."""
        ends = np.append(self._roots, len(self.feature))
        first = int(ends[start])
        last = int(ends[stop])
        first_leaf = int(np.count_nonzero(self.feature[:first] < 0))
        last_leaf = int(np.count_nonzero(self.feature[:last] < 0))
        return Trees(
            self.feature[first:last],
            self.threshold[first:last],
            self.value[first_leaf:last_leaf],
        )

    @classmethod
    def join(cls, parts: Sequence[Trees]) -> Trees:
        """Join the trees of all parts, in their order."""
        return cls(
            np.concatenate([part.feature for part in parts]),
            np.concatenate([part.threshold for part in parts]),
            np.concatenate([part.value for part in parts]),
        )

    def sums(self, x: np.ndarray) -> np.ndarray:
        """Return the sum over trees of the values of the leaves that rows reach.

        A row's result depends neither on other rows nor on the number of threads.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        rows = np.ascontiguousarray(x, np.float32)
        n_outputs = self.value.shape[1]
        out = np.zeros((len(rows), n_outputs))

        def task(first: int) -> None:
            stop = min(first + _TASK, len(rows))
            if self._is_small:
                _add_leaves_of_small_trees(
                    rows,
                    first,
                    stop,
                    self.feature,
                    self.threshold,
                    self._roots,
                    self._kept,
                    self._all_leaves,
                    self._value_by_output,
                    out,
                )
            else:
                trees = self.feature, self.threshold, self._next_node, self._roots
                _add_leaves(rows, first, stop, *trees, self.value, out)

        run_in_threads(task, range(0, len(rows), _TASK))
        return out

    def shares(self, x: np.ndarray) -> np.ndarray:
        """Return the mean over trees of shares of classes, (n_rows, n_classes)."""
        mean = self.sums(x) / self.n_trees
        if mean.shape[1] > 1:
            return mean
        return np.hstack([1 - mean, mean])


def rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Return the largest float32 not above each threshold.

    No float32 value lies between the two, so float32 rows, to which scikit-learn's
    trees cast, go the same way at either.
    """
    nearest = threshold.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > threshold, below, nearest)


@njit(nogil=True, cache=True)
def _preorder(left, right):
    """Return the nodes of one tree in preorder; a leaf has the children -1."""
    order = np.empty(left.size, np.int64)
    waiting = np.empty(left.size, np.int64)
    waiting[0] = 0
    height = 1
    for position in range(order.size):
        height -= 1
        node = waiting[height]
        order[position] = node
        if left[node] >= 0:
            waiting[height] = right[node]
            waiting[height + 1] = left[node]
            height += 2
    return order


@njit(nogil=True, cache=True)
def _link(feature, next_node, roots):
    """Store where nodes in preorder lead and where trees begin.

    Only the leaves (feature < 0) matter: a left child follows its parent, and a right
    child follows the last leaf on its left. `next_node` is the right child of an inner
    node, and the number of a leaf among the leaves.
    """
    # Inner nodes whose right child has not come yet.
    waiting = np.empty(feature.size, np.int64)
    height = 0
    n_trees = 0
    n_leaves = 0
    after_leaf = True
    for node in range(feature.size):
        if after_leaf and height > 0:
            height -= 1
            next_node[waiting[height]] = node
        elif after_leaf:
            roots[n_trees] = node
            n_trees += 1
        after_leaf = feature[node] < 0
        if after_leaf:
            next_node[node] = n_leaves
            n_leaves += 1
        else:
            waiting[height] = node
            height += 1


@njit(nogil=True, cache=True)
def _add_leaves(x, start, stop, feature, threshold, next_node, roots, value, out):
    """Add to rows start .. stop - 1 of `out` the values of the leaves they reach.

    At each node the rows that reach it are divided between its children, without a
    branch that a processor could guess wrongly; so all rows go down a tree together.
    """
    n_rows = stop - start
    columns = np.ascontiguousarray(x[start:stop].T)
    # The rows that reach a node are order[first_row[node] : last_row[node]].
    order = np.empty(n_rows, np.uint32)
    to_right = np.empty(n_rows, np.uint32)
    first_row = np.empty(feature.size, np.int64)
    last_row = np.empty(feature.size, np.int64)
    for tree in range(roots.size):
        root = np.int64(roots[tree])
        end = np.int64(feature.size)
        if tree + 1 < roots.size:
            end = np.int64(roots[tree + 1])
        for r in range(n_rows):
            order[r] = r
        first_row[root] = 0
        last_row[root] = n_rows
        for node in range(root, end):
            low = first_row[node]
            high = last_row[node]
            if feature[node] < 0:
                leaf = next_node[node]
                for o in range(value.shape[1]):
                    for i in range(low, high):
                        out[start + order[i], o] += value[leaf, o]
                continue
            column = columns[feature[node]]
            limit = threshold[node]
            middle = low
            n_right = 0
            for i in range(low, high):
                row = order[i]
                goes_left = column[row] <= limit
                order[middle] = row
                to_right[n_right] = row
                middle += goes_left
                n_right += not goes_left
            order[middle:high] = to_right[:n_right]
            right = np.int64(next_node[node])
            first_row[node + 1] = low
            last_row[node + 1] = middle
            first_row[right] = middle
            last_row[right] = high


@njit(nogil=True, cache=True)
def _pass_leaves(feature, next_node, roots, passed):
    """Store which leaves of its tree a row passes by when it goes right at a node.

    Bit k of `passed` is set if leaf k lies below the node's left child. Leaves of a
    tree, 64 at most, are numbered from the left.
    """
    one = np.uint64(1)
    for tree in range(roots.size):
        root = roots[tree]
        stop = roots[tree + 1] if tree + 1 < roots.size else feature.size
        n_leaves = 0
        n_before = np.zeros(stop - root + 1, np.int64)
        for node in range(root, stop):
            n_before[node - root] = n_leaves
            if feature[node] < 0:
                n_leaves += 1
        for node in range(root, stop):
            if feature[node] >= 0:
                low = np.uint64(n_before[node - root])
                # At most 63: the last leaf is on the right of every node.
                high = np.uint64(n_before[next_node[node] - root])
                passed[node] = (one << high) - (one << low)


@njit(nogil=True, cache=True)
def _add_leaves_of_small_trees(
    x, start, stop, feature, threshold, roots, kept, all_leaves, value, out
):
    """Do what `_add_leaves` does, for trees of at most 64 leaves.

    A row is in the first leaf that it does not pass by at any node (Lucchese et al.
    2015, QuickScorer). So all nodes are visited, in any order and without a branch,
    for many rows at a time. `kept` are the leaves that a row may still reach when it
    goes right at a node, `all_leaves` has the one word for all, and `value` is
    (n_outputs, n_leaves).
    """
    n_outputs = value.shape[0]
    columns = np.empty((x.shape[1], _N_COLUMN_ROWS), np.float32)
    reached = np.empty(_N_COLUMN_ROWS, kept.dtype)
    total = np.empty((n_outputs, _N_COLUMN_ROWS))
    everything = all_leaves[0]
    for first in range(start, stop, _N_COLUMN_ROWS):
        n_rows = min(_N_COLUMN_ROWS, stop - first)
        for r in range(n_rows):
            for f in range(x.shape[1]):
                columns[f, r] = x[first + r, f]
        total[:] = 0.0
        first_leaf = np.int64(0)
        for tree in range(roots.size):
            root = np.int64(roots[tree])
            end = np.int64(feature.size)
            if tree + 1 < roots.size:
                end = np.int64(roots[tree + 1])
            reached[:] = everything
            for node in range(root, end):
                if feature[node] < 0:
                    continue
                column = columns[feature[node]]
                limit = threshold[node]
                left = kept[node]
                for r in range(n_rows):
                    reached[r] &= everything if column[r] <= limit else left
            # A tree has one leaf more than inner nodes.
            n_leaves = (end - root + 1) // 2
            for o in range(n_outputs):
                of_leaf = value[o, first_leaf : first_leaf + n_leaves]
                of_output = total[o]
                for r in range(n_rows):
                    word = np.uint64(reached[r])
                    lowest = word & (~word + np.uint64(1))
                    hashed = (lowest * _DE_BRUIJN) >> np.uint64(58)
                    of_output[r] += of_leaf[_LOWEST_BIT[hashed]]
            first_leaf += n_leaves
        for r in range(n_rows):
            for o in range(n_outputs):
                out[first + r, o] += total[o, r]


class TreesClassifier(WeightedClassifier):
    """Base of classifiers that are stored as arrays of their trees."""

    # Trees split at float32 values: rows are cast once instead of once per tree.
    input_dtype = np.float32
    linear = False
    trees_: Trees

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, for ``restore``."""
        check_is_fitted(self)
        return {
            "classes": as_array(self.classes_),
            "n_features": np.asarray(self.n_features_in_),
            "feature": self.trees_.feature,
            "threshold": self.trees_.threshold,
            "value": self.trees_.value,
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        self.classes_ = state["classes"]
        self.n_features_in_ = int(state["n_features"])
        self.trees_ = Trees(state["feature"], state["threshold"], state["value"])
        return self


@dataclass(eq=False, repr=False)
class Forest(TreesClassifier):
    """Base of the forests, which differ in the rows that their trees draw."""

    n_estimators: int = 100
    max_depth: int | None = None
    min_samples_leaf: int = 3

    relative_time = 3.0
    max_rows = 20 * _MAX_DRAWN_ROWS

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        check_whole(self, "n_estimators", "min_samples_leaf")
        if self.max_depth is not None:
            check_whole(self, "max_depth")

    def _draw(
        self, codes: np.ndarray, weights: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (seed, rows, weights) per tree, from the weights of all rows."""
        raise NotImplementedError

    def _learn(
        self, x: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        trees = []
        # For a thousand trees the checks of their parameters would take as long as
        # growing many of them.
        with config_context(skip_parameter_validation=True):
            for seed, rows, drawn_weights in self._draw(codes, weights):
                tree = DecisionTreeClassifier(
                    max_features="sqrt",
                    max_depth=self.max_depth,
                    min_samples_leaf=self.min_samples_leaf,
                    random_state=seed,
                )
                tree.fit(
                    x[rows],
                    codes[rows],
                    sample_weight=drawn_weights,
                    check_input=False,
                )
                trees.append(tree)
        self.trees_ = Trees.of(trees)

    @staticmethod
    def join(forests: Sequence[Forest], n_joined: int) -> list[Forest] | None:
        """Mix forests to as many of the same size, with equal shares of trees of each.

        None if the classes of the forests differ.

        Parameters
        ----------
        forests : sequence of Forest
            Fitted.
        n_joined : int
            Number of forests to return, at most as many as there are.
        """
        first = forests[0]
        for forest in forests:
            if not np.array_equal(forest.classes_, first.classes_):
                return None
        n_trees = first.trees_.n_trees
        ends = np.linspace(0, n_trees, len(forests) + 1).astype(int)
        joined = []
        for number in range(n_joined):
            parts = []
            for k, forest in enumerate(forests):
                share = (k + number) % len(forests)
                trees = forest.trees_.take(ends[share], ends[share + 1])
                parts.append(trees)
            mixed = clone(first)
            mixed.classes_ = first.classes_
            mixed.n_features_in_ = first.n_features_in_
            mixed.trees_ = Trees.join(parts)
            joined.append(mixed)
        return joined

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the mean share of each class in the leaves, (n_rows, n_classes)."""
        check_is_fitted(self)
        return self.trees_.shares(self._rows(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log odds, (n_rows,), or (n_rows, n_classes) for more than two classes.

        With more than two classes they are of each class against the rest. Half a vote
        is added for each class (the empirical logit): a unanimous forest is as certain
        as its number of trees allows, and no two probabilities are clipped to one
        score.
        """
        shares = self.predict_proba(X)
        n_trees = self.trees_.n_trees
        n_classes = shares.shape[1]
        total = n_trees + 0.5 * n_classes
        votes = n_trees * shares + 0.5
        other_votes = n_trees * (1 - shares) + 0.5 * (n_classes - 1)
        odds = np.log(votes / total) - np.log(other_votes / total)
        return odds[:, 1] if n_classes == 2 else odds


@dataclass(eq=False, repr=False)
class RandomForest(Forest):
    """Random forest (Breiman 2001) with class weights.

    A tree draws as many rows as there are, 5,000 at most. By default the classes of
    each tree's bootstrap sample have equal total weights.

    Parameters
    ----------
    n_estimators : int, > 0
        Number of trees.
    max_depth : int or None
    min_samples_leaf : int, > 0
    class_weight : {"none", "balanced", "balanced_subsample"} or dict
        Weights by the inverse of a class's numbers among all rows, or in each tree's
        sample (the weighted forest of Chen, Liaw and Breiman 2004); or a weight per
        class.
    seed : int

    References
    ----------
    Breiman 2001, Random forests, Machine Learning 45.
    Chen, Liaw and Breiman 2004, Using random forest to learn imbalanced data, Berkeley
    report 666.
    """

    class_weight: ByClass = "balanced_subsample"
    seed: int = 0

    name = "random_forest"

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        super().check_parameters()
        check_class_weight(self.class_weight, "none", "balanced", "balanced_subsample")

    def _draw(
        self, codes: np.ndarray, weights: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        # These are the trees of scikit-learn's RandomForestClassifier, which visits all
        # rows for every tree, drawn or not: with many rows that takes longer than
        # growing it.
        seeds = np.random.RandomState(self.seed)
        n_classes = len(self.classes_)
        first_of_class = np.unique(codes, return_index=True)[1]
        class_weight = weight_by_class(self.class_weight, self.classes_, codes, weights)
        for _ in range(self.n_estimators):
            seed = seeds.randint(np.iinfo(np.int32).max)
            n_drawn = min(len(codes), _MAX_DRAWN_ROWS)
            rng = np.random.RandomState(seed)
            drawn = rng.randint(0, len(codes), n_drawn)
            times_drawn = np.bincount(drawn, minlength=len(codes))
            drawn_weight = times_drawn if weights is None else times_drawn * weights
            # A class that was not drawn is kept by a row of weight 0.
            rows = np.union1d(np.flatnonzero(times_drawn), first_of_class)
            if self.class_weight == "balanced_subsample":
                counts = np.bincount(codes, drawn_weight, n_classes)
                n_present = np.count_nonzero(counts)
                # A class that was not drawn has weight 0 whatever it is divided by.
                counts[counts == 0] = 1
                class_weight = n_drawn / (n_present * counts)
            yield seed, rows, drawn_weight[rows] * class_weight[codes[rows]]


@dataclass(eq=False, repr=False)
class BalancedForest(Forest):
    """Random forest whose trees draw as many rows of each class as the rarest has.

    They draw 5,000 rows in all at most; weighted rows by their weights.

    Parameters
    ----------
    n_estimators : int, > 0
        Number of trees.
    max_depth : int or None
    min_samples_leaf : int, > 0
    seed : int

    References
    ----------
    Chen, Liaw and Breiman 2004, Using random forest to learn imbalanced data, Berkeley
    report 666.
    """

    min_samples_leaf: int = 1
    seed: int = 0

    name = "balanced_forest"

    def _draw(
        self, codes: np.ndarray, weights: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(self.seed)
        n_classes = len(self.classes_)
        strata = [np.flatnonzero(codes == code) for code in range(n_classes)]
        rarest = min(map(len, strata))
        chances: list[np.ndarray | None] = [None] * len(strata)
        if weights is not None:
            weights_of_strata = [weights[rows] for rows in strata]
            chances = [weight / weight.sum() for weight in weights_of_strata]
        n_per_class = min(rarest, _MAX_DRAWN_ROWS // len(strata))
        for _ in range(self.n_estimators):
            drawn = np.concatenate(
                [
                    rng.choice(rows, n_per_class, p=chance)
                    for rows, chance in zip(strata, chances, strict=True)
                ]
            )
            seed = int(rng.integers(2**31))
            yield seed, drawn, np.ones(len(drawn))
