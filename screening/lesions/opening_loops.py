"""Compiled loop of the area opening: union of voxels in falling order of their scores."""

from __future__ import annotations

import numpy as np

from screening.kernels.kept import njit


@njit(nogil=True, cache=True)
def opened(scores, order, at, row_at, offsets, least, floor):
    """The highest level at which each voxel lies in a connected cluster of at least `least` voxels.

    Union-find after Meijster and Wilkinson (2002). `order` has the rows by falling score, `at` the cell of
    each row in a padded grid, `row_at` the row in each cell or -1, `offsets` the steps to neighbouring cells.
    `floor` is given to voxels of a mask's islands that are smaller than `least`.
    """
    n = scores.size
    parent, size = np.full(n, -1), np.zeros(n, np.int64)
    for step in range(n):
        own = order[step]
        parent[own], size[own] = own, 1
        for offset in offsets:
            near = row_at[at[own] + offset]
            if near < 0 or parent[near] < 0:
                continue
            root = near
            while parent[root] != root:
                root = parent[root]
            while parent[near] != root:
                onward = parent[near]
                parent[near] = root
                near = onward
            if root == own:
                continue
            if size[root] < least or scores[root] == scores[own]:
                parent[root] = own
                size[own] += size[root]
            else:
                # It touches what is large enough already, and keeps its own level.
                size[own] = least
    result = np.empty(n)
    for step in range(n - 1, -1, -1):
        own = order[step]
        if parent[own] != own:
            result[own] = result[parent[own]]
        else:
            result[own] = scores[own] if size[own] >= least else floor
    return result
