"""What a notebook shows of a model, a run and a comparison: a sentence and a small table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def model_html(model: Mapping[str, Any]) -> str:
    """The method, its rows, and what each operating point does."""
    rows = [
        (
            point["class"],
            f"{point['threshold']:.3g}",
            _rate(point["sensitivity"]),
            _rate(point["specificity"]),
        )
        for point in model["operating_points"]
    ]
    words = f"{model['recipe']['title']}, trained on {model['training']['n_rows_used']} rows"
    return _shown(words, ("class", "threshold", "sensitivity", "specificity"), rows)


def run_html(run: Mapping[str, Any]) -> str:
    """The night, its counts, and why it wants attention."""
    counts = run["counts"]
    words = f"Night of {run['date']}: {counts['flagged']} of {counts['scored']} rows flagged"
    return _shown(words, ("attention", "remedy"), [(r["words"], r["remedy"]) for r in run["attention"]])


def comparison_html(comparison: Mapping[str, Any]) -> str:
    """A line a cohort and method, the control's first figure beside AUROC."""
    first = comparison["first_figure"]
    rows = [
        (
            cohort["name"],
            method["recipe"],
            *(_rate(method["figures"][name]["value"]) for name in ("auroc", first)),
        )
        for cohort in comparison["cohorts"]
        for method in cohort["methods"]
    ]
    return _shown(
        "Held-out rows, the same folds for every method", ("cohort", "recipe", "AUROC", first), rows
    )


def _shown(words: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><tr>{head}</tr>{body}</table>" if body else ""
    return f"<p><b>{escape(words)}</b></p>{table}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
