"""What a session shows of a model, a run and a comparison: a sentence, and in a notebook a small table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from screening.schemas.base import Estimate
from screening.schemas.comparison import ComparisonDocument
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument


@dataclass(frozen=True)
class Brief:
    """A sentence and the lines of a table."""

    words: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def html(self) -> str:
        """Both, every cell escaped."""
        head = "".join(f"<th>{escape(each)}</th>" for each in self.heads)
        cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self.rows)
        body = "".join(f"<tr>{each}</tr>" for each in cells)
        table = f"<table><tr>{head}</tr>{body}</table>" if body else ""
        return f"<p><b>{escape(self.words)}</b></p>{table}"


class InBrief:
    """Shows itself by its brief: what it holds are patients' ids and values, and belongs in no log."""

    def brief(self) -> Brief:
        """What is shown; no patient is in it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.brief().words}>"

    def _repr_html_(self) -> str:
        return self.brief().html()


def model_brief(model: ModelDocument) -> Brief:
    """The method, its rows, and what each operating point does."""
    rows = [
        (point.label, f"{point.threshold:.3g}", _rate(point.sensitivity), _rate(point.specificity))
        for point in model.operating_points
    ]
    words = f"{model.recipe.title}, trained on {model.training.n_rows_used} rows"
    return Brief(words, ("class", "threshold", "sensitivity", "specificity"), rows)


def run_brief(run: RunDocument) -> Brief:
    """The night, its counts, and why it wants attention."""
    words = f"Night of {run.date}: {run.counts.flagged} of {run.counts.scored} rows flagged"
    return Brief(words, ("attention", "remedy"), [(r.words, r.remedy or "") for r in run.attention])


def comparison_brief(comparison: ComparisonDocument) -> Brief:
    """A line a cohort and method, the control's first figure beside AUROC."""
    first = comparison.first_figure
    rows = [
        (cohort.name, method.recipe, *(_rate(method.figures[name]) for name in ("auroc", first)))
        for cohort in comparison.cohorts
        for method in cohort.methods
    ]
    heads = ("cohort", "recipe", "AUROC", first)
    return Brief("Held-out rows, the same folds for every method", heads, rows)


def _rate(share: Estimate) -> str:
    return "" if share.value is None else f"{100 * share.value:.1f} %"
