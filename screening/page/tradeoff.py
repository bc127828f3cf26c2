"""The trade-off charts of one class, and what its slider needs: thresholds, what each finds and flags."""

from __future__ import annotations

import bisect

import numpy as np

from screening.documents import validation
from screening.documents.figures import Ranking
from screening.documents.model import ModelDocument
from screening.documents.run import ReachingCounts, RunDocument
from screening.documents.validation import OperatingPointFacts
from screening.page import format as shown
from screening.page.charts import Axes

MOST_PANELS = 6
MOST_STEPS = 240
FIGURES = (
    "sensitivity", "sensitivity_low", "sensitivity_high", "specificity", "specificity_low",
    "specificity_high", "flag_rate", "ppv", "npv",
)  # fmt: skip


class Curve:
    """Out-of-fold figures along the threshold, lowest threshold first; ``at`` reads between two of them."""

    def __init__(self, curve: validation.Curve):
        order = np.argsort(curve.threshold, kind="stable")
        self.threshold = np.array(curve.threshold, float)[order]
        # None, of what is undefined there, becomes NaN, which no chart draws.
        self.columns = {name: np.array(getattr(curve, name), float)[order] for name in FIGURES}

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
    summary = model.validation.summary[point.label]
    tally = Tally(run.score_counts.get(point.label) if run else None)
    window = curve.window(point.threshold)
    trade_off = _trade_off(point, curve, tally, window, places, number)
    slider = _slider(run, point, curve, tally, window, places)
    slider["box"] = [trade_off.left, trade_off.right, trade_off.upper, trade_off.lower]
    return {
        "number": number,
        "class": shown.name(point.label),
        "multi": model.multi,
        "trade_off": trade_off,
        "roc": _roc(point, curve, summary, number),
        "precision": _precision(point, curve, summary, number),
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
    se, sp = shown.percent(point.sensitivity), shown.percent(point.specificity)
    se_interval, sp_interval = (
        shown.interval(low, high) for _, low, high in (point.sensitivity_ends, point.specificity_ends)
    )
    threshold = "none, flags every row" if point.flags_everything else shown.fixed(point.threshold, places)
    axes = Axes(
        name=f"tradeoff-{number}",
        title="Sensitivity and specificity against the threshold",
        description=(
            f"As the threshold rises, sensitivity falls and specificity rises. At the validated threshold "
            f"{threshold}, sensitivity is {se} (95% interval {se_interval}) and specificity "
            f"{sp} ({sp_interval}). "
            "The table of operating points gives the same in figures."
        ),
        x=window,
        y=(0.0, 1.0),
        x_label="threshold: flagged at this score or above",
        y_label="share",
        height=450,
        margins=(52, 96, 46, 56),
    )
    for figure, kind in (("specificity", "second"), ("sensitivity", "first")):
        low, high = curve.columns[f"{figure}_low"], curve.columns[f"{figure}_high"]
        axes.band(curve.threshold, low, high, kind)
    for figure, kind in (("specificity", "second"), ("sensitivity", "first")):
        axes.line(curve.threshold, curve.columns[figure], kind, figure)
    axes.upright(point.threshold, "validated", f"validated {threshold}")
    if tally:
        axes.second_axis("flagged tonight", lambda t: shown.count(tally.at(t)))
    else:
        axes.second_axis("reviews per 100 rows", lambda t: shown.per_hundred(curve.at("flag_rate", t)))
    return axes


def _small(name: str, title: str, description: str, x_label: str, y_label: str) -> Axes:
    return Axes(
        name=name, title=title, description=description, x=(0.0, 1.0), y=(0.0, 1.0), x_label=x_label,
        y_label=y_label, width=330, height=300, margins=(14, 16, 46, 52), as_percent=(True, True),
    )  # fmt: skip


def _roc(point: OperatingPointFacts, curve: Curve, summary: Ranking, number: int) -> Axes:
    false_alarms = 1 - curve.columns["specificity"]
    words = "not known" if summary.auroc is None else f"{summary.auroc:.2f}"
    ends = shown.area_interval(summary.auroc_low, summary.auroc_high)
    words += f" (95% interval {ends})" if ends else ""
    axes = _small(
        f"roc-{number}",
        "ROC curve",
        f"Sensitivity against the share of non-cases flagged. Area under the curve {words}; 0.50 is chance.",
        "non-cases flagged (1 − specificity)",
        "sensitivity",
    )
    axes.line([0, 1], [0, 1], "chance")
    axes.line([1, *false_alarms, 0], [1, *curve.columns["sensitivity"], 0], "first")
    if point.specificity is not None and point.sensitivity is not None:
        axes.mark(1 - point.specificity, point.sensitivity, "validated", "validated threshold")
    axes.caption = f"Area under the curve {words}. Dashed: chance."
    return axes


def _precision(point: OperatingPointFacts, curve: Curve, summary: Ranking, number: int) -> Axes | None:
    ppv = curve.columns["ppv"]
    if np.isnan(ppv).all():
        return None
    base, average = point.prevalence, summary.average_precision
    words = "Average precision " + ("not known" if average is None else f"{average:.2f}")
    words += f"; flagging at random gives {shown.percent(base)} cases among the flagged"
    axes = _small(
        f"precision-{number}",
        "Precision and recall",
        f"Share of flagged rows that are cases (PPV) against sensitivity. {words}.",
        "sensitivity (recall)",
        "cases among the flagged (PPV)",
    )
    axes.line([0, 1], [base, base], "chance")
    axes.line(curve.columns["sensitivity"], ppv, "first")
    if point.ppv is not None and point.sensitivity is not None:
        axes.mark(point.sensitivity, point.ppv, "validated", "validated threshold", side="end")
    axes.caption = f"{words} (dashed)."
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
    flagged = run.counts.flagged_by_class[point.label] if run else None
    return {
        "low": window[0],
        "high": window[1],
        "places": places,
        "validated": steps.index(validated),
        "threshold": steps,
        **{
            figure: [_short(getattr(point, figure) if t == validated else curve.at(figure, t)) for t in steps]
            for figure in ("sensitivity", "specificity", "flag_rate")
        },
        "flagged": [flagged if t == validated and flagged is not None else tally.at(t) for t in steps]
        if tally
        else None,
        "start": min(1000, max(0, round(1000 * (validated - window[0]) / (window[1] - window[0])))),
        "said": _said(point, places, flagged if tally else None),
    }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _said(point: OperatingPointFacts, places: int, flagged: int | None) -> str:
    tail = "" if flagged is None else f", {shown.count(flagged)} flagged"
    return (
        f"threshold {shown.fixed(point.threshold, places)}, "
        f"sensitivity {shown.percent(point.sensitivity)}, "
        f"specificity {shown.percent(point.specificity)}{tail}"
    )
