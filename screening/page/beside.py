"""The method beside what a user would pick instead, on the same folds: figures, differences, and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import mapping, multi, part, sequence
from screening.page import format as shown

FIGURES = {
    "auroc": "AUROC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "macro_recall": "Mean recall",
}


def beside(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the comparison with other methods; None where training made none."""
    found = mapping(model, "validation", "comparison")
    others = [row for row in sequence(found, "beside") if isinstance(row, Mapping)]
    if not others:
        return None
    names = [name for name in FIGURES if shown.finite(part(found, "figures", name))]
    rows = [_row(other, names) for other in others if "reason" not in other]
    own = shown.name(part(model, "recipe", "name"))
    return {
        "method": own,
        "columns": [FIGURES[name] for name in names],
        "own": [_value(name, part(found, "figures", name)) for name in names],
        "rows": rows,
        "said": [_sentence(row, own) for row in rows],
        "failed": [
            (shown.name(other.get("recipe")), shown.text(other["reason"], 300).rstrip("."))
            for other in others
            if "reason" in other
        ],
        "rule": shown.rule(found.get("rule")),
        "watched": multi(model) and (found.get("n_watched") or 1) > 1,
        "grouped": bool(part(model, "validation", "grouped")),
    }


def _row(other: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    gaps = {name: mapping(other, "differences", name) for name in names}
    better = [FIGURES[name] for name in names if _above(gaps[name].get("low"))]
    worse = [FIGURES[name] for name in names if _above(gaps[name].get("high"), -1)]
    return {
        "name": shown.name(other.get("recipe")),
        "title": shown.text(other.get("title") or "", 200),
        "cells": [
            {
                "value": _value(name, part(other, "figures", name)),
                "gap": _signed(name, gaps[name].get("difference")),
                "interval": _ends(name, gaps[name].get("low"), gaps[name].get("high")),
            }
            for name in names
        ],
        "words": _words(better, worse),
        "better": better,
        "worse": worse,
    }


def _above(end: Any, side: int = 1) -> bool:
    return shown.finite(end) and side * end > 0


def _words(better: list[str], worse: list[str]) -> str:
    """Say what the intervals show, and nothing where they hold zero."""
    said = [f"{', '.join(names)} {words}" for names, words in ((better, "higher"), (worse, "lower")) if names]
    return "; ".join(said) or "no difference shown"


def _sentence(row: Mapping[str, Any], own: str) -> str:
    if not row["better"] and not row["worse"]:
        return f"beside {row['name']}, these patients show no difference"
    return f"beside {row['name']}, {own} has {_listed(row)}"


def _listed(row: Mapping[str, Any]) -> str:
    ends = (("a higher", row["better"]), ("a lower", row["worse"]))
    return " and ".join(f"{words} {name}" for words, names in ends for name in map(_in_a_sentence, names))


def _in_a_sentence(name: str) -> str:
    return name if name.isupper() else name.lower()


def _value(name: str, value: Any) -> str:
    return shown.fixed(value, 2) if name == "auroc" else shown.percent(value)


def _signed(name: str, gap: Any) -> str:
    """Return a difference with its sign: AUROC with three decimals, shares in percentage points."""
    if not shown.finite(gap):
        return shown.NOT_KNOWN
    figure = shown.fixed(gap, 3) if name == "auroc" else shown.fixed(100 * gap, 1)
    return figure if figure.startswith("−") or float(figure) == 0 else f"+{figure}"


def _ends(name: str, low: Any, high: Any) -> str:
    if not (shown.finite(low) and shown.finite(high)):
        return ""
    return f"{_signed(name, low)} to {_signed(name, high)}"
