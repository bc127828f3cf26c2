"""Chances of the condition: how far predicted and observed agree, and what acting on them is worth."""

from __future__ import annotations

import numpy as np

from screening.documents.chances import chance_band
from screening.documents.model import ModelDocument
from screening.documents.validation import Calibration, DecisionCurve, OperatingPointFacts
from screening.page import format as shown
from screening.page.charts import Axes


def calibration_charts(model: ModelDocument) -> dict[str, tuple[Axes, Axes]]:
    """Return reliability and worth of acting of each watched class whose scores are chances, by its name."""
    charts = {}
    for number, point in enumerate(model.points):
        found = model.validation.calibration.get(point.label)
        if found is not None and found.earned and found.decision_curve is not None:
            worth = _decision_curve(found, found.decision_curve, point, number)
            charts[point.label] = _reliability(found, number), worth
    return charts


def _reliability(found: Calibration, number: int) -> Axes:
    bins = found.reliability
    said = ", ".join(
        f"{shown.percent(one.predicted)} predicted and {shown.percent(one.observed)} observed" for one in bins
    )
    axes = Axes(
        name=f"reliability{number}",
        title="Reliability: predicted chance and observed frequency",
        description=f"On the diagonal both agree. From low to high: {said}.",
        x=(0, 1), y=(0, 1), x_label="Predicted chance", y_label="Observed frequency",
        width=330, height=260, margins=(12, 24, 46, 56), as_percent=(True, True),
    )  # fmt: skip
    axes.line((0, 1), (0, 1), "chance")
    xs = [one.predicted for one in bins]
    axes.band(xs, [one.low for one in bins], [one.high for one in bins], "first")
    axes.line(xs, [one.observed for one in bins], "first")
    axes.caption = (
        "Solid: observed in tenths of the predictions, with 95% intervals. Dotted: perfect agreement."
    )
    return axes


def _decision_curve(
    found: Calibration, curve: DecisionCurve, point: OperatingPointFacts, number: int
) -> Axes:
    at, model, everyone = curve.threshold, curve.model, curve.all
    top = max([*model, *everyone])
    useful = [t for t, m, a in zip(at, model, everyone, strict=True) if m > max(a, 0.0) + 1e-9]
    words = (
        "Acting on the model beats reviewing everyone and reviewing no one from a threshold of "
        f"{shown.percent(min(useful))} "
        f"to {shown.percent(max(useful))}."
        if useful
        else "Nowhere does acting on the model beat both reviewing everyone and reviewing no one."
    )
    axes = Axes(
        name=f"worth{number}",
        title="Decision curve: net benefit of acting on the model",
        description=f"{words} The threshold is the chance of the condition at which a review becomes "
        "worth its effort.",
        x=(0, max(at)), y=(-0.2 * top, 1.08 * top), x_label="Chance at which a review is worth it",
        y_label="Net benefit", width=330, height=260, margins=(12, 62, 46, 56), as_percent=(True, False),
    )  # fmt: skip
    axes.line((0, max(at)), (0, 0), "chance", "none")
    shown_all = [(t, a) for t, a in zip(at, everyone, strict=True) if a >= -0.2 * top]
    axes.line([t for t, _ in shown_all], [a for _, a in shown_all], "second")
    axes.line(at, model, "first", "model")
    chance = _chance_at(found, point)
    if chance is not None and chance <= max(at):
        axes.mark(chance, _net_benefit(point, chance), "validated", "threshold in use")
    axes.caption = (
        f"{words} Solid: the model; dashed: reviewing everyone; dotted: reviewing no one. "
        f"{_in_use(chance, max(at))}"
    )
    return axes


def _chance_at(found: Calibration, point: OperatingPointFacts) -> float | None:
    """The chance of the condition that belongs to the threshold in use."""
    if found.platt is None or point.flags_everything or point.sensitivity is None:
        return None
    at = np.array([point.threshold])
    return float(chance_band(found.platt, at)[0][0])


def _net_benefit(point: OperatingPointFacts, chance: float) -> float:
    """Cases found less reviews in vain, each weighed by the odds at that chance (Vickers 2006)."""
    hits = point.prevalence * (point.sensitivity or 0.0)
    in_vain = (1 - point.prevalence) * (1 - (point.specificity or 0.0))
    return hits - in_vain * chance / (1 - chance)


def _in_use(chance: float | None, furthest: float) -> str:
    if chance is None or not 0 < chance < 1:
        return "The threshold in use has no chance of its own to stand at."
    beyond = "" if chance <= furthest else ", right of the picture"
    return (
        f"The threshold in use (circle) is right for whom a review is worth it at a chance of "
        f"{shown.percent(chance)}{beyond}: "
        f"one case found for {shown.ratio((1 - chance) / chance)} reviews in vain."
    )
