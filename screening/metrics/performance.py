"""What a threshold does to labelled rows: rates with intervals, the trade-off curve, the ranking.

Predictive values are those where the model is used: at the local prevalence, and at the ends of its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from screening.errors import UsageError
from screening.metrics.intervals import predictive_interval, share_range, wilson
from screening.metrics.predictive_intervals import predictive, variance_inflation
from screening.metrics.ranking import area_ends, ranking
from screening.metrics.tally import (
    Tally,
    group_codes,
    rate_at_last,
    rate_bands,
    spaced_thresholds,
)
from screening.schemas.base import Estimate
from screening.schemas.figures import (
    Observed,
    OperatingPoint,
    PredictiveValues,
    Ranking,
    Rates,
)
from screening.schemas.validation import Band, Confusion, Curve, PerClass, Predictive

UNDEFINED = Estimate()
SHARES = ("sensitivity", "specificity", "ppv", "npv", "nne", "flag_rate")


def checked(
    scores, y, groups=None, both: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int | None]:
    """Scores, labels and groups as arrays: group numbers are None where rows are independent.

    Raises ValueError where shapes differ or a score is not finite, and with `both` UsageError where there is
    no positive or no negative row.
    """
    scores, y = np.asarray(scores, float), np.asarray(y)
    positive = y if y.dtype == bool else y == 1
    if scores.ndim != 1 or positive.shape != scores.shape:
        raise ValueError(
            f"scores {scores.shape} and labels {positive.shape} must be of one shape (n_rows,)"
        )
    if groups is not None and len(groups) != len(scores):
        raise ValueError(f"{len(groups)} groups for {len(scores)} scores")
    if not np.isfinite(scores).all():
        raise ValueError(f"{(~np.isfinite(scores)).sum()} scores are not finite")
    if both and (positive.all() or not positive.any()):
        raise UsageError(
            f"{positive.sum()} positive and {(~positive).sum()} negative rows; a threshold needs some of both"
        )
    n_groups = None if groups is None else len(np.unique(np.asarray(groups)))
    return scores, positive, group_codes(groups), n_groups


def rates(
    sensitivity: Estimate, specificity: Estimate, prevalence: float
) -> dict[str, Estimate]:
    """Rates, predictive values, reviews per case and flag rate at a prevalence, each with its interval.

    A rate is undefined where the class is absent; so is then what depends on it.
    """
    figures = dict.fromkeys(SHARES, UNDEFINED) | {
        "sensitivity": sensitivity,
        "specificity": specificity,
    }
    hit, clear = np.array(sensitivity.ends, float), np.array(specificity.ends, float)
    if sensitivity.value is None or specificity.value is None:
        flagged = (
            sensitivity
            if specificity.value is None
            else Estimate(*(1 - clear[[0, 2, 1]]).tolist())
        )
        return figures | {"flag_rate": flagged}
    false = 1 - clear[[0, 2, 1]]
    at = predictive(prevalence, hit[0], false[0])
    parts = prevalence * (hit - hit[0]), (1 - prevalence) * (false - false[0])
    reach = np.hypot(*parts)
    ranges = {"flag_rate": (at["flag_rate"] - reach[1], at["flag_rate"] + reach[2])}
    if 0 < prevalence < 1:
        ranges["ppv"] = predictive_interval(prevalence, tuple(hit), tuple(false))
        ranges["npv"] = predictive_interval(
            1 - prevalence, tuple(clear), tuple(1 - hit[[0, 2, 1]])
        )
        with np.errstate(divide="ignore"):
            ranges["nne"] = 1 / ranges["ppv"][1], 1 / ranges["ppv"][0]
    for name, value in at.items():
        if name in ranges and np.isfinite(value):
            figures[name] = Estimate(float(value), *ranges[name])
    return figures


def performance(scores, y, threshold: float, groups=None) -> Observed:
    """What a threshold chosen elsewhere does on these labelled rows.

    One class may be absent: a figure that is undefined is None. Intervals are Wilson's, by the effective
    number of rows where they come in groups; `min_sensitivity` is the smaller of both rates.
    """
    scores, positive, codes, n_groups = checked(scores, y, groups)
    tally = Tally(scores, positive, codes, np.array([-np.inf, threshold]))
    m, n = int(positive.sum()), int((~positive).sum())
    hit, alarm = (int(count[1]) for count in tally.counts)
    sensitivity = Estimate(*rate_at_last(tally, True)) if m else UNDEFINED
    specificity = Estimate(*rate_at_last(tally, False)) if n else UNDEFINED
    share = m / max(m + n, 1)
    figures: dict[str, Any] = {
        "threshold": float(threshold),
        "prevalence": share,
        "n_positive": m,
        "n_negative": n,
        "n_groups": n_groups,
        "true_positive": hit,
        "false_negative": m - hit,
        "false_positive": alarm,
        "true_negative": n - alarm,
    }
    figures |= dict.fromkeys(SHARES, UNDEFINED) | dict.fromkeys(
        ("accuracy", "f1", "g_mean", "min_sensitivity")
    )
    if m or n:
        figures |= rates(sensitivity, specificity, share)
        figures["accuracy"] = (hit + n - alarm) / (m + n)
        figures["f1"] = 2 * hit / (m + hit + alarm) if m else None
    both = bool(m and n)
    if both:
        figures |= _observed(positive, scores >= threshold, codes)
        se, sp = hit / m, 1 - alarm / n
        figures |= {"g_mean": float(np.sqrt(se * sp)), "min_sensitivity": min(se, sp)}
    return Observed(**figures | _ranking(scores, positive, codes, 0, both))


def _observed(
    positive: np.ndarray, flagged: np.ndarray, codes: np.ndarray | None
) -> dict[str, Estimate]:
    """PPV, NPV and flag rate of these rows, whose share of positives is chance too: wider intervals."""
    figures = {"flag_rate": Estimate(*share_range(flagged, codes))}
    for name, right, rows in (("ppv", positive, flagged), ("npv", ~positive, ~flagged)):
        if rows.any():
            share = share_range(right[rows], None if codes is None else codes[rows])
            figures[name] = Estimate(*share)
            if name == "ppv":
                figures["nne"] = Estimate(
                    *(
                        1 / end if end else None
                        for end in (share[0], share[2], share[1])
                    )
                )
    return figures


def summary(scores, y, groups=None, seed: int = 0, *, n_settings: int = 1) -> Ranking:
    """How well held-out scores rank, whatever the threshold: AUROC and average precision with 95 % intervals.

    Both are widened for the fold machines and for the `n_settings` that were tried on the same rows
    (`predictive_intervals.variance_inflation`). `prevalence` is the average precision of a score that knows
    nothing.
    """
    scores, positive, codes, n_groups = checked(scores, y, groups)
    m, n = int(positive.sum()), int((~positive).sum())
    ranked = _ranking(
        scores, positive, codes, seed, bool(m and n), variance_inflation(n_settings)
    )
    return Ranking(
        n_positive=m,
        n_negative=n,
        n_groups=n_groups,
        prevalence=m / max(m + n, 1),
        **ranked,
    )


def area(scores, y, groups=None, *, n_settings: int = 1) -> tuple[float, float, float]:
    """AUROC with its 95 % interval as `summary` has it, without the resampling that precision needs."""
    scores, positive, codes, _ = checked(scores, y, groups, both=True)
    return area_ends(scores, positive, codes, variance_inflation(n_settings))


def _ranking(
    scores, positive, codes, seed: int, both: bool, factor: float = 1.0
) -> dict[str, Estimate]:
    if not both:
        return dict.fromkeys(("auroc", "average_precision"), UNDEFINED)
    return ranking(scores, positive, codes, seed, factor)


def curve(
    scores,
    y,
    groups=None,
    seed: int = 0,
    points: int = 200,
    prevalence: float | None = None,
) -> Curve:
    """Rates at about `points` thresholds, equally spaced in rank within each class, extremes included.

    Bands are pointwise 95 % intervals at a threshold fixed beforehand: Wilson, by the effective number of
    rows where they come in groups. PPV, NPV and flag rate hold at `prevalence` (these rows' own if None).
    None stands in it where nothing (or everything) is flagged.
    """
    scores, positive, codes, _ = checked(scores, y, groups, both=True)
    tally = Tally(
        scores, positive, codes, spaced_thresholds(scores, positive, points), seed
    )
    hits, alarms = tally.counts
    share = float(positive.mean()) if prevalence is None else prevalence
    hit, false = hits / hits[0], alarms / alarms[0]
    hit_low, hit_high = rate_bands(tally, True)
    false_low, false_high = rate_bands(tally, False)
    flagged = share * hit + (1 - share) * false
    unflagged = share * (1 - hit) + (1 - share) * (1 - false)
    with np.errstate(invalid="ignore"):
        ppv, npv = share * hit / flagged, (1 - share) * (1 - false) / unflagged
    return Curve(
        threshold=tally.thresholds.tolist(),
        sensitivity=_band(hit, hit_low, hit_high),
        specificity=_band(1 - false, 1 - false_high, 1 - false_low),
        flag_rate=_column(flagged),
        ppv=_column(ppv),
        npv=_column(npv),
    )


def _band(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Band:
    return Band(value=_column(values), low=_column(low), high=_column(high))


def _column(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def per_class(
    target: np.ndarray, predicted: np.ndarray, classes: Sequence[str]
) -> tuple[Confusion, list[PerClass]]:
    """Counts, true class by row, and recall with precision a class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (target, predicted), 1)
    rows = []
    for m, name in enumerate(classes):
        n, hits, called = (
            int(counts[m].sum()),
            int(counts[m, m]),
            int(counts[:, m].sum()),
        )
        recall = Estimate(hits / n, *map(float, wilson(hits, n))) if n else UNDEFINED
        precision = hits / called if called else None
        rows.append(PerClass(label=name, n=n, recall=recall, precision=precision))
    return Confusion(classes=list(classes), counts=counts.tolist()), rows


FIGURES = tuple(name for name in PredictiveValues.model_fields if name != "prevalence")


def prevalence_range(
    positive: np.ndarray, groups: np.ndarray | None = None
) -> Estimate:
    """Share of positives with its 95 % interval."""
    return Estimate(*share_range(positive, group_codes(groups)))


def at_local_prevalence(
    point: OperatingPoint, share: Estimate, given: float | None
) -> Predictive:
    """PPV, NPV and reviews per case at the local prevalence and the ends of its range, by Bayes.

    `share` of positives in the whole training table is the estimate where none is `given`; given, half and
    twice of it stand for its range. At the point's own prevalence the figures are the point's, which hold
    what is not known of it; at the ends it is taken as known.
    """
    value, low, high = share.ends
    ends = (low, value, high)
    if given is not None:
        ends = (given / 2, given, min(2 * given, (1 + given) / 2))
    rows = []
    for prevalence in ends:
        own = np.isclose(prevalence, point.prevalence)
        figures = (
            vars(point)
            if own
            else rates(point.sensitivity, point.specificity, prevalence)
        )
        rows.append(
            PredictiveValues(
                prevalence=prevalence, **{name: figures[name] for name in FIGURES}
            )
        )
    return Predictive(
        rule=point.rule,
        threshold=point.threshold,
        source="estimated" if given is None else "given",
        rows=rows,
    )


def prevalence_tonight(flagged: int, scored: int, point: Rates) -> Estimate | None:
    """How common the condition was among tonight's rows, from the share flagged (Rogan and Gladen 1978).

    The range joins the intervals of the share flagged, of sensitivity and of specificity by their squares,
    each weighted by how much it moves the result (MOVER). None where the threshold hardly tells apart.
    """
    (se, se_low, se_high), (sp, sp_low, sp_high) = (
        np.array(rate.ends, float) for rate in (point.sensitivity, point.specificity)
    )
    if not scored or not se + sp >= 1.2:
        return None
    rate, (low, high) = (
        flagged / scored,
        (float(end) for end in wilson(flagged, scored)),
    )
    value = float(np.clip((rate + sp - 1) / (se + sp - 1), 0, 1))
    hits = value * np.array([se_high - se, se - se_low])
    clear = (1 - value) * np.array([sp - sp_low, sp_high - sp])
    down, up = np.sqrt(np.square([rate - low, high - rate]) + hits**2 + clear**2)
    apart = se + sp - 1
    return Estimate(value, max(value - down / apart, 0), min(value + up / apart, 1))
