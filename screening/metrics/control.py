"""Change over nights: control charts against limits fixed by early nights, and drift of the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.stats import betabinom

from screening.monitoring.tests import gaps
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

SIGMAS = 3.0
TAIL = 0.00135
"""Chance beyond a limit on one side: what three sigmas leave of a normal distribution."""

BASELINE = 20
"""Nights that fix centre and limits of a phase; what comes later changes neither."""

LEAST = 10
"""Nights below which there are no limits yet."""

MANY = 100
"""Expected events from which on three sigmas are as seldom passed as of a normal distribution."""

# Mean distance of two draws from a normal distribution, in its standard deviations.
RANGE_OF_TWO = 1.128


@dataclass(frozen=True)
class Limits:
    """Centre and limits, as the nights of a baseline fix them."""

    count: float  # events in the baseline
    of: float  # what they are a share of
    # >= 1, Laney's sigma of z: how much more the nights differ than chance explains; 1 is a p-chart
    spread: float

    @property
    def centre(self) -> float:
        """Share of the baseline."""
        return self.count / self.of

    def at(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Low and high limit of shares of so many, `sizes` (n_nights,) being whole numbers above 0.

        Three sigmas, or where chance alone passes them more than once in 740 nights, since counts are small
        or the baseline is, the bound that it passes so seldom.
        """
        variance = self.centre * (1 - self.centre) * (1 / sizes + 1 / self.of)
        reach = SIGMAS * self.spread * np.sqrt(variance)
        high = np.maximum(
            self.centre + reach, _seldom_above(sizes, self.count, self.of)
        )
        low = np.minimum(
            self.centre - reach, 1 - _seldom_above(sizes, self.of - self.count, self.of)
        )
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def limits(counts: np.ndarray, sizes: np.ndarray) -> Limits | None:
    """Centre and spread of a baseline, from events and what they are a share of, (n_nights,) each.

    Nights of size 0 are left out; None below `LEAST` nights.
    """
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]
    if len(sizes) < LEAST:
        return None
    count, of = float(counts.sum()), float(sizes.sum())
    share = count / of
    spread = 1.0
    if 0 < share < 1:
        z = (counts / sizes - share) / np.sqrt(share * (1 - share) / sizes)
        # Patients who stay make neighbours alike: moving ranges alone would then take too little for usual.
        spread = max(
            1.0, float(np.abs(np.diff(z)).mean()) / RANGE_OF_TWO, float(z.std(ddof=1))
        )
    return Limits(count, of, spread)


def _seldom_above(sizes: np.ndarray, count: float, of: float) -> np.ndarray:
    """The share that chance exceeds with probability `TAIL` at most, its own rate known from a baseline.

    Quantile of the beta-binomial distribution: how many of `size`, after `count` of `of` (Jeffreys' prior);
    0 where `MANY` or more are expected.
    """
    a, b = count + 0.5, of - count + 0.5
    distinct, number = np.unique(
        np.where(sizes * a / (a + b) < MANY, sizes, 0), return_inverse=True
    )
    mean = distinct * a / (a + b)
    # So far out that nothing is left beyond, whatever the rate; `betabinom.ppf` looks at one night at a time.
    furthest = np.minimum(
        distinct, np.ceil(mean + 12 * np.sqrt(mean * (1 + distinct / of)) + 40)
    )
    mass = betabinom.pmf(np.arange(furthest.max() + 1), distinct[:, None], a, b)
    reached = np.argmax(np.cumsum(mass, axis=1) >= 1 - TAIL, axis=1)
    return np.asarray((reached / np.maximum(distinct, 1))[number])


class _Share(NamedTuple):
    words: str
    share: Callable[
        [NightRun], tuple[int, int]
    ]  # Events, and what they are a share of.
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
        lambda run: (
            (run.missing.missing, run.missing.values) if run.missing else (0, 0)
        ),
        "Have the source look for a column that no longer arrives; each night's page lists them.",
    ),
}


def control_charts(
    nights: Sequence[NightRun],
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion] = (),
) -> list[ControlChart]:
    """The charts of a series that have anything to count, by its nights in force and its promotions."""
    rechosen, promoted = (
        {change.model_after[:12] for change in some} for some in (changes, promotions)
    )
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
            began = (
                "threshold changed"
                if model in rechosen
                else "model or threshold changed"
            )
        parted.append((began, runs))
    charts = []
    for measure, share in SHARES.items():
        phases = [_phase(began, share.share, runs) for began, runs in parted]
        points = [point for phase in phases for point in phase.points]
        if any(point.of for point in points):
            signals = [
                _reason(measure, share, point) for point in points if point.outside
            ]
            charts.append(ControlChart(measure=measure, phases=phases, signals=signals))
    return charts


def _phase(
    began: str, share: Callable[[NightRun], tuple[int, int]], nights: Sequence[NightRun]
) -> Phase:
    counted = [share(night) for night in nights]
    counts, sizes = np.array(counted, dtype=float).T
    early = np.flatnonzero(sizes)[:BASELINE]
    usual = limits(counts[early], sizes[early])
    ends = (
        np.array(usual.at(np.maximum(sizes, 1))).T.tolist()
        if usual
        else [(None, None)] * len(nights)
    )
    return Phase(
        began=began,
        baseline=len(early),
        frozen=len(early) == BASELINE,
        centre=usual.centre if usual else None,
        spread=usual.spread if usual else None,
        points=[
            ControlPoint(
                night=night.night, count=n, of=of, share=n / of, low=low, high=high
            )
            if of
            else ControlPoint(
                night=night.night, count=n, of=of, share=None, low=None, high=None
            )
            for night, (n, of), (low, high) in zip(nights, counted, ends, strict=True)
        ],
    )


def _reason(measure: Measure, share: _Share, point: ControlPoint) -> Reason:
    assert (
        point.share is not None and point.low is not None and point.high is not None
    ), "it is outside"
    side, bound = (
        ("above", point.high) if point.share > point.high else ("below", point.low)
    )
    words = f"On {point.night} {100 * point.share:.3g}% {share.words}, "
    words += f"{side} the control limit of {100 * bound:.3g}%."
    return Reason(
        f"{measure}_out_of_control", words, None, point.share, bound, share.remedy
    )


CELLS = 20
DRAWS = 999, 9_999
PLAIN = 0.05
"""Of the fewer draws: above it the many would only say more exactly that nothing is the matter."""
# The draws are part of the test, not of its data: the same counts always give the same p.
SEED = 20


@dataclass(frozen=True)
class Shift:
    """How far two counts of scores lie apart."""

    distance: float  # largest difference of their cumulative shares (Kolmogorov and Smirnov's)
    p: float  # of Cramer and von Mises' statistic, by permutation
    higher: bool  # whether the later ones lie higher on the whole


def inner_edges(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Edges between cells of about equal weight, sorted, none twice, at most `CELLS` - 1 of them."""
    order = np.argsort(scores, kind="stable")
    weight = np.ones(len(scores)) if weights is None else weights
    reached = np.cumsum(weight[order])
    at = np.searchsorted(reached, np.arange(1, CELLS) / CELLS * reached[-1])
    edges = np.unique(scores[order][np.minimum(at, len(order) - 1)])
    return edges[edges < scores.max()]


def cells_of(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The cell each score lies in, 0 to len(edges); an edge belongs to the cell below it."""
    return np.searchsorted(edges, scores, side="left")


def shift(
    known: Sequence[int] | np.ndarray, counted: Sequence[int] | np.ndarray
) -> Shift | None:
    """Test whether two counts over the same ordered cells come from one distribution; None without any.

    Those counted are dealt anew between the two sides, 9,999 times where it matters: p is exact, ties and
    cells included, for independent units (count a patient once). Cramer and von Mises' sum of squared
    differences sees half a standard deviation more often than the largest difference does
    (`benchmarks/drift.py`).
    """
    before, later = np.asarray(known, np.int64), np.asarray(counted, np.int64)
    m, n = int(before.sum()), int(later.sum())
    if not m or not n:
        return None
    gap, whole, p = gaps(before, later)[:-1], before + later, 1.0
    # Equal deals differ in the last digits only.
    least = np.square(gap).sum() * (1 - 1e-9) - 1e-15
    for draws in DRAWS:
        rng = np.random.default_rng(SEED)
        dealt = rng.multivariate_hypergeometric(
            whole, n, size=draws, method="marginals"
        )
        dealt_gaps = np.cumsum(dealt / n - (whole - dealt) / m, axis=1)[:, :-1]
        p = float(
            (1 + np.count_nonzero(np.square(dealt_gaps).sum(axis=1) >= least))
            / (1 + draws)
        )
        if p > PLAIN:
            break
    return Shift(float(np.abs(gap).max(initial=0.0)), p, bool(gap.sum() < 0))


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
    cells = {
        who: cell
        for night in named
        for who, cell in zip(night.who, night.cell, strict=True)
    }
    training, n_patients = named[-1].known, len(cells)
    tested = shift(training, np.bincount(list(cells.values()), minlength=len(training)))
    if tested is None or n_patients < FEWEST:
        return DriftOver(
            nights=len(named), patients=n_patients, distance=None, p=None, reason=None
        )
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
        nights=len(named),
        patients=n_patients,
        distance=tested.distance,
        p=tested.p,
        reason=reason,
    )
