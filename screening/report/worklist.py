"""The list: one line a patient with the strongest reasons, what unfolds below it, and the review's form."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, get_args

from markupsafe import Markup, escape

from screening.report import format as fmt
from screening.report.columns import COLUMNS, displayed, people_of
from screening.schemas.base import Range
from screening.schemas.model import Declared, ModelDocument
from screening.schemas.run import (
    VERDICTS,
    Case,
    Contribution,
    ExplainedCase,
    GroupFacts,
    Listed,
    RunDocument,
    Sampled,
    State,
    Volume,
)

MIDDLE = 50
"""Of the 100 steps of a bar: the median of past patients."""


@dataclass(frozen=True)
class Value:
    """What the page shows of a contributing value.

    `bar` goes from the middle of past patients to where this value lies among them: to the right where it is
    higher than theirs, to the left where lower; of a category, which has no order, the further the rarer.
    """

    feature: str
    about: str
    value: str
    unit: str
    range: str
    range_is: str
    outside: str
    raises: bool
    change: str
    bar: Markup
    past: str

    @property
    def brief(self) -> str:
        """The value as a line has room for it: that a thing is there needs no "yes" beside its name."""
        return "" if self.value == "yes" else self.value


def value_of(model: ModelDocument, contribution: Contribution, places: int) -> Value:
    """Return what is shown of a contribution; `places` are the decimals of scores."""
    declared = model.declared(contribution.feature)
    value: str | float = contribution.value
    if declared.type == "number":
        with suppress(ValueError):
            value = float(value)
    words = value_text(value, declared)
    absent = value == "missing"
    known = not declared.on_other_scale and not absent
    reference = contribution.reference if known else None
    seen = contribution.seen if known and not reference else None
    bar, past = _among_past(contribution, words, people_of(model))
    return Value(
        feature=fmt.name(model.title_of(contribution.feature)),
        about=fmt.text(declared.description or "", 200),
        value=words,
        unit="" if absent else fmt.unit(contribution.unit),
        range=fmt.value_range(reference or seen),
        range_is="reference range"
        if reference
        else f"range in past {people_of(model)}",
        outside=_outside(value, reference, "L", "H")
        or _outside(value, seen, "below", "above"),
        raises=contribution.direction != "lowers",
        change=fmt.minus(f"{contribution.change:+.{places}f}"),
        bar=Markup(bar),
        past=past,
    )


def _among_past(contribution: Contribution, value: str, people: str) -> tuple[str, str]:
    """The bar of a value among those of past patients, and the same in words."""
    alike, lower = contribution.alike, contribution.lower
    reach, words = 0.0, ""
    if alike is not None:
        as_in = {"yes": "present in", "no": "absent in"}.get(value, "as in")
        reach, words = MIDDLE * (1 - alike), f"{as_in} {fmt.percent(alike)}"
    if lower is not None:
        side = "higher" if lower >= 0.5 else "lower"
        reach, words = (
            100 * lower - MIDDLE,
            words or f"{side} than {fmt.percent(max(lower, 1 - lower))}",
        )
    return (
        (f"M{MIDDLE} 2h{reach:.0f}", f"{words} of past {people}") if words else ("", "")
    )


def value_text(value: str | float | None, declared: Declared) -> str:
    """Return a patient's value as the contract means it: yes or no, the category, or a number."""
    if value is None or value != value:
        return "missing"
    kind, categories = declared.type, declared.categories or ()
    if isinstance(value, bool) or (kind == "boolean" and value in (0, 1)):
        return "yes" if value else "no"
    if not fmt.finite(value):
        return fmt.name(value)
    if kind == "ordinal" and float(value).is_integer() and 0 <= value < len(categories):
        return fmt.name(categories[int(value)])
    return fmt.number(value)


def _outside(value: str | float, bounds: Range | None, below: str, above: str) -> str:
    """Return the word for a value below or above a range, nothing for one within."""
    if not fmt.finite(value) or bounds is None:
        return ""
    low, high = bounds
    if high is not None and value > high:
        return above
    return below if low is not None and value < low else ""


OPEN = 50
"""Lines in sight at first; the others are folded in stretches."""
ROWS_OF_PATIENT = 5
REASONS = 3
# An id longer than this is cut in its middle where the line is too short for it, and whole in print.
TAIL = 6
# Without a calibration of the model the scale of rarity ends at one in so many.
RAREST = 1000


@dataclass(frozen=True)
class Line:
    """A flagged patient, or one of those near the threshold; those explained unfold.

    `case` is what the document holds, `place` what the contract wants shown beside an id, such as ward and
    bed; `facts` and what follows are below the line.
    """

    case: Listed
    place: Sequence[str]
    id: str
    as_it_is: Markup
    score: float
    odds: Mapping[str, str]
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
        """The few values that raise the score most, of a patient those of the highest row."""
        values = self.rows[0].values if self.rows else self.values
        return [value for value in values if value.raises][:REASONS]

    @property
    def halves(self) -> tuple[str, str]:
        """The id but for its last letters, and these, which stay in sight where the rest is cut."""
        cut = len(self.id) - TAIL if len(self.id) > 2 * TAIL else 0
        return self.id[:cut], self.id[cut:]

    @property
    def judged(self) -> bool:
        """Whether somebody has judged it on a night before: no work of tonight."""
        return self.case.state in ("ruled out", "known")


def _place(listed: Listed | Sampled) -> list[str]:
    return [fmt.name(text) for text in (listed.display or {}).values()]


def score_places(model: ModelDocument, run: RunDocument | None, *others: float) -> int:
    """Return the decimals that tell every score and threshold of the page apart."""
    named = [case.score for case in (*run.cases, *run.near_misses)] if run else []
    return max(
        fmt.decimals([*named, *others, *(point.threshold for point in model.points)]), 3
    )


def line_of_case(
    run: RunDocument, case: Case, places: int, rank: int | None = None
) -> Line:
    """Return the line of a row."""
    model, thresholds = (
        run.model,
        {point.label: point.threshold for point in run.model.points},
    )
    line = Line(
        case=case,
        place=_place(case),
        id=fmt.name(case.id),
        as_it_is=as_it_is(case.id),
        score=case.score,
        odds=_odds(run, case),
        rank=rank,
        exact=repr(
            case.score + thresholds[case.label] if model.by_excess else case.score
        ),
        panel=[*thresholds].index(case.label),
        remarks=list(filter(None, [judged_words(case, "")])),
        unfolds=False,
    )
    if case.contributions is None:
        return line
    facts = _facts(run, case, case.score, places)
    if case.votes:
        facts += [
            (
                "Component models",
                f"{sum(case.votes.values())} of {len(case.votes)} also flag this patient",
            )
        ]
    history = judged_words(case)
    facts += [("So far", history)] if history else []
    values = [value_of(model, each, places) for each in case.contributions]
    return replace(line, unfolds=True, facts=facts, values=values)


def line_of_one(run: RunDocument, case: ExplainedCase) -> Line:
    """Return the line of any row by itself; its first remark says whether it is flagged, and which it is."""
    places = score_places(run.model, run, case.score)
    line = line_of_case(run, case, places)
    threshold = next(
        point.threshold for point in run.model.points if point.label == case.label
    )
    remark = "Flagged" if case.flagged else "Not flagged"
    if case.rank is not None:
        remark += f": number {fmt.count(case.rank)} of {fmt.count(run.cases_total)}, the highest score first"
    facts = [*line.facts, ("Threshold", fmt.fixed(threshold, places))]
    return replace(line, facts=facts, remarks=[remark, *line.remarks])


def line_of_group(
    run: RunDocument,
    group: GroupFacts,
    rows: Sequence[Line],
    volume: Volume | None,
    places: int,
    rank: int | None = None,
) -> Line:
    """Return the line of a patient with several rows, whose reasons are those of the highest of them.

    `rows` are those that the page names, the highest score first; `volume` is what is flagged of its image.
    """
    flagged = f"{fmt.count(group.flagged)} of {fmt.plural(group.rows, run.model.unit_of_review)}"
    share = fmt.percent(group.flagged / group.rows)
    return Line(
        case=group,
        place=_place(group),
        id=fmt.name(group.group),
        as_it_is=as_it_is(group.group),
        score=group.top_score,
        odds=_odds(run, group),
        rank=rank,
        exact="" if run.model.by_excess else repr(group.top_score),
        remarks=list(filter(None, [flagged, judged_words(group, "")])),
        facts=[
            ("Flagged", f"{flagged} ({share})"),
            *_facts(run, group, group.top_score, places),
        ],
        rows=rows,
        volume=volume,
    )


def _odds(run: RunDocument, case: Listed) -> dict[str, str]:
    """How likely a case is, drawn on 100 steps: its chance, or else how rare such a score is."""
    if isinstance(case, Case) and case.chance is not None:
        words, ends = fmt.chance(case.chance), fmt.chance_ci(case.chance)
        return _scaled(words, f"chance {words}{_interval(ends)}", *case.chance.ends)
    words = f"top {fmt.percent(case.p_value)}"
    n = run.discoveries.n_calibration if run.discoveries else RAREST
    p, low, high = (
        None if end is None else _rarity(end, n) for end in case.p_value.ends
    )
    return _scaled(
        words, f"{words}{_interval(fmt.ci(case.p_value))}", p or 0.0, high, low
    )


def _interval(ends: str) -> str:
    return f", 95% interval {ends}" if ends else ""


def _rarity(p: float, n: int) -> float:
    """Tenfold rarer is a step of the same length; the rarest that n past patients can tell is 1."""
    return min(1.0, max(0.0, math.log(max(p, 1e-12)) / math.log(1 / (n + 1))))


def _scaled(
    words: str, spoken: str, value: float, low: float | None, high: float | None
) -> dict[str, str]:
    fill = Markup(f"M0 5h{100 * value:.0f}")
    reach = (
        ""
        if low is None or high is None
        else f"M{100 * low:.0f} 5h{max(100 * (high - low), 1):.0f}"
    )
    return {"words": words, "spoken": spoken, "fill": fill, "reach": Markup(reach)}


def _facts(
    run: RunDocument, case: Listed, score: float, places: int
) -> list[tuple[str, str]]:
    facts = [
        (
            "Above threshold" if run.model.by_excess else "Score",
            fmt.fixed(score, places),
        ),
        ("p-value", fmt.p_value(case.p_value) + (" · FDR" if case.discovery else "")),
    ]
    if not isinstance(case, Case):
        return facts
    if case.chance is not None:
        ends = fmt.chance_ci(case.chance)
        facts.append(
            ("Chance", fmt.chance(case.chance) + (f" ({ends})" if ends else ""))
        )
    whose = [("Patient", fmt.name(case.group))] if case.group is not None else []
    return [
        *whose,
        *([("Class", fmt.name(case.label))] if run.model.multi else []),
        *facts,
    ]


WORDS = {"known": "already known", "disputed": "disputed by two reviewers"}
"""What the page says of a verdict where it says more than the verdict's own word."""


def form(run: RunDocument) -> dict[str, object] | None:
    """Return what the review needs; None where nothing waits for one."""
    if not (run.to_review or run.sample):
        return None
    return {
        "run_id": run.run_id,
        "file": f"verdicts-{''.join(c for c in run.run_id if c.isalnum())[:40]}.json",
        "words": [(word, WORDS.get(word, word)) for word in VERDICTS],
        "sampled": [
            (_place(row), fmt.name(row.id), as_it_is(row.id)) for row in run.sample
        ],
    }


def judged_words(case: Listed, in_a_row: str = " in a row") -> str:
    """Return how long a case is flagged and its last verdict, empty where there is neither."""
    nights = (
        f"{fmt.count(case.nights)} nights{in_a_row}"
        if case.nights and case.nights > 1
        else ""
    )
    last = case.last_verdict
    verdict = (
        f"{WORDS.get(last.verdict, last.verdict)} on {fmt.name(last.night)}"
        if last
        else ""
    )
    if not in_a_row and case.state == "known":
        nights = "known"
    elif not in_a_row and case.state == "new" and last:
        # Back after a night without a flag: new by the count, yet somebody has had a look before.
        nights = "new again"
    return ", ".join(filter(None, (nights, verdict)))


def as_it_is(name: str) -> Markup:
    """Return an id with every character kept, for an attribute; empty where the reader sees just that."""
    if fmt.name(name) == name:
        return Markup("")
    return Markup(str(escape(name)).replace("\r", "&#13;").replace("\n", "&#10;"))


def trail(run: RunDocument) -> str:
    """Return the entry of the audit trail that vouches for this run, for the foot of the page."""
    book = run.ledger
    if book is None:
        return ""
    again = f", revision {fmt.count(book.revision)}" if book.revision > 1 else ""
    return f"{again} · ledger entry {fmt.count(book.entry)}, {fmt.text(book.head[:16])}"


def worklist(run: RunDocument, places: int) -> dict[str, Any]:
    """Return the worklist in its parts, the highest score first."""
    rows = (
        line_of_case(run, case, places, rank)
        for rank, case in enumerate(run.cases, start=1)
    )
    lines = _patients(run, places) if run.groups else [*rows]
    flagged = lines[: run.to_review]
    states = {line.case.state for line in flagged}
    return {
        "parts": _parts(run, flagged),
        "near": [line_of_case(run, case, places) for case in run.near_misses],
        "others": lines[run.to_review :],
        "columns": displayed(run),
        "cells": COLUMNS,
        "wards": sorted({line.place[0] for line in flagged if line.place}),
        "states": [state for state in get_args(State) if state in states],
        "n_lines": len(flagged),
        "unnamed": _unnamed(run.to_review, len(flagged), erased=bool(run.erased)),
    }


def _unnamed(flagged: int, named: int, *, erased: bool) -> str:
    """Say where those are who were flagged and are not in the list."""
    if flagged <= named:
        return ""
    more, total = fmt.count(flagged - named), fmt.count(flagged)
    if erased:
        return f"{more} of {total} flagged are not named here: erased later, or only in flagged.csv."
    return f"{more} more are flagged and listed only in flagged.csv: {fmt.count(named)} of {total} shown."


def _patients(run: RunDocument, places: int) -> list[Line]:
    rows: dict[str, list[Line]] = defaultdict(list)
    for case in run.cases:
        if case.group is not None and len(rows[case.group]) < ROWS_OF_PATIENT:
            rows[case.group].append(line_of_case(run, case, places))
    pictured = {
        volume.group: volume for volume in (run.voxels.patients if run.voxels else ())
    }
    return [
        line_of_group(
            run,
            group,
            rows[group.group],
            pictured.get(group.group),
            places,
            rank if group.flagged else None,
        )
        for rank, group in enumerate(run.groups or (), start=1)
    ]


def _parts(run: RunDocument, flagged: Sequence[Line]) -> list[dict[str, object]]:
    """The stretches of the list: those with a title are folded; `stops` is where the reviews end."""
    waiting = [line for line in flagged if not line.judged]
    judged = [line for line in flagged if line.judged]
    room = run.stopping.reviews if run.stopping else None
    cuts = sorted(
        {0, len(waiting), *(cut for cut in (OPEN, room) if cut and cut < len(waiting))}
    )
    parts: list[dict[str, object]] = []
    for start, stop in pairwise(cuts):
        beyond = ", beyond your reviews" if room is not None and start >= room else ""
        words = f"{fmt.count(start + 1)} to {fmt.count(stop)} of {fmt.count(len(waiting))}{beyond}"
        parts.append(
            {
                "lines": waiting[start:stop],
                "start": start + 1,
                "title": words if start else "",
                "stops": start == room,
                "judged": False,
            }
        )
    if judged:
        title = f"{fmt.count(len(judged))} reviewed before: no new work"
        parts.append(
            {
                "lines": judged,
                "start": 1,
                "title": title,
                "stops": False,
                "judged": True,
            }
        )
    return parts
