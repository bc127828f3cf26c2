"""Decision trees as arrays: all that is stored of them once they have grown, and how rows walk them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from screening.errors import ModelError
from screening.kernels.jit import njit
from screening.kernels.threads import run_in_threads

# No tree that learned from patients comes near; a forged chain of millions of nodes would take as many steps.
DEEPEST = 1000
_TASK = 2048  # rows a thread takes at a time


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
