"""Whether a model is useful here: the verdict, one picture, and the methods beside it on the same folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.model import ModelDocument
from screening.documents.usefulness import best_other, flags_of, usefulness_of
from screening.documents.validation import Beside, Difference, OperatingPointFacts
from screening.page import format as shown
from screening.page.charts import Axes
from screening.page.tradeoff import Curve

ROUND = [step * 10**power for power in range(1, 8) for step in (1, 2, 5)]


def usefulness(model: ModelDocument) -> dict[str, object]:
    """Return verdict, reasons, and a picture where one class is watched."""
    found = usefulness_of(model)
    return {
        "verdict": found.verdict,
        "words": shown.text(found.words, 300),
        "known": [shown.text(each.words, 400) for each in found.known],
        "against": [
            shown.text(" ".join(filter(None, (each.words, each.remedy))), 500) for each in found.against
        ],
        "picture": _picture(model, model.points[0]) if len(model.points) == 1 else None,
    }


def _picture(model: ModelDocument, point: OperatingPointFacts) -> Axes | None:
    """Sensitivity against flags, with the threshold in use, the best other method, and the capacity."""
    curve = Curve(model.validation.curves[point.label])
    rates = curve.columns["flag_rate"]
    # Capacity counts reviews, which are of patients where rows come in groups.
    capacity = None if model.validation.grouped else model.stated.capacity
    if point.flag_rate is None or point.sensitivity is None:
        return None
    room = (
        ""
        if capacity is None
        else f" The upper axis says how large a night {capacity:,} reviews are enough for."
    )
    words = (
        f"Share of cases found against flags per 100 rows. The validated threshold finds "
        f"{shown.percent(point.sensitivity)} for {shown.per_hundred(point.flag_rate)}.{room}"
    )
    axes = Axes(
        name="useful", title="Cases found for so many flags", description=words, x=(0, 100), y=(0, 1),
        x_label="flags per 100 rows", y_label="cases found (sensitivity)", width=660, height=330,
        margins=(52 if capacity else 16, 24, 46, 66),
    )  # fmt: skip
    flags = [None if rate is None else 100 * rate for rate in rates]
    low, high = curve.columns["sensitivity_low"], curve.columns["sensitivity_high"]
    axes.band(flags, low, high, "first")
    axes.line([0, 100], [0, 1], "chance")
    axes.line(flags, curve.columns["sensitivity"], "first")
    if capacity is not None:
        size = min(ROUND, key=lambda rows: abs(capacity / rows - (point.flag_rate or 0)))
        axes.upright(100 * capacity / size, "capacity", f"capacity, night of {shown.count(size)} rows")
        axes.second_axis(
            f"rows a night for which {shown.plural(capacity, 'review')} are enough",
            lambda x: shown.count(100 * capacity / x) if x else "any",
        )
    axes.mark(100 * point.flag_rate, point.sensitivity, "validated", "validated threshold")
    _mark_other(axes, model, point)
    axes.caption = f"{words} Dotted: picking by chance."
    return axes


def _mark_other(axes: Axes, model: ModelDocument, point: OperatingPointFacts) -> None:
    other = best_other(model.validation.comparison)
    figures = other.figures if other else None
    sensitivity, specificity = ((figures or {}).get(name) for name in ("sensitivity", "specificity"))
    if other is not None and sensitivity is not None and specificity is not None:
        at = 100 * flags_of(point, sensitivity, specificity)
        axes.dot(at, sensitivity, "other")
        axes.note(at, sensitivity, "second", shown.name(other.recipe))


FIGURES = {
    "auroc": "AUROC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "macro_recall": "Mean recall",
}

UNKNOWN = Difference(difference=None, low=None, high=None)


def beside(model: ModelDocument) -> dict[str, object] | None:
    """Return the comparison with other methods; None where training made none."""
    found = model.validation.comparison
    if found is None:
        return None
    own = {name: found.figures[name] for name in FIGURES if found.figures.get(name) is not None}
    rows = [_row(other, list(own)) for other in found.beside if other.reason is None]
    method = shown.name(model.recipe.name)
    return {
        "method": method,
        "columns": [FIGURES[name] for name in own],
        "own": [_value(name, value) for name, value in own.items()],
        "rows": rows,
        "said": [_sentence(row, method) for row in rows],
        "failed": [
            (shown.name(other.recipe), shown.text(other.reason, 300).rstrip("."))
            for other in found.beside
            if other.reason is not None
        ],
        "rule": shown.rule(found.rule),
        "watched": model.multi and found.n_watched > 1,
        "grouped": model.validation.grouped,
    }


def _row(other: Beside, names: list[str]) -> dict[str, Any]:
    """Another method: its figures, how far the method's own lie above them, and what that shows."""
    assert other.figures is not None and other.differences is not None, "it was trained, so it has both"
    gaps = {name: other.differences.get(name, UNKNOWN) for name in names}
    better = [FIGURES[name] for name, gap in gaps.items() if gap.low is not None and gap.low > 0]
    worse = [FIGURES[name] for name, gap in gaps.items() if gap.high is not None and gap.high < 0]
    return {
        "name": shown.name(other.recipe),
        "title": shown.text(other.title, 200),
        "cells": [
            (_value(name, other.figures[name]), _signed(name, gap.difference), _ends(name, gap))
            for name, gap in gaps.items()
        ],
        "words": _words(better, worse),
        "better": better,
        "worse": worse,
    }


def _words(better: list[str], worse: list[str]) -> str:
    """Say what the intervals show, and nothing where they hold zero."""
    said = [f"{', '.join(names)} {words}" for names, words in ((better, "higher"), (worse, "lower")) if names]
    return "; ".join(said) or "no difference shown"


def _sentence(row: Mapping[str, Any], own: str) -> str:
    ends = (("a higher", row["better"]), ("a lower", row["worse"]))
    figures = [f"{words} {_in_a_sentence(name)}" for words, names in ends for name in names]
    if not figures:
        return f"beside {row['name']}, these patients show no difference"
    return f"beside {row['name']}, {own} has {' and '.join(figures)}"


def _in_a_sentence(name: str) -> str:
    return name if name.isupper() else name.lower()


def _value(name: str, value: float | None) -> str:
    return shown.fixed(value, 2) if name == "auroc" else shown.percent(value)


def _signed(name: str, gap: float | None) -> str:
    """Return a difference with its sign: AUROC with three decimals, shares in percentage points."""
    return shown.signed(gap, 3) if name == "auroc" else shown.points(gap)


def _ends(name: str, gap: Difference) -> str:
    if gap.low is None or gap.high is None:
        return ""
    return f"{_signed(name, gap.low)} to {_signed(name, gap.high)}"
