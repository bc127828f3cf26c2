"""Slices of a flagged volume as pictures: what may be drawn, and how large."""

from __future__ import annotations

import re

from screening.documents.run import RunDocument
from screening.documents.voxels import Slice

# A picture is a data address of these letters only, whatever run.json holds.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
WIDTH = 300


def pictured(found: Slice) -> bool:
    """Whether a slice holds pictures, and nothing else in their place."""
    return bool(PICTURE.fullmatch(found.overlay) and PICTURE.fullmatch(found.heat))


def drawn_size(found: Slice) -> tuple[int, int]:
    """Width and height of a slice on the page."""
    tall = found.height * found.aspect
    scale = WIDTH / max(found.width, tall, 1)
    return max(1, round(found.width * scale)), max(1, round(tall * scale))


def has_pictures(run: RunDocument) -> bool:
    """Whether any slice of a run is drawn."""
    return bool(run.voxels and any(pictured(one) for each in run.voxels.patients for one in each.slices))
