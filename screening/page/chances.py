"""What a flag means where the model is used: predictive values, workload, calibration, worth of acting."""

from __future__ import annotations

import numpy as np

from screening.documents.chances import chance_band
from screening.documents.figures import Share
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.validation import Calibration, DecisionCurve, OperatingPointFacts
from screening.page import format as shown
from screening.page.charts import Axes

# Frequencies that differ by more than one honest calibration in a hundred would.
MISFIT = 0.01
ENDS = {
    "given": ("half as common", "as stated", "twice as common"),
    "estimated": ("low end", "estimate", "high end"),
}


def predictive(model: ModelDocument, cohort: str = "the training cohort") -> list[dict[str, object]]:
    """Return the predictive values of each watched class at three prevalences, the second the one in use.

    `cohort` is what an estimate of the prevalence comes from.
    """
    return [
        {
            "class": shown.name(point.label) if model.multi else "",
            "source": "as the contract or the command states it, with half and twice of it"
            if found.source == "given"
            else f"estimated from {cohort}, with its 95% interval",
            "ends": ENDS[found.source],
            "rows": found.rows,
        }
        for point in model.points
        if (found := model.validation.predictive.get(point.label))
    ]


def workload(model: ModelDocument, run: RunDocument | None) -> list[str]:
    """Return what the threshold costs in reviews: flags, minutes, and how much of the capacity they take."""
    rates = [point.flag_rate for point in model.points if point.flag_rate is not None]
    rate = rates[0] if len(rates) == 1 else None
    if run is None:
        return [] if rate is None else _expected(model, rate)
    return _tonight(run, rate) + _prevalence(run)


def _tonight(run: RunDocument, rate: float | None) -> list[str]:
    counts, stated, waiting = run.counts, run.model.stated, run.awaited
    if not counts.scored:
        return []
    first = " for the first time" if waiting != run.to_review else ""
    expected = "" if rate is None else f", {shown.per_hundred(rate)} expected per 100 rows"
    said = [
        f"Tonight {shown.plural(waiting, run.unit)} to review{first}: "
        f"{shown.per_hundred(counts.flagged / counts.scored)} per 100 rows flagged{expected}."
    ]
    if stated.minutes_per_review is not None:
        each = stated.minutes_per_review
        said.append(f"About {shown.count(waiting * each)} minutes at {shown.number(each)} a review.")
    if stated.capacity is not None:
        over = waiting - stated.capacity
        tail = f"{shown.count(over)} more than can be done" if over > 0 else "within it"
        said.append(
            f"Capacity is {shown.plural(stated.capacity, 'review')} a night: "
            f"{shown.percent(waiting / stated.capacity, 0)} of it, {tail}."
        )
    return said


def _expected(model: ModelDocument, rate: float) -> list[str]:
    stated = model.stated
    said = [f"{shown.per_hundred(rate)} expected per 100 rows at the local prevalence."]
    if stated.minutes_per_review is not None:
        each = stated.minutes_per_review
        said.append(
            f"That is about {shown.count(100 * rate * each)} minutes per 100 rows, at "
            f"{shown.number(each)} a review."
        )
    if stated.capacity is not None and rate:
        said.append(
            f"Capacity, {shown.plural(stated.capacity, 'review')} a night, is reached at about "
            f"{shown.count(stated.capacity / rate)} rows."
        )
    return said


def _prevalence(run: RunDocument) -> list[str]:
    found = run.prevalence_estimate
    if found is None:
        return []
    # At an end of the scale the estimate says no more than its interval: "0% have it" would be read.
    about = (
        f"about {shown.percent(found.value)} ({shown.interval(found.low, found.high)})"
        if 0 < found.value < 1
        else f"between {shown.percent(found.low)} and {shown.percent(found.high)}"
    )
    return [f"By the share flagged alone, {about} of tonight’s rows have the condition (95% interval)."]


def calibration(model: ModelDocument) -> list[dict[str, object]]:
    """Return for each watched class the calibration with its pictures, or why there is none."""
    blocks = []
    for number, point in enumerate(model.points):
        found = model.validation.calibration.get(point.label)
        if found is None:
            continue
        head = {
            "class": shown.name(point.label) if model.multi else "",
            "earned": found.earned,
            "why": shown.text(found.reason or ""),
        }
        blocks.append(head | (_earned(found, point, number) if found.earned else {}))
    return blocks


def _earned(found: Calibration, point: OperatingPointFacts, number: int) -> dict[str, object]:
    assert found.decision_curve is not None, "earned, so there is one"
    fits = found.misfit is None or found.misfit >= MISFIT
    return {
        "fit": ""
        if fits
        else "Predicted and observed frequencies differ by more than chance "
        f"(Spiegelhalter's test, p {shown.number(found.misfit)}): look at the picture before using a chance.",
        "figures": f"Log loss {shown.fixed(found.log_loss, 3)}; Brier score {shown.fixed(found.brier, 3)}, "
        f"{shown.percent(found.brier_skill)} better than saying "
        f"{shown.percent(found.prevalence)} of everyone; calibration slope "
        f"{shown.fixed(found.slope, 2)}{_ends(found.slope_low, found.slope_high)} (1 is ideal)"
        f"{_in_the_large(found.observed_expected)}.",
        "reliability": _reliability(found, number),
        "worth": _decision_curve(found, found.decision_curve, point, number),
    }


def _ends(low: float | None, high: float | None) -> str:
    ends = shown.area_interval(low, high)
    return f" (95% interval {ends})" if ends else ""


def _in_the_large(ratio: Share | None) -> str:
    if ratio is None:
        return ""
    return f"; {shown.fixed(ratio.value, 2)} cases seen{_ends(ratio.low, ratio.high)} for each one expected"


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
