"""The trade-off charts of one class, and what its slider needs: thresholds, what each finds and flags."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from screening.documents.reading import by_class, flags_everything, mapping, multi, part, points, sequence
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

    def __init__(self, curve: Mapping[str, Any]):
        thresholds = sequence(curve, "threshold")
        order = sorted((t, i) for i, t in enumerate(thresholds) if shown.finite(t))
        self.threshold: list[float] = [float(t) for t, _ in order]
        self.columns: dict[str, list[Any]] = {}
        for name in FIGURES:
            column = sequence(curve, name)
            self.columns[name] = [column[i] if i < len(column) else None for _, i in order]

    def __len__(self) -> int:
        return len(self.threshold)

    def at(self, name: str, threshold: float) -> float | None:
        """Return the figure at a threshold, by linear interpolation."""
        column, right = self.columns[name], bisect.bisect_left(self.threshold, threshold)
        if not column:
            return None
        if right in (0, len(column)):
            return column[min(right, len(column) - 1)]
        low, high = column[right - 1], column[right]
        if not (shown.finite(low) and shown.finite(high)):
            return None
        before, after = self.threshold[right - 1], self.threshold[right]
        return low + (high - low) * (threshold - before) / (after - before)

    def window(self, keep: Sequence[float]) -> tuple[float, float]:
        """Return the thresholds between which anything changes, `keep` included, with a little air."""
        moving = [
            t
            for t, se, sp in zip(
                self.threshold, self.columns["sensitivity"], self.columns["specificity"], strict=True
            )
            if not (se == 1 and sp == 0) and not (se == 0 and sp == 1)
        ]
        ends = [*(moving or self.threshold), *[k for k in keep if abs(k) < shown.BEYOND_SCORES]] or [0.0, 1.0]
        low, high = min(ends), max(ends)
        air = 0.02 * (high - low) or 0.5
        return low - air, high + air


class Tally:
    """How many rows of tonight score at or above a threshold, from the precomputed vector."""

    def __init__(self, vector: Mapping[str, Any]):
        pairs = zip(sequence(vector, "thresholds"), sequence(vector, "counts"), strict=False)
        kept = sorted((float(t), int(c)) for t, c in pairs if shown.finite(t) and shown.finite(c))
        self.thresholds = [t for t, _ in kept]
        self.counts = [c for _, c in kept]

    def __bool__(self) -> bool:
        return bool(self.thresholds)

    def at(self, threshold: float) -> int:
        """Return the number of rows at the first stored threshold that is not below this one."""
        place = bisect.bisect_left(self.thresholds, threshold)
        return self.counts[place] if place < len(self.counts) else 0


def panels(model: Mapping[str, Any], run: Mapping[str, Any] | None, places: int) -> list[dict[str, Any]]:
    """Return one trade-off panel for each class with an operating point, rarest first."""
    found, used = [], points(model)
    for number, point in enumerate(used[:MOST_PANELS]):
        alone = len(used) == 1
        curve = Curve(by_class(part(model, "validation", "curves"), point.get("class"), alone))
        if len(curve) > 1 and shown.finite(point.get("threshold")):
            found.append(_panel(model, run, point, curve, number, alone, places))
    return found


def _panel(
    model: Mapping[str, Any],
    run: Mapping[str, Any] | None,
    point: Mapping[str, Any],
    curve: Curve,
    number: int,
    alone: bool,
    places: int,
) -> dict[str, Any]:
    label = point.get("class")
    vector = mapping(run, "score_counts")
    tally = Tally(vector if "thresholds" in vector and alone else mapping(vector, str(label)))
    summary = by_class(part(model, "validation", "summary"), label, alone)
    window = curve.window([point["threshold"]])
    trade_off = _trade_off(point, curve, tally, window, places, number)
    slider = _slider(model, run, point, curve, tally, window, places)
    slider["box"] = [trade_off[side] for side in ("left", "right", "upper", "lower")]
    return {
        "number": number,
        "class": shown.name(label),
        "multi": multi(model),
        "trade_off": trade_off,
        "roc": _roc(point, curve, summary, number),
        "precision": _precision(point, curve, summary, number),
        "slider": slider,
    }


def _trade_off(
    point: Mapping[str, Any],
    curve: Curve,
    tally: Tally,
    window: tuple[float, float],
    places: int,
    number: int,
) -> dict[str, Any]:
    se, sp = shown.percent(point.get("sensitivity")), shown.percent(point.get("specificity"))
    threshold = (
        "none, flags every row" if flags_everything(point) else shown.fixed(point["threshold"], places)
    )
    axes = Axes(
        name=f"tradeoff-{number}",
        title="Sensitivity and specificity against the threshold",
        description=(
            f"As the threshold rises, sensitivity falls and specificity rises. At the validated threshold "
            f"{threshold}, sensitivity is {se} (95% interval "
            f"{shown.interval(point.get('sensitivity_low'), point.get('sensitivity_high'))}) and specificity "
            f"{sp} ({shown.interval(point.get('specificity_low'), point.get('specificity_high'))}). "
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
    axes.upright(point["threshold"], "validated", f"validated {threshold}")
    if tally:
        axes.second_axis("flagged tonight", lambda t: shown.count(tally.at(t)))
    else:
        rate = curve.columns["flag_rate"]
        if any(shown.finite(r) for r in rate):
            axes.second_axis(
                "reviews per 100 rows", lambda t: shown.ratio(_hundred(curve.at("flag_rate", t)))
            )
    return axes.drawing()


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _small(name: str, title: str, description: str, x_label: str, y_label: str) -> Axes:
    return Axes(
        name=name, title=title, description=description, x=(0.0, 1.0), y=(0.0, 1.0), x_label=x_label,
        y_label=y_label, width=330, height=300, margins=(14, 16, 46, 52), as_percent=(True, True),
    )  # fmt: skip


def _roc(
    point: Mapping[str, Any], curve: Curve, summary: Mapping[str, Any], number: int
) -> dict[str, Any] | None:
    specificity = curve.columns["specificity"]
    false_alarms = [1 - s if shown.finite(s) else None for s in specificity]
    area = summary.get("auroc")
    bounds = [summary.get("auroc_low"), summary.get("auroc_high")]
    words = f"{area:.2f}" if shown.finite(area) else "not known"
    if all(shown.finite(b) for b in bounds):
        words += f" (95% interval {bounds[0]:.2f}–{bounds[1]:.2f})"
    axes = _small(
        f"roc-{number}",
        "ROC curve",
        f"Sensitivity against the share of non-cases flagged. Area under the curve {words}; 0.50 is chance.",
        "non-cases flagged (1 − specificity)",
        "sensitivity",
    )
    axes.line([0, 1], [0, 1], "chance")
    axes.line([1, *false_alarms, 0], [1, *curve.columns["sensitivity"], 0], "first")
    if shown.finite(point.get("specificity")) and shown.finite(point.get("sensitivity")):
        axes.mark(1 - point["specificity"], point["sensitivity"], "validated", "validated threshold")
    return {**axes.drawing(), "caption": f"Area under the curve {words}. Dashed: chance."}


def _precision(
    point: Mapping[str, Any], curve: Curve, summary: Mapping[str, Any], number: int
) -> dict[str, Any] | None:
    ppv = curve.columns["ppv"]
    if not any(shown.finite(v) for v in ppv):
        return None
    base, average = point.get("prevalence"), summary.get("average_precision")
    words = f"Average precision {average:.2f}" if shown.finite(average) else "Average precision not known"
    if shown.finite(base):
        words += f"; flagging at random gives {shown.percent(base)} cases among the flagged"
    axes = _small(
        f"precision-{number}",
        "Precision and recall",
        f"Share of flagged rows that are cases (PPV) against sensitivity. {words}.",
        "sensitivity (recall)",
        "cases among the flagged (PPV)",
    )
    if shown.finite(base):
        axes.line([0, 1], [base, base], "chance")
    axes.line(curve.columns["sensitivity"], ppv, "first")
    if shown.finite(point.get("ppv")) and shown.finite(point.get("sensitivity")):
        axes.mark(point["sensitivity"], point["ppv"], "validated", "validated threshold", side="end")
    return {**axes.drawing(), "caption": f"{words} (dashed)." if shown.finite(base) else f"{words}."}


def _slider(
    model: Mapping[str, Any],
    run: Mapping[str, Any] | None,
    point: Mapping[str, Any],
    curve: Curve,
    tally: Tally,
    window: tuple[float, float],
    places: int,
) -> dict[str, Any]:
    """Return what the script needs: figures only, never an id or a value of a patient."""
    validated = float(point["threshold"])
    inside = [t for t in (tally.thresholds if tally else curve.threshold) if window[0] <= t <= window[1]]
    every = -(-len(inside) // MOST_STEPS) or 1
    steps = sorted({*inside[::every], validated})
    label = str(point.get("class"))
    flagged = part(run, "counts", "flagged")
    flagged = part(run, "counts", "flagged_by_class", label) if multi(model) else flagged
    return {
        "low": window[0],
        "high": window[1],
        "places": places,
        "validated": steps.index(validated),
        "threshold": steps,
        **{
            figure: [_short(point.get(figure) if t == validated else curve.at(figure, t)) for t in steps]
            for figure in ("sensitivity", "specificity", "flag_rate")
        },
        "flagged": [flagged if t == validated and flagged is not None else tally.at(t) for t in steps]
        if tally
        else None,
        "start": min(1000, max(0, round(1000 * (validated - window[0]) / (window[1] - window[0])))),
        "said": _said(point, places, flagged if tally else None),
    }


def _short(value: Any) -> float | None:
    return round(value, 4) if shown.finite(value) else None


def _said(point: Mapping[str, Any], places: int, flagged: Any) -> str:
    tail = f", {shown.count(flagged)} flagged" if flagged is not None else ""
    return (
        f"threshold {shown.fixed(point['threshold'], places)}, "
        f"sensitivity {shown.percent(point.get('sensitivity'))}, "
        f"specificity {shown.percent(point.get('specificity'))}{tail}"
    )
