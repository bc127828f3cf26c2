"""Tonight beside training: every score as a dot, the features that differ, and slices of images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from screening.report import format as fmt
from screening.schemas.run import Cluster, NightFeature, RunDocument, Slice, Voxels

NOTABLE = 0.1
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}


def data_section(run: RunDocument) -> dict[str, Any]:
    """Return missing shares and distributions tonight against training, what differs most first."""
    rows = [(feature, _remarks(feature)) for feature in run.data]
    rows.sort(
        key=lambda row: (
            not row[1],
            -abs(row[0].missing - row[0].missing_training),
            -(row[0].psi or 0.0),
        )
    )
    delimiter = run.input.delimiter
    return {
        "has_drift": any(feature.psi is not None for feature in run.data),
        "rows": rows,
        "normalised": any(feature.normalised for feature in run.data),
        "notable": sum(bool(remarks) for _, remarks in rows),
        "delimiter": DELIMITERS.get(delimiter or "", delimiter),
    }


def _remarks(feature: NightFeature) -> list[str]:
    """What makes a feature stand out tonight."""
    differs = feature.missing - feature.missing_training
    remarks = (
        ["more missing" if differs > 0 else "less missing"]
        if abs(differs) > NOTABLE
        else []
    )
    remarks += ["shifted"] if feature.alarm else []
    return remarks + ([f"{fmt.count(feature.unseen)} unseen"] if feature.unseen else [])


WIDTH, HEIGHT = 720, 74
FLOOR = 70
STEP = 6
HIGHEST = 10
"""Dots on top of each other at most; on a larger night each stands for several."""


def strip(run: RunDocument) -> dict[str, object] | None:
    """Return every score of a night as dots on a canvas; None where no score was counted for it."""
    scale = run.scale
    if scale is None or not sum(scale.tonight):
        return None
    least = 0.0 if run.model.by_excess else run.model.points[0].threshold
    across = WIDTH / (scale.high - scale.low)
    counts = list(scale.tonight)
    higher = np.cumsum(counts[::-1])[::-1] - counts
    flagged = np.clip(
        run.to_review - higher, 0, counts
    ).tolist()  # the highest, so many as there are
    each = -(-max(counts) // HIGHEST)
    one = (
        "patient"
        if run.groups or run.model.unit_of_review == "row"
        else run.model.unit_of_review
    )
    n_past, wide = sum(scale.past_cases), WIDTH / len(counts)
    # The past cases are an area, five steps together: they are few.
    near = np.convolve(scale.past_cases, np.ones(5))[2:-2].tolist()
    tallest = max(near) or 1
    area = [
        f"L{(i + 0.5) * wide:.0f} {FLOOR - 0.9 * FLOOR * n / tallest:.0f}"
        for i, n in enumerate(near)
    ]
    room = run.stopping
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "rest": _dots(
            [n - hit for n, hit in zip(counts, flagged, strict=True)], flagged, each
        ),
        "flagged": _dots(flagged, [0] * len(counts), each),
        "past": Markup(f"M0 {FLOOR}{''.join(area)}L{WIDTH} {FLOOR}Z"),
        "threshold": _inside((least - scale.low) * across),
        "room": _inside((room.score - scale.low) * across) if room else None,
        "each": f"each dot: 1 {one}"
        if each == 1
        else f"each dot: up to {fmt.plural(each, one)}",
        "past_cases": fmt.count(n_past),
        "spoken": f"From low to high scores: {fmt.count(sum(counts) - sum(flagged))} below the threshold, "
        f"{fmt.count(sum(flagged))} at or above it. Behind them {fmt.plural(n_past, 'past case')}.",
    }


def _dots(counts: Sequence[int], below: Sequence[int], each: int) -> Markup:
    """A column of dots a step: one line of no length but its dashes, which costs a few letters."""
    wide = WIDTH / len(counts)
    drawn = []
    for place, (n, under) in enumerate(zip(counts, below, strict=True)):
        if n:
            dots, base = -(-n // each), FLOOR - STEP * -(-under // each) - STEP / 2
            drawn.append(
                f"M{(place + 0.5) * wide:.0f} {base:g}v-{STEP * (dots - 1) + 0.1:g}"
            )
    return Markup("".join(drawn))


def _inside(x: float) -> float | None:
    return round(x, 1) if 0 <= x <= WIDTH else None


# A picture is a data address of these letters only, whatever run.json holds.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
SLICE_WIDTH = 300


def pictured(piece: Slice) -> bool:
    """Whether a slice holds pictures, and nothing else in their place."""
    return bool(PICTURE.fullmatch(piece.overlay) and PICTURE.fullmatch(piece.heat))


def drawn_size(piece: Slice) -> tuple[int, int]:
    """Width and height of a slice on the page."""
    tall = piece.height * piece.aspect
    scale = SLICE_WIDTH / max(piece.width, tall, 1)
    return max(1, round(piece.width * scale)), max(1, round(tall * scale))


def clusters(voxels: Voxels) -> list[tuple[str | None, Cluster]]:
    """The clusters of every patient that is drawn with the patient's name, the largest first."""
    named = [
        (patient.group, cluster)
        for patient in voxels.patients
        for cluster in patient.clusters
    ]
    return sorted(named, key=lambda one: -one[1].voxels)


def millimetres(extent: Sequence[float] | None) -> str:
    """How far something reaches along the body's axes."""
    return "–" if extent is None else " × ".join(f"{length:.0f}" for length in extent)
