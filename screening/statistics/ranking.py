"""How well scores rank positives above negatives, whatever the threshold."""

from __future__ import annotations

import numpy as np

from screening.statistics.intervals import percentiles, wilson
from screening.statistics.tally import Tally, spaced_thresholds


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve, ties counting half."""
    return float(_placements(scores, positive)[0].mean())


def delong(scores: np.ndarray, positive: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Interval of the AUROC by DeLong et al. (1988) on the logit scale, for independent rows.

    Separated classes have no placement variance; Wilson on the rarer class then gives the honest end.
    """
    from scipy.special import expit, logit, ndtri

    of_positive, of_negative = _placements(scores, positive)
    m, n, area = len(of_positive), len(of_negative), float(of_positive.mean())
    if area in (0.0, 1.0) or min(m, n) < 2:
        low, high = wilson(area * min(m, n), min(m, n), level)
        return float(low), float(high)
    spread = np.sqrt(of_positive.var(ddof=1) / m + of_negative.var(ddof=1) / n)
    reach = ndtri(0.5 + level / 2) * spread / (area * (1 - area))
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


def _placements(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.stats import rankdata

    m, n = positive.sum(), (~positive).sum()
    overall = rankdata(scores)
    of_positive = (overall[positive] - rankdata(scores[positive])) / n
    of_negative = 1 - (overall[~positive] - rankdata(scores[~positive])) / m
    return of_positive, of_negative


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Mean precision over the positives, each at its own score, ties together; by chance the prevalence."""
    thresholds = np.unique(scores)
    hits, alarms = Tally(scores, positive, None, thresholds).counts
    return float(_precision_area(hits, alarms))


def _precision_area(hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
    gained = hits - np.concatenate([hits[..., 1:], np.zeros_like(hits[..., :1])], axis=-1)
    return (gained * hits / np.maximum(hits + alarms, 1)).sum(axis=-1) / np.maximum(hits[..., 0], 1)


def _roc_area(hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
    gained = hits - np.concatenate([hits[..., 1:], np.zeros_like(hits[..., :1])], axis=-1)
    above = np.concatenate([alarms[..., 1:], np.zeros_like(alarms[..., :1])], axis=-1)
    below_or_tied = 2 * alarms[..., :1] - alarms - above
    size = hits[..., 0] * alarms[..., 0]
    return (gained * below_or_tied).sum(axis=-1) / (2.0 * np.where(size > 0, size, np.nan))


def ranking(
    scores: np.ndarray, positive: np.ndarray, codes: np.ndarray | None, seed: int = 0
) -> dict[str, float]:
    """AUROC (DeLong by row, bootstrap by group) and average precision (bootstrap) with 95 % intervals.

    Resampled areas are counted on about 400 cells; the small loss of the cells is taken out by centring.
    """
    area, precision = auroc(scores, positive), average_precision(scores, positive)
    tally = Tally(scores, positive, codes, spaced_thresholds(scores, positive), seed)
    units = min(tally.n_units(positive), tally.n_units(~positive))
    resampled = tally.resampled
    present = resampled[0][:, 0] > 0
    drawn = np.where(present, _precision_area(*resampled), np.nan) - _precision_area(*tally.counts)
    ap_low, ap_high = np.clip(np.add(precision, percentiles(drawn, units)), 0, 1)
    if codes is None:
        low, high = delong(scores, positive)
    elif area in (0.0, 1.0):
        low, high = (float(end) for end in wilson(area * units, units))
    else:
        shift = percentiles(_roc_area(*resampled) - _roc_area(*tally.counts), units)
        low, high = (float(end) for end in np.clip(np.add(area, shift), 0, 1))
    return {
        "auroc": area, "auroc_low": low, "auroc_high": high,
        "average_precision": precision, "average_precision_low": float(ap_low),
        "average_precision_high": float(ap_high),
    }  # fmt: skip
