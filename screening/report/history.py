"""The run history: workload, yield of reviews, missed cases, drift and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from screening.report import format as fmt
from screening.report.charts import Axes, Tick
from screening.report.drawing import draw
from screening.schemas.base import Estimate
from screening.schemas.history import (
    ControlChart,
    DriftOver,
    ForwardNights,
    HistoryDocument,
    JudgedShare,
    Misses,
    NightRun,
    Phase,
    Promotion,
    Retirement,
    Retraining,
    SeriesFacts,
)
from screening.schemas.run import ScoreCounts


def render_histories(
    document: Mapping[str, object], folder: str, templates: Path | None = None
) -> tuple[str, dict[str, str]]:
    """Return an overview of what `screening.ledger.history` returns, and a page for each of its series.

    `folder`: where these lie as seen from the overview; each is called SERIES.html.
    """
    whole = HistoryDocument.from_dict(document)
    pages = {
        one.series: _render(
            whole.replace(
                series=[one],
                runs=[run for run in whole.runs if run.series == one.series],
            ),
            templates,
        )
        for one in whole.series
    }
    links = {one.series: quote(f"{folder}/{one.series}.html") for one in whole.series}
    return _render(whole, templates, links), {
        f"{series}.html": page for series, page in pages.items()
    }


def render_history(
    document: Mapping[str, object], templates: Path | None = None
) -> str:
    """Return the page of what `screening.ledger.history` returns; `templates` as of `render_model`."""
    return _render(HistoryDocument.from_dict(document), templates)


def _render(
    history: HistoryDocument,
    templates: Path | None,
    links: Mapping[str, str] | None = None,
) -> str:
    """The page; with `links` to the series' own pages, an overview without their nights."""
    trail = history.audit
    questions = [
        _question(one, history.runs, n, links) for n, one in enumerate(history.series)
    ]
    return draw(
        "history.html.j2",
        {
            "banner": {"title": "Run history", "kind": "from the ledger", "date": ""},
            "history": history,
            "questions": questions,
            "models": model_changes(history),
        },
        templates=templates,
        styles=("report.css", "stacked.css", "history.css"),
        footer=f"ledger entry {fmt.count(trail.entries)}, {fmt.text(trail.head[:16])}",
    )


def sentences(series: SeriesFacts) -> list[str]:
    """Return in plain words what the nights of one question add up to."""
    figures = [
        f"{term} {_with_interval(value, ends)}: {words}"
        for term, value, ends, words in _figures(series)
    ]
    return [*figures, *_remarks(series)]


def _remarks(series: SeriesFacts) -> list[str]:
    return [
        *(_forward_words(series.forward) if series.forward else []),
        *_control_words(series.control),
        *(_drift_words(series.drift) if series.drift else []),
        *(
            [f"the model is to be reviewed by {series.review_by}"]
            if series.review_by
            else []
        ),
    ]


def _figures(series: SeriesFacts) -> list[tuple[str, str, str, str]]:
    """Each with its value, its 95 % interval and what it rests on."""
    judged, flagged, misses, work = (
        series.ppv,
        series.ppv_flagged,
        series.misses,
        series.workload,
    )
    waiting = f"{fmt.ratio(work.waiting_per_night)} of them without a verdict"
    if work.minutes_per_night is not None:
        waiting += f", about {fmt.count(work.minutes_per_night)} minutes"
    chosen, audited, missed = (
        "unknown: no flagged case has been judged",
        NOT_AUDITED,
        NOT_AUDITED,
    )
    if judged.judged:
        chosen = f"{_of_judged(judged)} had the condition; chosen by reviewers, not representative"
    if series.verdicts.disputed:
        chosen += f"; on {fmt.plural(series.verdicts.disputed, 'case')} two reviewers disagree"
    if flagged.judged:
        nights = f"{fmt.plural(flagged.flagged, 'flag')} of {fmt.plural(flagged.nights, 'night')}"
        patients = f"{_of_judged(flagged)} patients of the random audit or known from earlier nights had it"
        audited = f"{nights}, a patient who stays counting on each; {patients}"
    ends = ""
    if misses.judged:
        missed = f"{_of_judged(misses)} unflagged in the random audit had the condition"
        ends = f"{fmt.ratio(misses.per_night.low)}–{fmt.ratio(misses.per_night.high)}"
    span = f"{fmt.name(series.first)} to {fmt.name(series.last)}"
    return [
        ("Nights", fmt.count(series.nights), "", span),
        ("Flagged per night", fmt.ratio(work.cases_per_night), "", waiting),
        ("PPV of those judged", *_share(judged), chosen),
        ("PPV of all flagged", *_share(flagged), audited),
        ("Estimated missed cases per night", fmt.ratio(misses.per_night), ends, missed),
    ]


NOT_AUDITED = "unknown: no night's random audit has been judged"


def _of_judged(share: JudgedShare | Misses) -> str:
    return f"{fmt.count(share.found)} of {fmt.count(share.judged)}"


def _share(share: Estimate) -> tuple[str, str]:
    return fmt.percent(share), fmt.ci(share)


def _with_interval(value: str, ends: str) -> str:
    return f"{value} (95% CI {ends})" if ends else value


FIGURES = {"sensitivity": "sensitivity", "ppv": "PPV of all flagged"}


def _forward_words(forward: ForwardNights) -> list[str]:
    """The champion's nights beside its validation estimate; nothing before they show anything."""
    lines = []
    for name, words in FIGURES.items():
        seen = getattr(forward.seen, name)
        if seen.value is None:
            continue
        line = f"{words} since {forward.first} with model {forward.model} {_with_interval(*_share(seen))}"
        promised = None if forward.promised is None else getattr(forward.promised, name)
        if promised is not None and promised.value is not None:
            line += f", validation estimate {_with_interval(*_share(promised))}"
            line += ": below it by more than chance" if name in forward.below else ""
        lines.append(line)
    return lines


def _drift_words(drift: DriftOver) -> list[str]:
    if drift.reason:
        return [fmt.text(drift.reason.words.removesuffix("."), 400)]
    if drift.p is None:
        return []
    over = (
        "last night"
        if drift.nights == 1
        else f"last {fmt.plural(drift.nights, 'night')}"
    )
    return [
        f"no sign over the {over} that the patients or the measurements have changed "
        f"({fmt.count(drift.patients)} patients, each once; p {fmt.p_value(drift.p)})"
    ]


def _control_words(control: Sequence[ControlChart]) -> list[str]:
    """The latest night beyond a limit on each chart; nothing where no chart has limits yet."""
    signals = [chart.signals for chart in control if chart.signals]
    if signals:
        return [
            f"{fmt.plural(len(each), 'night')} beyond a control limit, the last: "
            f"{fmt.text(each[-1].words, 300).removesuffix('.')}"
            for each in signals
        ]
    known = any(phase.centre is not None for chart in control for phase in chart.phases)
    return (
        ["no night was beyond the control limits of workload, yield and data quality"]
        if known
        else []
    )


def _question(
    series: SeriesFacts,
    runs: Sequence[NightRun],
    number: int,
    links: Mapping[str, str] | None,
) -> dict[str, object]:
    of_series = [run for run in runs if run.series == series.series]
    used = [run for run in of_series if run.in_force]
    drawn = len(used) > 1 and not links
    values = ", ".join(map(fmt.name, series.question.positive))
    label = f"{fmt.name(series.question.label)}{' = ' + values if values else ''}"
    return {
        "number": number,
        "title": fmt.text(series.title or label, 200),
        "label": fmt.text(series.series, 200) + (f": {label}" if series.title else ""),
        "sentences": [line[0].upper() + line[1:] + "." for line in _remarks(series)],
        "figures": _figures(series),
        "attention": _attention(used),
        "charts": charts(series, used, number) if drawn else [],
        "control": [
            (chart, _controlled(chart, used, number))
            for chart in series.control
            if drawn
        ],
        "runs": [] if links else of_series[::-1],
        "page": links and links[series.series],
    }


def _attention(used: Sequence[NightRun]) -> list[str]:
    """Attention of the nights in force: each kind of reason, in its latest words."""
    by_kind: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for run in used:
        for reason in run.attention:
            by_kind.setdefault((reason.code, reason.column), []).append(
                (run.night, reason.words)
            )
    latest_first = sorted(
        by_kind.values(), key=lambda nights: nights[-1][0], reverse=True
    )
    return [
        f"{fmt.text(nights[-1][1], 300)} ({fmt.plural(len(nights), 'night')}, last {fmt.name(nights[-1][0])})"
        for nights in latest_first
    ]


def charts(series: SeriesFacts, used: Sequence[NightRun], number: int) -> list[Axes]:
    """Return the pictures of the nights in force, with changes of model and threshold marked."""
    nights = list(range(1, len(used) + 1))
    trend = series.ppv_to_date
    flagged, new = [run.cases for run in used], [run.new for run in used]
    capacity = used[-1].capacity
    # A capacity far above would press the line of the nights flat.
    near = [] if capacity is None or capacity > 3 * max(flagged) else [capacity]
    top = max([1, *flagged, *near])
    work = _axes(
        f"work-{number}",
        "Cases",
        "flagged and new cases a night",
        "Cases",
        (0, top * 1.08),
        used,
    )
    work.line(nights, flagged, "first", "flagged")
    work.line(nights, new, "second", "new")
    for height in near:
        work.line([1, len(used)], [height, height], "chance", "capacity")
    predictive = _axes(
        f"ppv-{number}",
        "Predictive value of those judged",
        "share of judged cases that had the condition, "
        "night by night, each case by the last word on it",
        "PPV to date",
        (0, 1),
        used,
        True,
    )
    predictive.band(nights, [t.low for t in trend], [t.high for t in trend], "first")
    predictive.line(nights, [t.value for t in trend], "first", "PPV")
    far = [run.drift.distance if run.drift else None for run in used]
    limit = [_limit(run.drift) if run.drift else None for run in used]
    distances = [value for value in [*far, *limit] if value is not None]
    drift = _axes(
        f"drift-{number}",
        "Drift",
        "distance of a night's scores from those held out in training, "
        "with what chance alone exceeds on one night in twenty",
        "Distance",
        (0, max([0.05, *distances]) * 1.08),
        used,
    )
    drift.line(nights, far, "first", "distance")
    drift.line(nights, limit, "second", "limit")
    pictures = [
        work,
        *([predictive] if any(t.value is not None for t in trend) else []),
        drift,
    ]
    # Every chart of a series has the same phases, and there is always one of the workload.
    phases = series.control[0].phases if series.control else []
    for axes in pictures:
        _mark_changes(axes, phases)
    return pictures


# Title of a control chart, and of its axis.
CONTROLLED = {
    "workload": ("Workload", "flagged of rows read"),
    "yield": ("Yield", "confirmed of judged"),
    "refused": ("Data quality: refused rows", "refused of rows read"),
    "missing": ("Data quality: missing values", "missing of values"),
}


def _controlled(chart: ControlChart, used: Sequence[NightRun], number: int) -> Axes:
    title, counted = CONTROLLED[chart.measure]
    points = [point for phase in chart.phases for point in phase.points]
    tops = [
        value
        for point in points
        for value in (point.share, point.high)
        if value is not None
    ]
    out = sum(point.outside for point in points)
    known = any(phase.centre is not None for phase in chart.phases)
    limits = (
        f"{fmt.plural(out, 'night')} beyond the limits" if known else "no limits yet"
    )
    axes = _axes(
        f"{chart.measure}-{number}",
        title,
        f"{counted}, with control limits; {limits}",
        counted,
        (0, max(tops) * 1.08 or 0.01),
        used,
        True,
    )
    start = 1
    for phase in chart.phases:
        _draw_phase(axes, phase, start)
        start += len(phase.points)
    axes.line(range(1, len(points) + 1), [point.share for point in points], "nights")
    for night, point in enumerate(points, start=1):
        if point.share is not None:
            axes.dot(night, point.share, "signal" if point.outside else "night")
    _mark_changes(axes, chart.phases)
    return axes


def _draw_phase(axes: Axes, phase: Phase, start: int) -> None:
    nights = [
        night
        for night, point in enumerate(phase.points, start=start)
        if point.high is not None
    ]
    held = [point for point in phase.points if point.high is not None]
    if not nights:
        return
    axes.line(nights, [phase.centre] * len(nights), "centre")
    for side in ("low", "high"):
        axes.line(nights, [getattr(point, side) for point in held], "limit")


def _axes(
    name: str,
    title: str,
    description: str,
    y_label: str,
    y: tuple[float, float],
    used: Sequence[NightRun],
    as_percent: bool = False,
) -> Axes:
    first, last = fmt.name(used[0].night), fmt.name(used[-1].night)
    axes = Axes(
        name=name,
        title=title,
        description=f"{title} from {first} to {last}: {description}.",
        x=(1, len(used)),
        y=y,
        x_label="Night",
        y_label=y_label,
        width=560,
        height=250,
        margins=(14, 82, 46, 56),
        as_percent=(False, as_percent),
    )
    # Dates where the axis has the numbers of the nights.
    scale = (axes.right - axes.left) / max(len(used) - 1, 1)
    axes.x_ticks = [
        Tick(round(axes.left + scale * i, 1), fmt.name(used[i].night)[5:])
        for i in range(0, len(used), max(1, -(-len(used) // 6)))
    ]
    return axes


def _mark_changes(axes: Axes, phases: Sequence[Phase]) -> None:
    night = 1
    for before, phase in pairwise(phases):
        night += len(before.points)
        axes.upright(night, "validated", phase.began)


def _limit(counts: ScoreCounts) -> float | None:
    """Return the distance that chance exceeds one night in twenty (Kolmogorov, two samples)."""
    n, m = sum(counts.counted), sum(counts.known)
    return 1.358 * ((n + m) / (n * m)) ** 0.5 if n and m else None


def model_changes(
    history: HistoryDocument,
) -> list[tuple[str, Promotion | Retraining | Retirement]]:
    """What became of models and series, in order."""
    changes: list[tuple[str, Promotion | Retraining | Retirement]] = [
        *(("promoted", one) for one in history.promotions),
        *(("trained again", one) for one in history.retrainings),
        *(("retired", one) for one in history.retirements),
    ]
    return sorted(changes, key=lambda change: change[1].entry)
