"""One patient's map of scores, smoothed within the mask and opened by area.

An area opening lowers each voxel's score to the highest level at which it lies in a connected cluster of the
smallest size that counts. A voxel then reaches a threshold, whichever, if and only if it is part of a large
enough cluster of voxels that do: one rule, score against threshold, serves voxels and lesions alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter, label

from screening.data.neighbourhood import cells_of
from screening.kernels.jit import njit

CONNECTIVITY = 26
"""Voxels that share a face, an edge or a corner are neighbours."""


@dataclass(frozen=True)
class Grid:
    """Where the voxels of one patient lie.

    Parameters
    ----------
    place : ndarray of int, shape (n, 3)
    shape : tuple of int
    """

    place: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, coordinates: np.ndarray) -> Grid:
        """The grid of one patient's coordinates.

        Raises
        ------
        CohortError
            They are none: two voxels in one place, or too far apart.
        """
        return cls(*cells_of(np.asarray(coordinates, dtype=float)))

    @property
    def at(self) -> tuple[np.ndarray, ...]:
        """The place as an index."""
        return tuple(self.place.T)

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Values on the grid, 0 (or False) where there is no voxel."""
        grid = np.zeros(self.shape, dtype=values.dtype)
        grid[self.at] = values
        return grid

    def clusters(self, chosen: np.ndarray) -> np.ndarray:
        """Number of the connected cluster of each chosen voxel, from 1; 0 for the others, shape (n,)."""
        return np.asarray(label(self.filled(chosen), structure=np.ones((3, 3, 3)))[0][self.at])


def smoothed(grid: Grid, scores: np.ndarray, sd: float) -> np.ndarray:
    """Scores averaged with their surroundings by a Gaussian within the mask; `sd` in voxels, 0 for none."""
    if sd == 0:
        return scores
    # About 0, so that the mask's edge costs no digits.
    middle = float(scores.mean())
    weight, total = (
        gaussian_filter(grid.filled(values), sd, mode="constant", truncate=3.0)[grid.at]
        for values in (np.ones(len(scores)), scores - middle)
    )
    return np.asarray(middle + total / weight)


def opened(grid: Grid, scores: np.ndarray, min_voxels: int) -> np.ndarray:
    """The area opening of a map, shape (n,).

    An island of the mask that has fewer voxels altogether gets the map's lowest score.
    """
    if min_voxels <= 1:
        return scores
    padded = tuple(side + 2 for side in grid.shape)
    at = np.ravel_multi_index(tuple(grid.place.T + 1), padded)
    row_at = np.full(int(np.prod(padded)), -1, dtype=np.int64)
    row_at[at] = np.arange(len(at))
    strides = np.array([padded[1] * padded[2], padded[2], 1])
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    offsets = (steps @ strides)[np.any(steps != 0, axis=1)]
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    return np.asarray(_area_opening(scores, order, at, row_at, offsets, min_voxels, float(scores.min())))


def lesion_map(grid: Grid, scores: np.ndarray, sd: float, min_voxels: int) -> np.ndarray:
    """The scores of one patient's voxels by which lesions are flagged, shape (n,)."""
    return opened(grid, smoothed(grid, scores, sd), min_voxels)


@njit(nogil=True, cache=True)
def _area_opening(scores, order, at, row_at, offsets, least, floor):
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
