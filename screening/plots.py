"""Pictures with matplotlib (extra `plots`), of the same figures as the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes

from screening.errors import ModelError
from screening.schemas.figures import NO_CASE_SEEN
from screening.schemas.history import HistoryDocument
from screening.schemas.model import ModelDocument
from screening.schemas.validation import Curve, OperatingPointFacts

# Colours that colour-blind readers can distinguish too (Okabe and Ito 2008).
FIRST, SECOND, MARK = "#0072B2", "#D55E00", "#444444"
MOST_FEATURES = 12
STATES = {"new": SECOND, "pending": "#E69F00", "ruled_out": "#999999", "known": FIRST}


def axes() -> Axes:
    """Axes of a figure of their own."""
    return pyplot.subplots(figsize=(6, 4), layout="constrained")[1]


def _curve(model: ModelDocument, label: str) -> Curve:
    """Return the curve of a class; raise ModelError if no case has been seen."""
    if label not in model.validation.curves:
        raise ModelError(f"sensitivity is {NO_CASE_SEEN}")
    return model.validation.curves[label]


def trade_off(model: ModelDocument, label: str, ax: Axes) -> Axes:
    """Draw sensitivity and specificity of a watched class, with 95 % bands."""
    curve = _curve(model, label)
    point = _point(model, label)
    for name, colour in (("sensitivity", FIRST), ("specificity", SECOND)):
        band = getattr(curve, name)
        ax.fill_between(
            curve.threshold,
            _floats(band.low),
            _floats(band.high),
            color=colour,
            alpha=0.2,
            lw=0,
        )
        ax.plot(curve.threshold, _floats(band.value), color=colour, label=name)
    if not point.flags_everything:
        ax.axvline(
            point.threshold, color=MARK, linestyle="--", label="threshold in use"
        )
    return _labelled(ax, "threshold: flagged at this score or above", "share")


def roc(model: ModelDocument, label: str, ax: Axes) -> Axes:
    """Sensitivity against non-cases flagged, and the threshold in use."""
    curve = _curve(model, label)
    point = _point(model, label)
    auroc = model.validation.summary[label]["auroc"]
    false = 1 - _floats(curve.specificity.value)
    ax.plot([0, 1], [0, 1], color=MARK, linestyle=":")
    words = f"AUROC {auroc.value:.2f} (95 % CI {auroc.low:.2f} to {auroc.high:.2f})"
    ax.plot(
        [1, *false, 0],
        [1, *_floats(curve.sensitivity.value), 0],
        color=FIRST,
        label=words,
    )
    sensitivity = point["sensitivity"].value
    specificity = point["specificity"].value
    if sensitivity is not None and specificity is not None:
        ax.plot(
            1 - specificity, sensitivity, "o", color=SECOND, label="threshold in use"
        )
    return _labelled(ax, "non-cases flagged (1 - specificity)", "sensitivity")


def calibration(model: ModelDocument, label: str, ax: Axes) -> Axes:
    """Observed share of cases against predicted chance, by tenths of the held-out rows.

    ModelError where the scores have earned no chances.
    """
    figures = model.validation.calibration[label]
    if not figures.earned:
        raise ModelError(
            f"its scores are not probabilities: {figures.reason or 'not calibrated'}"
        )
    predicted = np.array([one.predicted for one in figures.reliability])
    observed = [one.observed.value_and_interval for one in figures.reliability]
    value, low, high = _floats(observed).T
    reach = [value - low, high - value]
    ax.plot([0, 1], [0, 1], color=MARK, linestyle=":", label="as predicted")
    ax.errorbar(
        predicted,
        value,
        reach,
        fmt="o",
        color=FIRST,
        capsize=3,
        label="observed, 95 % CI",
    )
    return _labelled(ax, "predicted chance", "observed share of cases")


def contributions(reasons: pd.DataFrame, ax: Axes) -> Axes:
    """Plot contributions of `Screen.explain` to a score, the largest on top."""
    largest = reasons.head(MOST_FEATURES).iloc[::-1]
    words = [
        f"{name} = {value} {unit or ''}".strip()
        for name, value, unit in zip(
            largest["feature"], largest["value"], largest["unit"], strict=True
        )
    ]
    change = largest["change"]
    ax.barh(words, change, color=np.where(change > 0, SECOND, FIRST))
    ax.axvline(0, color=MARK, linewidth=0.8)
    ax.set_xlabel("change of the score")
    return ax


def history(document: HistoryDocument, ax: Axes) -> Axes:
    """Plot flagged cases of each night by state; of several series their sum."""
    facts = []
    for run in document.runs:
        if run.in_force:
            facts.append({name: getattr(run, name) for name in ("night", *STATES)})
    nights = pd.DataFrame(facts)
    if nights.empty:
        raise ModelError("the ledger has no nights yet")
    by_night = nights.groupby("night").sum()
    below = np.zeros(len(by_night))
    for state, colour in STATES.items():
        height = by_night[state].fillna(0).to_numpy(float)
        ax.bar(
            by_night.index,
            height,
            bottom=below,
            color=colour,
            label=state.replace("_", " "),
        )
        below += height
    rotation = 90 if len(by_night) > 6 else 0
    ax.tick_params(axis="x", rotation=rotation)
    return _labelled(
        ax,
        "night",
        "flagged cases",
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
        ncols=4,
    )


OF_MODEL: dict[str, Callable[[ModelDocument, str, Axes], Axes]] = {
    each.__name__: each for each in (trade_off, roc, calibration)
}
KINDS = (*OF_MODEL, "contributions", "history")


def _point(model: ModelDocument, label: str) -> OperatingPointFacts:
    return next(point for point in model.operating_points if point.label == label)


def _floats(values: object) -> np.ndarray:
    """Figures to draw, gaps where they are undefined."""
    return np.asarray(values, dtype=float)


def _labelled(ax: Axes, x: str, y: str, **legend: Any) -> Axes:
    ax.set(xlabel=x, ylabel=y)
    ax.legend(frameon=False, **legend)
    return ax
