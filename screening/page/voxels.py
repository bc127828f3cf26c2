"""Flagged volume patient by patient: clusters in figures, slices as pictures with words of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from screening.documents.reading import mapping, part, sequence
from screening.page import format as shown

# A picture is a data address of these letters only, whatever run.json holds.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
WIDTH = 300


def voxels(run: Mapping[str, Any], places: int) -> dict[str, Any] | None:
    """Return the voxel block of a run; None where rows are no voxels."""
    found = mapping(run, "voxels")
    if not found:
        return None
    axes = [shown.name(axis) for axis in sequence(found, "axes")] or ["x", "y", "z"]
    patients = [_patient(p, axes, places) for p in sequence(found, "patients") if isinstance(p, Mapping)]
    scale = sequence(found, "scale")
    return {
        "patients": patients,
        "shown": len(patients),
        "total": shown.count(found.get("patients_flagged")),
        "capped": shown.finite(found.get("patients_flagged")) and found["patients_flagged"] > len(patients),
        "base": shown.feature(found.get("base")) if found.get("base") else "",
        "scale": [shown.fixed(end, places) for end in scale] if len(scale) == 2 else [],
        "spacing": _spacing(sequence(found, "step"), axes),
        "pictures": any(p["slices"] for p in patients),
    }


def _spacing(step: Any, axes: list[str]) -> str:
    if len(step) != 3 or not all(map(shown.finite, step)) or all(one == 1 for one in step):
        return ""
    return ", ".join(f"{axis} {shown.number(one)}" for axis, one in zip(axes, step, strict=False))


def _patient(found: Mapping[str, Any], axes: list[str], places: int) -> dict[str, Any]:
    name = shown.name(found.get("group")) if found.get("group") is not None else "all rows"
    flagged, total = found.get("flagged"), found.get("voxels")
    clusters = [c for c in sequence(found, "clusters") if isinstance(c, Mapping)]
    return {
        "name": name,
        "flagged": shown.count(flagged),
        "voxels": shown.count(total),
        "share": shown.percent(flagged / total)
        if shown.finite(flagged) and shown.finite(total) and total
        else shown.NOT_KNOWN,
        "n_clusters": shown.plural(found["n_clusters"], "connected cluster")
        if shown.finite(found.get("n_clusters"))
        else "too widely spread to look for clusters",
        "clusters": [
            {
                "voxels": shown.count(c.get("voxels")),
                "centre": _point(sequence(c, "centre"), axes),
                "span": " × ".join(
                    f"{shown.number(low)} to {shown.number(high)}"
                    for low, high in zip(sequence(c, "low"), sequence(c, "high"), strict=False)
                ),
                "top_score": shown.fixed(c.get("top_score"), places),
            }
            for c in clusters
        ],
        "slices": [s for s in (_slice(s, name, axes) for s in sequence(found, "slices")) if s],
    }


def _point(values: Any, axes: list[str]) -> str:
    return ", ".join(f"{axis} {v:.1f}" for axis, v in zip(axes, values, strict=False) if shown.finite(v))


def _slice(found: Any, patient: str, axes: list[str]) -> dict[str, Any] | None:
    overlay, heat = (
        (str(found.get(key, "")) for key in ("overlay", "heat")) if isinstance(found, Mapping) else ("", "")
    )
    width, height = (part(found, key) for key in ("width", "height"))
    drawn = PICTURE.fullmatch(overlay) and PICTURE.fullmatch(heat)
    if not (drawn and shown.finite(width) and shown.finite(height)):
        return None
    at = f"{axes[-1]} {shown.number(found.get('at'))}"
    said = f"{shown.count(found.get('flagged'))} of {shown.plural(found.get('voxels'), 'voxel')} flagged"
    scale = WIDTH / max(width, height, 1)
    return {
        "at": at,
        "said": said,
        "overlay": overlay,
        "heat": heat,
        "overlay_alt": f"Patient {patient}, slice {at}: flagged voxels over the image; {said}.",
        "heat_alt": f"Patient {patient}, slice {at}: scores as a heat map; {said}.",
        "width": max(1, round(width * scale)),
        "height": max(1, round(height * scale)),
    }
