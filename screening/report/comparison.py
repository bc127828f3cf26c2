"""The page of a comparison: a table, curves on one axis, paired differences, and ranks over cohorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from screening.report import format as fmt
from screening.report.charts import Axes, Label, Tick
from screening.report.drawing import draw
from screening.schemas.base import Estimate
from screening.schemas.comparison import (
    CohortFacts,
    ComparisonDocument,
    FigureRanks,
    MethodFacts,
    RankedMethod,
)

FIGURES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "g_mean": "G-mean",
    "min_sensitivity": "Minimum sensitivity",
    "auroc": "AUROC",
    "average_precision": "Average precision",
    "specificity_at": "Specificity at the asked sensitivity",
    "own_g_mean": "G-mean, own boundary",
    "macro_recall": "Mean recall",
    "macro_g": "Mean G over classes",
    "geometric_recall": "Geometric mean of recalls",
    "min_recall": "Smallest recall",
    "macro_f1": "Mean F1",
}
IN_TABLE = (
    "sensitivity",
    "specificity",
    "g_mean",
    "min_sensitivity",
    "auroc",
    "average_precision",
    "specificity_at",
    "own_g_mean",
)
OF_CLASSES = ("macro_recall", "macro_g", "geometric_recall", "min_recall", "macro_f1")
COMPARED = (
    "g_mean",
    "auroc",
    "average_precision",
    "specificity_at",
    "macro_recall",
    "macro_g",
)


def render_comparison(
    document: Mapping[str, object], templates: Path | None = None
) -> str:
    """Return the page of a parsed ``comparison.json``; `templates` as of `screening.report.render_model`."""
    compared = ComparisonDocument.from_dict(document)
    titles = FIGURES | {
        "specificity_at": f"Specificity at {fmt.percent(compared.asked_sensitivity)} sensitivity"
    }
    ranks = compared.ranks
    order = sorted(ranks.figures, key=lambda name: name != ranks.first) if ranks else ()
    return draw(
        "compare.html.j2",
        {
            "banner": {
                "title": "Methods compared",
                "kind": "on the same folds",
                "date": "",
            },
            "compared": compared,
            "cohorts": [
                _cohort(c, i, compared.first_figure, titles)
                for i, c in enumerate(compared.cohorts)
            ],
            "ranked": [
                (FIGURES.get(name, name), *_ranked(name, ranks.figures[name]))
                for name in order
                if ranks
            ],
        },
        templates=templates,
        styles=("report.css", "compare.css"),
        footer="comparison of methods",
    )


def _cohort(
    cohort: CohortFacts, number: int, first: str, titles: Mapping[str, str]
) -> dict[str, object]:
    """A cohort with its charts: the curves of the best methods, the control's among them, and differences."""
    methods = cohort.methods
    present = methods[0].figures

    def place(method: MethodFacts) -> tuple[bool, float]:
        value = method.figures[first].value
        return not method.control, 1.0 if value is None else -value

    drawn = sorted(methods, key=place)[:MOST_CURVES]
    return {
        "facts": cohort,
        "columns": {name: titles[name] for name in IN_TABLE},
        "class_columns": {name: titles[name] for name in OF_CLASSES if name in present},
        "drawn": drawn,
        "roc": roc(drawn, number),
        "differences": [
            (
                titles.get(name, name),
                differences(methods, name, number, titles.get(name, name)),
            )
            for name in dict.fromkeys((first, *COMPARED))
            if name in present and len(methods) > 1
        ],
    }


def _ranked(
    name: str, test: FigureRanks
) -> tuple[FigureRanks, Axes, list[RankedMethod]]:
    """Friedman's test of one figure, its chart, and the methods from the best rank on."""
    ordered = sorted(test.methods, key=lambda m: m.mean_rank)
    return (
        test,
        critical_difference(name, FIGURES.get(name, name), ordered, test),
        ordered,
    )


MOST_CURVES = 8
"""Curves on one axis that a reader can still distinguish; there are as many kinds of line."""


def roc(methods: Sequence[MethodFacts], number: int) -> Axes:
    """The curves of these methods on one axis, each in a kind of line of its own."""
    areas = "; ".join(
        f"{fmt.name(m.recipe)}: area {fmt.fixed(m.figures['auroc'], 3)}"
        for m in methods
    )
    axes = Axes(
        f"roc-{number}",
        (0, 1),
        (0, 1),
        "1 − specificity",
        "sensitivity",
        title="Sensitivity against 1 − specificity of the methods",
        description=areas,
        width=470,
        height=440,
        margins=(14, 14, 46, 56),
        as_percent=(True, True),
    )
    axes.line([0, 1], [0, 1], "chance")
    for i, method in enumerate(methods):
        sensitivity = np.linspace(0, 1, len(method.curve))
        # A step up at each sensitivity that is reached, as the curve of finitely many cases is.
        axes.line(
            np.repeat(method.curve, 2)[1:], np.repeat(sensitivity, 2)[:-1], f"m{i}"
        )
    return axes


def differences(
    methods: Sequence[MethodFacts], name: str, number: int, words: str
) -> Axes:
    """A line a method: the difference from the control with its interval, and a rule at no difference."""
    compared = [(m, m.differences[name]) for m in methods if m.differences is not None]
    ends = [abs(end) for _, d in compared for end in d.ends if end is not None]
    reach = max(ends or [0.01]) * 1.05 or 0.01
    axes = Axes(
        f"difference-{number}-{name}".replace("_", "-"),
        (-100 * reach, 100 * reach),
        (0, len(compared)),
        "points better than the control",
        "",
        title=f"{words}: difference from the control",
        description="; ".join(
            f"{fmt.name(m.recipe)} {_in_points(d)} points" for m, d in compared
        ),
        width=660,
        height=66 + 24 * len(compared),
        margins=(10, 150, 46, 190),
    )
    axes.y_ticks = []
    for i, (method, gap) in enumerate(compared):
        y = len(compared) - i - 0.5
        axes.y_ticks.append(Tick(axes.up.at(y), fmt.name(method.recipe)))
        if gap.value is None:
            continue
        if gap.low is not None and gap.high is not None:
            axes.line([100 * gap.low, 100 * gap.high], [y, y], "first")
        axes.dot(100 * gap.value, y, "validated")
        axes.labels.append(
            Label(axes.right + 7, axes.up.at(y) + 4, "plain", _in_points(gap), "start")
        )
    axes.line([0, 0], [0, len(compared)], "chance")
    return axes


def _in_points(gap: Estimate) -> str:
    return f"{fmt.points(gap.value)} ({fmt.points(gap.low)} to {fmt.points(gap.high)})"


def critical_difference(
    name: str, words: str, ordered: Sequence[RankedMethod], test: FigureRanks
) -> Axes:
    """Mean ranks on a line, best at the left; bars join methods that the data cannot tell apart."""
    cliques, distance, rows = test.cliques, test.critical_difference, len(ordered)
    best = ", ".join(fmt.name(method.recipe) for method in ordered)
    axes = Axes(
        f"ranks-{name}".replace("_", "-"),
        (1, max(rows, 2)),
        (0, rows + 0.6 * len(cliques) + 2),
        "mean rank (1 is best)",
        "",
        title=f"Mean ranks by {words}",
        description=f"Best first: {best}. Ranks less than {fmt.fixed(distance, 2)} apart do not differ "
        "by more than chance (Nemenyi, 5%).",
        width=660,
        height=104 + 22 * rows + 13 * len(cliques),
        margins=(14, 60, 46, 190),
    )
    top = axes.up.high
    axes.y_ticks = []
    for i, method in enumerate(ordered):
        y, rank = rows - i - 0.5, method.mean_rank
        axes.line([rank, rank], [y, rows], "stem")
        axes.dot(rank, y, "validated")
        axes.y_ticks.append(Tick(axes.up.at(y), fmt.name(method.recipe)))
    for i, ends in enumerate(cliques):
        axes.line(ends, [rows + 0.4 + 0.6 * i] * 2, "clique")
    axes.line([1, 1 + distance], [top - 0.8, top - 0.8], "first")
    words = f"critical difference {fmt.fixed(distance, 2)}"
    axes.labels.append(
        Label(axes.left, axes.up.at(top - 0.8) - 6, "first", words, "start")
    )
    return axes
