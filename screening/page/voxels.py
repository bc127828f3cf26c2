"""Flagged volume patient by patient: clusters in figures, slices as pictures with words of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from screening.documents.run import RunDocument
from screening.documents.voxels import Slice, Volume
from screening.page import format as shown

# A picture is a data address of these letters only, whatever run.json holds.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
WIDTH = 300


Patient = Mapping[str, Any]
"""The flagged volume of one patient, as the templates write it."""


def voxels(run: RunDocument, places: int) -> dict[str, Any] | None:
    """Return the voxel block of a run; None where rows are no voxels."""
    found = run.voxels
    if found is None:
        return None
    axes = [shown.name(axis) for axis in found.axes]
    patients = [_patient(patient, axes, places) for patient in found.patients]
    return {
        "patients": patients,
        "shown": len(patients),
        "total": found.patients_flagged,
        "base": shown.feature(found.base) if found.base else "",
        "scale": [shown.fixed(end, places) for end in found.scale or ()],
        "spacing": _spacing(found.step, axes),
        "pictures": any(patient["slices"] for patient in patients),
    }


def _spacing(step: Sequence[float | None], axes: list[str]) -> str:
    if None in step or all(one == 1 for one in step):
        return ""
    return ", ".join(f"{axis} {shown.number(one)}" for axis, one in zip(axes, step, strict=True))


def _patient(found: Volume, axes: list[str], places: int) -> Patient:
    name = shown.name(found.group) if found.group is not None else "all rows"
    return {
        "group": found.group,
        "name": name,
        "flagged": found.flagged,
        "voxels": found.voxels,
        "n_clusters": "too widely spread to look for clusters"
        if found.n_clusters is None
        else shown.plural(found.n_clusters, "connected cluster"),
        "clusters": [
            {
                "voxels": shown.count(cluster.voxels),
                "centre": ", ".join(
                    f"{axis} {at:.1f}" for axis, at in zip(axes, cluster.centre, strict=True)
                ),
                "span": " × ".join(
                    f"{shown.number(low)} to {shown.number(high)}"
                    for low, high in zip(cluster.low, cluster.high, strict=True)
                ),
                "top_score": shown.fixed(cluster.top_score, places),
            }
            for cluster in found.clusters
        ],
        "slices": [drawn for each in found.slices if (drawn := _slice(each, name, axes, found.anatomical))],
        "sides": ["R", "L"] if found.anatomical else [],
    }


def _slice(found: Slice, patient: str, axes: list[str], anatomical: bool) -> dict[str, object] | None:
    if not (PICTURE.fullmatch(found.overlay) and PICTURE.fullmatch(found.heat)):
        return None
    at = f"{axes[-1]} {shown.number(found.at)}"
    if anatomical:
        at = f"axial slice {shown.number(found.at + 1)} from below"
    said = f"{shown.count(found.flagged)} of {shown.plural(found.voxels, 'voxel')} flagged"
    tall = found.height * found.aspect
    scale = WIDTH / max(found.width, tall, 1)
    turned = " The patient's right is on the left, the front above." if anatomical else ""
    return {
        "at": at,
        "said": said,
        "overlay": found.overlay,
        "heat": found.heat,
        "overlay_alt": f"Patient {patient}, slice {at}: flagged voxels over the image; {said}.{turned}",
        "heat_alt": f"Patient {patient}, slice {at}: scores as a heat map; {said}.{turned}",
        "width": max(1, round(found.width * scale)),
        "height": max(1, round(tall * scale)),
    }
