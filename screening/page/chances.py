"""Chances of the condition: how far predicted and observed agree, and what acting on them is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.documents.chances import chance_band
from screening.documents.model import ModelDocument
from screening.documents.validation import Calibration, DecisionCurve, OperatingPointFacts
from screening.page.charts import Axes


@dataclass(frozen=True)
class Chances:
    """The charts of one class whose scores are chances.

    Acting on the model is worth most between the thresholds `worth_from` and `worth_to` (None: nowhere);
    `at` is the chance at the threshold in use, and `furthest` where the picture ends.
    """

    reliability: Axes
    worth: Axes
    worth_from: float | None
    worth_to: float | None
    at: float | None
    furthest: float


def chances_of(model: ModelDocument) -> dict[str, Chances]:
    """Return reliability and worth of acting of each watched class whose scores are chances, by its name."""
    charts = {}
    for number, point in enumerate(model.points):
        found = model.validation.calibration.get(point.label)
        if found is not None and found.earned and found.decision_curve is not None:
            charts[point.label] = _chances(found, found.decision_curve, point, number)
    return charts


def _chances(found: Calibration, curve: DecisionCurve, point: OperatingPointFacts, number: int) -> Chances:
    at, chance = curve.threshold, _chance_at(found, point)
    pairs = zip(at, curve.model, curve.all, strict=True)
    useful = [t for t, model, everyone in pairs if model > max(everyone, 0.0) + 1e-9]
    return Chances(
        _reliability(found, number),
        _worth(curve, point, chance, number),
        min(useful, default=None),
        max(useful, default=None),
        chance if chance is not None and 0 < chance < 1 else None,
        max(at),
    )


def _reliability(found: Calibration, number: int) -> Axes:
    bins = found.reliability
    axes = Axes(
        name=f"reliability{number}", x=(0, 1), y=(0, 1), x_label="Predicted chance",
        y_label="Observed frequency", width=330, height=260, margins=(12, 24, 46, 56),
        as_percent=(True, True),
    )  # fmt: skip
    axes.line((0, 1), (0, 1), "chance")
    xs = [one.predicted for one in bins]
    axes.band(xs, [one.low for one in bins], [one.high for one in bins], "first")
    axes.line(xs, [one.observed for one in bins], "first")
    return axes


def _worth(curve: DecisionCurve, point: OperatingPointFacts, chance: float | None, number: int) -> Axes:
    at, model, everyone = curve.threshold, curve.model, curve.all
    top = max([*model, *everyone])
    axes = Axes(
        name=f"worth{number}", x=(0, max(at)), y=(-0.2 * top, 1.08 * top), y_label="Net benefit",
        x_label="Chance at which a review is worth it", width=330, height=260, margins=(12, 62, 46, 56),
        as_percent=(True, False),
    )  # fmt: skip
    axes.line((0, max(at)), (0, 0), "chance", "none")
    shown_all = [(t, a) for t, a in zip(at, everyone, strict=True) if a >= -0.2 * top]
    axes.line([t for t, _ in shown_all], [a for _, a in shown_all], "second")
    axes.line(at, model, "first", "model")
    if chance is not None and chance <= max(at):
        axes.mark(chance, _net_benefit(point, chance), "validated", "threshold in use")
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
