"""Whom to look at: flagged rows with contributing values, near misses, and patients of grouped runs."""

from __future__ import annotations

from typing import Any

from screening.documents.case import Case, Contribution
from screening.documents.contract import Declared
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.shape import Range
from screening.page import format as shown
from screening.page.review import as_it_is, known

MISSING_SHOWN = 8


def scores(run: RunDocument) -> list[float]:
    """Return every score named on the page, to settle how many decimals tell them apart."""
    return [case.score for case in (*run.cases, *run.near_misses)]


def flagged(run: RunDocument, places: int) -> dict[str, Any]:
    """Return the flagged rows, the ones just below the threshold, and how many of how many are shown."""
    model = run.model
    listed = [case_line(model, case, places, number) for number, case in enumerate(run.cases, start=1)]
    rows = [line for line, case in zip(listed, run.cases, strict=True) if is_explained(case)]
    further = [line for line, case in zip(listed, run.cases, strict=True) if not is_explained(case)]
    below = [case_line(model, case, places, None) for case in run.near_misses]
    return {
        "further": further,
        "grouped": any(line["group"] for line in further),
        "to_review": not run.groups and not run.pseudonymised,
        "unit": model.unit_of_review,
        "multi": model.multi,
        "by_excess": model.by_excess,
        "has_p": any(row["p_value"] != shown.NOT_KNOWN for row in listed),
        "rows": rows,
        "near": below,
        "near_lowest": below[-1]["score"] if below else "",
        "capped": len(run.cases) < run.cases_total,
        "shown": shown.count(len(run.cases)),
        "explained": shown.count(len(rows)),
        "total": shown.count(run.cases_total),
    }


def is_explained(case: Case) -> bool:
    """Whether a case has its contributing values; the others are named on one line each."""
    return case.contributions is not None


def case_line(model: ModelDocument, case: Case, places: int, number: int | None) -> dict[str, Any]:
    panels = [point.label for point in model.points]
    return {
        "known": known(case),
        "rank": shown.count(number if case.rank is None else case.rank),
        "id": shown.name(case.id),
        "as_it_is": as_it_is(case.id),
        "group": shown.name(case.group) if case.group is not None else "",
        "row": shown.count(case.row),
        "score": shown.fixed(case.score, places),
        "exact": _on_class_scale(model, case),
        "p_value": shown.p_value(case.p_value) + (" · FDR" if case.discovery else ""),
        "chance": _chance(case),
        "votes": _votes(case),
        "class": shown.name(case.label),
        "panel": panels.index(case.label),
        "why": [_contribution(model, one, places) for one in case.contributions or ()],
        "missing": [shown.feature(name) for name in case.missing[:MISSING_SHOWN]],
        "more_missing": shown.count(len(case.missing) - MISSING_SHOWN)
        if len(case.missing) > MISSING_SHOWN
        else "",
    }


def _votes(case: Case) -> str:
    """Say how many members of a blend would flag the case alone."""
    return f"{sum(case.votes.values())} of {len(case.votes)} methods flag alone" if case.votes else ""


def _chance(case: Case) -> str:
    if case.chance is None:
        return ""
    ends = shown.interval(case.chance_low, case.chance_high)
    return f"chance {shown.percent(case.chance)}" + (f" ({ends})" if ends else "")


def _on_class_scale(model: ModelDocument, case: Case) -> str:
    """Return the score on the scale of the slider, exactly."""
    own = next(point.threshold for point in model.points if point.label == case.label)
    return repr(case.score + own if model.by_excess else case.score)


def _contribution(model: ModelDocument, found: Contribution, places: int) -> dict[str, Any]:
    declared = model.declared(found.feature)
    value = as_number(found.value, declared)
    absent = value == "missing"
    usual = None if declared.on_other_scale else found.usual
    return {
        "feature": shown.feature(found.feature),
        "value": value_text(value, declared),
        "unit": "" if absent else shown.unit(found.unit),
        "usual": "" if absent else shown.usual(usual),
        "outside": _outside(value, usual),
        "raises": found.direction != "lowers",
        "change": shown.minus(f"{found.change:+.{places}f}"),
    }


def as_number(value: str, declared: Declared) -> str | float:
    """Return the number in a text where the contract declares a number; anything else as it came."""
    if declared.type != "number":
        return value
    try:
        return float(value)
    except ValueError:
        return value


def value_text(value: str | float | None, declared: Declared) -> str:
    """Return a patient's value as the contract means it: yes or no, the category, or a number."""
    if value is None or value != value:
        return "missing"
    kind, categories = declared.type, declared.categories or ()
    if isinstance(value, bool) or (kind == "boolean" and value in (0, 1)):
        return "yes" if value else "no"
    if not shown.finite(value):
        return shown.name(value)
    if kind == "ordinal" and float(value).is_integer() and 0 <= value < len(categories):
        return shown.name(categories[int(value)])
    return shown.number(value)


def _outside(value: str | float, usual: Range | None) -> str:
    """Return H or L, as laboratory sheets mark a value above or below the usual range."""
    if not shown.finite(value) or usual is None:
        return ""
    low, high = usual
    if high is not None and value > high:
        return "H"
    return "L" if low is not None and value < low else ""


def groups(run: RunDocument, places: int) -> dict[str, Any] | None:
    """Return the patients of a grouped run, most flagged first."""
    if not run.groups:
        return None
    total = len(run.groups) if run.groups_total is None else run.groups_total
    rows = [
        {
            "known": known(group),
            "group": shown.name(group.group),
            "rows": shown.count(group.rows),
            "flagged": shown.count(group.flagged),
            "any": bool(group.flagged),
            "discovery": group.discovery,
            "share": shown.percent(group.flagged / group.rows),
            "top_score": shown.fixed(group.top_score, places),
        }
        for group in run.groups
    ]
    return {
        "unit": run.model.unit_of_review,
        "rows": rows,
        "capped": total > len(rows),
        "shown": shown.count(len(rows)),
        "total": shown.count(total),
    }
