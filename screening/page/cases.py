"""Whom to look at: flagged rows with contributing values, near misses, and patients of grouped runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import by_excess, mapping, multi, part, points, sequence, unit_of_review
from screening.page import format as shown
from screening.page.review import as_it_is, known

MISSING_SHOWN = 8


def scores(run: Mapping[str, Any]) -> list[Any]:
    """Return every score named on the page, to settle how many decimals tell them apart."""
    return [c.get("score") for key in ("cases", "near_misses") for c in sequence(run, key)]


def flagged(run: Mapping[str, Any], places: int) -> dict[str, Any]:
    """Return the flagged rows, the ones just below the threshold, and how many of how many are shown."""
    cases, near = list(sequence(run, "cases")), list(sequence(run, "near_misses"))
    total = part(run, "cases_total")
    total = total if shown.finite(total) else len(cases)
    model = mapping(run, "model")
    listed = [case_line(run, case, places, number) for number, case in enumerate(cases, start=1)]
    rows = [line for line, case in zip(listed, cases, strict=True) if is_explained(case)]
    further = [line for line, case in zip(listed, cases, strict=True) if not is_explained(case)]
    below = [case_line(run, case, places, None) for case in near]
    return {
        "further": further,
        "grouped": any(line["group"] for line in further),
        "to_review": not sequence(run, "groups") and not run.get("pseudonymised"),
        "unit": unit_of_review(model),
        "multi": multi(model),
        "by_excess": by_excess(model),
        "has_p": any(row["p_value"] != shown.NOT_KNOWN for row in listed),
        "rows": rows,
        "near": below,
        "near_lowest": below[-1]["score"] if below else "",
        "capped": len(cases) < total,
        "shown": shown.count(len(cases)),
        "explained": shown.count(len(rows)),
        "total": shown.count(total),
    }


def is_explained(case: Mapping[str, Any]) -> bool:
    """Whether a case has its contributing values; the others are named on one line each."""
    return case.get("contributions") is not None


def case_line(
    run: Mapping[str, Any], case: Mapping[str, Any], places: int, number: int | None
) -> dict[str, Any]:
    model = mapping(run, "model")
    watched = {str(p.get("class")): i for i, p in enumerate(points(model))}
    rank, missing = case.get("rank"), sequence(case, "missing")
    return {
        "known": known(case),
        "rank": shown.count(rank if shown.finite(rank) else number),
        "id": shown.name(case.get("id")),
        "as_it_is": as_it_is(case.get("id")),
        "group": shown.name(case["group"]) if case.get("group") is not None else "",
        "row": shown.count(case.get("row")),
        "score": shown.fixed(case.get("score"), places),
        "exact": _on_class_scale(model, case),
        "p_value": shown.p_value(case.get("p_value")) + (" · FDR" if case.get("discovery") else ""),
        "chance": _chance(case),
        "votes": _votes(case),
        "class": shown.name(case.get("class")),
        "panel": watched.get(str(case.get("class")), 0),
        "why": [_contribution(model, c, places) for c in sequence(case, "contributions")],
        "missing": [shown.feature(m) for m in missing[:MISSING_SHOWN]],
        "more_missing": shown.count(len(missing) - MISSING_SHOWN) if len(missing) > MISSING_SHOWN else "",
    }


def _votes(case: Mapping[str, Any]) -> str:
    """Say how many members of a blend would flag the case alone."""
    votes = mapping(case, "votes")
    if not votes:
        return ""
    return f"{sum(map(bool, votes.values()))} of {len(votes)} methods flag alone"


def _chance(case: Mapping[str, Any]) -> str:
    chance, low, high = (case.get(key) for key in ("chance", "chance_low", "chance_high"))
    if not shown.finite(chance):
        return ""
    between = f" ({shown.interval(low, high)})" if shown.finite(low) and shown.finite(high) else ""
    return f"chance {shown.percent(chance)}{between}"


def _on_class_scale(model: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    """Return the score on the scale of the slider, exactly; empty where there is none."""
    score = case.get("score")
    if not shown.finite(score):
        return ""
    own = [p.get("threshold") for p in points(model) if str(p.get("class")) == str(case.get("class"))]
    return repr(float(score + own[0]) if by_excess(model) and own and shown.finite(own[0]) else float(score))


def _contribution(model: Mapping[str, Any], found: Mapping[str, Any], places: int) -> dict[str, Any]:
    declared = mapping(model, "contract", "features", str(found.get("feature")))
    value, usual = as_number(found.get("value"), declared), found.get("usual")
    change, unit = found.get("change"), found.get("unit") or declared.get("unit")
    absent = value is None or value == "missing"
    if on_other_scale(declared):
        usual = None
    return {
        "feature": shown.feature(found.get("feature")),
        "value": value_text(value, declared),
        "unit": "" if absent else shown.unit(unit),
        "usual": "" if absent else shown.usual(usual),
        "outside": _outside(value, usual),
        "raises": found.get("direction") != "lowers",
        "change": shown.minus(f"{change:+.{places}f}") if shown.finite(change) else "",
    }


def as_number(value: Any, declared: Mapping[str, Any]) -> Any:
    """Return the number in a text where the contract declares a number; anything else as it came."""
    if not isinstance(value, str) or declared.get("type") != "number":
        return value
    try:
        return float(value)
    except ValueError:
        return value


def on_other_scale(declared: Mapping[str, Any]) -> bool:
    """Whether a range learned in training cannot stand beside the raw value: normalised within the group."""
    return bool(declared.get("normalise")) and not declared.get("usual")


def value_text(value: Any, declared: Mapping[str, Any]) -> str:
    """Return a patient's value as the contract means it: yes or no, the category, or a number."""
    if value is None or value != value:
        return "missing"
    kind, categories = declared.get("type"), sequence(declared, "categories")
    if isinstance(value, bool) or (kind == "boolean" and value in (0, 1)):
        return "yes" if value else "no"
    if not shown.finite(value):
        return shown.name(value)
    if kind == "ordinal" and float(value).is_integer() and 0 <= value < len(categories):
        return shown.name(categories[int(value)])
    return shown.number(value)


def _outside(value: Any, usual: Any) -> str:
    """Return H or L, as laboratory sheets mark a value above or below the usual range."""
    if not shown.finite(value) or not isinstance(usual, (list, tuple)) or len(usual) != 2:
        return ""
    low, high = usual
    if shown.finite(high) and value > high:
        return "H"
    return "L" if shown.finite(low) and value < low else ""


def groups(run: Mapping[str, Any], places: int) -> dict[str, Any] | None:
    """Return the patients of a grouped run, most flagged first."""
    found = part(run, "groups")
    if not isinstance(found, (list, tuple)) or not found:
        return None
    total = part(run, "groups_total")
    rows = [
        {
            "known": known(g),
            "group": shown.name(g.get("group")),
            "rows": shown.count(g.get("rows")),
            "flagged": shown.count(g.get("flagged")),
            "any": bool(g.get("flagged")),
            "discovery": bool(g.get("discovery")),
            "share": _share(g.get("flagged"), g.get("rows")),
            "top_score": shown.fixed(g.get("top_score"), places),
        }
        for g in found
    ]
    return {
        "unit": unit_of_review(mapping(run, "model")),
        "rows": rows,
        "capped": shown.finite(total) and total > len(rows),
        "shown": shown.count(len(rows)),
        "total": shown.count(total if shown.finite(total) else len(rows)),
    }


def _share(part_of: Any, whole: Any) -> str:
    return shown.percent(part_of / whole) if shown.finite(part_of) and whole else shown.NOT_KNOWN
