"""The columns of a night beside training: which differ, with pictures of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from screening.monitoring.bins import TENTHS, equal_shares
from screening.report import format as fmt
from screening.report.charts import Scale, Tick
from screening.report.values import value_text
from screening.schemas.model import (
    SMALLEST_CELL,
    FeatureDeclaration,
    NumberProfile,
    TextProfile,
)
from screening.schemas.run import NightFeature, RunDocument

WIDTH = 260
# Height of the axis below the bars.
FLOOR = 66
# Distance of the axis from the edge, so that the text of a tick fits.
SIDE = 10
# Share of the axis: a narrower bar is not higher than one of this width.
NARROWEST = 0.01
# Difference of missing shares from which a feature is highlighted.
MIN_MISSING_DIFFERENCE = 0.1
# Features with a histogram, those that differ most: a page of thousands would be slow.
MAX_HISTOGRAMS = 100
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
# Categories that are shown; the others are one line.
MOST_CATEGORIES = 8


@dataclass(frozen=True)
class Histogram:
    """Values of tonight and of training; the areas of both are equal.

    Parameters
    ----------
    past, tonight : Markup
        SVG paths of both outlines.
    ticks : list of Tick
    spoken : str
        Text alternative.
    """

    past: Markup
    tonight: Markup
    ticks: list[Tick]
    spoken: str


@dataclass(frozen=True)
class CategoryShare:
    """Share of a category among the rows with a value, in training and tonight."""

    name: str
    past: float
    tonight: float


def histogram(past: NumberProfile, counts: Sequence[int]) -> Histogram | None:
    """Return the histogram of a number; None without a value on either side.

    `counts` are tonight's in the bins of training.
    """
    if past.range is None or not sum(counts):
        return None
    tenth = equal_shares(past.counts, TENTHS)
    n_past = np.bincount(tenth, past.counts)
    n_tonight = np.bincount(tenth, counts)
    edges = _edges_of(past, tenth)
    shares = np.array([n_past / n_past.sum(), n_tonight / n_tonight.sum()])
    span = edges[-1] - edges[0]
    density = shares / np.maximum(np.diff(edges), NARROWEST * span)
    across = Scale(edges[0], edges[-1], SIDE, WIDTH - SIDE)
    up = Scale(0.0, float(density.max()), FLOOR, 2)
    past_path, tonight_path = (_outline(edges, row, across, up) for row in density)
    ticks = [
        Tick(across.at(value), fmt.number(value))
        for value in across.ticks(5)
        if value >= past.range[0]
    ]
    said = ", ".join(
        f"{100 * now:.0f} ({100 * past:.0f})" for past, now in shares.T.tolist()
    )
    return Histogram(
        past_path,
        tonight_path,
        ticks,
        f"Per cent tonight (in training), from low to high: {said}",
    )


def category_shares(
    past: TextProfile, feature: NightFeature, declared: FeatureDeclaration
) -> list[CategoryShare]:
    """Return the most frequent categories of training, then all others.

    Categories of fewer training rows than the smallest cell are among the others.
    """
    counts_tonight = feature.counts or ()
    n_unseen = feature.unseen or 0
    n_past = sum(past.counts.values()) + past.more
    n_tonight = sum(counts_tonight) + n_unseen
    if not n_past or not n_tonight:
        return []
    counts = zip(past.counts.items(), counts_tonight, strict=True)
    by_frequency = sorted(counts, key=lambda pair: -pair[0][1])
    shown = [
        CategoryShare(_text_of(code, declared), n / n_past, n_now / n_tonight)
        for (code, n), n_now in by_frequency[:MOST_CATEGORIES]
        if n >= SMALLEST_CELL
    ]
    others_past = 1 - sum(share.past for share in shown)
    others_tonight = 1 - sum(share.tonight for share in shown)
    unseen = n_unseen / n_tonight
    others = CategoryShare("all others", others_past, others_tonight - unseen)
    if max(others.past, others.tonight) > 1e-9:
        shown.append(others)
    if n_unseen:
        shown.append(CategoryShare("never seen in training", 0.0, unseen))
    return shown


def _text_of(code: str, declared: FeatureDeclaration) -> str:
    """Return a category as the contract names it; yes, no and ordinals are numbers."""
    is_number = declared.type in ("boolean", "ordinal")
    return value_text(float(code) if is_number else code, declared)


def _edges_of(past: NumberProfile, tenth: np.ndarray) -> np.ndarray:
    """Return the edges of the bars, shape (n_bars + 1,).

    Bins end at a value of training. Whole numbers lie in the middle of their bar, and
    a bar of the lowest value alone is as wide as the narrowest other one. The last bar
    is at most as wide as all others together: one outlier would hide all else.
    """
    assert past.range is not None
    lowest, highest = past.range
    ends = np.append(past.edges, highest)
    last_of_bar = np.flatnonzero(np.diff(tenth, append=tenth[-1] + 1))
    edges = np.append(lowest, ends[last_of_bar])
    if np.all(edges == np.round(edges)):
        edges += 0.5
        edges[0] = lowest - 0.5
    widths = np.diff(edges)
    if widths[0] == 0:
        least = 2 * NARROWEST * (edges[-1] - edges[0]) or 1.0
        edges[0] -= max(least, min(widths[widths > 0], default=0.0))
    if len(edges) > 2:
        edges[-1] = min(edges[-1], 2 * edges[-2] - edges[0])
    return edges


def _outline(
    edges: np.ndarray, heights: np.ndarray, across: Scale, up: Scale
) -> Markup:
    """Return the outline of bars that touch each other, in whole steps."""
    stops = [round(across.at(edge)) for edge in edges]
    tops = [round(up.at(height)) for height in heights]
    path = f"M{stops[0]} {FLOOR}"
    for (start, stop), (below, top) in zip(
        pairwise(stops), pairwise([FLOOR, *tops]), strict=True
    ):
        path += f"v{top - below}h{stop - start}"
    return Markup(f"{path}V{FLOOR}Z")


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
