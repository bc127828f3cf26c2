"""What a flag means where the model is used: predictive values, workload, calibration, worth of acting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import awaited, mapping, multi, points, sequence, stated, to_review
from screening.page import format as shown
from screening.page.charts import Axes

METHODS = {"platt": "Platt scaling", "isotonic": "isotonic regression"}
ENDS = {
    "given": ("half as common", "as stated", "twice as common"),
    "estimated": ("low end", "estimate", "high end"),
}


def predictive(model: Mapping[str, Any], run: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return a table of predictive values for each watched class, with tonight's workload in words."""
    tables = []
    for point in points(model):
        found = mapping(model, "validation", "predictive", str(point.get("class")))
        rows = [row for row in sequence(found, "rows") if isinstance(row, Mapping)]
        if not rows:
            continue
        source = "given" if found.get("source") == "given" else "estimated"
        tables.append(
            {
                "class": shown.name(point.get("class")) if multi(model) else "",
                "source": "as the contract or the command states it, with half and twice of it"
                if source == "given"
                else "estimated from the training cohort, with its 95% interval",
                "rows": [
                    _at_prevalence(row, end, end == ENDS[source][1])
                    for row, end in zip(rows, ENDS[source], strict=False)
                ],
            }
        )
    return tables


def _at_prevalence(row: Mapping[str, Any], end: str, used: bool) -> dict[str, Any]:
    rate = row.get("flag_rate")
    return {
        "end": end,
        "used": used,
        "prevalence": shown.percent(row.get("prevalence")),
        "ppv": shown.percent(row.get("ppv")),
        "ppv_interval": shown.interval(row.get("ppv_low"), row.get("ppv_high")),
        "npv": shown.percent(row.get("npv")),
        "npv_interval": shown.interval(row.get("npv_low"), row.get("npv_high")),
        "nne": shown.ratio(row.get("nne")),
        "flags": shown.ratio(100 * rate) if shown.finite(rate) else shown.NOT_KNOWN,
    }


def workload(model: Mapping[str, Any], run: Mapping[str, Any] | None) -> list[str]:
    """Return what the threshold costs in reviews: flags, minutes, and how much of the capacity they take."""
    minutes, capacity = stated(model, "minutes_per_review"), stated(model, "capacity")
    said = []
    rates = [p["flag_rate"] for p in points(model) if shown.finite(p.get("flag_rate"))]
    expected = f"{shown.ratio(100 * rates[0])} expected per 100 rows" if len(rates) == 1 else ""
    counts = mapping(run, "counts") if run is not None else {}
    flagged, scored = counts.get("flagged"), counts.get("scored")
    hit, what = awaited(run)
    reviewed = to_review(run)[0] != hit
    if shown.finite(flagged) and shown.finite(scored) and scored and shown.finite(hit):
        per = f"{shown.ratio(100 * flagged / scored)} per 100 rows"
        first = " for the first time" if reviewed else ""
        said.append(
            f"Tonight {shown.plural(hit, what)} to review{first}: {per} flagged"
            + (f", {expected}." if expected else ".")
        )
        if shown.finite(minutes):
            said.append(f"About {shown.count(hit * minutes)} minutes at {shown.number(minutes)} a review.")
        if shown.finite(capacity) and capacity:
            over = hit - capacity
            tail = f"{shown.count(over)} more than can be done" if over > 0 else "within it"
            said.append(
                f"Capacity is {shown.plural(capacity, 'review')} a night: "
                f"{shown.percent(hit / capacity, 0)} of it, {tail}."
            )
    elif expected:
        said.append(f"{expected[0].upper()}{expected[1:]} at the local prevalence.")
        if shown.finite(minutes):
            said.append(
                f"That is about {shown.count(100 * rates[0] * minutes)} minutes per 100 rows, at "
                f"{shown.number(minutes)} a review."
            )
        if shown.finite(capacity) and rates[0]:
            said.append(
                f"Capacity, {shown.plural(capacity, 'review')} a night, is reached at about "
                f"{shown.count(capacity / rates[0])} rows."
            )
    estimate = mapping(run, "prevalence_estimate") if run is not None else {}
    if shown.finite(estimate.get("value")):
        ends = shown.interval(estimate.get("low"), estimate.get("high"))
        low, high = shown.percent(estimate.get("low")), shown.percent(estimate.get("high"))
        # At an end of the scale the estimate says no more than its interval: "0% have it" would be read.
        value = shown.percent(estimate["value"])
        about = f"about {value} ({ends})" if 0 < estimate["value"] < 1 else f"between {low} and {high}"
        said.append(
            f"By the share flagged alone, {about} of tonight’s rows have the condition (95% interval)."
        )
    return said


def calibration(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each watched class the calibration with its pictures, or why there is none."""
    blocks = []
    for number, point in enumerate(points(model)):
        found = mapping(model, "validation", "calibration", str(point.get("class")))
        if not found:
            continue
        label = shown.name(point.get("class"))
        head = {
            "class": label if multi(model) else "",
            "earned": bool(found.get("earned")),
            "why": shown.text(found.get("reason") or ""),
        }
        blocks.append(head | (_earned(found, number) if found.get("earned") else {}))
    return blocks


def _earned(found: Mapping[str, Any], number: int) -> dict[str, Any]:
    losses = mapping(found, "log_loss")
    other = next((name for name in METHODS if name != found.get("method")), "")
    used = METHODS.get(str(found.get("method")), "calibration")
    compared = (
        f"{used[0].upper()}{used[1:]} was chosen: its log loss on folds it "
        "had not seen was "
        f"{_three(losses.get(str(found.get('method'))))}, that of {METHODS.get(other, 'the other')} "
        f"{_three(losses.get(other))}."
    )
    return {
        "compared": compared,
        "figures": f"Brier score {_three(found.get('brier'))}, "
        f"{shown.percent(found.get('brier_skill'))} better than saying "
        f"{shown.percent(found.get('prevalence'))} of everyone; calibration slope "
        f"{_two(found.get('slope'))} (1 is ideal).",
        "reliability": _reliability(found, number),
        "worth": _decision_curve(mapping(found, "decision_curve"), number),
    }


def _two(value: Any) -> str:
    return f"{value:.2f}" if shown.finite(value) else shown.NOT_KNOWN


def _three(value: Any) -> str:
    return f"{value:.3f}" if shown.finite(value) else shown.NOT_KNOWN


def _reliability(found: Mapping[str, Any], number: int) -> dict[str, Any]:
    bins = [
        b
        for b in sequence(found, "reliability")
        if isinstance(b, Mapping) and shown.finite(b.get("predicted"))
    ]
    said = ", ".join(
        f"{shown.percent(b['predicted'])} predicted and {shown.percent(b.get('observed'))} observed"
        for b in bins
    )
    axes = Axes(
        name=f"reliability{number}",
        title="Reliability: predicted chance and observed frequency",
        description=f"On the diagonal both agree. From low to high: {said}.",
        x=(0, 1), y=(0, 1), x_label="Predicted chance", y_label="Observed frequency",
        width=330, height=260, margins=(12, 24, 46, 56), as_percent=(True, True),
    )  # fmt: skip
    axes.line((0, 1), (0, 1), "chance")
    xs = [b["predicted"] for b in bins]
    axes.band(xs, [b.get("low") for b in bins], [b.get("high") for b in bins], "first")
    axes.line(xs, [b.get("observed") for b in bins], "first")
    return axes.drawing() | {
        "caption": "Solid: observed in tenths of the predictions, with 95% intervals. Dotted: perfect "
        "agreement."
    }


def _decision_curve(curve: Mapping[str, Any], number: int) -> dict[str, Any]:
    at, model, everyone = (list(sequence(curve, key)) for key in ("threshold", "model", "all"))
    top = max([v for v in [*model, *everyone] if shown.finite(v)] or [1.0])
    useful = [t for t, m, a in zip(at, model, everyone, strict=False) if m > max(a, 0.0) + 1e-9]
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
        x=(0, max(at or [1.0])), y=(-0.2 * top, 1.08 * top), x_label="Chance at which a review is worth it",
        y_label="Net benefit", width=330, height=260, margins=(12, 62, 46, 56), as_percent=(True, False),
    )  # fmt: skip
    axes.line((0, max(at or [1.0])), (0, 0), "chance", "none")
    shown_all = [(t, a) for t, a in zip(at, everyone, strict=False) if a >= -0.2 * top]
    axes.line([t for t, _ in shown_all], [a for _, a in shown_all], "second")
    axes.line(at, model, "first", "model")
    return axes.drawing() | {
        "caption": f"{words} Solid: the model; dashed: reviewing everyone; dotted: reviewing no one."
    }
