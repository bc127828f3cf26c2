"""Charts of the trade-off between sensitivity and specificity, one panel a class."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np

from screening.report import format as fmt
from screening.report.charts import Axes
from screening.schemas import validation
from screening.schemas.figures import BEYOND_SCORES
from screening.schemas.model import ModelDocument
from screening.schemas.run import ReachingCounts, RunDocument
from screening.schemas.validation import OperatingPointFacts

MAX_PANELS = 6
MAX_SLIDER_STEPS = 240
SLIDER_RANGE = 1000
MAX_FLAG_RATE = 0.98
"""Share of flagged rows up to which thresholds are shown."""


class HeldOutCurve:
    """Held-out rates by threshold, in rising order; NaN where undefined.

    Attributes
    ----------
    threshold : ndarray of float, shape (n_thresholds,)
    rates : dict of str to ndarray
        "sensitivity", "specificity", "flag_rate" and "ppv" at each threshold.
    intervals : dict of str to (ndarray, ndarray)
        Ends of the 95 % intervals of sensitivity and specificity.
    """

    def __init__(self, curve: validation.Curve):
        order = np.argsort(curve.threshold, kind="stable")

        def ordered(values: Sequence[float | None]) -> np.ndarray:
            return np.array(values, float)[order]

        sensitivity = curve.sensitivity
        specificity = curve.specificity
        self.threshold = ordered(curve.threshold)
        self.rates = {
            "sensitivity": ordered(sensitivity.value),
            "specificity": ordered(specificity.value),
            "flag_rate": ordered(curve.flag_rate),
            "ppv": ordered(curve.ppv),
        }
        self.intervals = {
            "sensitivity": (ordered(sensitivity.low), ordered(sensitivity.high)),
            "specificity": (ordered(specificity.low), ordered(specificity.high)),
        }

    def at(self, name: str, threshold: float) -> float | None:
        """Return a rate at a threshold, by linear interpolation; None if undefined.

        Beyond the curve it is that of the nearest end.
        """
        if not len(self.threshold):
            return None
        value = float(np.interp(threshold, self.threshold, self.rates[name]))
        return None if np.isnan(value) else value

    def window(self, included: float) -> tuple[float, float]:
        """Return the range of thresholds worth drawing, with a margin.

        Parameters
        ----------
        included : float
            A threshold that lies in the range in any case, unless it flags every row.
        """
        sensitivity = self.rates["sensitivity"]
        specificity = self.rates["specificity"]
        flags_all = (sensitivity == 1) & (specificity == 0)
        flags_none = (sensitivity == 0) & (specificity == 1)
        # A few rows of very low scores would press all the others into a line.
        flags_nearly_all = self.rates["flag_rate"] > MAX_FLAG_RATE
        is_drawn = ~(flags_all | flags_none | flags_nearly_all)
        thresholds = self.threshold[is_drawn].tolist()
        if abs(included) < BEYOND_SCORES:
            thresholds.append(included)
        low = min(thresholds, default=0.0)
        high = max(thresholds, default=1.0)
        margin = 0.02 * (high - low) or 0.5
        return low - margin, high + margin


class ScoreTally:
    """Number of rows of a night that score at or above a threshold."""

    def __init__(self, reaching: ReachingCounts | None):
        counts = {}
        if reaching is not None:
            pairs = zip(reaching.thresholds, reaching.counts, strict=True)
            counts = {threshold: n for threshold, n in pairs if threshold is not None}
        self.thresholds = sorted(counts)
        self.counts = [counts[threshold] for threshold in self.thresholds]

    def at(self, threshold: float) -> int:
        """Return the count at the first stored threshold not below this one, else 0."""
        index = bisect.bisect_left(self.thresholds, threshold)
        return self.counts[index] if index < len(self.counts) else 0


def panels(
    model: ModelDocument, run: RunDocument | None, places: int
) -> list[dict[str, object]]:
    """Return the panels of the first `MAX_PANELS` classes with a curve, rarest first.

    There is none where no case has been seen.

    Parameters
    ----------
    model : ModelDocument
    run : RunDocument, optional
        The night whose flags are counted; flags per 100 rows without one.
    places : int
        Decimals of a threshold.
    """
    drawn: list[dict[str, object]] = []
    curves = model.validation.curves
    points = [point for point in model.points if point.label in curves]
    for number, point in enumerate(points[:MAX_PANELS]):
        curve = HeldOutCurve(curves[point.label])
        counts = run.score_counts.get(point.label) if run else None
        tally = ScoreTally(counts)
        trade_off = _trade_off(point, curve, tally, places, number)
        slider = _slider(run, point, curve, tally, places)
        slider["box"] = [
            trade_off.left,
            trade_off.right,
            trade_off.upper,
            trade_off.lower,
        ]
        drawn.append(
            {
                "point": point,
                "trade_off": trade_off,
                "roc": _roc(point, curve, number),
                "precision": _precision(point, curve, number),
                "slider": slider,
            }
        )
    return drawn


def _trade_off(
    point: OperatingPointFacts,
    curve: HeldOutCurve,
    tally: ScoreTally,
    places: int,
    number: int,
) -> Axes:
    """Return sensitivity and specificity against the threshold."""
    axes = Axes(
        name=f"tradeoff-{number}",
        x=curve.window(point.threshold),
        y_label="share",
        height=450,
        x_label="threshold: flagged at this score or above",
        margins=(52, 96, 46, 56),
    )
    kinds = {"specificity": "second", "sensitivity": "first"}
    for name, kind in kinds.items():
        low, high = curve.intervals[name]
        axes.band(curve.threshold, low, high, kind)
    for name, kind in kinds.items():
        axes.line(curve.threshold, curve.rates[name], kind, name)
    if point.flags_everything:
        threshold = "none, flags every row"
    else:
        threshold = fmt.fixed(point.threshold, places)
    axes.upright(point.threshold, "validated", f"validated {threshold}")
    if tally.thresholds:
        axes.second_axis("flagged tonight", lambda t: fmt.count(tally.at(t)))
    else:
        axes.second_axis(
            "reviews per 100 rows", lambda t: fmt.per_hundred(curve.at("flag_rate", t))
        )
    return axes


def _small_axes(name: str, x_label: str, y_label: str) -> Axes:
    """Return a small square chart of two shares."""
    return Axes(
        name=name,
        x_label=x_label,
        y_label=y_label,
        width=330,
        height=300,
        margins=(14, 16, 46, 52),
        as_percent=(True, True),
    )


def _roc(point: OperatingPointFacts, curve: HeldOutCurve, number: int) -> Axes:
    """Return the ROC curve with the threshold in use."""
    axes = _small_axes(
        f"roc-{number}", "non-cases flagged (1 − specificity)", "sensitivity"
    )
    axes.line([0, 1], [0, 1], "chance")
    false_alarms = 1 - curve.rates["specificity"]
    hits = curve.rates["sensitivity"]
    axes.line([1, *false_alarms, 0], [1, *hits, 0], "first")
    sensitivity = point["sensitivity"].value
    specificity = point["specificity"].value
    if sensitivity is not None and specificity is not None:
        axes.mark(1 - specificity, sensitivity, "validated", "validated threshold")
    return axes


def _precision(
    point: OperatingPointFacts, curve: HeldOutCurve, number: int
) -> Axes | None:
    """Return PPV against sensitivity; None where no PPV is known."""
    ppv = curve.rates["ppv"]
    if np.isnan(ppv).all():
        return None
    axes = _small_axes(
        f"precision-{number}", "sensitivity (recall)", "cases among the flagged (PPV)"
    )
    axes.line([0, 1], [point.prevalence, point.prevalence], "chance")
    axes.line(curve.rates["sensitivity"], ppv, "first")
    if point["ppv"].value is not None and point["sensitivity"].value is not None:
        axes.mark(
            point["sensitivity"].value,
            point["ppv"].value,
            "validated",
            "validated threshold",
            side="end",
        )
    return axes


def _slider(
    run: RunDocument | None,
    point: OperatingPointFacts,
    curve: HeldOutCurve,
    tally: ScoreTally,
    places: int,
) -> dict[str, object]:
    """Return the figures that the slider's script needs, and nothing of a patient."""
    validated = point.threshold
    low, high = curve.window(validated)
    thresholds = np.asarray(tally.thresholds or curve.threshold, float)
    inside = thresholds[(low <= thresholds) & (thresholds <= high)].tolist()
    stride = max(1, math.ceil(len(inside) / MAX_SLIDER_STEPS))
    steps = sorted({*inside[::stride], validated})
    flagged = None
    if run and tally.thresholds:
        flagged = run.counts.flagged_by_class.get(point.label)
    spoken = (
        f"threshold {fmt.fixed(validated, places)}, "
        f"sensitivity {fmt.percent(point['sensitivity'])}, "
        f"specificity {fmt.percent(point['specificity'])}"
    )
    if flagged is not None:
        spoken += f", {fmt.count(flagged)} flagged"
    start = round(SLIDER_RANGE * (validated - low) / (high - low))
    at_validated = steps.index(validated)
    slider: dict[str, object] = {
        "low": low,
        "high": high,
        "places": places,
        "validated": at_validated,
        "threshold": steps,
        "flagged": None,
        "start": min(SLIDER_RANGE, max(0, start)),
        "spoken": spoken,
    }
    for name in ("sensitivity", "specificity", "flag_rate"):
        rates = [curve.at(name, step) for step in steps]
        rates[at_validated] = point[name].value
        slider[name] = [None if rate is None else round(rate, 4) for rate in rates]
    if tally.thresholds:
        counts = [tally.at(step) for step in steps]
        if flagged is not None:
            counts[at_validated] = flagged
        slider["flagged"] = counts
    return slider
