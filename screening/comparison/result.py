"""What comes of a comparison: its figures, the held-out scores, and the files that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from screening.documents.comparison import ComparisonDocument
from screening.documents.notebook import Brief, InBrief, comparison_brief
from screening.documents.shape import plain
from screening.page.comparison import render_comparison
from screening.storage.sealing import written


@dataclass(frozen=True, repr=False)
class Comparison(InBrief):
    """The outcome of `compare`.

    Parameters
    ----------
    facts : ComparisonDocument
        Settings, a table, differences and curves a cohort, ranks over cohorts.
    scores : DataFrame
        Held-out rows: cohort, recipe, fold, id, label, class, score, flagged.
    """

    facts: ComparisonDocument
    scores: pd.DataFrame

    @cached_property
    def document(self) -> dict[str, object]:
        """What `comparison.json` holds."""
        return plain(self.facts)

    def brief(self) -> Brief:
        return comparison_brief(self.facts)

    def summary(self) -> dict[str, object]:
        """Every figure of every method, without intervals and curves."""
        tables = {
            cohort.name: {
                method.recipe: {name: figure.value for name, figure in method.figures.items()}
                | {name: getattr(method, name) for name in ("sv_share", "fit_seconds", "score_seconds")}
                for method in cohort.methods
            }
            for cohort in self.facts.cohorts
        }
        ranks = self.facts.ranks
        return {
            "control": self.facts.settings.control,
            "cohorts": tables,
            "ranks": None if ranks is None else plain(ranks),
        }

    def table(self) -> dict[str, list[str]]:
        """A line a cohort and method: what a person reads first."""
        lines = {}
        for cohort in self.facts.cohorts:
            lines[cohort.name] = [
                f"{method.recipe:22}"
                + "  ".join(
                    f"{words} {_percent(method.figures[name].value)}" for name, words in _SHOWN.items()
                )
                for method in cohort.methods
            ]
        return lines


_SHOWN = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "g_mean": "G-mean",
    "auroc": "AUROC",
    "specificity_at": "specificity at the asked sensitivity",
}


def _percent(share: float | None) -> str:
    return "    -" if share is None else f"{100 * share:5.1f}"


def write_comparison(found: Comparison, folder: Path, templates: Path | None) -> None:
    """Write `comparison.json`, `scores.parquet` and `report.html`, the page by a site's own templates."""
    (folder / "comparison.json").write_bytes(written(found.document)[1])
    found.scores.to_parquet(folder / "scores.parquet", index=False)
    (folder / "report.html").write_bytes(render_comparison(found.document, templates).encode())
