"""Pictures of the nights so far, night by night: cases, predictive value and drift; control charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from screening.documents import ScoreCounts
from screening.documents.control import ControlChart, Phase
from screening.documents.history import NightRun, SeriesFacts
from screening.page import format as shown
from screening.page.charts import Axes, Tick


@dataclass
class Nights(Axes):
    """A picture night by night; of a control chart also its limits in words, and its signals."""

    said: list[str] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)


def charts(series: SeriesFacts, used: Sequence[NightRun], number: int) -> list[Nights]:
    """Return the pictures of the nights in force, with changes of model and threshold marked."""
    nights = list(range(1, len(used) + 1))
    trend = series.ppv_to_date
    flagged, new = [run.cases for run in used], [run.new for run in used]
    capacity = used[-1].capacity
    # A capacity far above would press the line of the nights flat.
    near = [] if capacity is None or capacity > 3 * max(flagged) else [capacity]
    top = max([1, *flagged, *near])
    work = _axes(f"work-{number}", "Cases", "flagged and new cases a night", "Cases", (0, top * 1.08), used)
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
    # Every chart of a series has the same phases, and there is always one of the workload.
    phases = series.control[0].phases if series.control else []
    for axes in drawn:
        _mark_changes(axes, phases)
    return drawn


# Title of a control chart, and of its axis.
CONTROLLED = {
    "workload": ("Workload", "flagged of rows read"),
    "yield": ("Yield", "confirmed of judged"),
    "refused": ("Data quality: refused rows", "refused of rows read"),
    "missing": ("Data quality: missing values", "missing of values"),
}


def control_charts(series: SeriesFacts, used: Sequence[NightRun], number: int) -> list[Nights]:
    """Return the control charts of a series, each with what a signal is and which nights gave one."""
    return [_controlled(chart, used, number) for chart in series.control]


def _controlled(chart: ControlChart, used: Sequence[NightRun], number: int) -> Nights:
    title, counted = CONTROLLED[chart.measure]
    points = [point for phase in chart.phases for point in phase.points]
    tops = [value for point in points for value in (point.share, point.high) if value is not None]
    out = sum(point.outside for point in points)
    known = any(phase.centre is not None for phase in chart.phases)
    limits = f"{shown.plural(out, 'night')} beyond the limits" if known else "no limits yet"
    axes = _axes(
        f"{chart.measure}-{number}", title, f"{counted}, with control limits; {limits}",
        counted, (0, max(tops) * 1.08 or 0.01), used, True,
    )  # fmt: skip
    start = 1
    for phase in chart.phases:
        _draw_phase(axes, phase, start)
        start += len(phase.points)
    axes.line(range(1, len(points) + 1), [point.share for point in points], "nights")
    for night, point in enumerate(points, start=1):
        if point.share is not None:
            axes.dot(night, point.share, "signal" if point.outside else "night")
    _mark_changes(axes, chart.phases)
    axes.said = [_phase_words(phase) for phase in chart.phases]
    axes.signals = [shown.text(reason.words, 300) for reason in chart.signals]
    return axes


def _draw_phase(axes: Axes, phase: Phase, start: int) -> None:
    nights = [night for night, point in enumerate(phase.points, start=start) if point.high is not None]
    held = [point for point in phase.points if point.high is not None]
    if not nights:
        return
    axes.line(nights, [phase.centre] * len(nights), "centre")
    for side in ("low", "high"):
        axes.line(nights, [getattr(point, side) for point in held], "limit")


def _phase_words(phase: Phase) -> str:
    first, nights = shown.name(phase.points[0].night), shown.plural(phase.baseline, "night")
    since = f"From {first}" + ("" if phase.began == "first night" else f" ({phase.began})")
    if phase.centre is None or phase.spread is None:
        return f"{since}: no limits yet, {nights} of the 10 that they need."
    how = f"centre {shown.percent(phase.centre)} and limits from the first {nights}"
    how += ", held since" if phase.frozen else ", until there are 20 trial limits that still move"
    kind = (
        "p-chart"
        if phase.spread == 1
        else f"Laney’s p′ chart, limits {shown.ratio(phase.spread)} times as wide"
    )
    return f"{since}: {how}; {kind}."


def _axes(
    name: str,
    title: str,
    description: str,
    y_label: str,
    y: tuple[float, float],
    used: Sequence[NightRun],
    as_percent: bool = False,
) -> Nights:
    first, last = shown.name(used[0].night), shown.name(used[-1].night)
    axes = Nights(
        name=name, title=title, description=f"{title} from {first} to {last}: {description}.",
        x=(1, len(used)), y=y, x_label="Night", y_label=y_label, width=560, height=250,
        margins=(14, 82, 46, 56), as_percent=(False, as_percent),
    )  # fmt: skip
    # Dates where the axis has the numbers of the nights.
    scale = (axes.right - axes.left) / max(len(used) - 1, 1)
    axes.x_ticks = [
        Tick(round(axes.left + scale * i, 1), shown.name(used[i].night)[5:])
        for i in range(0, len(used), max(1, -(-len(used) // 6)))
    ]
    return axes


def _mark_changes(axes: Axes, phases: Sequence[Phase]) -> None:
    night = 1
    for before, phase in pairwise(phases):
        night += len(before.points)
        axes.upright(night, "validated", phase.began)


def _limit(found: ScoreCounts) -> float | None:
    """Return the distance that chance exceeds one night in twenty (Kolmogorov, two samples)."""
    n, m = sum(found.counted), sum(found.known)
    return 1.358 * ((n + m) / (n * m)) ** 0.5 if n and m else None
