"""The trade-off charts of one class, and what its slider needs: thresholds, what each finds and flags."""

from __future__ import annotations

import bisect

import numpy as np

from screening.report import format as shown
from screening.report.charts import Axes
from screening.schemas import validation
from screening.schemas.model import ModelDocument
from screening.schemas.run import ReachingCounts, RunDocument
from screening.schemas.validation import OperatingPointFacts

MOST_PANELS = 6
MOST_STEPS = 240


class Curve:
    """Out-of-fold figures along the threshold, lowest threshold first; ``at`` reads between two of them."""

    def __init__(self, curve: validation.Curve):
        order = np.argsort(curve.threshold, kind="stable")
        self.threshold = np.array(curve.threshold, float)[order]
        # None, of what is undefined there, becomes NaN, which no chart draws.
        columns = {name: getattr(curve, name) for name in ("flag_rate", "ppv")}
        self.ends = {}
        for name, band in (("sensitivity", curve.sensitivity), ("specificity", curve.specificity)):
            columns[name] = band.value
            low, high = (np.array(end, float)[order] for end in (band.low, band.high))
            self.ends[name] = low, high
        self.columns = {name: np.array(values, float)[order] for name, values in columns.items()}

    def at(self, name: str, threshold: float) -> float | None:
        """Return the figure at a threshold, by linear interpolation."""
        if not len(self.threshold):
            return None
        value = float(np.interp(threshold, self.threshold, self.columns[name]))
        return None if np.isnan(value) else value

    def window(self, keep: float) -> tuple[float, float]:
        """Return the thresholds between which anything changes, one to keep included, with a little air."""
        sensitivity, specificity = self.columns["sensitivity"], self.columns["specificity"]
        ends = (sensitivity == 1) & (specificity == 0) | (sensitivity == 0) & (specificity == 1)
        moving = self.threshold[~ends] if not ends.all() else self.threshold
        kept = [*moving.tolist(), *([keep] if abs(keep) < shown.BEYOND_SCORES else [])] or [0.0, 1.0]
        low, high = min(kept), max(kept)
        air = 0.02 * (high - low) or 0.5
        return low - air, high + air


class Tally:
    """How many rows of tonight score at or above a threshold, from the precomputed vector."""

    def __init__(self, reaching: ReachingCounts | None):
        pairs = zip(reaching.thresholds, reaching.counts, strict=True) if reaching else ()
        kept = sorted((t, n) for t, n in pairs if t is not None)
        self.thresholds = [t for t, _ in kept]
        self.counts = [n for _, n in kept]

    def __bool__(self) -> bool:
        return bool(self.thresholds)

    def at(self, threshold: float) -> int:
        """Return the number of rows at the first stored threshold that is not below this one."""
        place = bisect.bisect_left(self.thresholds, threshold)
        return self.counts[place] if place < len(self.counts) else 0


def panels(model: ModelDocument, run: RunDocument | None, places: int) -> list[dict[str, object]]:
    """Return one trade-off panel for each class with an operating point, rarest first."""
    return [_panel(model, run, point, n, places) for n, point in enumerate(model.points[:MOST_PANELS])]


def _panel(
    model: ModelDocument, run: RunDocument | None, point: OperatingPointFacts, number: int, places: int
) -> dict[str, object]:
    curve = Curve(model.validation.curves[point.label])
    tally = Tally(run.score_counts.get(point.label) if run else None)
    window = curve.window(point.threshold)
    trade_off = _trade_off(point, curve, tally, window, places, number)
    slider = _slider(run, point, curve, tally, window, places)
    slider["box"] = [trade_off.left, trade_off.right, trade_off.upper, trade_off.lower]
    return {
        "point": point,
        "trade_off": trade_off,
        "roc": _roc(point, curve, number),
        "precision": _precision(point, curve, number),
        "slider": slider,
    }


def _trade_off(
    point: OperatingPointFacts,
    curve: Curve,
    tally: Tally,
    window: tuple[float, float],
    places: int,
    number: int,
) -> Axes:
    threshold = "none, flags every row" if point.flags_everything else shown.fixed(point.threshold, places)
    axes = Axes(
        name=f"tradeoff-{number}", x=window, y=(0.0, 1.0), y_label="share", height=450,
        x_label="threshold: flagged at this score or above", margins=(52, 96, 46, 56),
    )  # fmt: skip
    for figure, kind in (("specificity", "second"), ("sensitivity", "first")):
        axes.band(curve.threshold, *curve.ends[figure], kind)
    for figure, kind in (("specificity", "second"), ("sensitivity", "first")):
        axes.line(curve.threshold, curve.columns[figure], kind, figure)
    axes.upright(point.threshold, "validated", f"validated {threshold}")
    if tally:
        axes.second_axis("flagged tonight", lambda t: shown.count(tally.at(t)))
    else:
        axes.second_axis("reviews per 100 rows", lambda t: shown.per_hundred(curve.at("flag_rate", t)))
    return axes


def _small(name: str, x_label: str, y_label: str) -> Axes:
    return Axes(
        name=name, x=(0.0, 1.0), y=(0.0, 1.0), x_label=x_label, y_label=y_label, width=330, height=300,
        margins=(14, 16, 46, 52), as_percent=(True, True),
    )  # fmt: skip


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
    axes = _small(f"precision-{number}", "sensitivity (recall)", "cases among the flagged (PPV)")
    axes.line([0, 1], [base, base], "chance")
    axes.line(curve.columns["sensitivity"], ppv, "first")
    if point.ppv.value is not None and point.sensitivity.value is not None:
        axes.mark(point.sensitivity.value, point.ppv.value, "validated", "validated threshold", side="end")
    return axes


def _slider(
    run: RunDocument | None,
    point: OperatingPointFacts,
    curve: Curve,
    tally: Tally,
    window: tuple[float, float],
    places: int,
) -> dict[str, object]:
    """Return what the script needs: figures only, never an id or a value of a patient."""
    validated = point.threshold
    inside = [t for t in (tally.thresholds if tally else curve.threshold) if window[0] <= t <= window[1]]
    every = -(-len(inside) // MOST_STEPS) or 1
    steps = sorted({*inside[::every], validated})
    flagged = run.counts.flagged_by_class.get(point.label) if run else None
    return {
        "low": window[0],
        "high": window[1],
        "places": places,
        "validated": steps.index(validated),
        "threshold": steps,
        **{
            figure: [
                _short(getattr(point, figure).value if t == validated else curve.at(figure, t)) for t in steps
            ]
            for figure in ("sensitivity", "specificity", "flag_rate")
        },
        "flagged": [flagged if t == validated and flagged is not None else tally.at(t) for t in steps]
        if tally
        else None,
        "start": min(1000, max(0, round(1000 * (validated - window[0]) / (window[1] - window[0])))),
        "said": f"threshold {shown.fixed(validated, places)}, "
        f"sensitivity {shown.percent(point.sensitivity)}, specificity {shown.percent(point.specificity)}"
        + (f", {shown.count(flagged)} flagged" if tally and flagged is not None else ""),
    }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
