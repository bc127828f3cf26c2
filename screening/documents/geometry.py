"""Where a patient's voxels lie in space: the grid of the images that they were read from."""

from __future__ import annotations

from collections.abc import Sequence

from screening.documents.shape import document


@document
class Geometry:
    """The reference grid of one patient: `affine` (4 rows of 4) takes voxel numbers to millimetres, RAS+."""

    group: str
    shape: Sequence[int]
    affine: Sequence[Sequence[float]]
