"""Pictures and clusters of voxels on the page of a night."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from screening.report import format as fmt
from screening.schemas.run import Slice, VoxelCluster, Voxels

# A picture is a data address of these letters only, whatever is in run.json.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
SLICE_WIDTH = 300


def has_pictures(voxels: Voxels) -> bool:
    """Return True if any slice of any patient is pictured."""
    slices = (patient.slices for patient in voxels.patients)
    return any(map(is_pictured, chain.from_iterable(slices)))


def is_pictured(piece: Slice) -> bool:
    """Return True if a slice has pictures, and nothing else in their place."""
    return bool(PICTURE.fullmatch(piece.overlay) and PICTURE.fullmatch(piece.heat))


def drawn_size(piece: Slice) -> tuple[int, int]:
    """Return width and height of a slice on the page, in pixels."""
    height = piece.height * piece.aspect
    scale = SLICE_WIDTH / max(piece.width, height, 1)
    width_drawn = max(1, round(piece.width * scale))
    height_drawn = max(1, round(height * scale))
    return width_drawn, height_drawn


def clusters(voxels: Voxels) -> list[tuple[str | None, VoxelCluster]]:
    """Return the clusters of all pictured patients with their names, largest first."""
    named: list[tuple[str | None, VoxelCluster]] = []
    for patient in voxels.patients:
        named += [(patient.group, cluster) for cluster in patient.clusters]
    return sorted(named, key=lambda pair: -pair[1].voxels)


def millimetres(extent: Sequence[float] | None) -> str:
    """Return lengths along the body's axes, such as "4 × 5 × 3"."""
    if extent is None:
        return fmt.NOT_KNOWN
    return " × ".join(f"{length:.0f}" for length in extent)
