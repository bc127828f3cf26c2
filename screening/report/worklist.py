"""The worklist: one line a patient, with what unfolds below it, and the review form."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, get_args

from markupsafe import Markup, escape

from screening.report import format as fmt
from screening.report.columns import columns_of, displayed
from screening.report.values import Value, value_of
from screening.schemas.model import ModelDocument
from screening.schemas.run import (
    VERDICTS,
    Case,
    ExplainedCase,
    Listed,
    RunDocument,
    Sampled,
    State,
    Volume,
)
from screening.spelling import shown_series

MAX_OPEN_LINES = 50
"""Lines in sight at first; the others are folded."""
MAX_ROWS_OF_PATIENT = 5
MAX_REASONS = 3
# Without a calibration of the model the scale of rarity ends at one in so many.
RAREST = 1000
# Words for a verdict where the page says more than the verdict's own word.
VERDICT_WORDS = {"known": "already known", "disputed": "disputed by two reviewers"}
VERDICT_BUTTONS = {
    "confirmed": "Yes (confirmed)",
    "ruled out": "No (ruled out)",
    "unsure": "Unsure",
    "known": "Known before",
}
"""Words of the verdict buttons; the first word is printed on them."""
# Words and sign of a score beyond all held-out ones, with the chance of the nearest
# one.
BEYOND_WORDS = {
    "above": "higher than any past patient's",
    "below": "lower than any past patient's",
}
_BEYOND_SIGNS = {"above": "≥ ", "below": "≤ "}


@dataclass(frozen=True)
class Line:
    """A line of the worklist: a flagged patient, or one near the threshold.

    Parameters
    ----------
    case : Listed
        What the document says of it.
    place : sequence of str
        Columns that the contract displays, such as ward and bed.
    id : str
    raw_id : Markup
        The id with every character, if `id` shows it differently; else empty.
    score : float
    probability : mapping of str to str
        Chance or rarity, in words and drawn.
    rank : int, optional
    exact : str
        The score with all its digits.
    panel : int
        Number of the trade-off panel of its class.
    remarks : sequence of str
        Small print of the line.
    unfolds : bool
        The line has something below it.
    facts : sequence of (str, str)
        Names and values below the line.
    values : sequence of Value
        Contributions below the line, those of recorded values first, then the strongest
        first.
    rows : sequence of Line
        Rows of the patient.
    volume : Volume, optional
        Flagged voxels of the patient's image.
    """

    case: Listed
    place: Sequence[str]
    id: str
    raw_id: Markup
    score: float
    probability: Mapping[str, str]
    rank: int | None = None
    exact: str = ""
    panel: int = 0
    remarks: Sequence[str] = ()
    unfolds: bool = True
    facts: Sequence[tuple[str, str]] = ()
    values: Sequence[Value] = ()
    rows: Sequence[Line] = ()
    volume: Volume | None = None

    @property
    def why(self) -> Sequence[Value]:
        """Recorded values that raise the score most, of the highest row."""
        values = self.rows[0].values if self.rows else self.values
        raising = [value for value in values if value.raises and not value.is_missing]
        return raising[:MAX_REASONS]

    @property
    def absent_reasons(self) -> Sequence[Value]:
        """Values that raise the score by not being recorded.

        Only as many as `why` leaves room for.
        """
        values = self.rows[0].values if self.rows else self.values
        raising = [
            value
            for value in values
            if value.is_missing and value.raises and value.change
        ]
        return raising[: MAX_REASONS - len(self.why)]

    @property
    def recent_nights(self) -> dict[str, object] | None:
        """Last nights as bars, in words and as an SVG path.

        A wide bar is a night on which the case was flagged, a thin one another; the
        rarer the score, the higher. A night whose score is not known has a short bar,
        or only a line. None where no earlier night had the case.
        """
        nights = self.case.recent_flags
        p_values = self.case.recent_p_values or [None] * len(nights)
        was_scored = any(p is not None for p in p_values[:-1])
        if not any(nights[:-1]) and not was_scored:
            return None
        bars = [
            _night_bar(index, is_flagged, p)
            for index, (is_flagged, p) in enumerate(zip(nights, p_values, strict=True))
        ]
        spoken = f"flagged on {sum(nights)} of the last {len(nights)} nights"
        if self.case.risen:
            spoken += ", score risen since the last night"
        return {
            "width": 8 * len(nights),
            "path": Markup("".join(bars)),
            "spoken": spoken,
        }

    @property
    def judged(self) -> bool:
        """True for a case judged on an earlier night, which is not new work."""
        return self.case.state in ("ruled out", "known")


def _night_bar(index: int, is_flagged: bool, p: float | None) -> str:
    """Return the bar of a night in the spark of a case, as an SVG path.

    `p`: None where the score of the night is not known.
    """
    height = 5.0 if is_flagged else 1.0
    if p is not None:
        rarity = math.log(max(p, 1 / RAREST)) / math.log(1 / RAREST)
        height = 2 + 10 * rarity
    left = 8 * index
    width = 6
    if p is not None and not is_flagged:
        left += 2
        width = 2
    return f"M{left} 12v{-height:.3g}h{width}V12z"


def _place(listed: Listed | Sampled) -> list[str]:
    """Return the displayed columns of a row; nothing if all of them are empty."""
    texts = list((listed.display or {}).values())
    return [fmt.name(text) for text in texts] if any(texts) else []


def score_places(model: ModelDocument, run: RunDocument | None, *others: float) -> int:
    """Return the decimals that distinguish every score and threshold of a page."""
    scores = list(others)
    scores += [point.threshold for point in model.points]
    if run:
        scores += [case.score for case in (*run.cases, *run.near_misses)]
    return max(fmt.decimals(scores), 3)


def line_of_case(
    run: RunDocument, case: Case, places: int, rank: int | None = None
) -> Line:
    """Return the line of a row; `places` are decimals of scores."""
    model = run.model
    labels = [point.label for point in model.points]
    panel = labels.index(case.label)
    score = case.score
    if model.by_excess:
        score += model.points[panel].threshold
    remarks = [brief_history(case)]
    if case.out_of_bounds:
        remarks.insert(0, f"check {fmt.name(case.out_of_bounds)}")
    is_explained = case.contributions is not None
    values = [value_of(model, value, places) for value in case.contributions or ()]
    return Line(
        case=case,
        place=_place(case),
        id=fmt.name(case.id),
        raw_id=raw_id(case.id),
        score=case.score,
        probability=_probability(run, case),
        rank=rank,
        exact=repr(score),
        panel=panel,
        remarks=list(filter(None, remarks)),
        unfolds=is_explained,
        facts=_case_facts(run, case, places) if is_explained else (),
        values=sorted(values, key=lambda value: value.is_missing),
    )


def line_of_one(run: RunDocument, case: ExplainedCase) -> Line:
    """Return the line of a single row, with whether it is flagged and its rank."""
    places = score_places(run.model, run, case.score)
    line = line_of_case(run, case, places)
    remark = "Flagged" if case.flagged else "Not flagged"
    if case.rank is not None:
        remark += (
            f": number {fmt.count(case.rank)} of {fmt.count(run.cases_total)}, the "
            "highest score first"
        )
    threshold = run.model.points[line.panel].threshold
    history = history_words(case)
    facts = list(line.facts)
    if history:
        facts.append(("So far", history))
    facts.append(("Threshold", fmt.fixed(threshold, places)))
    return replace(line, facts=facts, remarks=[remark, *line.remarks])


def _probability(run: RunDocument, case: Listed) -> dict[str, str]:
    """Return the chance of a case, or else the rarity of its score, on 100 steps."""
    if isinstance(case, Case) and case.out_of_bounds:
        spoken = "no chance is stated: a value is out of bounds and was not used"
        return _bar("–", spoken, 0.0, None, None)
    if isinstance(case, Case) and case.chance is not None:
        chance, low, high = case.chance.value_and_interval
        text = fmt.chance(case.chance)
        spoken = f"chance {text}{_spoken_interval(fmt.chance_ci(case.chance))}"
        if case.beyond is not None:
            text = _BEYOND_SIGNS[case.beyond] + text
            spoken += f"; the score is {BEYOND_WORDS[case.beyond]}"
        return _bar(text, spoken, chance or 0.0, low, high)
    n_calibration = run.discoveries.n_calibration if run.discoveries else RAREST
    value, low_p, high_p = case.p_value.value_and_interval
    text = f"top {fmt.percent(case.p_value)}"
    spoken = f"{text}{_spoken_interval(fmt.ci(case.p_value))}"
    rarity = _rarity(value, n_calibration)
    # The lowest p-value is the rarest.
    return _bar(
        text,
        spoken,
        rarity or 0.0,
        _rarity(high_p, n_calibration),
        _rarity(low_p, n_calibration),
    )


def _spoken_interval(ends: str) -> str:
    """Return an interval as the end of a sentence; empty without one."""
    return f", 95% interval {ends}" if ends else ""


def _rarity(p: float | None, n_calibration: int) -> float | None:
    """Return a p-value on a logarithmic scale that ends at 1 / (n + 1)."""
    if p is None:
        return None
    smallest = 1 / (n_calibration + 1)
    rarity = math.log(max(p, 1e-12)) / math.log(smallest)
    return min(1.0, max(0.0, rarity))


def _bar(
    text: str, spoken: str, value: float, low: float | None, high: float | None
) -> dict[str, str]:
    """Return a share with its interval, in words and as SVG paths on 100 steps."""
    interval = ""
    if low is not None and high is not None:
        interval = f"M{100 * low:.0f} 5h{max(100 * (high - low), 1):.0f}"
    return {
        "words": text,
        "spoken": spoken,
        "fill": Markup(f"M0 5h{100 * value:.0f}"),
        "reach": Markup(interval),
    }


def _case_facts(run: RunDocument, case: Case, places: int) -> list[tuple[str, str]]:
    """Return names and values of the facts below the line of a row."""
    facts = []
    if case.group is not None:
        facts.append(("Patient", fmt.name(case.group)))
    if run.model.multi:
        facts.append(("Class", fmt.name(case.label)))
    facts += _score_facts(run, case, case.score, places)
    if case.chance is not None:
        chance = fmt.chance(case.chance)
        ends = fmt.chance_ci(case.chance)
        facts.append(("Chance", f"{chance} ({ends})" if ends else chance))
    if case.beyond is not None:
        facts.append(("The score is", BEYOND_WORDS[case.beyond]))
    if case.out_of_bounds:
        facts.append(("Check, not used", fmt.name(case.out_of_bounds)))
    if case.votes:
        n_flags = sum(case.votes.values())
        facts.append(("Component models", f"{n_flags} of {len(case.votes)} flag"))
    return facts


def _score_facts(
    run: RunDocument, case: Listed, score: float, places: int
) -> list[tuple[str, str]]:
    """Return the score and the p-value of a row or a patient, with their names."""
    score_name = "Above threshold" if run.model.by_excess else "Score"
    p_value = fmt.p_value(case.p_value)
    if case.discovery:
        p_value += " · FDR"
    return [(score_name, fmt.fixed(score, places)), ("p-value", p_value)]


def form(run: RunDocument) -> dict[str, object] | None:
    """Return what the review form needs; None where nothing waits for a review."""
    if not (run.to_review or run.sample):
        return None
    return {
        "run_id": run.run_id,
        "file": _verdict_file(run),
        "words": [(word, VERDICT_BUTTONS[word]) for word in VERDICTS],
        "sampled": [
            (_place(row), fmt.name(row.id), raw_id(row.id)) for row in run.sample
        ],
    }


def _verdict_file(run: RunDocument) -> str:
    """Return the name of the file of verdicts, with series, night and run."""
    run_id = "".join(char for char in run.run_id if char.isalnum())
    parts = ["verdicts", run.date, f"{run_id[:40]}.json"]
    if run.ledger is not None:
        parts.insert(1, shown_series(run.ledger.series))
    return "-".join(parts)


def history_words(case: Listed) -> str:
    """Return how long a case has been flagged, and its last verdict."""
    nights = ""
    if case.nights and case.nights > 1:
        nights = f"{fmt.count(case.nights)} nights in a row"
    return ", ".join(filter(None, [nights, _verdict_words(case)]))


def brief_history(case: Listed) -> str:
    """Return `history_words` with a note of a risen score, in a few words."""
    nights = ""
    if case.state == "known":
        nights = "known"
    elif case.state == "new" and case.last_verdict:
        # Back after a night without a flag: new, but reviewed before.
        nights = "new again"
    elif case.nights and case.nights > 1:
        nights = f"{fmt.count(case.nights)} nights"
    risen = "risen" if case.risen else ""
    return ", ".join(filter(None, [nights, risen, _verdict_words(case)]))


def _verdict_words(case: Listed) -> str:
    """Return the last verdict on a case with its night; empty without one."""
    last = case.last_verdict
    if not last:
        return ""
    verdict = VERDICT_WORDS.get(last.verdict, last.verdict)
    return f"{verdict} on {fmt.name(last.night)}"


def raw_id(name: str) -> Markup:
    """Return an id with every character; empty if `fmt.name` shows the same."""
    if fmt.name(name) == name:
        return Markup("")
    escaped = str(escape(name)).replace("\r", "&#13;").replace("\n", "&#10;")
    return Markup(escaped)


def trail(run: RunDocument) -> str:
    """Return the entry of the audit trail that records this run, for the footer."""
    ledger = run.ledger
    if ledger is None:
        return ""
    revision = ""
    if ledger.revision > 1:
        revision = f", revision {fmt.count(ledger.revision)}"
    entry = f"ledger entry {fmt.count(ledger.entry)}, {fmt.text(ledger.head[:16])}"
    return f"{revision} · {entry}"


def worklist(run: RunDocument, places: int) -> dict[str, Any]:
    """Return the worklist in its parts, the highest score first."""
    if run.groups:
        lines = _lines_of_groups(run, places)
    else:
        lines = [
            line_of_case(run, case, places, rank)
            for rank, case in enumerate(run.cases, start=1)
        ]
    # With nothing below them.
    near = [
        replace(line_of_case(run, case, places), unfolds=False)
        for case in run.near_misses
    ]
    flagged = lines[: run.to_review]
    states = {line.case.state for line in flagged}
    return {
        "parts": _parts(run, flagged),
        "near": near,
        "others": lines[run.to_review :],
        "columns": displayed(run),
        "cells": columns_of(run, [*lines, *near]),
        "wards": sorted({line.place[0] for line in flagged if line.place}),
        "states": [state for state in get_args(State) if state in states],
        "n_lines": len(flagged),
        **_reference_ranges(run.model),
    }


def _reference_ranges(model: ModelDocument) -> dict[str, object]:
    """Return whether the contract states reference ranges, and their sources."""
    features = list(map(model.declared, model.contract.get("features", {})))
    sources = {
        fmt.text(feature.reference_source, 200)
        for feature in features
        if feature.reference_source
    }
    return {
        "has_reference": any(feature.reference for feature in features),
        "sources": sorted(sources),
    }


def _lines_of_groups(run: RunDocument, places: int) -> list[Line]:
    """Return the lines of patients with several rows; the first rows are named."""
    rows: dict[str, list[Line]] = defaultdict(list)
    for case in run.cases:
        if case.group is not None and len(rows[case.group]) < MAX_ROWS_OF_PATIENT:
            rows[case.group].append(line_of_case(run, case, places))
    patients = run.voxels.patients if run.voxels else ()
    volumes = {volume.group: volume for volume in patients}
    unit = run.model.unit_of_review
    lines = []
    for number, group in enumerate(run.groups or (), start=1):
        flagged = f"{fmt.count(group.flagged)} of {fmt.plural(group.rows, unit)}"
        share = fmt.percent(group.flagged / group.rows)
        line = Line(
            case=group,
            place=_place(group),
            id=fmt.name(group.group),
            raw_id=raw_id(group.group),
            score=group.top_score,
            probability=_probability(run, group),
            rank=number if group.flagged else None,
            exact="" if run.model.by_excess else repr(group.top_score),
            remarks=list(filter(None, (flagged, brief_history(group)))),
            facts=[
                ("Flagged", f"{flagged} ({share})"),
                *_score_facts(run, group, group.top_score, places),
            ],
            rows=rows[group.group],
            volume=volumes.get(group.group),
        )
        lines.append(line)
    return lines


@dataclass(frozen=True)
class ListPart:
    """Consecutive lines of the worklist.

    Parameters
    ----------
    lines : sequence of Line
    start : int
        Number of the first line.
    title : str
        Of a folded part.
    stops : bool
        The last possible review is just before it.
    judged : bool
        Its lines were judged on earlier nights.
    """

    lines: Sequence[Line]
    start: int = 1
    title: str = ""
    stops: bool = False
    judged: bool = False


def _parts(run: RunDocument, flagged: Sequence[Line]) -> list[ListPart]:
    """Return the parts of the list, those judged on earlier nights last."""
    waiting = [line for line in flagged if not line.judged]
    judged = [line for line in flagged if line.judged]
    n_waiting = len(waiting)
    n_reviews = run.stopping.reviews if run.stopping else n_waiting
    cuts = {0, min(MAX_OPEN_LINES, n_waiting), min(n_reviews, n_waiting), n_waiting}
    parts = []
    for start, stop in pairwise(sorted(cuts)):
        title = ""
        if start:
            numbers = f"{fmt.count(start + 1)} to {fmt.count(stop)}"
            title = f"{numbers} of {fmt.count(n_waiting)}"
            if start >= n_reviews:
                title += ", beyond your reviews"
        stops = start == n_reviews
        parts.append(ListPart(waiting[start:stop], start + 1, title, stops))
    if judged:
        title = f"{fmt.count(len(judged))} reviewed before: no new work"
        parts.append(ListPart(judged, title=title, judged=True))
    return parts
