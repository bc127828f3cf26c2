"""Control charts of the nights against limits fixed by early ones, and drift over the last nights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(frozen=True)
class _Share:
    """What a chart counts on a night, and how that is said."""

    words: str
    count: Callable[[NightRun], tuple[int, int]]
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
    used: Sequence[NightRun], changes: Sequence[ThresholdChange], promotions: Sequence[Promotion] = ()
) -> list[ControlChart]:
    """The charts of a series.

    `used`: the runs in force, in order of time, as the history tells them.
    `changes`: changes of threshold that the trail holds.
    `promotions`: those of this series.
    Gives those that have anything to count, in the order of `SHARES`.
    """
    rechosen, promoted = ({each.model_after[:12] for each in some} for some in (changes, promotions))
    parts = list(_phases(used, rechosen, promoted))
    charts = []
    for measure, share in SHARES.items():
        phases = [
            _phase(began, [run.night for run in mine], [*map(share.count, mine)]) for began, mine in parts
        ]
        points = [point for phase in phases for point in phase.points]
        if any(point.of for point in points):
            signals = [_reason(measure, share, point) for point in points if point.outside]
            charts.append(ControlChart(measure=measure, phases=phases, signals=signals))
    return charts


def _phases(
    used: Sequence[NightRun], rechosen: set[str], promoted: set[str]
) -> Iterator[tuple[str, Sequence[NightRun]]]:
    """Nights under one model and threshold, with what was new on the first of them."""
    starts = [n for n, (one, two) in enumerate(pairwise(used), start=1) if one.model != two.model]
    for start, stop in pairwise([0, *starts, len(used)] if used else []):
        first, before = used[start], used[max(start - 1, 0)]
        if not start:
            began = "first night"
        elif first.model in promoted:
            began = "model promoted" + (", another method" if first.recipe != before.recipe else "")
        elif first.recipe != before.recipe:
            began = "method changed"
        else:
            began = "threshold changed" if first.model in rechosen else "model or threshold changed"
        yield began, used[start:stop]


def _phase(began: str, nights: Sequence[str], counted: Sequence[tuple[int, int]]) -> Phase:
    counts, sizes = np.array(counted, dtype=float).reshape(-1, 2).T
    early = np.flatnonzero(sizes)[:BASELINE]
    usual = limits(counts[early], sizes[early])
    lows: list[float | None] = [None] * len(nights)
    highs = lows
    if usual is not None:
        lows, highs = (
            [float(end) if size else None for end, size in zip(ends, sizes, strict=True)]
            for ends in usual.at(np.maximum(sizes, 1))
        )
    return Phase(
        began=began,
        baseline=len(early),
        frozen=len(early) == BASELINE,
        centre=usual.centre if usual else None,
        spread=usual.spread if usual else None,
        points=[
            ControlPoint(
                night=night, count=count, of=of, share=count / of if of else None, low=low, high=high
            )
            for night, (count, of), low, high in zip(nights, counted, lows, highs, strict=True)
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


def drift_over(nights: Sequence[ScoreCounts | None]) -> DriftOver | None:
    """Test the scores of recent nights, under the model now in use, against those held out in training.

    A patient who stays for a week is one patient and not seven: the latest score counts. Nights from before
    hashes were kept, or of tables whose rows no column names, cannot be put together and are left out.

    `nights`: of one model, oldest first. Its reason is None where there is no alarm; None where no
    night can be put with others.
    """
    kept = [night for night in nights if night is not None and night.who]
    if not kept:
        return None
    latest: dict[int, int] = {}
    for night in kept:
        latest.update(zip(night.who, night.cell, strict=True))
    known, patients = kept[-1].known, len(latest)
    found = shift(known, np.bincount(list(latest.values()), minlength=len(known)))
    if found is None or patients < FEWEST:
        return DriftOver(nights=len(kept), patients=patients, distance=None, p=None, reason=None)
    reason = None
    if found.p <= ALARM and found.distance >= SMALLEST:
        reason = Reason(
            "drift_over_nights",
            f"The {patients} patients of the last {len(kept)} night{'s' * (len(kept) > 1)}, each counted "
            f"once, score {'higher' if found.higher else 'lower'} on the whole than those of training did "
            f"when they were held out (largest difference of shares {found.distance:.2f}): the patients or "
            "the measurements have changed.",
            figure=found.p,
            threshold=ALARM,
            remedy="Ask the source what has changed since; if the patients are other ones now, train again.",
        )
    return DriftOver(nights=len(kept), patients=patients, distance=found.distance, p=found.p, reason=reason)
