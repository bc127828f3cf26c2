"""Where flagged voxels lie: on a grid, in connected clusters, in slices."""

from __future__ import annotations

import numpy as np

from screening.cohort.neighbourhood import MOST_CELLS, on_grid
from screening.documents.voxels import Cluster

LARGEST = 3


def largest_clusters(
    coordinates: np.ndarray, scores: np.ndarray, step: np.ndarray
) -> tuple[int | None, list[Cluster]]:
    """Connected clusters of flagged voxels, faces, edges and corners counting as contact, the largest first.

    Parameters
    ----------
    coordinates : ndarray, shape (n, 3)
        Of one patient's flagged voxels.
    scores : ndarray, shape (n,)
    step : ndarray, shape (3,)
        Grid distance along each axis.

    Returns
    -------
    n_clusters : int or None
        None where the coordinates span too many cells to be looked through.
    clusters : list of Cluster
        At most 3.
    """
    from scipy.ndimage import label

    place = on_grid(coordinates, step)
    if not len(place):
        return 0, []
    shape = place.max(axis=0) + 1
    if np.prod(shape.astype(float)) > MOST_CELLS:
        return None, []
    grid = np.zeros(shape, dtype=bool)
    grid[tuple(place.T)] = True
    labelled, n_clusters = label(grid, structure=np.ones((3, 3, 3), dtype=bool))
    member = labelled[tuple(place.T)]
    sizes = np.bincount(member, minlength=n_clusters + 1)[1:]
    described = []
    for number in np.argsort(-sizes, kind="stable")[:LARGEST] + 1:
        own = coordinates[member == number]
        described.append(
            Cluster(
                voxels=len(own),
                centre=own.mean(axis=0).tolist(),
                low=own.min(axis=0).tolist(),
                high=own.max(axis=0).tolist(),
                top_score=float(scores[member == number].max()),
            )
        )
    return int(n_clusters), described


def fullest_slices(coordinates: np.ndarray, most: int) -> list[float]:
    """The third coordinates of the slices with most flagged voxels, in the order of the axis."""
    planes, counts = np.unique(coordinates[:, 2], return_counts=True)
    return sorted(planes[np.argsort(-counts, kind="stable")[:most]].tolist())
