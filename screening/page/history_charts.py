"""Pictures of the nights so far: workload, predictive value and drift, night by night."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from screening.documents import ScoreCounts
from screening.documents.history import NightRun, SeriesFacts
from screening.page import format as shown
from screening.page.charts import Axes


def charts(series: SeriesFacts, used: Sequence[NightRun], number: int) -> list[dict[str, Any]]:
    """Return the pictures of the nights in force, with changes of model and threshold marked."""
    nights = list(range(1, len(used) + 1))
    trend = series.ppv_to_date
    flagged, new = [run.cases for run in used], [run.new for run in used]
    capacity = used[-1].capacity
    # A capacity far above would press the line of the nights flat.
    near = [] if capacity is None or capacity > 3 * max(flagged) else [capacity]
    top = max([1, *flagged, *near])
    work = _axes(
        f"work-{number}", "Workload", "flagged and new cases a night", "Cases", (0, top * 1.08), used
    )
    work.line(nights, flagged, "first", "flagged")
    work.line(nights, new, "second", "new")
    for height in near:
        work.line([1, len(used)], [height, height], "chance", "capacity")
    found = _axes(
        f"ppv-{number}", "Predictive value of those judged", "share of judged cases that had the condition, "
        "night by night, each case by the last word on it", "PPV to date", (0, 1), used, True,
    )  # fmt: skip
    found.band(nights, [t.low for t in trend], [t.high for t in trend], "first")
    found.line(nights, [t.value for t in trend], "first", "PPV")
    far = [run.drift.distance if run.drift else None for run in used]
    limit = [_limit(run.drift) if run.drift else None for run in used]
    known = [value for value in [*far, *limit] if value is not None]
    drift = _axes(
        f"drift-{number}", "Drift", "distance of a night's scores from those held out in training, "
        "with what chance alone exceeds on one night in twenty", "Distance",
        (0, max([0.05, *known]) * 1.08), used,
    )  # fmt: skip
    drift.line(nights, far, "first", "distance")
    drift.line(nights, limit, "second", "limit")
    drawn = [work, *([found] if any(t.value is not None for t in trend) else []), drift]
    for axes in drawn:
        _mark_changes(axes, used)
    return [_dated(axes.drawing(), used) for axes in drawn]


def _axes(
    name: str,
    title: str,
    description: str,
    y_label: str,
    y: tuple[float, float],
    used: Sequence[NightRun],
    as_percent: bool = False,
) -> Axes:
    first, last = shown.name(used[0].night), shown.name(used[-1].night)
    return Axes(
        name=name, title=title, description=f"{title} from {first} to {last}: {description}.",
        x=(1, len(used)), y=y, x_label="Night", y_label=y_label, width=560, height=250,
        margins=(14, 82, 46, 56), as_percent=(False, as_percent),
    )  # fmt: skip


def _dated(drawing: dict[str, Any], used: Sequence[NightRun]) -> dict[str, Any]:
    """Put dates where the axis has the numbers of the nights."""
    scale = (drawing["right"] - drawing["left"]) / max(len(used) - 1, 1)
    step = max(1, -(-len(used) // 6))
    drawing["x_ticks"] = [
        {"at": round(drawing["left"] + scale * i, 1), "text": shown.name(used[i].night)[5:]}
        for i in range(0, len(used), step)
    ]
    return drawing


def _mark_changes(axes: Axes, used: Sequence[NightRun]) -> None:
    for number, (before, after) in enumerate(pairwise(used), start=2):
        if before.model != after.model:
            same = before.recipe == after.recipe
            axes.upright(number, "validated", "model or threshold changed" if same else "method changed")


def _limit(found: ScoreCounts) -> float | None:
    """Return the distance that chance exceeds one night in twenty (Kolmogorov, two samples)."""
    n, m = sum(found.counted), sum(found.known)
    return 1.358 * ((n + m) / (n * m)) ** 0.5 if n and m else None
