"""The page of the nights so far: workload, what reviews found, what was missed, drift and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from screening.documents.control import ControlChart
from screening.documents.forward import Estimate, ForwardNights
from screening.documents.history import (
    DriftOver,
    FlaggedShare,
    Misses,
    NightRun,
    SeriesFacts,
)
from screening.documents.shadow import JudgedShare
from screening.documents.stored import history_in
from screening.page import format as shown
from screening.page.drawing import draw
from screening.page.history_changes import model_rows, threshold_row
from screening.page.history_charts import charts, control_charts


def render_history(told: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of a ledger.

    Parameters
    ----------
    told : mapping
        What `screening.ledger.history` returns, also printed by ``screen history --json``.
    templates : Path, optional
        A site's own templates, which stand in the place of those of the same name.

    Returns
    -------
    str
        HTML; the same history always gives the same text.
    """
    found = history_in(told)
    trail = found.audit
    return draw(
        "history.html.j2",
        {
            "banner": {"title": "The nights so far", "kind": "from the ledger", "date": ""},
            "facts": [
                ("Runs", shown.count(len(found.runs))),
                ("Audit trail", shown.plural(trail.entries, "entry", "entries")),
                ("Its head", shown.text(trail.head)),
                ("Followed from its start", "yes, unbroken" if trail.verified else "not this time"),
            ],
            "questions": [_question(one, found.runs, n) for n, one in enumerate(found.series)],
            "changes": [threshold_row(one) for one in found.threshold_changes],
            "models": model_rows(found),
        },
        templates=templates,
        styles=("report.css", "stacked.css", "history.css"),
        footer=f"ledger entry {shown.count(trail.entries)}, {shown.text(trail.head[:16])}",
    )


def sentences(series: SeriesFacts) -> list[str]:
    """Return in plain words what the nights of one question add up to."""
    work = series.workload
    minutes = work.minutes_per_night
    return [
        f"{shown.plural(series.nights, 'night')}, {shown.name(series.first)} to {shown.name(series.last)}: "
        f"{shown.ratio(work.cases_per_night)} flagged a night, {shown.ratio(work.waiting_per_night)} of them "
        "not judged before" + ("" if minutes is None else f", about {shown.count(minutes)} minutes"),
        _of_those_judged(series.ppv),
        _of_all_flagged(series.ppv_flagged),
        _missed(series.misses),
        *(_forward_words(series.forward) if series.forward else []),
        *_control_words(series.control),
        *(_drift_words(series.drift) if series.drift else []),
        *([f"the model is to be reviewed by {series.review_by}"] if series.review_by else []),
    ]


def _of_those_judged(ppv: JudgedShare) -> str:
    if not ppv.judged:
        return "no flagged case has been judged yet"
    return (
        f"{_with_interval(ppv)} of those judged had the condition ({shown.count(ppv.found)} of "
        f"{shown.count(ppv.judged)}); reviewers chose them, so that is not the share of all flagged"
    )


def _of_all_flagged(whole: FlaggedShare) -> str:
    if not whole.judged:
        return (
            "what share of all new cases had the condition is unknown: on no night were all cases that "
            "lots marked judged"
        )
    return (
        f"{_with_interval(whole)} of all {shown.count(whole.flagged)} new cases of "
        f"{shown.plural(whole.nights, 'night')} had the condition, by the {shown.count(whole.judged)} that "
        "lots marked and reviewers judged"
    )


def _missed(misses: Misses) -> str:
    if not misses.judged:
        return "none of those drawn at random from the unflagged has been judged: misses are unknown"
    ends = f"{shown.ratio(misses.per_night_low)} to {shown.ratio(misses.per_night_high)}"
    return (
        f"about {shown.ratio(misses.per_night)} missed a night (95% interval {ends}): "
        f"{shown.count(misses.found)} of {shown.count(misses.judged)} drawn at random from the "
        "unflagged had the condition"
    )


def _forward_words(found: ForwardNights) -> list[str]:
    """What the champion's nights showed beside what its page promised; nothing before they show anything."""
    kinds = {
        "of those with the condition were flagged": (found.seen.sensitivity, "sensitivity"),
        "of the new cases had it": (found.seen.ppv, "ppv"),
    }
    said = []
    for words, (seen, name) in kinds.items():
        if seen.value is None:
            continue
        promise = None if found.promised is None else getattr(found.promised, name)
        line = f"{_with_interval(seen)} {words} since {found.first} by lots and random samples"
        if promise is not None and promise.value is not None:
            line += f"; the page of model {found.model} promised {_with_interval(promise)}"
            line += ", and that is not kept" * seen.below(promise)
        said.append(line)
    return said


def _drift_words(drift: DriftOver) -> list[str]:
    if drift.reason:
        return [shown.text(drift.reason.words.removesuffix("."), 400)]
    if drift.p is None:
        return []
    over = "last night" if drift.nights == 1 else f"last {shown.plural(drift.nights, 'night')}"
    return [
        f"no sign over the {over} that the patients or the measurements have changed "
        f"({shown.count(drift.patients)} patients, each once; p {shown.p_value(drift.p)})"
    ]


def _control_words(control: Sequence[ControlChart]) -> list[str]:
    """The latest night beyond a limit on each chart; nothing where no chart has limits yet."""
    signals = [chart.signals for chart in control if chart.signals]
    if signals:
        return [
            f"{shown.plural(len(each), 'night')} beyond a control limit, the last: "
            f"{shown.text(each[-1].words, 300).removesuffix('.')}"
            for each in signals
        ]
    known = any(phase.centre is not None for chart in control for phase in chart.phases)
    return ["no night was beyond the control limits of workload, yield and data quality"] if known else []


def _with_interval(found: JudgedShare | Estimate) -> str:
    return f"{shown.percent(found.value)} ({shown.interval(found.low, found.high)})"


def _question(series: SeriesFacts, runs: Sequence[NightRun], number: int) -> dict[str, object]:
    mine = [run for run in runs if run.series == series.series]
    used = [run for run in mine if run.in_force]
    values = ", ".join(map(shown.name, series.question.positive))
    label = f"{shown.name(series.question.label)}{' = ' + values if values else ''}"
    return {
        "number": number,
        "title": shown.text(series.title or label, 200),
        "label": shown.text(series.series, 200) + (f": {label}" if series.title else ""),
        "sentences": [line[0].upper() + line[1:] + "." for line in sentences(series)],
        "figures": _figures(series),
        "attention": _attention(used),
        "charts": charts(series, used, number) if len(used) > 1 else [],
        "control": control_charts(series, used, number) if len(used) > 1 else [],
        "rows": [_row(run) for run in reversed(mine)],
    }


def _figures(series: SeriesFacts) -> list[tuple[str, str, str, str]]:
    ppv, whole, misses, work = series.ppv, series.ppv_flagged, series.misses, series.workload
    ends = f"{shown.ratio(misses.per_night_low)}–{shown.ratio(misses.per_night_high)}"
    return [
        (
            "Nights",
            shown.count(series.nights),
            "",
            f"{shown.name(series.first)} to {shown.name(series.last)}",
        ),
        (
            "PPV of those judged",
            shown.percent(ppv.value),
            shown.interval(ppv.low, ppv.high),
            _of_judged(ppv, "judged had it", "no flagged case has been judged"),
        ),
        (
            "PPV of new cases",
            shown.percent(whole.value),
            shown.interval(whole.low, whole.high),
            _of_judged(
                whole,
                "drawn by lot had it, each weighed by its night",
                "no night's drawn cases have all been judged",
            ),
        ),
        (
            "Missed a night",
            shown.ratio(misses.per_night),
            ends if misses.judged else "",
            _of_judged(misses, "drawn at random had it", "nobody drawn at random has been judged"),
        ),
        (
            "Flagged a night",
            shown.ratio(work.cases_per_night),
            "",
            f"{shown.ratio(work.waiting_per_night)} not judged before",
        ),
    ]


def _attention(used: Sequence[NightRun]) -> list[str]:
    """What the nights in force said of themselves: each kind of reason, in its latest words."""
    said: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for run in used:
        for reason in run.attention:
            said.setdefault((reason.code, reason.column), []).append((run.night, reason.words))
    latest_first = sorted(said.values(), key=lambda nights: nights[-1][0], reverse=True)
    return [
        f"{shown.text(nights[-1][1], 300)} ({shown.plural(len(nights), 'night')}, "
        f"last {shown.name(nights[-1][0])})"
        for nights in latest_first
    ]


def _of_judged(found: JudgedShare | Misses, words: str, none: str) -> str:
    return f"{shown.count(found.found)} of {shown.count(found.judged)} {words}" if found.judged else none


def _row(run: NightRun) -> dict[str, object]:
    remark = "" if run.in_force else "superseded" if run.published else "page never appeared"
    states = (run.cases, run.new, run.ongoing, run.reviewed, run.known, run.resolved)
    found, judged = shown.count(run.verdicts.found), shown.count(run.verdicts.judged)
    return {
        "night": shown.name(run.night),
        "remark": remark,
        "run": shown.name(run.run_id),
        "revision": shown.count(run.revision),
        "model": shown.name(run.model),
        "scored": shown.count(run.scored),
        "flagged": shown.count(run.flagged),
        "states": [shown.count(count) for count in states],
        "found": f"{found} of {judged}" if run.verdicts.judged else shown.NOT_KNOWN,
        "p": shown.p_value(run.drift.p if run.drift else None),
    }
