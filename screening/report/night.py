"""A night compared with training: scores as dots, features that differ, images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from markupsafe import Markup

from screening.report import format as fmt
from screening.report.histograms import (
    CategoryShare,
    Histogram,
    category_shares,
    histogram,
)
from screening.schemas.model import NumberProfile
from screening.schemas.run import NightFeature, RunDocument, Slice, VoxelCluster, Voxels

# Difference of missing shares from which a feature stands out.
MIN_MISSING_DIFFERENCE = 0.1
# Features with a histogram, those that differ most: a page of thousands would be slow.
MAX_HISTOGRAMS = 100
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}


@dataclass
class FeatureLine:
    """A feature tonight: how it differs from training, in words and as a picture.

    A number has a histogram, any other feature the shares of its categories.
    """

    feature: NightFeature
    remarks: list[str]
    histogram: Histogram | None = None
    shares: Sequence[CategoryShare] = ()


def data_section(run: RunDocument) -> dict[str, Any]:
    """Return how features differ from training, those that differ most first."""
    lines = [FeatureLine(feature, _remarks(feature)) for feature in run.data]

    def order(line: FeatureLine) -> tuple[bool, float, float]:
        feature = line.feature
        missing_difference = abs(feature.missing - feature.missing_training)
        return not line.remarks, -missing_difference, -(feature.psi or 0.0)

    lines.sort(key=order)
    profile = run.model.training.profile
    profiles = profile.features if profile else {}
    for line in lines[:MAX_HISTOGRAMS]:
        feature = line.feature
        past = profiles.get(feature.name)
        if feature.counts is None or past is None:
            continue
        if isinstance(past, NumberProfile):
            line.histogram = histogram(past, feature.counts)
        else:
            declared = run.model.declared(feature.name)
            line.shares = category_shares(past, feature, declared)
    delimiter = run.input.delimiter
    return {
        "has_drift": any(feature.psi is not None for feature in run.data),
        "rows": lines,
        "normalised": any(feature.normalised for feature in run.data),
        "notable": sum(bool(line.remarks) for line in lines),
        "delimiter": DELIMITERS.get(delimiter or "", delimiter),
    }


def _remarks(feature: NightFeature) -> list[str]:
    """Return in words how a feature differs from training."""
    remarks = []
    difference = feature.missing - feature.missing_training
    if difference > MIN_MISSING_DIFFERENCE:
        remarks.append("more missing")
    elif difference < -MIN_MISSING_DIFFERENCE:
        remarks.append("less missing")
    if feature.alarm:
        remarks.append("shifted")
    if feature.unseen:
        remarks.append(f"{fmt.count(feature.unseen)} unseen")
    return remarks


WIDTH = 720
HEIGHT = 74
# Height of the axis below the dots, and of one dot.
FLOOR = 70
DOT_HEIGHT = 6
MAX_DOTS = 10
"""Dots in a column; on a larger night each stands for several rows."""


def score_strip(run: RunDocument) -> dict[str, object] | None:
    """Return every score of a night as a dot, over the scores of past cases.

    None where scores were not counted.
    """
    scale = run.scale
    if scale is None or not sum(scale.tonight):
        return None
    counts = list(scale.tonight)
    # The highest scores are flagged, as many as there are to review.
    n_higher = np.cumsum(counts[::-1])[::-1] - counts
    flagged = np.clip(run.to_review - n_higher, 0, counts).tolist()
    unflagged = [n - n_flagged for n, n_flagged in zip(counts, flagged, strict=True)]
    rows_a_dot = -(-max(counts) // MAX_DOTS)
    unit = run.model.unit_of_review
    if run.groups or unit == "row":
        unit = "patient"
    if rows_a_dot == 1:
        legend = f"each dot: 1 {unit}"
    else:
        legend = f"each dot: up to {fmt.plural(rows_a_dot, unit)}"
    n_flagged = sum(flagged)
    n_past = sum(scale.past_cases)
    threshold = 0.0 if run.model.by_excess else run.model.points[0].threshold
    width_a_unit = WIDTH / (scale.high - scale.low)
    room = None
    if run.stopping:
        room = _inside((run.stopping.score - scale.low) * width_a_unit)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "rest": _dots(unflagged, flagged, rows_a_dot),
        "flagged": _dots(flagged, [0] * len(counts), rows_a_dot),
        "past": _past_cases(scale.past_cases),
        "threshold": _inside((threshold - scale.low) * width_a_unit),
        "room": room,
        "each": legend,
        "past_cases": fmt.count(n_past),
        "spoken": f"From low to high scores: {fmt.count(sum(counts) - n_flagged)} "
        f"below the threshold, {fmt.count(n_flagged)} at or above it. Behind them "
        f"{fmt.plural(n_past, 'past case')}.",
    }


def _past_cases(counts: Sequence[int]) -> Markup:
    """Return the outline of an area: past cases, in sums of five neighbouring steps."""
    sums = np.convolve(counts, np.ones(5))[2:-2].tolist()
    highest = max(sums) or 1
    step = WIDTH / len(counts)
    corners = [
        f"L{(index + 0.5) * step:.0f} {FLOOR - 0.9 * FLOOR * n / highest:.0f}"
        for index, n in enumerate(sums)
    ]
    return Markup(f"M0 {FLOOR}{''.join(corners)}L{WIDTH} {FLOOR}Z")


def _dots(counts: Sequence[int], below: Sequence[int], rows_a_dot: int) -> Markup:
    """Return a column of dots a step, above the dots of `below`.

    A column is one dashed line, which takes few letters.
    """
    step = WIDTH / len(counts)
    columns = []
    for index, (n_rows, n_below) in enumerate(zip(counts, below, strict=True)):
        if not n_rows:
            continue
        n_dots = -(-n_rows // rows_a_dot)
        n_dots_below = -(-n_below // rows_a_dot)
        base = FLOOR - DOT_HEIGHT * n_dots_below - DOT_HEIGHT / 2
        length = DOT_HEIGHT * (n_dots - 1) + 0.1
        columns.append(f"M{(index + 0.5) * step:.0f} {base:g}v-{length:g}")
    return Markup("".join(columns))


def _inside(x: float) -> float | None:
    """Return a position rounded to a tenth; None outside the picture."""
    return round(x, 1) if 0 <= x <= WIDTH else None


# A picture is a data address of these letters only, whatever run.json holds.
PICTURE = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}")
SLICE_WIDTH = 300


def has_pictures(voxels: Voxels) -> bool:
    """Return True if any slice of any patient is pictured."""
    slices = (patient.slices for patient in voxels.patients)
    return any(map(is_pictured, chain.from_iterable(slices)))


def is_pictured(piece: Slice) -> bool:
    """Return True if a slice holds pictures, and nothing else in their place."""
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
