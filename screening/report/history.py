"""The history page: workload, yield of reviews, missed cases, drift and changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from screening.report import format as fmt
from screening.report.charts import Axes, Tick
from screening.report.drawing import draw
from screening.report.outcome_words import (
    complete_words,
    hours_words,
    left_out_of,
    left_out_words,
    zone_words,
)
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import NO_CASE_SEEN
from screening.schemas.history import (
    BeforeAfter,
    ControlChart,
    ControlPoint,
    DriftOver,
    FlaggedShare,
    ForwardNights,
    HistoryDocument,
    JudgedShare,
    LabelledNights,
    Misses,
    ModelApproved,
    NightRun,
    OutcomeFigures,
    Phase,
    Promotion,
    Retirement,
    Retraining,
    SeriesFacts,
)
from screening.schemas.run import ScoreCounts

ModelChange: TypeAlias = ModelApproved | Promotion | Retraining | Retirement

# Quantile of the Kolmogorov distribution at 0.95.
KOLMOGOROV_95 = 1.358
# Dates on the axis of a chart.
MAX_DATES = 6
NOT_AUDITED = "unknown: no night's random audit has been judged"
LIVE_FIGURES = {"sensitivity": "sensitivity", "ppv": "PPV of all flagged"}


class SeriesFigure(NamedTuple):
    """A figure of a series: its name, value, 95 % interval and what it rests on."""

    name: str
    value: str
    interval: str
    basis: str


def render_histories(
    document: Mapping[str, object], folder: str, templates: Path | None = None
) -> tuple[str, dict[str, str]]:
    """Render an overview of all series, and a page for each.

    Parameters
    ----------
    document : mapping
        As `screening.ledger.history` returns it.
    folder : str
        Path of the series' pages, relative to the overview.
    templates : Path, optional
        As for `render_model`.

    Returns
    -------
    overview : str
    pages : dict of str to str
        By file name, SERIES.html.
    """
    history = HistoryDocument.from_dict(document)
    pages = {}
    links = {}
    for series in history.series:
        runs = [run for run in history.runs if run.series == series.series]
        name = f"{series.series}.html"
        pages[name] = _render(history.replace(series=[series], runs=runs), templates)
        links[series.series] = quote(f"{folder}/{name}")
    return _render(history, templates, links), pages


def render_history(
    document: Mapping[str, object], templates: Path | None = None
) -> str:
    """Render the result of `screening.ledger.history` as a page.

    `templates` as for `render_model`.
    """
    return _render(HistoryDocument.from_dict(document), templates)


def _render(
    history: HistoryDocument,
    templates: Path | None,
    links: Mapping[str, str] | None = None,
) -> str:
    """Render the page; with `links` to the pages of series, an overview."""
    trail = history.audit
    series_blocks = [
        _series_block(series, history.runs, number, links)
        for number, series in enumerate(history.series)
    ]
    return draw(
        "history.html.j2",
        {
            "banner": {"title": "Run history", "kind": "from the ledger", "date": ""},
            "history": history,
            "questions": series_blocks,
            "models": model_changes(history),
        },
        templates=templates,
        styles=("report.css", "stacked.css", "history.css"),
        footer=f"ledger entry {fmt.count(trail.entries)}, {fmt.text(trail.head[:16])}",
    )


def sentences(series: SeriesFacts) -> list[str]:
    """Return the figures and remarks of a series as sentences."""
    lines = []
    for figure in _figures(series):
        value = fmt.with_ends(figure.value, figure.interval)
        lines.append(f"{figure.name} {value}: {figure.basis}")
    return lines + _live_performance_words(series.forward) + _plain_remarks(series)


def _plain_remarks(series: SeriesFacts) -> list[str]:
    """Return the remarks that are not estimates from verdicts."""
    remarks = []
    if series.forward:
        remarks += _words_without_cases(series, series.forward)
    if series.outcomes:
        remarks += _outcome_words(series.outcomes)
    remarks += _control_words(series.control)
    if series.drift:
        remarks += _drift_words(series.drift)
    if series.review_by:
        remarks.append(f"the model is to be reviewed by {series.review_by}")
    return remarks


def _figures(series: SeriesFacts) -> list[SeriesFigure]:
    """Return the figures of a series."""
    workload = series.workload
    waiting = (
        f"on average {fmt.ratio(workload.waiting_per_night)} had no verdict when "
        "their night was scored"
    )
    if workload.minutes_per_night is not None:
        waiting += f", about {fmt.count(workload.minutes_per_night)} minutes"
    misses = series.misses
    interval = ""
    if misses.judged:
        low = fmt.ratio(misses.per_night.low)
        high = fmt.ratio(misses.per_night.high)
        interval = f"{low}–{high}"
    span = f"{fmt.name(series.first)} to {fmt.name(series.last)}"
    return [
        SeriesFigure("Nights", fmt.count(series.nights), "", span),
        SeriesFigure(
            "Flagged per night", fmt.ratio(workload.cases_per_night), "", waiting
        ),
        SeriesFigure(
            "PPV of those judged",
            fmt.percent(series.ppv),
            fmt.ci(series.ppv),
            _basis_of_judged(series),
        ),
        SeriesFigure(
            "PPV of all flagged",
            fmt.percent(series.ppv_flagged),
            fmt.ci(series.ppv_flagged),
            _basis_of_flagged(series.ppv_flagged),
        ),
        SeriesFigure(
            "Estimated missed cases per night",
            fmt.ratio(misses.per_night),
            interval,
            _basis_of_misses(misses),
        ),
    ]


def _ordered_figures(
    series: SeriesFacts,
) -> tuple[list[SeriesFigure], list[SeriesFigure]]:
    """Return the first figures of a series, and the others.

    First are workload, what was found and what was missed, by outcomes if they are
    known; the others rest on the few that reviewers judged.
    """
    nights, flagged, of_judged, of_flagged, missed = _figures(series)
    outcomes = series.outcomes
    if outcomes is None or not outcomes.cases:
        if series.ppv_flagged.judged:
            return [flagged, of_flagged, missed, nights], [of_judged]
        return [flagged, of_judged, missed, nights], [of_flagged]
    n_missed = outcomes.cases - outcomes.true_positive
    span = f"by outcomes known up to {outcomes.as_of[:10]}"
    found_by_outcomes = SeriesFigure(
        "Found",
        f"{fmt.count(outcomes.true_positive)} of {fmt.count(outcomes.flagged)}",
        "",
        f"flags that were followed by the outcome, {span}",
    )
    missed_by_outcomes = SeriesFigure(
        "Missed",
        f"{fmt.count(n_missed)} of {fmt.count(outcomes.cases)}",
        "",
        f"cases that were not flagged, {span}",
    )
    first = [flagged, found_by_outcomes, missed_by_outcomes, nights]
    return first, [of_judged, of_flagged, missed]


def _basis_of_judged(series: SeriesFacts) -> str:
    """Return what the PPV of judged cases rests on."""
    basis = "unknown: no flagged case has been judged"
    if series.ppv.judged:
        basis = (
            f"{_found_of_judged(series.ppv)} had the condition; reviewers chose "
            "them, so they are not representative"
        )
    disputed = series.verdicts.disputed
    if disputed:
        basis += f"; on {fmt.plural(disputed, 'case')} two reviewers disagree"
    return basis


def _basis_of_flagged(flagged: FlaggedShare) -> str:
    """Return what the PPV of all flagged rests on."""
    if not flagged.judged:
        return NOT_AUDITED
    flags = fmt.plural(flagged.flagged, "flag")
    nights = fmt.plural(flagged.nights, "night")
    return (
        f"of {flags} on {nights} (a patient counts once a night); of those in the "
        f"random audit or known earlier, {_found_of_judged(flagged)} had it"
    )


def _basis_of_misses(misses: Misses) -> str:
    """Return what the estimate of missed cases rests on."""
    if not misses.judged:
        return NOT_AUDITED
    return (
        f"{_found_of_judged(misses)} in the random audit, all unflagged, had the "
        "condition"
    )


def _found_of_judged(share: JudgedShare | Misses) -> str:
    return f"{fmt.count(share.found)} of {fmt.count(share.judged)}"


def _live_performance_words(forward: ForwardNights | None) -> list[str]:
    """Return figures of the champion's nights, next to its validation estimate.

    Empty until the nights show anything.
    """
    lines: list[str] = []
    if forward is None:
        return lines
    for name, words in LIVE_FIGURES.items():
        observed: Estimate = getattr(forward.seen, name)
        if observed.value is None:
            continue
        since = f"since {forward.first} with model {forward.model}"
        line = f"{words} {since} {fmt.share_words(observed)}"
        promised = getattr(forward.promised, name) if forward.promised else UNDEFINED
        if promised.value is not None:
            line += f", validation estimate {fmt.share_words(promised)}"
            if name in forward.below:
                line += ": below it by more than chance"
        lines.append(line)
    return lines


def _counted_words(outcomes: OutcomeFigures) -> dict[str, object]:
    """Return how outcomes were counted, in words for a page."""
    return {
        "complete": complete_words(outcomes),
        "zone": zone_words(outcomes),
        "hours": hours_words(outcomes),
        "by_month": [left_out_of(month.left_out) for month in outcomes.by_month],
        "all": left_out_words(outcomes),
    }


def _outcome_words(outcomes: OutcomeFigures) -> list[str]:
    """Return what became of all rows of the nights, next to the promise."""
    lines = []
    if outcomes.table is not None:
        lines.append(f"patients never scored: {fmt.patients_words(outcomes.table)}")
    for name, words in LIVE_FIGURES.items():
        seen: Estimate = outcomes.figure(name)
        if seen.value is None:
            continue
        until = f"by outcomes known up to {outcomes.as_of[:10]}"
        line = f"{words} {until} {fmt.share_words(seen)}"
        if name in outcomes.below:
            line += ": below the validation estimate by more than chance"
        lines.append(line)
    lead = outcomes.lead
    if lead.events:
        line = (
            f"{lead.detected} of {fmt.plural(lead.events, 'event')} were flagged on the"
            " night before"
        )
        if lead.median_hours is not None:
            line += f", a median of {fmt.count(lead.median_hours)} hours ahead"
        lines.append(line)
    return lines


def _words_without_cases(series: SeriesFacts, forward: ForwardNights) -> list[str]:
    """Return what is known of a model that was trained without a case.

    From verdicts and labels of its nights; empty for any other model.
    """
    promised = forward.promised
    if promised is None or promised.sensitivity.value is not None:
        return []
    labelled = forward.labelled
    n_cases = series.verdicts.found + series.misses.found
    if labelled is not None:
        n_cases += labelled.true_positive + labelled.false_negative
    reason = NOT_AUDITED if n_cases else NO_CASE_SEEN
    lines = []
    for name, words in LIVE_FIGURES.items():
        observed: Estimate = getattr(forward.seen, name)
        if observed.value is None:
            lines.append(
                f"{words} since {forward.first} with model {forward.model} is {reason}"
            )
    if labelled is not None:
        lines += _labelled_words(labelled)
    return lines


def _labelled_words(labelled: LabelledNights) -> list[str]:
    """Return sensitivity and PPV by the labels of nights, in words."""
    found = labelled.true_positive
    shares = []
    for name, of, noun in (
        ("sensitivity", found + labelled.false_negative, "rows with the condition"),
        ("PPV", found + labelled.false_positive, "flagged rows"),
    ):
        if of:
            shares.append(f"{name} {fmt.percent(found / of)} ({found} of {of} {noun})")
    nights = fmt.plural(labelled.nights, "night")
    if not shares:
        return [f"labels of {nights}: no case and no flag"]
    return [f"labels of {nights}: {', '.join(shares)} (a patient counts once a night)"]


def _drift_words(drift: DriftOver) -> list[str]:
    """Return whether scores drifted over the last nights; empty if not tested."""
    if drift.reason:
        return [fmt.text(drift.reason.words.removesuffix("."), 400)]
    if drift.p is None:
        return []
    nights = "night" if drift.nights == 1 else fmt.plural(drift.nights, "night")
    return [
        f"no sign over the last {nights} that the patients or the measurements have "
        f"changed ({fmt.count(drift.patients)} patients, each counted once; "
        f"p {fmt.p_value(drift.p)})"
    ]


def _control_words(control: Sequence[ControlChart]) -> list[str]:
    """Return the latest night beyond a limit of each chart; empty without limits."""
    lines = []
    for chart in control:
        if chart.signals:
            nights = fmt.plural(len(chart.signals), "night")
            latest = fmt.text(chart.signals[-1].words, 300).removesuffix(".")
            lines.append(f"{nights} beyond a control limit, the last: {latest}")
    if not lines and any(map(_has_limits, control)):
        lines.append(
            "no night was beyond the control limits of workload, yield and data quality"
        )
    return lines


def _has_limits(chart: ControlChart) -> bool:
    """Return True if any phase of a chart has had nights enough for limits."""
    return any(phase.centre is not None for phase in chart.phases)


def _series_block(
    series: SeriesFacts,
    runs: Sequence[NightRun],
    number: int,
    links: Mapping[str, str] | None,
) -> dict[str, object]:
    """Return the values that the template shows of a series."""
    runs_of_series = [run for run in runs if run.series == series.series]
    in_force = [run for run in runs_of_series if run.in_force]
    name = fmt.text(series.series, 200)
    label = _question_label(series)
    title = fmt.text(series.title or label, 200)
    if series.title:
        name = f"{name}: {label}"
    figures, estimates = _ordered_figures(series)
    block: dict[str, object] = {
        "facts": series,
        "number": number,
        "title": title,
        "label": name,
        "sentences": _as_sentences(_plain_remarks(series)),
        "figures": figures,
        "estimates": estimates,
        "live": _as_sentences(_live_performance_words(series.forward)),
        "attention": _attention(in_force),
        "charts": [],
        "control": [],
        "runs": [],
        "page": links and links[series.series],
    }
    if series.outcomes is not None:
        block["counted"] = _counted_words(series.outcomes)
    if series.before_after is not None:
        block["rates"] = rates_chart(series.before_after, number)
    if links:
        return block
    block["runs"] = runs_of_series[::-1]
    if len(in_force) > 1:
        control = series.control
        axes = [_control_chart(chart, in_force, number) for chart in control]
        block["charts"] = charts(series, in_force, number)
        block["control"] = list(zip(control, axes, strict=True))
    return block


def _as_sentences(lines: Sequence[str]) -> list[str]:
    """Return lines with a capital at the beginning and a full stop at the end."""
    return [line[0].upper() + line[1:] + "." for line in lines]


def _question_label(series: SeriesFacts) -> str:
    """Return the label of a series, with its positive values."""
    label = fmt.name(series.question.label)
    if not series.question.positive:
        return label
    positive = ", ".join(map(fmt.name, series.question.positive))
    return f"{label} = {positive}"


def _attention(runs: Sequence[NightRun]) -> list[str]:
    """Return each kind of reason of the nights in force, in its latest words."""
    given: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for run in runs:
        for reason in run.attention:
            kind = (reason.code, reason.column)
            given.setdefault(kind, []).append((run.night, reason.words))
    lines = []
    for nights in sorted(
        given.values(), key=lambda nights: nights[-1][0], reverse=True
    ):
        night, words = nights[-1]
        n_nights = fmt.plural(len(nights), "night")
        lines.append(f"{fmt.text(words, 300)} ({n_nights}, last {fmt.name(night)})")
    return lines


def charts(series: SeriesFacts, runs: Sequence[NightRun], number: int) -> list[Axes]:
    """Return the charts of the nights in force, with changes of the model marked.

    Parameters
    ----------
    series : SeriesFacts
    runs : sequence of NightRun
        Nights in force, in order.
    number : int
        Number of the series on the page.
    """
    drawn = [_workload_chart(runs, number)]
    if any(share.value is not None for share in series.ppv_to_date):
        drawn.append(_ppv_chart(series.ppv_to_date, runs, number))
    drawn.append(_drift_chart(runs, number))
    # Every control chart of a series has the same phases, and there is one of workload.
    phases = series.control[0].phases if series.control else []
    for axes in drawn:
        _mark_changes(axes, phases)
    return drawn


def _workload_chart(runs: Sequence[NightRun], number: int) -> Axes:
    """Return flagged and new cases a night, with the capacity."""
    flagged = [run.cases for run in runs]
    highest = max([1, *flagged])
    capacity = runs[-1].capacity
    # A capacity far above would press the line of the nights flat.
    if capacity is not None and capacity > 3 * max(flagged):
        capacity = None
    if capacity is not None:
        highest = max(highest, capacity)
    axes = _axes(
        f"work-{number}",
        "Cases",
        "flagged and new cases a night",
        "Cases",
        (0, highest * 1.08),
        runs,
    )
    nights = _night_numbers(runs)
    axes.line(nights, flagged, "first", "flagged")
    axes.line(nights, [run.new for run in runs], "second", "new")
    if capacity is not None:
        axes.line([1, len(runs)], [capacity, capacity], "chance", "capacity")
    return axes


def _ppv_chart(
    trend: Sequence[Estimate], runs: Sequence[NightRun], number: int
) -> Axes:
    """Return the PPV of judged cases up to each night, with its intervals."""
    axes = _axes(
        f"ppv-{number}",
        "Predictive value among judged cases",
        "share of judged cases that had the condition, night by night, each case "
        "by its latest verdict",
        "PPV to date",
        (0, 1),
        runs,
        as_percent=True,
    )
    axes.estimates(_night_numbers(runs), trend, "first", "PPV")
    return axes


def rates_chart(before_after: BeforeAfter, number: int) -> Axes:
    """Return rates by month, with the night on which the screen went live.

    `number`: of the series on the page.
    """
    months = before_after.months
    first = _month_number(months[0].month)
    last = _month_number(months[-1].month)
    outcomes = [month.outcome_rate for month in months]
    interventions = [month.intervention_rate for month in months]
    highest = max(rate.high or 0.0 for rate in outcomes + interventions)
    axes = Axes(
        name=f"rates-{number}",
        title="Before and after",
        description=(
            f"Outcomes and interventions per 1,000 patient-days from {months[0].month}"
            f" to {months[-1].month}, by month, with 95% intervals; the screen went"
            f" live on {before_after.live}."
        ),
        x=(first, last + 1),
        y=(0, highest * 1.08),
        x_label="Month",
        y_label="Per 1,000 patient-days",
        width=560,
        height=250,
        margins=(14, 110, 46, 56),
        as_percent=(False, False),
    )
    _write_dates(
        axes,
        [
            (number + 0.5, f"{number // 12}-{number % 12 + 1:02d}")
            for number in range(first, last + 1)
        ],
    )
    middles = [_month_number(month.month) + 0.5 for month in months]
    axes.estimates(middles, outcomes, "first", "outcomes")
    axes.estimates(middles, interventions, "second", "interventions")
    day = int(before_after.live[8:10])
    live = _month_number(before_after.live) + (day - 1) / 31
    axes.upright(live, "validated", f"live {before_after.live}")
    return axes


def _month_number(month: str) -> int:
    """Return the number of a month by its date, 0 for January of the year 0."""
    return 12 * int(month[:4]) + int(month[5:7]) - 1


def _drift_chart(runs: Sequence[NightRun], number: int) -> Axes:
    """Return the distance of each night's scores from training's, with its limit."""
    distances = [run.drift.distance if run.drift else None for run in runs]
    limits = [_distance_limit(run.drift) if run.drift else None for run in runs]
    known = [value for value in (*distances, *limits) if value is not None]
    axes = _axes(
        f"drift-{number}",
        "Drift",
        "distance between a night's scores and the held-out scores of training, "
        "with the limit that chance alone exceeds on one night in twenty",
        "Distance",
        (0, max([0.05, *known]) * 1.08),
        runs,
    )
    nights = _night_numbers(runs)
    axes.line(nights, distances, "first", "distance")
    axes.line(nights, limits, "second", "limit")
    return axes


# Title of a control chart, and of its axis.
CONTROL_TITLES = {
    "workload": ("Workload", "flagged of rows read"),
    "yield": ("Yield", "confirmed of judged"),
    "refused": ("Data quality: refused rows", "refused of rows read"),
    "missing": ("Data quality: missing values", "missing of values"),
}


def _control_chart(chart: ControlChart, runs: Sequence[NightRun], number: int) -> Axes:
    """Return a control chart with its limits by phase."""
    title, quantity = CONTROL_TITLES[chart.measure]
    points = list(chain.from_iterable(phase.points for phase in chart.phases))
    limits = "no limits yet"
    if _has_limits(chart):
        n_outside = sum(point.outside for point in points)
        limits = f"{fmt.plural(n_outside, 'night')} beyond the limits"
    axes = _axes(
        f"{chart.measure}-{number}",
        title,
        f"{quantity}, with control limits; {limits}",
        quantity,
        (0, _highest(points) * 1.08 or 0.01),
        runs,
        as_percent=True,
    )
    first_night = 1
    for phase in chart.phases:
        _draw_limits(axes, phase, first_night)
        first_night += len(phase.points)
    nights = range(1, len(points) + 1)
    axes.line(nights, [point.share for point in points], "nights")
    for night, point in zip(nights, points, strict=True):
        style = "signal" if point.outside else "night"
        if point.share is not None:
            axes.mark(night, point.share, style)
    _mark_changes(axes, chart.phases)
    return axes


def _highest(points: Sequence[ControlPoint]) -> float:
    """Return the highest share or limit of a control chart."""
    values = [point.share for point in points] + [point.high for point in points]
    return max(value for value in values if value is not None)


def _draw_limits(axes: Axes, phase: Phase, first_night: int) -> None:
    """Draw centre and limits of a phase; `first_night` is the number of its first."""
    numbered = enumerate(phase.points, start=first_night)
    limited = [(night, point) for night, point in numbered if point.high is not None]
    if not limited:
        return
    nights = [night for night, _ in limited]
    axes.line(nights, [phase.centre] * len(nights), "centre")
    axes.line(nights, [point.low for _, point in limited], "limit")
    axes.line(nights, [point.high for _, point in limited], "limit")


def _night_numbers(runs: Sequence[NightRun]) -> list[int]:
    return list(range(1, len(runs) + 1))


def _axes(
    name: str,
    title: str,
    description: str,
    y_label: str,
    y: tuple[float, float],
    runs: Sequence[NightRun],
    as_percent: bool = False,
) -> Axes:
    """Return an empty chart over nights, with their dates on its axis."""
    first = fmt.name(runs[0].night)
    last = fmt.name(runs[-1].night)
    axes = Axes(
        name=name,
        title=title,
        description=f"{title} from {first} to {last}: {description}.",
        x=(1, len(runs)),
        y=y,
        x_label="Night",
        y_label=y_label,
        width=560,
        height=250,
        margins=(14, 82, 46, 56),
        as_percent=(False, as_percent),
    )
    dates = [fmt.name(run.night)[5:] for run in runs]
    _write_dates(axes, list(enumerate(dates, start=1)))
    return axes


def _write_dates(axes: Axes, dates: Sequence[tuple[float, str]]) -> None:
    """Write dates on the axis of x, each at its value; only some of many."""
    stride = math.ceil(len(dates) / MAX_DATES)
    axes.x_ticks = [Tick(axes.across.at(x), text) for x, text in dates[::stride]]


def _mark_changes(axes: Axes, phases: Sequence[Phase]) -> None:
    """Draw a line where a phase begins, with its reason."""
    night = 1
    for before, phase in pairwise(phases):
        night += len(before.points)
        axes.upright(night, "validated", phase.began)


def _distance_limit(counts: ScoreCounts) -> float | None:
    """Return the distance that chance exceeds one night in twenty.

    Kolmogorov and Smirnov's test of two samples.
    """
    n = sum(counts.counted)
    m = sum(counts.known)
    if not n or not m:
        return None
    return KOLMOGOROV_95 * ((n + m) / (n * m)) ** 0.5


def model_changes(history: HistoryDocument) -> list[tuple[str, ModelChange]]:
    """Return what became of models and series with a word for each, in order.

    These are approvals, promotions, retrainings and retirements.
    """
    changes: list[tuple[str, ModelChange]] = [
        *zip(repeat("approved"), history.approvals),
        *zip(repeat("promoted"), history.promotions),
        *zip(repeat("trained again"), history.retrainings),
        *zip(repeat("retired"), history.retirements),
    ]
    return sorted(changes, key=lambda change: change[1].entry)
