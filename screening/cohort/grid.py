"""Voxels by their coordinates as cells of a grid."""

from __future__ import annotations

import numpy as np

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


def cells_of(coordinates: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """Grid positions of one patient's voxels, shape (n, 3), and the shape of the smallest box around them.

    None where the box has too many cells to be looked through, or two voxels share a cell.
    """
    place = on_grid(coordinates, np.array([steps(axis) for axis in coordinates.T]))
    shape = tuple(int(most) + 1 for most in place.max(axis=0))
    if np.prod([float(side) for side in shape]) > MOST_CELLS:
        return None
    taken = np.ravel_multi_index(tuple(place.T), shape)
    return None if len(np.unique(taken)) < len(taken) else (place, shape)
