"""Control charts of the nights against limits fixed by early ones, and drift over the last nights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from screening.metrics.control import BASELINE, limits, shift
from screening.schemas.base import Reason
from screening.schemas.history import (
    ControlChart,
    ControlPoint,
    DriftOver,
    Measure,
    NightRun,
    Phase,
    Promotion,
    ThresholdChange,
)
from screening.schemas.run import ScoreCounts


class _Share(NamedTuple):
    words: str
    share: Callable[[NightRun], tuple[int, int]]  # Events, and what they are a share of.
    remedy: str


SHARES: dict[Measure, _Share] = {
    "workload": _Share(
        "of the rows read were flagged",
        lambda run: (run.flagged, run.read),
        "Compare the patients and the table of these nights with earlier ones before changing a threshold.",
    ),
    "yield": _Share(
        "of the cases judged had the condition",
        lambda run: (run.ppv.found, run.ppv.judged),
        "See whether other cases were judged than before, or by other people; then look at the model.",
    ),
    "refused": _Share(
        "of the rows read were refused",
        lambda run: (run.refused, run.read),
        "Have the source look at the table; each night's page has the reasons.",
    ),
    "missing": _Share(
        "of the values were missing",
        lambda run: (run.missing.missing, run.missing.values) if run.missing else (0, 0),
        "Have the source look for a column that no longer arrives; each night's page lists them.",
    ),
}


def control_charts(
    nights: Sequence[NightRun], changes: Sequence[ThresholdChange], promotions: Sequence[Promotion] = ()
) -> list[ControlChart]:
    """The charts of a series that have anything to count, by its nights in force and its promotions."""
    rechosen, promoted = ({change.model_after[:12] for change in some} for some in (changes, promotions))
    parted: list[tuple[str, list[NightRun]]] = []
    for model, of_model in groupby(nights, key=lambda night: night.model):
        runs = list(of_model)
        other_method = bool(parted) and parted[-1][1][-1].recipe != runs[0].recipe
        if not parted:
            began = "first night"
        elif model in promoted:
            began = "model promoted" + (", another method" if other_method else "")
        elif other_method:
            began = "method changed"
        else:
            began = "threshold changed" if model in rechosen else "model or threshold changed"
        parted.append((began, runs))
    charts = []
    for measure, share in SHARES.items():
        phases = [_phase(began, share.share, runs) for began, runs in parted]
        points = [point for phase in phases for point in phase.points]
        if any(point.of for point in points):
            signals = [_reason(measure, share, point) for point in points if point.outside]
            charts.append(ControlChart(measure=measure, phases=phases, signals=signals))
    return charts


def _phase(began: str, share: Callable[[NightRun], tuple[int, int]], nights: Sequence[NightRun]) -> Phase:
    counted = [share(night) for night in nights]
    counts, sizes = np.array(counted, dtype=float).T
    early = np.flatnonzero(sizes)[:BASELINE]
    usual = limits(counts[early], sizes[early])
    ends = np.array(usual.at(np.maximum(sizes, 1))).T.tolist() if usual else [(None, None)] * len(nights)
    return Phase(
        began=began,
        baseline=len(early),
        frozen=len(early) == BASELINE,
        centre=usual.centre if usual else None,
        spread=usual.spread if usual else None,
        points=[
            ControlPoint(night=night.night, count=n, of=of, share=n / of, low=low, high=high)
            if of
            else ControlPoint(night=night.night, count=n, of=of, share=None, low=None, high=None)
            for night, (n, of), (low, high) in zip(nights, counted, ends, strict=True)
        ],
    )


def _reason(measure: Measure, share: _Share, point: ControlPoint) -> Reason:
    assert point.share is not None and point.low is not None and point.high is not None, "it is outside"
    side, bound = ("above", point.high) if point.share > point.high else ("below", point.low)
    words = f"On {point.night} {100 * point.share:.3g}% {share.words}, "
    words += f"{side} the control limit of {100 * bound:.3g}%."
    return Reason(f"{measure}_out_of_control", words, None, point.share, bound, share.remedy)


RECENT_NIGHTS = 14
"""Nights whose patients are compared with the training cohort as one."""

ALARM = 0.005
SMALLEST = 0.05
FEWEST = 20


def drift_over(nights: Sequence[ScoreCounts]) -> DriftOver | None:
    """Test the scores of recent nights, under the model now in use, against those held out in training.

    A patient who stays for a week is one patient and not seven: the latest score counts. Nights of tables
    whose rows no column names cannot be put together and are left out; None where no other is left.
    """
    named = [night for night in nights if night.who]
    if not named:
        return None
    cells = {who: cell for night in named for who, cell in zip(night.who, night.cell, strict=True)}
    training, n_patients = named[-1].known, len(cells)
    tested = shift(training, np.bincount(list(cells.values()), minlength=len(training)))
    if tested is None or n_patients < FEWEST:
        return DriftOver(nights=len(named), patients=n_patients, distance=None, p=None, reason=None)
    reason = None
    if tested.p <= ALARM and tested.distance >= SMALLEST:
        reason = Reason(
            "drift_over_nights",
            f"The {n_patients} patients of the last {len(named)} night{'s' * (len(named) > 1)}, each counted "
            f"once, score {'higher' if tested.higher else 'lower'} on the whole than those of training did "
            f"when they were held out (largest difference of shares {tested.distance:.2f}): the patients or "
            "the measurements have changed.",
            figure=tested.p,
            threshold=ALARM,
            remedy="Ask the source what has changed since; if the patients are other ones now, train again.",
        )
    return DriftOver(
        nights=len(named), patients=n_patients, distance=tested.distance, p=tested.p, reason=reason
    )
