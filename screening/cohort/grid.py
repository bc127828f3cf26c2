"""Voxels by their coordinates as cells of a grid."""

from __future__ import annotations

import numpy as np

from screening.errors import CohortError

MOST_CELLS = 50_000_000


def steps(values: np.ndarray) -> float:
    """Distance between neighbouring grid planes: the smallest gap between distinct coordinates, 1 for one."""
    gaps = np.diff(np.unique(np.round(values, 6)))
    return float(gaps.min()) if gaps.size else 1.0


def on_grid(coordinates: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Whole grid positions of coordinates, from 0 along each axis, shape (n, 3)."""
    if not len(coordinates):
        return np.zeros((0, 3), dtype=np.int64)
    return np.rint((coordinates - coordinates.min(axis=0)) / step).astype(np.int64)


def cells_of(coordinates: np.ndarray, where: str = "") -> tuple[np.ndarray, tuple[int, ...]]:
    """Grid positions of one patient's voxels, shape (n, 3), and the shape of the smallest box around them.

    Raises
    ------
    CohortError
        Beginning with `where`: the box has too many cells to be looked through, or two voxels share one.
    """
    place = on_grid(coordinates, np.array([steps(axis) for axis in coordinates.T]))
    shape = tuple(int(most) + 1 for most in place.max(axis=0))
    few = np.prod([float(side) for side in shape]) <= MOST_CELLS
    if not few or len(np.unique(np.ravel_multi_index(tuple(place.T), shape))) < len(place):
        raise CohortError(
            f"{where}a patient's coordinates are no grid (two voxels in one place, or far apart)"
        )
    return place, shape
