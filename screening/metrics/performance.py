"""Performance of scores on labelled rows: rates, trade-off curve, ranking.

Predictive values are those at the place of use: at its prevalence, and at the ends of
the range of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from screening.errors import UsageError
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures import Rates, Table, evaluate, evaluate_rates, figures_in
from screening.metrics.groups import group_codes
from screening.metrics.intervals import rate_interval
from screening.metrics.tally import ThresholdCounts, rate_bands, spaced_thresholds
from screening.schemas.base import UNDEFINED, Estimate, PopulationFigures
from screening.schemas.figures import (
    AtPrevalence,
    JudgedPopulation,
    Observed,
    OperatingPoint,
)
from screening.schemas.validation import Band, Confusion, Curve, PerClass, Predictive

# Youden's index from which the prevalence can be estimated from the flag rate.
_MIN_YOUDEN = 0.2


class LabelledRows(NamedTuple):
    """Checked scores and labels.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,) or None
        Group of each row; None if rows are independent.
    n_groups : int or None
    """

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    n_groups: int | None


def check_rows(
    scores: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    both: bool = False,
) -> LabelledRows:
    """Check scores, labels and groups.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
    y : array-like of shape (n_rows,)
        True or 1 for positive rows.
    groups : array-like of shape (n_rows,), optional
    both : bool
        Both classes are needed.

    Raises
    ------
    ValueError
        If shapes differ or a score is not finite.
    UsageError
        If `both` and there are no positive or no negative rows.
    """
    scores = np.asarray(scores, float)
    positive = np.asarray(y) == 1
    if scores.ndim != 1 or positive.shape != scores.shape:
        raise ValueError(
            f"scores {scores.shape} and labels {positive.shape} must both have shape "
            "(n_rows,)"
        )
    n_groups = None
    if groups is not None:
        groups = np.asarray(groups)
        if len(groups) != len(scores):
            raise ValueError(f"{len(groups)} groups for {len(scores)} scores")
        n_groups = len(np.unique(groups))
    if not np.isfinite(scores).all():
        raise ValueError(f"{(~np.isfinite(scores)).sum()} scores are not finite")
    if both and (positive.all() or not positive.any()):
        raise UsageError(
            f"{positive.sum()} positive and {(~positive).sum()} negative rows; a "
            "threshold needs some of both"
        )
    return LabelledRows(scores, positive, group_codes(groups), n_groups)


def figures_at_prevalence(
    sensitivity: Estimate,
    specificity: Estimate,
    prevalence: float,
    chance_at_threshold: float | None = None,
) -> dict[str, Estimate]:
    """Return the figures of an operating point with these rates, at a prevalence.

    A rate is undefined if its class is absent, and so is what depends on it. So is what
    needs a calibrated chance at the threshold, without one.
    """
    stated = Estimate(prevalence, prevalence, prevalence)
    expected = Rates(sensitivity, specificity, stated, chance_at_threshold)
    return evaluate_rates(expected, figures_in("operating_point"))


def performance(
    scores: ArrayLike,
    y: ArrayLike,
    threshold: float,
    groups: ArrayLike | None = None,
    chance_at_threshold: float | None = None,
) -> Observed:
    """Return what a threshold that was chosen elsewhere does on these labelled rows.

    One class may be absent: a figure that needs it is undefined. Parameters as for
    ``check_rows`` and ``EvaluatedRows``.
    """
    scores, positive, _, _ = check_rows(scores, y, groups)
    group_of_row = None if groups is None else np.asarray(groups)
    rows = EvaluatedRows(
        scores,
        positive,
        float(threshold),
        group_of_row,
        chance_at_threshold=chance_at_threshold,
    )
    return Observed(
        **vars(population_of(rows, "labelled_night")),
        **vars(rows.two_by_two),
        threshold=rows.threshold,
    )


def population_of(rows: EvaluatedRows, table: Table) -> JudgedPopulation:
    """Return the figures of a table of some rows, and how many rows they are."""
    n_positive = int(rows.positive.sum())
    return JudgedPopulation(
        figures=evaluate(rows, figures_in(table)),
        n_positive=n_positive,
        n_negative=len(rows.positive) - n_positive,
        n_groups=None if rows.groups is None else len(np.unique(rows.groups)),
        prevalence=n_positive / max(len(rows.positive), 1),
    )


def curve(
    scores: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    seed: int = 0,
    points: int = 200,
    prevalence: float | None = None,
) -> Curve:
    """Return rates at about `points` thresholds, equally spaced in rank per class.

    Bands are pointwise 95 % intervals at a threshold fixed beforehand: Wilson's, for
    the effective number of rows if they come in groups. PPV, NPV and flag rate are
    those at `prevalence` (these rows' own if None); they are None where nothing, or
    everything, is flagged. Other parameters and errors as for ``check_rows`` with both
    classes.
    """
    scores, positive, codes, _ = check_rows(scores, y, groups, both=True)
    thresholds = spaced_thresholds(scores, positive, points)
    counts = ThresholdCounts(scores, positive, codes, thresholds, seed)
    hits, alarms = counts.counts
    share = float(positive.mean()) if prevalence is None else prevalence
    hit = hits / hits[0]
    false = alarms / alarms[0]
    hit_low, hit_high = rate_bands(counts, True)
    false_low, false_high = rate_bands(counts, False)
    flagged = share * hit + (1 - share) * false
    clear = 1 - false
    unflagged = share * (1 - hit) + (1 - share) * clear
    with np.errstate(invalid="ignore"):
        ppv = share * hit / flagged
        npv = (1 - share) * clear / unflagged
    return Curve(
        threshold=thresholds.tolist(),
        sensitivity=_band(hit, hit_low, hit_high),
        specificity=_band(clear, 1 - false_high, 1 - false_low),
        flag_rate=_none_if_not_finite(flagged),
        ppv=_none_if_not_finite(ppv),
        npv=_none_if_not_finite(npv),
    )


def _band(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Band:
    return Band(
        value=_none_if_not_finite(values),
        low=_none_if_not_finite(low),
        high=_none_if_not_finite(high),
    )


def _none_if_not_finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def per_class(
    target: np.ndarray, predicted: np.ndarray, classes: Sequence[str]
) -> tuple[Confusion, list[PerClass]]:
    """Return the confusion matrix, true class by row, and figures of each class.

    Parameters
    ----------
    target, predicted : int ndarray of shape (n_rows,)
        Class numbers.
    classes : sequence of str
        Names of the classes.
    """
    k = len(classes)
    cells = np.bincount(target * k + predicted, minlength=k * k)
    counts = cells.reshape(k, k)
    rows = []
    for m, name in enumerate(classes):
        n = int(counts[m].sum())
        hits = int(counts[m, m])
        n_predicted = int(counts[:, m].sum())
        recall = UNDEFINED
        if n:
            low, high = rate_interval(hits, n)
            recall = Estimate(hits / n, float(low), float(high))
        precision = hits / n_predicted if n_predicted else None
        row = PerClass(label=name, n=n, recall=recall, precision=precision)
        rows.append(row)
    confusion = Confusion(classes=list(classes), counts=counts.tolist())
    return confusion, rows


def at_local_prevalence(
    point: OperatingPoint,
    share: Estimate,
    stated: float | None,
    chance_at_threshold: float | None = None,
) -> Predictive:
    """Return predictive values at the local prevalence and at the ends of its range.

    At the point's own prevalence the figures are the point's, and their intervals
    include the uncertainty of the prevalence; at the ends it is taken as known.

    Parameters
    ----------
    point : OperatingPoint
    share : Estimate
        Share of positives in the whole training table, the estimate if none is given.
    stated : float, optional
        Prevalence at the place of use. Half and twice of it are then its range.
    chance_at_threshold : float, optional
        As for ``EvaluatedRows``.
    """
    assert point.prevalence is not None
    value, low, high = share.value_and_interval
    prevalences = (low, value, high)
    if stated is not None:
        highest = min(2 * stated, (1 + stated) / 2)
        prevalences = (stated / 2, stated, highest)
    rows = []
    for prevalence in prevalences:
        figures = point.figures
        if not np.isclose(prevalence, point.prevalence):
            figures = figures_at_prevalence(
                point["sensitivity"],
                point["specificity"],
                prevalence,
                chance_at_threshold,
            )
        rows.append(AtPrevalence(prevalence=prevalence, figures=figures))
    source: Literal["estimated", "given"] = "estimated" if stated is None else "given"
    return Predictive(
        rule=point.rule,
        threshold=point.threshold,
        source=source,
        rows=rows,
    )


def prevalence_tonight(
    flagged: int, scored: int, point: PopulationFigures
) -> Estimate | None:
    """Estimate the prevalence among tonight's rows from the share that is flagged.

    Rogan and Gladen (1978). The interval joins those of the flag rate, of sensitivity
    and of specificity by their squares, each weighted by how much it changes the result
    (MOVER). None if the threshold hardly separates the classes.
    """
    se, se_low, se_high = np.array(point["sensitivity"].value_and_interval, float)
    sp, sp_low, sp_high = np.array(point["specificity"].value_and_interval, float)
    youden = se + sp - 1
    if not scored or not se + sp >= 1 + _MIN_YOUDEN:
        return None
    rate = flagged / scored
    rate_low, rate_high = map(float, rate_interval(flagged, scored))
    value = float(np.clip((rate + sp - 1) / youden, 0, 1))
    hits = value * np.array([se_high - se, se - se_low])
    clear = (1 - value) * np.array([sp - sp_low, sp_high - sp])
    rate_part = np.square([rate - rate_low, rate_high - rate])
    down, up = np.sqrt(rate_part + hits**2 + clear**2)
    low = max(value - down / youden, 0)
    high = min(value + up / youden, 1)
    return Estimate(value, low, high)
