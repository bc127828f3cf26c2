"""Charts and tables of a model's page, apart from the trade-off."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from screening.metrics.chances import chance_at_threshold, net_benefit_of_rates
from screening.metrics.figures import figures_in
from screening.report import format as fmt
from screening.report.charts import Axes
from screening.report.trade_off import HeldOutCurve
from screening.report.verdict import (
    best_other,
    difference_words,
    differences_of,
    usefulness_of,
)
from screening.schemas.base import UNDEFINED
from screening.schemas.model import ModelDocument
from screening.schemas.validation import (
    Beside,
    Calibration,
    DecisionCurve,
    OperatingPointFacts,
)

ROUND_NUMBERS = np.outer(10 ** np.arange(1, 8), (1, 2, 5)).ravel().tolist()
FACTOR_LEVELS = 6
"""Shades of a factor's chart; `.band.c0` to `.band.c5` of the style sheet."""
# A benefit closer than this to another is equal to it.
BENEFIT_TOLERANCE = 1e-9
# Lowest net benefit that is drawn, as a share of the highest.
LOWEST_BENEFIT = -0.2


def rarest_first(model: ModelDocument) -> list[int]:
    """Return the places of the classes in the confusion matrix, rare classes first.

    Empty without a matrix.
    """
    confusion = model.validation.confusion
    if confusion is None:
        return []
    places = range(len(confusion.classes))
    return sorted(
        places, key=lambda i: (sum(confusion.counts[i]), confusion.classes[i])
    )


def froc(model: ModelDocument) -> Axes | None:
    """Return the FROC curve; None where no operating point is chosen by lesions."""
    facts = model.points[0].lesions
    if facts is None:
        return None
    false_positives = np.array(facts.froc.false_positives)
    sensitivity = np.array(facts.froc.sensitivity)
    # Values far to the right of the threshold in use are only in the table.
    in_use = facts.false_positives.value or 0.0
    highest = max(min(false_positives.max(), 4 * in_use), 1.0)
    is_drawn = false_positives <= highest
    axes = Axes(
        name="froc",
        x=(0.0, highest),
        x_label="false clusters a patient",
        y_label="lesions found",
        margins=(16, 24, 46, 66),
    )
    axes.line(false_positives[is_drawn], sensitivity[is_drawn], "first")
    sensitivity_in_use = 1 - facts.missed / facts.n_lesions
    axes.mark(in_use, sensitivity_in_use, "validated", "threshold in use")
    return axes


def settings_chart(model: ModelDocument) -> Axes | None:
    """Return sensitivity and specificity of every setting that was tried.

    Each at the machine's own boundary on held-out rows; None where they are not known.
    """
    search = model.validation.search
    if not search.sensitivity:
        return None
    chosen = list(search.candidates).index(search.chosen)
    n_settings = len(search.sensitivity)
    axes = Axes(
        name="settings",
        x_label="specificity",
        y_label="sensitivity",
        width=470,
        height=400,
        margins=(16, 24, 46, 56),
        as_percent=(True, True),
        title="Sensitivity and specificity of every setting tried",
        description=(
            f"{fmt.plural(n_settings, 'setting')} at the machine's own boundary, on "
            "held-out rows. The chosen one has sensitivity "
            f"{fmt.percent(search.sensitivity[chosen])} and specificity "
            f"{fmt.percent(search.specificity[chosen])}."
        ),
    )
    for number in range(n_settings):
        point = search.specificity[number], search.sensitivity[number]
        if search.candidates[number].get("passes"):
            axes.mark(*point, "rescaled")
        else:
            axes.mark(*point, "plain")
    axes.mark(
        search.specificity[chosen], search.sensitivity[chosen], "validated", "chosen"
    )
    return axes


def factor_chart(model: ModelDocument) -> Axes | None:
    """Return the factor c(x) over the two strongest columns; None without a factor.

    The darker, the larger c: there the rescaled kernel magnifies space most.
    """
    factor = model.machine.factor_map
    if factor is None:
        return None
    first, second = map(np.array, factor.values)
    log_c = np.array(factor.log_c)
    first_title, second_title = map(model.title_of, factor.columns)
    highest = np.unravel_index(log_c.argmax(), log_c.shape)
    axes = Axes(
        name="factor",
        x=(float(first[0]), float(first[-1])),
        y=(float(second[0]), float(second[-1])),
        x_label=first_title,
        y_label=second_title,
        width=470,
        height=400,
        margins=(16, 24, 46, 66),
        as_percent=(False, False),
        title="The factor c(x) over the two columns that rank best alone",
        description=(
            f"c is largest at {first_title} {fmt.number(first[highest[0]])} and"
            f" {second_title} {fmt.number(second[highest[1]])}, and at its"
            f" smallest {fmt.number(float(np.exp(log_c.min())))} times as large. The"
            " other columns are at their typical values."
        ),
    )
    lowest = min(float(log_c.min()), -1e-9)
    share = 1 - log_c / lowest
    level = np.minimum((share * FACTOR_LEVELS).astype(int), FACTOR_LEVELS - 1)
    for number in range(FACTOR_LEVELS):
        axes.cells(first, second, level == number, f"c{number}")
    return axes


def pruning_chart(model: ModelDocument) -> Axes | None:
    """Return the chart of the last pass's removals; None where nothing was removed."""
    passes = model.machine.passes
    steps = passes[-1].get("pruning_path") if passes else None
    if not isinstance(steps, list | tuple) or not steps:
        return None
    rare_found = [step[2] for step in steps]
    false_flags = [step[3] for step in steps]
    axes = Axes(
        name="pruning",
        x=(0.0, float(len(steps))),
        x_label="support vectors removed",
        y_label="share of the class",
        height=240,
        title="Support vectors removed",
        description=(
            f"{fmt.plural(len(steps), 'support vector')} of the larger class removed. "
            "On training rows, the rarer class found went from "
            f"{fmt.percent(rare_found[0])} after the first to "
            f"{fmt.percent(rare_found[-1])}, and the larger class flagged from "
            f"{fmt.percent(false_flags[0])} to {fmt.percent(false_flags[-1])}."
        ),
    )
    n_removed = list(range(1, len(steps) + 1))
    axes.line(n_removed, rare_found, "first", "rare found")
    axes.line(n_removed, false_flags, "second", "false flags")
    held_out = passes[-1].get("pruning_curve")
    if isinstance(held_out, list | tuple) and held_out:
        shares = np.array(held_out)[: len(steps) + 1]
        places = np.arange(len(shares))
        axes.line(places, shares[:, 0], "first held", "held out")
        axes.line(places, shares[:, 1], "second held", "held out")
        axes.description += (
            " On rows held out in training, these went from "
            f"{fmt.percent(shares[0, 0])} to {fmt.percent(shares[-1, 0])}, and from "
            f"{fmt.percent(shares[0, 1])} to {fmt.percent(shares[-1, 1])}."
        )
    return axes


def usefulness(model: ModelDocument) -> dict[str, object]:
    """Return the verdict with its reasons, the best other method, and a chart.

    The chart, and the flags of the other method, only where one class is watched.
    """
    other = best_other(model.validation.comparison)
    gaps = differences_of(other) if other else {}
    differences = [
        difference_words(measure, gap)
        for measure, gap in gaps.items()
        if None not in gap.value_and_interval
    ]
    point = model.points[0] if len(model.points) == 1 else None
    other_at = None
    if point and other:
        other_at = _flags_and_found(other, point.prevalence)
    return {
        "verdict": usefulness_of(model),
        "other": other,
        "differences": "; ".join(differences),
        "other_at": other_at,
        "picture": _usefulness_chart(model, point, other, other_at) if point else None,
    }


def _flags_and_found(
    other: Beside, prevalence: float | None
) -> tuple[float, float] | None:
    """Return flags per 100 rows, at a prevalence, and sensitivity of a method."""
    sensitivity = other.figure("sensitivity").value
    specificity = other.figure("specificity").value
    if sensitivity is None or specificity is None or prevalence is None:
        return None
    true_flags = prevalence * sensitivity
    false_flags = (1 - prevalence) * (1 - specificity)
    return 100 * (true_flags + false_flags), sensitivity


def _usefulness_chart(
    model: ModelDocument,
    point: OperatingPointFacts,
    other: Beside | None,
    other_at: tuple[float, float] | None,
) -> Axes | None:
    """Return sensitivity against flags, with threshold, other method and capacity."""
    flag_rate = point["flag_rate"].value
    sensitivity = point["sensitivity"].value
    if flag_rate is None or sensitivity is None:
        return None
    # Capacity counts reviews, which are of patients where rows come in groups.
    capacity = None if model.validation.grouped else model.stated.capacity
    axes = Axes(
        name="useful",
        x=(0, 100),
        x_label="flags per 100 rows",
        y_label="cases found (sensitivity)",
        height=330,
        margins=(52 if capacity else 16, 24, 46, 66),
    )
    curve = HeldOutCurve(model.validation.curves[point.label])
    flags = 100 * curve.rates["flag_rate"]
    low, high = curve.intervals["sensitivity"]
    axes.band(flags, low, high, "first")
    axes.line([0, 100], [0, 1], "chance")
    axes.line(flags, curve.rates["sensitivity"], "first")
    if capacity is not None:
        _add_capacity(axes, capacity, flag_rate)
    axes.mark(100 * flag_rate, sensitivity, "validated", "validated threshold")
    if other and other_at:
        axes.mark(*other_at, "other")
        axes.note(*other_at, "second", fmt.name(other.recipe))
    return axes


def _add_capacity(axes: Axes, capacity: int, flag_rate: float) -> None:
    """Draw the capacity for a night of a round number of rows, and a second axis."""
    n_rows = min(ROUND_NUMBERS, key=lambda rows: abs(capacity / rows - flag_rate))
    axes.upright(
        100 * capacity / n_rows,
        "capacity",
        f"capacity, night of {fmt.count(n_rows)} rows",
    )
    axes.second_axis(
        f"rows a night for which {fmt.plural(capacity, 'review')} are enough",
        lambda flags: fmt.count(100 * capacity / flags) if flags else "any",
    )


def comparison_table(model: ModelDocument) -> dict[str, object] | None:
    """Return the table of other methods on the same folds; None without any.

    Its rows are the other method, and the titles of the measures in which the model is
    significantly higher and lower.
    """
    comparison = model.validation.comparison
    if comparison is None:
        return None
    titles = {figure.name: figure.title for figure in figures_in("baselines")}
    titles["macro_recall"] = "Mean recall"
    columns = {
        name: title
        for name, title in titles.items()
        if comparison.figure(name).value is not None
    }
    rows = []
    failed = []
    for other in comparison.beside:
        if other.reason is None:
            rows.append((other, *_significant(other, columns)))
        else:
            failed.append(other)
    return {"columns": columns, "rows": rows, "failed": failed}


def _significant(
    other: Beside, columns: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the titles of measures in which the model is higher, and lower."""
    gaps = {
        title: other.differences.get(name, UNDEFINED) for name, title in columns.items()
    }
    higher = [title for title, gap in gaps.items() if gap.is_above(0)]
    lower = [title for title, gap in gaps.items() if gap.is_below(0)]
    return higher, lower


def chance_charts(model: ModelDocument) -> dict[str, dict[str, object]]:
    """Return reliability and decision curve of each class whose scores are chances.

    Returns
    -------
    dict of str to dict
        By class. Acting on the model is worth most from `worth_from` to `worth_to`
        (None: nowhere); `at` is the chance at the threshold in use, and `furthest`
        where the decision curve ends.
    """
    charts: dict[str, dict[str, object]] = {}
    for number, point in enumerate(model.points):
        calibration = model.validation.calibration.get(point.label)
        if calibration is None or not calibration.earned:
            continue
        curve = calibration.decision_curve
        if curve is None:
            continue
        chance = None
        if point["sensitivity"].value is not None:
            chance = chance_at_threshold(calibration, point.threshold)
        useful = _useful_thresholds(curve)
        charts[point.label] = {
            "reliability": _reliability(calibration, number),
            "worth": _decision_curve(curve, point, chance, number),
            "worth_from": min(useful, default=None),
            "worth_to": max(useful, default=None),
            "at": chance,
            "furthest": max(curve.threshold),
        }
    return charts


def _useful_thresholds(curve: DecisionCurve) -> list[float]:
    """Return the thresholds at which the model beats reviewing everyone and no one."""
    triples = zip(curve.threshold, curve.model, curve.all, strict=True)
    return [
        threshold
        for threshold, model, everyone in triples
        if model > max(everyone, 0.0) + BENEFIT_TOLERANCE
    ]


def _reliability(calibration: Calibration, number: int) -> Axes:
    """Return the observed frequency against the predicted chance."""
    axes = Axes(
        name=f"reliability{number}",
        x_label="Predicted chance",
        y_label="Observed frequency",
        width=330,
        height=260,
        margins=(12, 24, 46, 56),
        as_percent=(True, True),
    )
    axes.line((0, 1), (0, 1), "chance")
    predicted = [tenth.predicted for tenth in calibration.reliability]
    observed = [tenth.observed for tenth in calibration.reliability]
    axes.estimates(predicted, observed, "first")
    return axes


def _decision_curve(
    curve: DecisionCurve, point: OperatingPointFacts, chance: float | None, number: int
) -> Axes:
    """Return the net benefit of the model, of reviewing everyone and of no one."""
    highest_chance = max(curve.threshold)
    highest_benefit = max(*curve.model, *curve.all)
    lowest_benefit = LOWEST_BENEFIT * highest_benefit
    axes = Axes(
        name=f"worth{number}",
        x=(0, highest_chance),
        y=(lowest_benefit, 1.08 * highest_benefit),
        y_label="Net benefit",
        x_label="Chance at which a review is worth it",
        width=330,
        height=260,
        margins=(12, 62, 46, 56),
        as_percent=(True, False),
    )
    axes.line((0, highest_chance), (0, 0), "chance", "none")
    pairs = zip(curve.threshold, curve.all, strict=True)
    everyone = [pair for pair in pairs if pair[1] >= lowest_benefit]
    chances = [x for x, _ in everyone]
    benefits = [y for _, y in everyone]
    axes.line(chances, benefits, "second")
    axes.line(curve.threshold, curve.model, "first", "model")
    if chance is not None and chance <= highest_chance:
        benefit = _net_benefit(point, chance)
        axes.mark(chance, benefit, "validated", "threshold in use")
    return axes


def _net_benefit(point: OperatingPointFacts, chance: float) -> float:
    """Return the net benefit of an operating point where a chance is worth a review."""
    sensitivity = point["sensitivity"].value or 0.0
    specificity = point["specificity"].value or 0.0
    prevalence = point.prevalence or 0.0
    return net_benefit_of_rates(sensitivity, specificity, prevalence, chance)
