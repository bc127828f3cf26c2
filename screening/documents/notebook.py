"""What a notebook shows of a model, a run and a comparison: a sentence and a small table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument

if TYPE_CHECKING:
    from screening.documents.comparison import ComparisonDocument


def model_html(model: ModelDocument) -> str:
    """The method, its rows, and what each operating point does."""
    rows = [
        (point.label, f"{point.threshold:.3g}", _rate(point.sensitivity), _rate(point.specificity))
        for point in model.operating_points
    ]
    words = f"{model.recipe.title}, trained on {model.training.n_rows_used} rows"
    return _shown(words, ("class", "threshold", "sensitivity", "specificity"), rows)


def run_html(run: RunDocument) -> str:
    """The night, its counts, and why it wants attention."""
    words = f"Night of {run.date}: {run.counts.flagged} of {run.counts.scored} rows flagged"
    return _shown(words, ("attention", "remedy"), [(r.words, r.remedy) for r in run.attention])


def comparison_html(comparison: ComparisonDocument) -> str:
    """A line a cohort and method, the control's first figure beside AUROC."""
    first = comparison.first_figure
    rows = [
        (cohort.name, method.recipe, *(_rate(method.figures[name].value) for name in ("auroc", first)))
        for cohort in comparison.cohorts
        for method in cohort.methods
    ]
    return _shown(
        "Held-out rows, the same folds for every method", ("cohort", "recipe", "AUROC", first), rows
    )


def _shown(words: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><tr>{head}</tr>{body}</table>" if body else ""
    return f"<p><b>{escape(words)}</b></p>{table}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
