"""Volumes of a voxel run: where voxels lie, what is flagged in each patient, and pictures of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.documents.shape import document, rare


@document
class Slice:
    """One slice of a volume, drawn; `aspect` is the height of a pixel over its width."""

    at: float
    voxels: int
    flagged: int
    width: int
    height: int
    overlay: str
    heat: str
    aspect: float = rare(1.0)


@document
class Cluster:
    """Voxels flagged for one class that touch; `millimetres`: from edge to edge, along the body's axes."""

    label: str
    voxels: int
    centre: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    millimetres: Sequence[float] | None
    top_score: float


@document
class Volume:
    """A patient's voxels; `anatomical`: slices are axial, the right on the left, the front above."""

    group: str | None
    voxels: int
    flagged: int
    slices: Sequence[Slice]
    n_clusters: int | None
    clusters: Sequence[Cluster]
    anatomical: bool = rare(False)


@document
class Voxels:
    """Volumes, clusters and slices of a voxel run; `colours`: of each watched class, as #rrggbb."""

    axes: Sequence[str]
    step: Sequence[float | None]
    patients_total: int
    patients_flagged: int
    patients: Sequence[Volume]
    base: str | None
    scale: Sequence[float] | None
    colours: Mapping[str, str]


@document
class Geometry:
    """The reference grid of one patient: `affine` (4 rows of 4) takes voxel numbers to millimetres, RAS+."""

    group: str
    shape: Sequence[int]
    affine: Sequence[Sequence[float]]
