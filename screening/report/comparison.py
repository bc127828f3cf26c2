"""The page of a comparison: table, ROC curves, paired differences, mean ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from screening.metrics.figures import FIGURES, SHARE, Form, Table, figures_in, gain
from screening.report import format as fmt
from screening.report.charts import Axes, Label, Tick
from screening.report.drawing import draw
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.comparison import (
    CohortFacts,
    ComparisonDocument,
    FigureRanks,
    MethodFacts,
    RankedMethod,
)

CLASS_TITLES = {
    "macro_recall": "Mean recall",
    "macro_g": "Mean G over classes",
    "geometric_recall": "Geometric mean of recalls",
    "min_recall": "Smallest recall",
    "macro_f1": "Mean F1",
}
"""Figures of predicted classes, with their titles."""

MAX_CURVES = 8
"""Curves that a reader can distinguish; there are as many kinds of line."""
# Widest half of the axis of differences where there are none.
MIN_DIFFERENCE = 0.01


def render_comparison(
    document: Mapping[str, object], templates: Path | None = None
) -> str:
    """Render a parsed ``comparison.json`` as a page; `templates` as above."""
    comparison = ComparisonDocument.from_dict(document)
    titles = titles_of(comparison)
    cohorts = [
        _cohort_block(cohort, number, comparison.first_figure, titles)
        for number, cohort in enumerate(comparison.cohorts)
    ]
    return draw(
        "compare.html.j2",
        {
            "banner": {
                "title": "Methods compared",
                "kind": "on the same folds",
                "date": "",
            },
            "compared": comparison,
            "best": best_methods(comparison),
            "cohorts": cohorts,
            "ranked": _ranks(comparison, titles),
        },
        templates=templates,
        styles=("report.css", "compare.css"),
        footer="comparison of methods",
    )


def titles_of(comparison: ComparisonDocument) -> dict[str, str]:
    """Return the names of a comparison's figures with their titles."""
    titles = _titles("compare")
    asked = fmt.percent(comparison.asked_sensitivity)
    titles["specificity_at"] = f"Specificity at {asked} sensitivity"
    for name, title in _titles("own_boundary").items():
        titles[f"own_{name}"] = f"{title}, own boundary"
    return titles | CLASS_TITLES


def _titles(table: Table) -> dict[str, str]:
    """Return the names of a table's figures with their titles."""
    return {figure.name: figure.title for figure in figures_in(table)}


def best_methods(comparison: ComparisonDocument) -> dict[str, str]:
    """Return for each cohort which method is best, or that no difference is shown."""
    measure = comparison.first_figure
    title = titles_of(comparison).get(measure, measure)
    return {
        cohort.name: _best_method(cohort, measure, title)
        for cohort in comparison.cohorts
    }


def _best_method(cohort: CohortFacts, measure: str, title: str) -> str:
    """Return which method of a cohort is best, or that no difference is shown.

    Parameters
    ----------
    cohort : CohortFacts
    measure, title : str
        The measure by which methods are compared, and its name on the page.

    Returns
    -------
    str
        The best method, and its difference from the control with the interval; where
        that method is the control, the difference of the next method.
        Empty where nothing is compared.
    """
    ordered = _best_first(cohort.methods, measure)
    compared = [method for method in ordered if method.differences]
    if not compared:
        return ""
    best = ordered[0]
    method = compared[0]
    control = next(method.recipe for method in ordered if method.control)
    difference = (method.differences or {})[measure]
    value = fmt.percent(best.figures[measure], 1)
    gap = (
        f"{fmt.name(method.recipe)} minus {fmt.name(control)}, the control: "
        f"{_signed(difference, 100, 1)} points, 95% interval."
    )
    if title[1:2].islower():
        title = title[0].lower() + title[1:]
    if difference.is_above(0) or difference.is_below(0):
        return f"{fmt.name(best.recipe)} is best by {title} ({value}): {gap}"
    return (
        f"No difference shown by {title}: {fmt.name(best.recipe)} is highest ({value});"
        f" {gap}"
    )


def _best_first(methods: Sequence[MethodFacts], measure: str) -> list[MethodFacts]:
    """Return methods from the best by a measure to those that do not have it."""

    def order(method: MethodFacts) -> float:
        value = _gain(measure, method.figures[measure]).value
        return math.inf if value is None else -value

    return sorted(methods, key=order)


def _gain(measure: str, difference: Estimate) -> Estimate:
    """Return a difference of a measure with the sign by which above 0 is better."""
    return gain(measure.removeprefix("own_"), difference)


def _ranks(
    comparison: ComparisonDocument, titles: Mapping[str, str]
) -> list[tuple[str, FigureRanks, Axes, list[RankedMethod]]]:
    """Return Friedman's test of each measure, its chart, and the methods by rank.

    The first measure is the one by which methods were ranked.
    """
    ranks = comparison.ranks
    if not ranks:
        return []
    drawn = []
    for name in sorted(ranks.figures, key=lambda name: name != ranks.first):
        test = ranks.figures[name]
        title = titles.get(name, name)
        methods = sorted(test.methods, key=lambda method: method.mean_rank)
        chart = critical_difference(name, title, methods, test)
        drawn.append((title, test, chart, methods))
    return drawn


def _cohort_block(
    cohort: CohortFacts, number: int, first: str, titles: Mapping[str, str]
) -> dict[str, object]:
    """Return what the template needs of a cohort.

    Drawn are the control and the best other methods by the measure `first`.
    """
    methods = cohort.methods
    known = _known_titles(methods, titles)
    best = _best_first(methods, first)
    drawn = sorted(best, key=lambda method: not method.control)[:MAX_CURVES]
    return {
        "facts": cohort,
        "columns": _among(known, (*_titles("compare"), "specificity_at")),
        "own_columns": {
            f"own_{name}": title
            for name, title in _titles("own_boundary").items()
            if f"own_{name}" in known
        },
        "class_columns": _among(known, CLASS_TITLES),
        "factors": [method for method in methods if method.factor is not None],
        "factor_columns": _titles("compare_factors") | _among(known, ("macro_recall",)),
        "several_watched": any(len(method.counts) > 1 for method in methods),
        "drawn": drawn,
        "roc": roc_curves(drawn, number),
        "differences": _difference_charts(methods, number, first, known),
    }


def _known_titles(
    methods: Sequence[MethodFacts], titles: Mapping[str, str]
) -> dict[str, str]:
    """Return the titles of the control's measures that at least one method has."""
    known = {}
    for name, title in titles.items():
        if name not in methods[0].figures:
            continue
        found = [method.figures.get(name, UNDEFINED) for method in methods]
        if any(figure.value is not None for figure in found):
            known[name] = title
    return known


def _among(titles: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the titles of some measures, of those that have one."""
    return {name: titles[name] for name in names if name in titles}


def _difference_charts(
    methods: Sequence[MethodFacts], number: int, first: str, known: Mapping[str, str]
) -> list[tuple[str, Axes]]:
    """Return charts of the methods' differences, with their titles.

    `first` is the measure of the first chart; `known` has the titles of measures.
    """
    if len(methods) < 2:
        return []
    charts = [*_titles("compare_charts"), "specificity_at"]
    own = [f"own_{name}" for name in charts]
    measures = (first, *charts, *own, "macro_recall", "macro_g")
    return [
        (title, differences(methods, name, number, title))
        for name, title in _among(known, measures).items()
    ]


def roc_curves(methods: Sequence[MethodFacts], number: int) -> Axes:
    """Return the ROC curves of methods, each in a kind of line of its own."""
    areas = [
        f"{fmt.name(method.recipe)}: area {fmt.fixed(method.figures['auroc'], 3)}"
        for method in methods
    ]
    axes = Axes(
        f"roc-{number}",
        "1 − specificity",
        "sensitivity",
        title="Sensitivity against 1 − specificity of the methods",
        description="; ".join(areas),
        width=470,
        height=440,
        margins=(14, 14, 46, 56),
        as_percent=(True, True),
    )
    axes.line([0, 1], [0, 1], "chance")
    for place, method in enumerate(methods):
        # The curve of finitely many cases has a step up at each sensitivity reached.
        sensitivity = np.linspace(0, 1, len(method.curve))
        xs = np.repeat(method.curve, 2)[1:]
        ys = np.repeat(sensitivity, 2)[:-1]
        axes.line(xs, ys, f"m{place}")
    return axes


def differences(
    methods: Sequence[MethodFacts], name: str, number: int, title: str
) -> Axes:
    """Return the difference of each method from the control, with its interval.

    Parameters
    ----------
    methods : sequence of MethodFacts
    name : str
        The measure.
    number : int
        Number of the cohort on the page.
    title : str
        Title of the measure.
    """
    gaps = [
        (method, _gain(name, method.differences[name]))
        for method in methods
        if method.differences is not None
    ]
    ends: list[float] = []
    for _, gap in gaps:
        ends += [abs(end) for end in gap.value_and_interval if end is not None]
    reach = max(ends, default=MIN_DIFFERENCE) * 1.05 or MIN_DIFFERENCE
    unit, scale, places = _unit_of_differences(_form_of(name))
    words = [
        f"{fmt.name(method.recipe)} {_signed(gap, scale, places)} {unit}".rstrip()
        for method, gap in gaps
    ]
    axes = Axes(
        f"difference-{number}-{name}".replace("_", "-"),
        f"{unit} better than the control".lstrip(),
        "",
        x=(-scale * reach, scale * reach),
        y=(0, len(gaps)),
        title=f"{title}: difference from the control",
        description="; ".join(words),
        width=660,
        height=66 + 24 * len(gaps),
        margins=(10, 150, 46, 190),
    )
    axes.y_ticks = []
    for place, (method, gap) in enumerate(gaps):
        y = len(gaps) - place - 0.5
        axes.y_ticks.append(Tick(axes.up.at(y), fmt.name(method.recipe)))
        if gap.value is None:
            continue
        if gap.low is not None and gap.high is not None:
            axes.line([scale * gap.low, scale * gap.high], [y, y], "first")
        axes.mark(scale * gap.value, y, "validated")
        axes.write_beside(axes.up.at(y) + 4, "plain", _signed(gap, scale, places))
    axes.line([0, 0], [0, len(gaps)], "chance")
    return axes


def _form_of(measure: str) -> Form:
    """Return how a measure is written: one that is no figure, as a share."""
    figure = FIGURES.get(measure.removeprefix("own_"))
    return SHARE if figure is None else figure.form


def _unit_of_differences(form: Form) -> tuple[str, int, int]:
    """Return the unit of differences on charts, their factor and decimals."""
    unit = "points" if form.percent != "nowhere" else form.per_hundred
    if unit is None:
        return "", 1, form.decimals
    return unit, 100, 1


def _signed(gap: Estimate, scale: int, places: int) -> str:
    """Return `scale` times a difference, with its interval."""
    value, low, high = [
        fmt.signed(None if end is None else scale * end, places)
        for end in gap.value_and_interval
    ]
    return f"{value} ({low} to {high})"


def critical_difference(
    name: str, title: str, methods: Sequence[RankedMethod], test: FigureRanks
) -> Axes:
    """Return mean ranks on a line (Demsar 2006); bars join methods that do not differ.

    Parameters
    ----------
    name, title : str
        The measure.
    methods : sequence of RankedMethod
        From the best rank on.
    test : FigureRanks
    """
    n_methods = len(methods)
    n_bars = len(test.cliques)
    distance = fmt.fixed(test.critical_difference, 2)
    best = ", ".join(fmt.name(method.recipe) for method in methods)
    axes = Axes(
        f"ranks-{name}".replace("_", "-"),
        "mean rank (1 is best)",
        "",
        x=(1, max(n_methods, 2)),
        y=(0, n_methods + 0.6 * n_bars + 2),
        title=f"Mean ranks by {title}",
        description=(
            f"Best first: {best}. Ranks less than {distance} apart do not "
            "differ by more than chance (Nemenyi, 5%)."
        ),
        width=660,
        height=104 + 22 * n_methods + 13 * n_bars,
        margins=(14, 60, 46, 190),
    )
    axes.y_ticks = []
    for place, method in enumerate(methods):
        y = n_methods - place - 0.5
        rank = method.mean_rank
        axes.line([rank, rank], [y, n_methods], "stem")
        axes.mark(rank, y, "validated")
        axes.y_ticks.append(Tick(axes.up.at(y), fmt.name(method.recipe)))
    for place, ends in enumerate(test.cliques):
        y = n_methods + 0.4 + 0.6 * place
        axes.line(ends, [y, y], "clique")
    y = axes.up.high - 0.8
    axes.line([1, 1 + test.critical_difference], [y, y], "first")
    axes.labels.append(
        Label(
            axes.left,
            axes.up.at(y) - 6,
            "first",
            f"critical difference {distance}",
            "start",
        )
    )
    return axes
