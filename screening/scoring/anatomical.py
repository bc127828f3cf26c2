"""Voxels as readers of images expect them: axial slices, the patient's right on the left, the front above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.documents.voxels import Geometry


@dataclass(frozen=True)
class View:
    """How a patient's voxel numbers become those of the canonical grid (right, front, above).

    Parameters
    ----------
    axes : ndarray of int, shape (3,)
        Of each axis of the file, the canonical one.
    flipped : ndarray of bool, shape (3,)
        Whether it runs the other way.
    last : ndarray, shape (3,)
        Highest number along each axis of the file.
    spacing : ndarray, shape (3,)
        Millimetres between voxels along the canonical axes.
    """

    axes: np.ndarray
    flipped: np.ndarray
    last: np.ndarray
    spacing: np.ndarray

    @classmethod
    def of(cls, geometry: Geometry) -> View:
        """As nibabel's `as_closest_canonical` turns an image of this grid."""
        from nibabel.orientations import io_orientation

        affine = np.array(geometry.affine)
        turns = io_orientation(affine)
        axes = turns[:, 0].astype(int)
        spacing = np.empty(3)
        spacing[axes] = np.linalg.norm(affine[:3, :3], axis=0)
        return cls(axes, turns[:, 1] < 0, np.array(geometry.shape) - 1.0, spacing)

    def turned(self, places: np.ndarray) -> np.ndarray:
        """Voxel numbers (n, 3) of the file as those of the canonical grid."""
        found = np.empty((len(places), 3))
        found[:, self.axes] = np.where(self.flipped, self.last - places, places)
        return found

    @property
    def aspect(self) -> float:
        """Height of a pixel of an axial slice over its width."""
        return float(self.spacing[1] / self.spacing[0])
