"""A model's figures as charts and tables: trade-off, usefulness, other methods, chances, lesions, pruning."""

from __future__ import annotations

import bisect
from collections.abc import Mapping

import numpy as np

from screening.report import format as fmt
from screening.report.charts import Axes
from screening.report.verdict import best_other, usefulness_of
from screening.schemas import validation
from screening.schemas.model import ModelDocument
from screening.schemas.run import ReachingCounts, RunDocument
from screening.schemas.validation import (
    Beside,
    Calibration,
    DecisionCurve,
    OperatingPointFacts,
)

MOST_PANELS = 6
MOST_STEPS = 240
NEARLY_ALL = 0.98
"""Share of flagged rows beyond which nobody explores a threshold."""


class Curve:
    """Held-out figures along the threshold, lowest first; what is undefined is NaN, which no chart draws."""

    def __init__(self, curve: validation.Curve):
        order = np.argsort(curve.threshold, kind="stable")
        bands = {"sensitivity": curve.sensitivity, "specificity": curve.specificity}
        figures = {name: band.value for name, band in bands.items()}
        figures |= {"flag_rate": curve.flag_rate, "ppv": curve.ppv}
        self.threshold = np.array(curve.threshold, float)[order]
        self.columns = {
            name: np.array(values, float)[order] for name, values in figures.items()
        }
        self.ends = {
            name: (np.array(band.low, float)[order], np.array(band.high, float)[order])
            for name, band in bands.items()
        }

    def at(self, name: str, threshold: float) -> float | None:
        """Return the figure at a threshold, by linear interpolation."""
        value = (
            np.interp(threshold, self.threshold, self.columns[name])
            if len(self.threshold)
            else np.nan
        )
        return None if np.isnan(value) else float(value)

    def window(self, keep: float) -> tuple[float, float]:
        """Return the thresholds between which anything changes, one to keep included, with a little air."""
        sensitivity, specificity = (
            self.columns["sensitivity"],
            self.columns["specificity"],
        )
        ends = (sensitivity == 1) & (specificity == 0) | (sensitivity == 0) & (
            specificity == 1
        )
        # A few rows of very low scores would press all the others into a line.
        moving = self.threshold[~ends & ~(self.columns["flag_rate"] > NEARLY_ALL)]
        kept = [
            *moving.tolist(),
            *([keep] if abs(keep) < fmt.BEYOND_SCORES else []),
        ] or [0.0, 1.0]
        air = 0.02 * (max(kept) - min(kept)) or 0.5
        return min(kept) - air, max(kept) + air


class Tally:
    """How many rows of tonight score at or above a threshold, from the precomputed vector."""

    def __init__(self, reaching: ReachingCounts | None):
        pairs = (
            zip(reaching.thresholds, reaching.counts, strict=True) if reaching else ()
        )
        kept = sorted((t, n) for t, n in pairs if t is not None)
        self.thresholds, self.counts = [t for t, _ in kept], [n for _, n in kept]

    def at(self, threshold: float) -> int:
        """Return the number of rows at the first stored threshold that is not below this one."""
        return next(
            iter(self.counts[bisect.bisect_left(self.thresholds, threshold) :]), 0
        )


def panels(
    model: ModelDocument, run: RunDocument | None, places: int
) -> list[dict[str, object]]:
    """Return one trade-off panel for each class with an operating point, rarest first."""
    drawn = []
    for number, point in enumerate(model.points[:MOST_PANELS]):
        curve = Curve(model.validation.curves[point.label])
        tally = Tally(run.score_counts.get(point.label) if run else None)
        trade_off = _trade_off(point, curve, tally, places, number)
        box = [trade_off.left, trade_off.right, trade_off.upper, trade_off.lower]
        drawn.append(
            {
                "point": point,
                "trade_off": trade_off,
                "roc": _roc(point, curve, number),
                "precision": _precision(point, curve, number),
                "slider": _slider(run, point, curve, tally, places) | {"box": box},
            }
        )
    return drawn


def _trade_off(
    point: OperatingPointFacts, curve: Curve, tally: Tally, places: int, number: int
) -> Axes:
    threshold = (
        "none, flags every row"
        if point.flags_everything
        else fmt.fixed(point.threshold, places)
    )
    axes = Axes(
        name=f"tradeoff-{number}",
        x=curve.window(point.threshold),
        y=(0.0, 1.0),
        y_label="share",
        height=450,
        x_label="threshold: flagged at this score or above",
        margins=(52, 96, 46, 56),
    )
    kinds = {"specificity": "second", "sensitivity": "first"}
    for figure, kind in kinds.items():
        axes.band(curve.threshold, *curve.ends[figure], kind)
    for figure, kind in kinds.items():
        axes.line(curve.threshold, curve.columns[figure], kind, figure)
    axes.upright(point.threshold, "validated", f"validated {threshold}")
    if tally.thresholds:
        axes.second_axis("flagged tonight", lambda t: fmt.count(tally.at(t)))
    else:
        axes.second_axis(
            "reviews per 100 rows", lambda t: fmt.per_hundred(curve.at("flag_rate", t))
        )
    return axes


def _small(name: str, x_label: str, y_label: str) -> Axes:
    return Axes(
        name=name,
        x=(0.0, 1.0),
        y=(0.0, 1.0),
        x_label=x_label,
        y_label=y_label,
        width=330,
        height=300,
        margins=(14, 16, 46, 52),
        as_percent=(True, True),
    )


def _roc(point: OperatingPointFacts, curve: Curve, number: int) -> Axes:
    false_alarms = 1 - curve.columns["specificity"]
    axes = _small(f"roc-{number}", "non-cases flagged (1 − specificity)", "sensitivity")
    axes.line([0, 1], [0, 1], "chance")
    axes.line([1, *false_alarms, 0], [1, *curve.columns["sensitivity"], 0], "first")
    sensitivity, specificity = point.sensitivity.value, point.specificity.value
    if sensitivity is not None and specificity is not None:
        axes.mark(1 - specificity, sensitivity, "validated", "validated threshold")
    return axes


def _precision(point: OperatingPointFacts, curve: Curve, number: int) -> Axes | None:
    ppv, base = curve.columns["ppv"], point.prevalence
    if np.isnan(ppv).all():
        return None
    axes = _small(
        f"precision-{number}", "sensitivity (recall)", "cases among the flagged (PPV)"
    )
    axes.line([0, 1], [base, base], "chance")
    axes.line(curve.columns["sensitivity"], ppv, "first")
    if point.ppv.value is not None and point.sensitivity.value is not None:
        axes.mark(
            point.sensitivity.value,
            point.ppv.value,
            "validated",
            "validated threshold",
            side="end",
        )
    return axes


def _slider(
    run: RunDocument | None,
    point: OperatingPointFacts,
    curve: Curve,
    tally: Tally,
    places: int,
) -> dict[str, object]:
    """Return what the script needs: figures only, never an id or a value of a patient."""
    validated, (low, high) = point.threshold, curve.window(point.threshold)
    inside = [t for t in tally.thresholds or curve.threshold if low <= t <= high]
    every = -(-len(inside) // MOST_STEPS) or 1
    steps = sorted({*inside[::every], validated})
    flagged = (
        run.counts.flagged_by_class.get(point.label)
        if run and tally.thresholds
        else None
    )
    counts = [
        flagged if t == validated and flagged is not None else tally.at(t)
        for t in steps
    ]
    return {
        "low": low,
        "high": high,
        "places": places,
        "validated": steps.index(validated),
        "threshold": steps,
        **{
            figure: [
                None if value is None else round(value, 4)
                for value in (
                    getattr(point, figure).value
                    if t == validated
                    else curve.at(figure, t)
                    for t in steps
                )
            ]
            for figure in ("sensitivity", "specificity", "flag_rate")
        },
        "flagged": counts if tally.thresholds else None,
        "start": min(1000, max(0, round(1000 * (validated - low) / (high - low)))),
        "spoken": f"threshold {fmt.fixed(validated, places)}, "
        f"sensitivity {fmt.percent(point.sensitivity)}, specificity {fmt.percent(point.specificity)}"
        + (f", {fmt.count(flagged)} flagged" if flagged is not None else ""),
    }


def rarest_first(model: ModelDocument) -> list[int]:
    """Return the places of the classes in the confusion matrix, rare classes first; none without a matrix."""
    confusion = model.validation.confusion
    if confusion is None:
        return []
    return sorted(
        range(len(confusion.classes)),
        key=lambda i: (sum(confusion.counts[i]), confusion.classes[i]),
    )


def froc(model: ModelDocument) -> Axes | None:
    """The FROC curve; None where the operating point is none by lesions."""
    facts = model.points[0].lesions
    if facts is None:
        return None
    false_positives, sensitivity = (
        np.array(facts.froc.false_positives),
        np.array(facts.froc.sensitivity),
    )
    # Far right of the threshold in use nobody reads; the table has the rest.
    at = facts.false_positives.value or 0.0
    most = max(min(false_positives.max(), 4 * at), 1.0)
    drawn = false_positives <= most
    axes = Axes(
        name="froc",
        x=(0.0, most),
        y=(0.0, 1.0),
        x_label="false clusters a patient",
        y_label="lesions found",
        margins=(16, 24, 46, 66),
    )
    axes.line(false_positives[drawn], sensitivity[drawn], "first")
    axes.mark(at, 1 - facts.missed / facts.n_lesions, "validated", "threshold in use")
    return axes


def pruning_chart(model: ModelDocument) -> Axes | None:
    """Return the chart of the last pass's removals, or None where nothing was removed."""
    passes = model.machine.passes
    steps = passes[-1].get("pruning_path") if passes else None
    if not isinstance(steps, list | tuple) or not steps:
        return None
    numbers = list(range(1, len(steps) + 1))
    accuracy, error = [step[2] for step in steps], [step[3] for step in steps]
    axes = Axes(
        name="pruning",
        x=(0.0, float(len(steps))),
        y=(0.0, 1.0),
        x_label="support vectors removed",
        y_label="training rows",
        height=240,
        title="Support vectors removed",
        description=(
            f"{fmt.plural(len(steps), 'support vector')} of the larger class removed. On training rows, "
            f"the rarer class found went from {fmt.percent(accuracy[0])} after the first to "
            f"{fmt.percent(accuracy[-1])}, the larger class flagged from {fmt.percent(error[0])} to "
            f"{fmt.percent(error[-1])}."
        ),
    )
    axes.line(numbers, accuracy, "first", "rare found")
    axes.line(numbers, error, "second", "false flags")
    return axes


ROUND = [step * 10**power for power in range(1, 8) for step in (1, 2, 5)]


def usefulness(model: ModelDocument) -> dict[str, object]:
    """Return the verdict with its reasons, the best other method, and a picture of a single class."""
    one = model.points[0] if len(model.points) == 1 else None
    return {
        "verdict": usefulness_of(model),
        "other": best_other(model.validation.comparison),
        "other_at": _other_at(model, one) if one else None,
        "picture": _picture(model, one) if one else None,
    }


def _other_at(
    model: ModelDocument, point: OperatingPointFacts
) -> tuple[float, float] | None:
    """Flags per 100 rows of the best other method at the prevalence in use, and its sensitivity."""
    other = best_other(model.validation.comparison)
    figures = (other and other.figures) or {}
    sensitivity, specificity = figures.get("sensitivity"), figures.get("specificity")
    if sensitivity is None or specificity is None:
        return None
    flagged = point.prevalence * sensitivity + (1 - point.prevalence) * (
        1 - specificity
    )
    return 100 * flagged, sensitivity


def _picture(model: ModelDocument, point: OperatingPointFacts) -> Axes | None:
    """Sensitivity against flags, with the threshold in use, the best other method, and the capacity."""
    curve = Curve(model.validation.curves[point.label])
    # Capacity counts reviews, which are of patients where rows come in groups.
    capacity = None if model.validation.grouped else model.stated.capacity
    flag_rate, sensitivity = point.flag_rate.value, point.sensitivity.value
    if flag_rate is None or sensitivity is None:
        return None
    axes = Axes(
        name="useful",
        x=(0, 100),
        y=(0, 1),
        x_label="flags per 100 rows",
        y_label="cases found (sensitivity)",
        height=330,
        margins=(52 if capacity else 16, 24, 46, 66),
    )
    flags = 100 * curve.columns["flag_rate"]
    axes.band(flags, *curve.ends["sensitivity"], "first")
    axes.line([0, 100], [0, 1], "chance")
    axes.line(flags, curve.columns["sensitivity"], "first")
    if capacity is not None:
        size = min(ROUND, key=lambda rows: abs(capacity / rows - flag_rate))
        axes.upright(
            100 * capacity / size,
            "capacity",
            f"capacity, night of {fmt.count(size)} rows",
        )
        axes.second_axis(
            f"rows a night for which {fmt.plural(capacity, 'review')} are enough",
            lambda x: fmt.count(100 * capacity / x) if x else "any",
        )
    axes.mark(100 * flag_rate, sensitivity, "validated", "validated threshold")
    at, other = _other_at(model, point), best_other(model.validation.comparison)
    if at and other:
        axes.dot(*at, "other")
        axes.note(*at, "second", fmt.name(other.recipe))
    return axes


FIGURES = {
    "auroc": "AUROC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "macro_recall": "Mean recall",
}


def beside(model: ModelDocument) -> dict[str, object] | None:
    """Return the comparison with other methods: figures, and in which the method is shown to differ."""
    comparison = model.validation.comparison
    if comparison is None:
        return None
    columns = {
        name: title
        for name, title in FIGURES.items()
        if comparison.figures.get(name) is not None
    }
    trained = [other for other in comparison.beside if other.reason is None]
    return {
        "columns": columns,
        "rows": [(other, *_differing(other, columns)) for other in trained],
        "failed": [other for other in comparison.beside if other.reason is not None],
    }


def _differing(
    other: Beside, columns: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The figures that their intervals show to be higher than another method's, and those shown lower."""
    gaps = [
        (title, (other.differences or {}).get(name)) for name, title in columns.items()
    ]
    higher = [
        title for title, gap in gaps if gap and gap.low is not None and gap.low > 0
    ]
    lower = [
        title for title, gap in gaps if gap and gap.high is not None and gap.high < 0
    ]
    return higher, lower


def chances_of(model: ModelDocument) -> dict[str, dict[str, object]]:
    """Return reliability and worth of acting of each watched class whose scores are chances, by its name.

    Acting on the model is worth most between the thresholds `worth_from` and `worth_to` (None: nowhere);
    `at` is the chance at the threshold in use, and `furthest` where the picture ends.
    """
    charts: dict[str, dict[str, object]] = {}
    for number, point in enumerate(model.points):
        calibration = model.validation.calibration.get(point.label)
        if (
            calibration is None
            or not calibration.earned
            or calibration.decision_curve is None
        ):
            continue
        curve, chance = (
            calibration.decision_curve,
            None,
        )  # the one that belongs to the threshold in use
        if (
            calibration.platt
            and not point.flags_everything
            and point.sensitivity.value is not None
        ):
            chance = float(calibration.platt.chances(np.array([point.threshold]))[0][0])
        pairs = zip(curve.threshold, curve.model, curve.all, strict=True)
        useful = [
            t for t, benefit, everyone in pairs if benefit > max(everyone, 0.0) + 1e-9
        ]
        charts[point.label] = {
            "reliability": _reliability(calibration, number),
            "worth": _worth(curve, point, chance, number),
            "worth_from": min(useful, default=None),
            "worth_to": max(useful, default=None),
            "at": chance if chance is not None and 0 < chance < 1 else None,
            "furthest": max(curve.threshold),
        }
    return charts


def _reliability(calibration: Calibration, number: int) -> Axes:
    bins = calibration.reliability
    axes = Axes(
        name=f"reliability{number}",
        x=(0, 1),
        y=(0, 1),
        x_label="Predicted chance",
        y_label="Observed frequency",
        width=330,
        height=260,
        margins=(12, 24, 46, 56),
        as_percent=(True, True),
    )
    axes.line((0, 1), (0, 1), "chance")
    xs = [one.predicted for one in bins]
    axes.band(
        xs,
        [one.observed.low for one in bins],
        [one.observed.high for one in bins],
        "first",
    )
    axes.line(xs, [one.observed.value for one in bins], "first")
    return axes


def _worth(
    curve: DecisionCurve, point: OperatingPointFacts, chance: float | None, number: int
) -> Axes:
    at, model, everyone = curve.threshold, curve.model, curve.all
    top = max([*model, *everyone])
    axes = Axes(
        name=f"worth{number}",
        x=(0, max(at)),
        y=(-0.2 * top, 1.08 * top),
        y_label="Net benefit",
        x_label="Chance at which a review is worth it",
        width=330,
        height=260,
        margins=(12, 62, 46, 56),
        as_percent=(True, False),
    )
    axes.line((0, max(at)), (0, 0), "chance", "none")
    shown_all = [(t, a) for t, a in zip(at, everyone, strict=True) if a >= -0.2 * top]
    axes.line([t for t, _ in shown_all], [a for _, a in shown_all], "second")
    axes.line(at, model, "first", "model")
    if chance is not None and chance <= max(at):
        # Net benefit (Vickers 2006): cases found less unnecessary reviews, each weighed by the odds.
        hits = point.prevalence * (point.sensitivity.value or 0.0)
        in_vain = (1 - point.prevalence) * (1 - (point.specificity.value or 0.0))
        axes.mark(
            chance,
            hits - in_vain * chance / (1 - chance),
            "validated",
            "threshold in use",
        )
    return axes
