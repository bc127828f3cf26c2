"""Compiled loops over the nodes of trees: their links, and the walks of rows from root to leaf."""

from __future__ import annotations

import numpy as np
from numba import carray

from screening.kernels.kept import njit


@njit(nogil=True, cache=True)
def preorder(left, right, order):
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


def linked(feature, onward, starts, waiting, numbers):
    """Find where nodes in preorder lead and where trees start; False unless all are whole, none too deep.

    Which nodes are leaves (feature < 0) is all there is to know: a left child follows its parent, and a right
    child follows the last leaf on its left. `onward` is the right child of an inner node, and of a leaf its
    number among the leaves. Pointers, as `machine_code` calls it: `numbers` are the numbers of nodes and of
    trees, the greatest depth, and the answer.
    """
    sizes = carray(numbers, 4)
    n_nodes, most_trees, deepest = sizes[0], sizes[1], sizes[2]
    feature, onward, starts = carray(feature, n_nodes), carray(onward, n_nodes), carray(starts, most_trees)
    # Inner nodes whose right child has not come yet, and their depths.
    room = carray(waiting, (2, deepest))
    waiting, depths = room[0], room[1]
    sizes[3] = False
    height, depth, n_trees, n_leaves, after_leaf = 0, 0, 0, 0, True
    for node in range(n_nodes):
        if not after_leaf:
            depth += 1
        elif height > 0:
            height -= 1
            onward[waiting[height]] = node
            depth = depths[height] + 1
        else:
            if n_trees == most_trees:
                return
            starts[n_trees] = node
            n_trees += 1
            depth = 0
        after_leaf = feature[node] < 0
        if after_leaf:
            onward[node] = n_leaves
            n_leaves += 1
        elif depth == deepest:
            return
        else:
            waiting[height], depths[height] = node, depth
            height += 1
    sizes[3] = after_leaf and height == 0 and n_trees == most_trees


def add_leaves(x, feature, threshold, onward, starts, value, out, numbers):
    """Add to rows start .. stop - 1 of `out` the values of the leaves that they reach, tree after tree.

    One row after another with a branch a step: the processor guesses ahead, which is quicker than several
    rows in step. Unsigned numbers, because numba wraps an index that might be negative.
    Pointers, as `machine_code` calls it, with the sizes unpacked below.
    """
    sizes = carray(numbers, 8)
    n_rows, n_features, start, stop = sizes[0], sizes[1], sizes[2], sizes[3]
    n_nodes, n_trees, n_leaves, n_outputs = sizes[4], sizes[5], sizes[6], sizes[7]
    x, out = carray(x, (n_rows, n_features)), carray(out, (n_rows, n_outputs))
    feature, threshold, onward = carray(feature, n_nodes), carray(threshold, n_nodes), carray(onward, n_nodes)
    starts, value = carray(starts, n_trees), carray(value, (n_leaves, n_outputs))
    for tree in range(n_trees):
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
            for o in range(n_outputs):
                out[r, o] += value[leaf, o]
