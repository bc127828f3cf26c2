"""The page of the nights so far: workload, what reviews found, what was missed, drift and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from screening.documents.reading import mapping, sequence
from screening.documents.reason import reasons_in
from screening.page import format as shown
from screening.page.charts import Axes
from screening.page.drawing import draw

STATES = ("cases", "new", "ongoing", "reviewed", "known", "resolved")


def render_history(told: Mapping[str, Any], templates: Path | None = None) -> str:
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
    trail = mapping(told, "audit")
    footer = f"ledger entry {shown.count(trail.get('entries'))}, {shown.text(str(trail.get('head'))[:16])}"
    runs = [run for run in sequence(told, "runs") if isinstance(run, Mapping)]
    return draw(
        "history.html.j2",
        templates=templates,
        styles=("report.css", "history.css"),
        footer=footer,
        banner={"title": "The nights so far", "kind": "from the ledger", "date": ""},
        facts=[
            ("Runs", shown.count(len(runs))),
            ("Audit trail", shown.plural(trail.get("entries"), "entry", "entries")),
            ("Its head", shown.text(str(trail.get("head")))),
            ("Followed from its start", "yes, unbroken" if trail.get("verified") else "not this time"),
        ],
        questions=[_question(one, runs, n) for n, one in enumerate(sequence(told, "series"))],
        changes=[_change(one) for one in sequence(told, "threshold_changes")],
    )


def sentences(series: Mapping[str, Any]) -> list[str]:
    """Return in plain words what the nights of one question add up to."""
    ppv, whole, work = (mapping(series, key) for key in ("ppv", "ppv_flagged", "workload"))
    misses, drift = mapping(series, "misses"), mapping(series, "drift")
    lines = [
        f"{shown.plural(series.get('nights'), 'night')}, {shown.name(series.get('first'))} to "
        f"{shown.name(series.get('last'))}: {_tenth(work.get('cases_per_night'))} flagged a night, "
        f"{_tenth(work.get('waiting_per_night'))} of them not yet reviewed"
        + (
            f", about {shown.count(work['minutes_per_night'])} minutes"
            if shown.finite(work.get("minutes_per_night"))
            else ""
        )
    ]
    lines.append(
        f"{_with_interval(ppv, 'value', 'low', 'high')} of those judged had the condition "
        f"({shown.count(ppv['found'])} of {shown.count(ppv['judged'])}); reviewers chose them, so that is "
        "not the share of all flagged"
        if ppv.get("judged")
        else "no flagged case has been judged yet"
    )
    lines.append(
        f"{_with_interval(whole, 'value', 'low', 'high')} of all {shown.count(whole['flagged'])} new cases "
        f"of {shown.plural(whole['nights'], 'night')} had the condition, by the "
        f"{shown.count(whole['judged'])} that lots marked and reviewers judged"
        if whole.get("judged")
        else "what share of all flagged had the condition is unknown: on no night were all cases that "
        "lots marked judged"
    )
    ends = f"{_tenth(misses.get('per_night_low'))} to {_tenth(misses.get('per_night_high'))}"
    lines.append(
        f"about {_tenth(misses['per_night'])} missed a night (95% interval {ends}): "
        f"{shown.count(misses['found'])} of {shown.count(misses['judged'])} drawn at random from the "
        "unflagged had the condition"
        if misses.get("judged")
        else "none of those drawn at random from the unflagged has been judged: misses are unknown"
    )
    return [*lines, *_drift_words(drift)]


def _drift_words(drift: Mapping[str, Any]) -> list[str]:
    found = mapping(drift, "reason")
    if found:
        return [shown.text(str(found["words"]).removesuffix("."), 400)]
    if not shown.finite(drift.get("p")):
        return []
    nights = drift.get("nights")
    over = "last night" if nights == 1 else f"last {shown.plural(nights, 'night')}"
    return [
        f"no sign over the {over} that the patients or the measurements have changed "
        f"({shown.count(drift['patients'])} patients, each once; p {shown.p_value(drift['p'])})"
    ]


def _tenth(value: Any) -> str:
    return shown.ratio(value)


def _with_interval(found: Mapping[str, Any], value: str, low: str, high: str) -> str:
    return f"{shown.percent(found.get(value))} ({shown.interval(found.get(low), found.get(high))})"


def _question(series: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    mine = [run for run in runs if run["series"] == series["series"]]
    used = [run for run in mine if run["in_force"]]
    question, ppv, misses = mapping(series, "question"), mapping(series, "ppv"), mapping(series, "misses")
    whole = mapping(series, "ppv_flagged")
    values = ", ".join(map(shown.name, sequence(question, "positive")))
    label = f"{shown.name(question.get('label'))}{' = ' + values if values else ''}"
    return {
        "number": number,
        "title": shown.text(series.get("title") or label, 200),
        "label": label,
        "sentences": [line[0].upper() + line[1:] + "." for line in sentences(series)],
        "figures": [
            (
                "Nights",
                shown.count(series.get("nights")),
                "",
                f"{shown.name(series.get('first'))} to {shown.name(series.get('last'))}",
            ),
            (
                "PPV of those judged",
                shown.percent(ppv.get("value")),
                shown.interval(ppv.get("low"), ppv.get("high")),
                _of_judged(ppv, "judged had it", "no flagged case has been judged"),
            ),
            (
                "PPV of all flagged",
                shown.percent(whole.get("value")),
                shown.interval(whole.get("low"), whole.get("high")),
                _of_judged(whole, "drawn by lot had it", "no night's drawn cases have all been judged"),
            ),
            (
                "Missed a night",
                _tenth(misses.get("per_night")),
                f"{_tenth(misses.get('per_night_low'))}–{_tenth(misses.get('per_night_high'))}"
                if misses.get("judged")
                else "",
                _of_judged(misses, "drawn at random had it", "nobody drawn at random has been judged"),
            ),
            (
                "Flagged a night",
                _tenth(mapping(series, "workload").get("cases_per_night")),
                "",
                f"{_tenth(mapping(series, 'workload').get('waiting_per_night'))} not yet reviewed",
            ),
        ],
        "attention": _attention(used),
        "charts": _charts(series, used, number) if len(used) > 1 else [],
        "rows": [_row(run) for run in reversed(mine)],
    }


def _attention(used: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the nights in force said of themselves: each kind of reason, in its latest words."""
    said: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for run in used:
        for reason in reasons_in(sequence(run, "attention")):
            said.setdefault((reason.code, reason.column), []).append((run["night"], reason.words))
    latest_first = sorted(said.values(), key=lambda nights: nights[-1][0], reverse=True)
    return [
        f"{shown.text(nights[-1][1], 300)} ({shown.plural(len(nights), 'night')}, "
        f"last {shown.name(nights[-1][0])})"
        for nights in latest_first
    ]


def _of_judged(found: Mapping[str, Any], words: str, none: str) -> str:
    judged = found.get("judged")
    return f"{shown.count(found.get('found'))} of {shown.count(judged)} {words}" if judged else none


def _charts(
    series: Mapping[str, Any], used: Sequence[Mapping[str, Any]], number: int
) -> list[dict[str, Any]]:
    nights = list(range(1, len(used) + 1))
    trend = sequence(series, "ppv_to_date")
    flagged, new = [run["cases"] for run in used], [run["new"] for run in used]
    capacity = used[-1].get("capacity")
    # A capacity far above would press the line of the nights flat.
    near = shown.finite(capacity) and capacity <= 3 * max(flagged)
    top = max([1, *flagged, *([capacity] if near else [])])
    work = _axes(
        f"work-{number}", "Workload", "flagged and new cases a night", "Cases", (0, top * 1.08), used
    )
    work.line(nights, flagged, "first", "flagged")
    work.line(nights, new, "second", "new")
    if near:
        work.line([1, len(used)], [capacity, capacity], "chance", "capacity")
    found = _axes(
        f"ppv-{number}", "Predictive value of those judged", "share of judged cases that had the condition, "
        "night by night, each case by the last word on it", "PPV to date", (0, 1), used, True,
    )  # fmt: skip
    found.band(nights, [t["low"] for t in trend], [t["high"] for t in trend], "first")
    found.line(nights, [t["value"] for t in trend], "first", "PPV")
    far = [mapping(run, "drift").get("distance") for run in used]
    limit = [_limit(mapping(run, "drift")) for run in used]
    known = [v for v in [*far, *limit] if shown.finite(v)]
    drift = _axes(
        f"drift-{number}", "Drift", "distance of a night's scores from those held out in training, "
        "with what chance alone exceeds on one night in twenty", "Distance",
        (0, max([0.05, *known]) * 1.08), used,
    )  # fmt: skip
    drift.line(nights, far, "first", "distance")
    drift.line(nights, limit, "second", "limit")
    drawn = [work, *([found] if any(shown.finite(t["value"]) for t in trend) else []), drift]
    for axes in drawn:
        _mark_changes(axes, used)
    return [_dated(axes.drawing(), used) for axes in drawn]


def _axes(
    name: str,
    title: str,
    description: str,
    y_label: str,
    y: tuple[float, float],
    used: Sequence[Mapping[str, Any]],
    as_percent: bool = False,
) -> Axes:
    first, last = shown.name(used[0].get("night")), shown.name(used[-1].get("night"))
    return Axes(
        name=name, title=title, description=f"{title} from {first} to {last}: {description}.",
        x=(1, len(used)), y=y, x_label="Night", y_label=y_label, width=560, height=250,
        margins=(14, 82, 46, 56), as_percent=(False, as_percent),
    )  # fmt: skip


def _dated(drawing: dict[str, Any], used: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put dates where the axis has the numbers of the nights."""
    scale = (drawing["right"] - drawing["left"]) / max(len(used) - 1, 1)
    step = max(1, -(-len(used) // 6))
    drawing["x_ticks"] = [
        {"at": round(drawing["left"] + scale * i, 1), "text": shown.name(used[i].get("night"))[5:]}
        for i in range(0, len(used), step)
    ]
    return drawing


def _mark_changes(axes: Axes, used: Sequence[Mapping[str, Any]]) -> None:
    for number, (before, after) in enumerate(pairwise(used), start=2):
        if before.get("model") != after.get("model"):
            same = before.get("recipe") == after.get("recipe")
            axes.upright(number, "validated", "model or threshold changed" if same else "method changed")


def _limit(found: Mapping[str, Any]) -> float | None:
    """Return the distance that chance exceeds one night in twenty (Kolmogorov, two samples)."""
    n, m = sum(sequence(found, "counted")), sum(sequence(found, "known"))
    return 1.358 * ((n + m) / (n * m)) ** 0.5 if n and m else None


def _row(run: Mapping[str, Any]) -> dict[str, Any]:
    verdicts = mapping(run, "verdicts")
    hits = verdicts.get("confirmed", 0) + verdicts.get("known", 0)
    # As in the predictive value: who is unsure has not judged.
    judged = sum(n for word, n in verdicts.items() if word != "unsure")
    remark = "" if run["in_force"] else "superseded" if run["published"] else "page never appeared"
    return {
        "night": shown.name(run.get("night")),
        "remark": remark,
        "run": shown.name(run.get("run_id")),
        "revision": shown.count(run.get("revision")),
        "model": shown.name(run.get("model")),
        "scored": shown.count(run.get("scored")),
        "flagged": shown.count(run.get("flagged")),
        "states": [shown.count(run.get(key)) for key in STATES],
        "found": f"{shown.count(hits)} of {shown.count(judged)}" if judged else shown.NOT_KNOWN,
        "p": shown.p_value(mapping(run, "drift").get("p")),
    }


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "recorded": shown.name(change.get("recorded")).replace("T", " ").replace("+00:00", " UTC"),
        "entry": shown.count(change.get("entry")),
        "reason": shown.text(change.get("reason"), 300),
        "models": f"{str(change.get('model_before'))[:12]} → {str(change.get('model_after'))[:12]}",
        "classes": [
            f"{shown.name(one.get('class'))}: {shown.number(one.get('threshold_before'))} → "
            f"{shown.number(one.get('threshold_after'))} ({shown.rule(one.get('rule_after'))})"
            for one in sequence(change, "classes")
        ],
    }
