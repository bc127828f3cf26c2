"""Change over nights: control charts with fixed limits, and drift of the scores."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np
from scipy.special import betaln

from screening.schemas.base import Reason
from screening.schemas.history import (
    ControlChart,
    ControlPoint,
    DriftOver,
    Measure,
    ModelApproved,
    NightRun,
    Phase,
    Promotion,
    ThresholdChange,
)
from screening.schemas.reasons import DRIFT_OVER_NIGHTS, OUT_OF_CONTROL
from screening.schemas.run import ScoreCounts

# Distance of the limits from the centre, in standard deviations.
_SIGMAS = 3.0
TAIL = 0.00135
"""Probability beyond a limit on one side, that of three sigmas of a normal law."""

BASELINE = 20
"""Nights that fix centre and limits of a phase; later nights change neither."""

LEAST = 10
"""Smallest number of nights for control limits."""

# Expected events from which three sigmas are exceeded as rarely as in a normal law.
_MANY_EVENTS = 100

# Mean distance of two draws from a normal law, in its standard deviations.
_MEAN_RANGE_OF_TWO = 1.128


@dataclass(frozen=True)
class Limits:
    """Centre and control limits, fixed by the nights of a baseline.

    Parameters
    ----------
    count : float
        Events in the baseline.
    trials : float
        Trials in the baseline, including the events.
    spread : float
        How much more nights differ than chance explains, >= 1: Laney's sigma of z; 1 is
        a p-chart.
    """

    count: float
    trials: float
    spread: float

    @property
    def centre(self) -> float:
        """Share of the baseline."""
        return self.count / self.trials

    def at(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return low and high limits of shares of so many trials, (n_nights,) each.

        They are three sigmas away, or further if chance alone exceeds three sigmas more
        than once in 740 nights because counts or the baseline are small.

        Parameters
        ----------
        sizes : ndarray of shape (n_nights,)
            Whole numbers above 0.
        """
        of_row = self.centre * (1 - self.centre)
        variance = of_row * (1 / sizes + 1 / self.trials)
        reach = _SIGMAS * self.spread * np.sqrt(variance)
        exceeded = _rarely_exceeded(sizes, self.count, self.trials)
        missed = _rarely_exceeded(sizes, self.trials - self.count, self.trials)
        high = np.maximum(self.centre + reach, exceeded)
        low = np.minimum(self.centre - reach, 1 - missed)
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def limits(counts: np.ndarray, sizes: np.ndarray) -> Limits | None:
    """Return the limits that the nights of a baseline fix.

    Parameters
    ----------
    counts, sizes : ndarray of shape (n_nights,)
        Events and trials of each night; nights of size 0 are left out.

    Returns
    -------
    Limits or None
        None for fewer than ``LEAST`` nights.
    """
    counts = counts[sizes > 0]
    sizes = sizes[sizes > 0]
    if len(sizes) < LEAST:
        return None
    count = float(counts.sum())
    trials = float(sizes.sum())
    share = count / trials
    spread = 1.0
    if 0 < share < 1:
        error = np.sqrt(share * (1 - share) / sizes)
        z = (counts / sizes - share) / error
        # Patients who stay make neighboring nights similar: moving ranges alone would
        # underestimate the spread.
        moving_range = float(np.abs(np.diff(z)).mean()) / _MEAN_RANGE_OF_TWO
        spread = max(1.0, moving_range, float(z.std(ddof=1)))
    return Limits(count, trials, spread)


def _rarely_exceeded(sizes: np.ndarray, count: float, trials: float) -> np.ndarray:
    """Return the share that chance exceeds with probability `TAIL` at most.

    Quantile of the beta-binomial law of the events in `sizes` trials, after `count`
    events in `trials` trials (Jeffreys' prior); 0 if many events are expected.
    """
    a = count + 0.5
    b = trials - count + 0.5
    is_few = sizes * a / (a + b) < _MANY_EVENTS
    few = np.where(is_few, sizes, 0)
    distinct, number = np.unique(few, return_inverse=True)
    mean = distinct * a / (a + b)
    # Beyond this nothing is left, for any rate.
    reach = 12 * np.sqrt(mean * (1 + distinct / trials)) + 40
    furthest = np.minimum(distinct, np.ceil(mean + reach))
    events = np.arange(furthest.max() + 1)
    mass = beta_binomial_mass(events, distinct[:, None], a, b)
    is_reached = np.cumsum(mass, axis=1) >= 1 - TAIL
    share = is_reached.argmax(axis=1) / np.maximum(distinct, 1)
    return np.asarray(share[number])


def beta_binomial_mass(
    events: np.ndarray, trials: np.ndarray, a: float, b: float
) -> np.ndarray:
    """Return the probability of so many events under the beta-binomial law.

    As `scipy.stats.betabinom.pmf`, whose import takes longer than a history.

    Parameters
    ----------
    events, trials : ndarray of shapes that broadcast
        Whole numbers; more events than trials have probability 0.
    a, b : float, > 0
    """
    is_possible = events <= trials
    others = np.where(is_possible, trials - events, 0)
    log_choices = -np.log(trials + 1) - betaln(others + 1, events + 1)
    log_mass = log_choices + betaln(events + a, others + b) - betaln(a, b)
    return np.where(is_possible, np.exp(log_mass), 0.0)


def _missing_values(run: NightRun) -> tuple[int, int]:
    """Return the number of missing values of a night, and of all its values."""
    if not run.missing:
        return 0, 0
    return run.missing.missing, run.missing.values


_CountNight: TypeAlias = Callable[[NightRun], tuple[int, int]]
"""Returns the events and the trials of a night."""
_CHARTED_COUNTS: dict[Measure, _CountNight] = {
    "workload": lambda run: (run.flagged, run.read),
    "yield": lambda run: (run.ppv.found, run.ppv.judged),
    "refused": lambda run: (run.refused, run.read),
    "missing": _missing_values,
}


def control_charts(
    nights: Sequence[NightRun],
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion] = (),
    approvals: Sequence[ModelApproved] = (),
) -> list[ControlChart]:
    """Return the control charts of a series that have anything to count.

    Parameters
    ----------
    nights : sequence of NightRun
        Nights in force, in order.
    changes : sequence of ThresholdChange
    promotions : sequence of Promotion
        Each begins a new phase, as does any other change of the model.
    approvals : sequence of ModelApproved
        An approved model has the machines and the threshold of its draft, so that its
        nights stay in the phase of the draft.
    """
    phases_of_nights = _split_by_model(nights, changes, promotions, approvals)
    charts = []
    for measure, count_night in _CHARTED_COUNTS.items():
        phases = [_phase(began, count_night, runs) for began, runs in phases_of_nights]
        points: list[ControlPoint] = []
        for phase in phases:
            points.extend(phase.points)
        if any(point.of for point in points):
            signals = [_reason(measure, point) for point in points if point.outside]
            charts.append(ControlChart(measure=measure, phases=phases, signals=signals))
    return charts


def _split_by_model(
    nights: Sequence[NightRun],
    changes: Sequence[ThresholdChange],
    promotions: Sequence[Promotion],
    approvals: Sequence[ModelApproved],
) -> list[tuple[str, list[NightRun]]]:
    """Split nights by model, in order, with how each phase began."""
    drafts = {each.model_after[:12]: each.model_before[:12] for each in approvals}

    def draft_of(model: str) -> str:
        while model in drafts:
            model = drafts[model]
        return model

    rethresholded = {draft_of(change.model_after[:12]) for change in changes}
    promoted = {draft_of(promotion.model_after[:12]) for promotion in promotions}
    phases: list[tuple[str, list[NightRun]]] = []
    for model, model_nights in groupby(nights, key=lambda night: draft_of(night.model)):
        runs = list(model_nights)
        if not phases:
            began = "first night"
        else:
            _, runs_before = phases[-1]
            other_method = runs_before[-1].recipe != runs[0].recipe
            if model in promoted and other_method:
                began = "model promoted, another method"
            elif model in promoted:
                began = "model promoted"
            elif other_method:
                began = "method changed"
            elif model in rethresholded:
                began = "threshold changed"
            else:
                began = "model or threshold changed"
        phases.append((began, runs))
    return phases


def _phase(began: str, count_night: _CountNight, nights: Sequence[NightRun]) -> Phase:
    """Return the points of one phase, with limits fixed by its first nights."""
    counted = [count_night(night) for night in nights]
    counts, sizes = np.array(counted, dtype=float).T
    early = np.flatnonzero(sizes)[:BASELINE]
    fixed = limits(counts[early], sizes[early])
    lows: list[float | None] = [None] * len(nights)
    highs: list[float | None] = [None] * len(nights)
    if fixed is not None:
        low, high = fixed.at(np.maximum(sizes, 1))
        lows = low.tolist()
        highs = high.tolist()
    points = []
    for i, night in enumerate(nights):
        n, of = counted[i]
        point = ControlPoint(
            night=night.night, count=n, of=of, share=None, low=None, high=None
        )
        if of:
            point = point.replace(share=n / of, low=lows[i], high=highs[i])
        points.append(point)
    phase = Phase(
        began=began,
        baseline=len(early),
        frozen=len(early) == BASELINE,
        centre=None,
        spread=None,
        points=points,
    )
    if fixed is None:
        return phase
    return phase.replace(centre=fixed.centre, spread=fixed.spread)


def _reason(measure: Measure, point: ControlPoint) -> Reason:
    """Return the reason for attention of a point outside its limits."""
    assert point.share is not None
    assert point.low is not None
    assert point.high is not None
    if point.share > point.high:
        side = "above"
        limit = point.high
    else:
        side = "below"
        limit = point.low
    return OUT_OF_CONTROL[measure](
        figure=point.share,
        threshold=limit,
        night=point.night,
        percent=100 * point.share,
        side=side,
        limit=100 * limit,
    )


# Cells of the scores whose counts are compared.
_CELLS = 20
# Permutations: the few first, the many only if their p-value is small.
_FEW_DRAWS = 999
_MANY_DRAWS = 9_999
# p-value of the few draws above which the many could only confirm that nothing changed.
_NO_CHANGE = 0.05
# Fixed, since the draws belong to the test: equal counts always give the same p-value.
_SEED = 20


@dataclass(frozen=True)
class Shift:
    """Difference of two counts of scores.

    Parameters
    ----------
    distance : float
        Largest difference of their cumulative shares (Kolmogorov and Smirnov's).
    p : float
        p-value of Cramer and von Mises' statistic, by permutation.
    higher : bool
        The later scores are higher on the whole.
    """

    distance: float
    p: float
    higher: bool


def inner_edges(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return edges between cells of about equal weight, ascending and distinct.

    There are 19 at most. `weights` (n_rows,) are 1 by default.
    """
    order = np.argsort(scores, kind="stable")
    weight = np.ones(len(scores)) if weights is None else weights
    reached = np.cumsum(weight[order])
    inner = np.arange(1, _CELLS) / _CELLS * reached[-1]
    at = np.minimum(np.searchsorted(reached, inner), len(order) - 1)
    edges = np.unique(scores[order[at]])
    return edges[edges < scores.max()]


def score_cells(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the cell of each score, 0 to len(edges); an edge is in the cell below."""
    return np.searchsorted(edges, scores, side="left")


def shift(
    before: Sequence[int] | np.ndarray, later: Sequence[int] | np.ndarray
) -> Shift | None:
    """Test whether two counts over the same ordered cells are of one distribution.

    A permutation test with up to 9,999 draws: p is exact, ties and cells included, for
    independent units (count a patient once). Cramer and von Mises' sum of squared
    differences detects half a standard deviation more often than the largest difference
    does (`benchmarks/drift.py`).

    Parameters
    ----------
    before, later : array-like of int, shape (n_cells,)

    Returns
    -------
    Shift or None
        None if one of them counts nothing.
    """
    before = np.asarray(before, np.int64)
    later = np.asarray(later, np.int64)
    m = int(before.sum())
    n = int(later.sum())
    if not m or not n:
        return None
    gap = np.cumsum(later / n - before / m)[:-1]
    whole = before + later
    # Equal permutations differ in the last digits only.
    least = np.square(gap).sum() * (1 - 1e-9) - 1e-15
    p = 1.0
    for draws in (_FEW_DRAWS, _MANY_DRAWS):
        rng = np.random.default_rng(_SEED)
        dealt = rng.multivariate_hypergeometric(
            whole, n, size=draws, method="marginals"
        )
        differences = dealt / n - (whole - dealt) / m
        dealt_gaps = np.cumsum(differences, axis=1)[:, :-1]
        distances = np.square(dealt_gaps).sum(axis=1)
        n_extreme = np.count_nonzero(distances >= least)
        p = float((1 + n_extreme) / (1 + draws))
        if p > _NO_CHANGE:
            break
    distance = float(np.abs(gap).max(initial=0.0))
    return Shift(distance, p, bool(gap.sum() < 0))


RECENT_NIGHTS = 14
"""Recent nights; their patients together are compared with the training cohort."""

EARLIER_NIGHTS = 90
"""Nights before these that they are compared with too."""

MIN_EARLIER = 20
"""Smallest number of earlier nights for a comparison with them."""

# p-value up to which drift over nights is reported.
ALARM = 0.005
# Difference of cumulative shares from which drift over nights is reported.
_MIN_DISTANCE = 0.05
# Patients below which drift over nights is not tested.
_MIN_PATIENTS = 20


def drift_over(
    nights: Sequence[ScoreCounts], earlier: Sequence[ScoreCounts] = ()
) -> DriftOver | None:
    """Test the scores of recent nights against those held out in training.

    A patient who stays for a week is counted once, by the latest score. Nights of
    tables without a patient column cannot be combined and are left out. With enough
    nights before, only a difference from these is a reason for attention: a ward may
    always have other patients than training.

    Parameters
    ----------
    nights : sequence of ScoreCounts
        Under the model now in use, in order.
    earlier : sequence of ScoreCounts
        The nights before, under the same model, in order.

    Returns
    -------
    DriftOver or None
        None without such nights.
    """
    named = [night for night in nights if night.who]
    if not named:
        return None
    cell_of_patient = _latest_cells(named)
    training = named[-1].known
    n_patients = len(cell_of_patient)
    recent = np.bincount([*cell_of_patient.values()], minlength=len(training))
    tested = shift(training, recent)
    if tested is None or n_patients < _MIN_PATIENTS:
        return DriftOver(
            nights=len(named),
            patients=n_patients,
            distance=None,
            p=None,
            reason=None,
        )
    compared = tested
    others = "those of training did when they were held out"
    if len(earlier) >= MIN_EARLIER:
        # A patient in both windows counts in the later one.
        before = _latest_cells(earlier, left_out=cell_of_patient)
        counted = np.bincount([*before.values()], minlength=len(training))
        compared = shift(counted, recent) or tested
        others = f"those of the {len(earlier)} nights before"
    reason = None
    if compared.p <= ALARM and compared.distance >= _MIN_DISTANCE:
        reason = _drift_reason(compared, n_patients, len(named), others)
    return DriftOver(
        nights=len(named),
        patients=n_patients,
        distance=compared.distance,
        p=compared.p,
        reason=reason,
    )


def _latest_cells(
    nights: Sequence[ScoreCounts], left_out: Container[int] = ()
) -> dict[int, int]:
    """Return the cell of the latest score of each patient, by hash."""
    cell_of_patient: dict[int, int] = {}
    for night in nights:
        cell_of_patient.update(zip(night.who, night.cell, strict=True))
    return {
        unit: cell for unit, cell in cell_of_patient.items() if unit not in left_out
    }


def _drift_reason(tested: Shift, n_patients: int, n_nights: int, others: str) -> Reason:
    nights = "nights" if n_nights > 1 else "night"
    direction = "higher" if tested.higher else "lower"
    return DRIFT_OVER_NIGHTS(
        figure=tested.p,
        threshold=ALARM,
        n_patients=n_patients,
        nights=f"{n_nights} {nights}",
        direction=direction,
        others=others,
        distance=tested.distance,
    )
