"""Ranking of positives above negatives by scores, at any threshold."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from screening.metrics.groups import fewest_units
from screening.metrics.intervals import LEVEL, percentiles, rate_interval
from screening.metrics.tally import ThresholdCounts, spaced_thresholds
from screening.schemas.base import Estimate


# Not scikit-learn's: DeLong needs the placements, and the bootstrap counts all its
# draws at once.
def area_under_roc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the area under the ROC curve, ties counting half.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)

    Returns
    -------
    float
        NaN if a class is missing.
    """
    _check_boolean(positive)
    share = _share_beaten(scores, positive)
    both_classes = 0 < len(share) < len(scores)
    return float(share.mean()) if both_classes else np.nan


def area_either_way(values: np.ndarray, positive: np.ndarray) -> float:
    """Return the larger AUROC of values and of their negatives.

    0.5 if a class is missing or all values are equal.
    """
    one_class = positive.all() or not positive.any()
    if one_class or np.ptp(values) == 0:
        return 0.5
    area = area_under_roc(values, positive)
    return max(area, 1 - area)


def area_of_levels(level: np.ndarray, positive: np.ndarray) -> float:
    """Return the AUROC of a categorical variable, cross-fitted.

    Each half of the rows is ranked by the shares of cases in the other half: its own
    rows would make any variable with many levels rank well.

    Parameters
    ----------
    level : int ndarray of shape (n_rows,)
        Level numbers from 0.
    positive : bool ndarray of shape (n_rows,)
    """
    if positive.all() or not positive.any():
        return 0.5
    half = np.random.default_rng(0).permutation(len(level)) % 2
    n_levels = int(level.max()) + 1
    scores = np.empty(len(level))
    for number in (0, 1):
        other = half != number
        cases = np.bincount(level[other], positive[other], n_levels)
        rows = np.bincount(level[other], None, n_levels)
        share = (cases + positive.mean()) / (rows + 1)
        scores[~other] = share[level[~other]]
    return area_under_roc(scores, positive)


def _share_beaten(scores: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Return for each row of a side the share of other rows below it, ties half."""
    others = np.sort(scores[~side])
    n_below = np.searchsorted(others, scores[side])
    n_below_or_tied = np.searchsorted(others, scores[side], side="right")
    return (n_below + n_below_or_tied) / 2 / max(len(others), 1)


def delong(
    scores: np.ndarray,
    positive: np.ndarray,
    codes: np.ndarray | None = None,
    variance_inflation: float = 1.0,
) -> Estimate:
    """Return the AUROC with its 95 % interval, DeLong et al. (1988) on the logit scale.

    Separated classes have no placement variance: then it is Wilson's interval for the
    rarer class.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    codes : ndarray of shape (n_rows,), optional
        Group of each row. The contributions of a group's rows are then added
        (Obuchowski 1997), and Student's quantile is used.
    variance_inflation : float
        Factor on the variance.
    """
    area, pull = placements(scores, positive)
    rarer = fewest_units(positive, codes)
    if area in (0.0, 1.0) or rarer < 2:
        size = rarer / variance_inflation
        low, high = rate_interval(area * rarer / variance_inflation, size)
        return Estimate(area, float(low), float(high))
    reach = half_width(pull, positive, codes)
    reach = reach * np.sqrt(variance_inflation) / (area * (1 - area))
    log_odds = logit(area)
    low, high = expit([log_odds - reach, log_odds + reach])
    return Estimate(area, float(low), float(high))


def placements(scores: np.ndarray, positive: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the AUROC and the contribution of each row to it.

    A contribution is the share of the other class that a row is on the right side of,
    minus the area, divided by sqrt(n (n - 1)) with n the rows of its class. The squares
    of independent rows' contributions sum to DeLong's variance.

    Raises
    ------
    ValueError
        If labels are not boolean: ``-1 -`` and ``~1`` of 0/1 integers would silently
        give wrong results.
    """
    _check_boolean(positive)
    pull = np.empty(len(scores))
    area = np.nan
    for is_positive_side in (False, True):
        side = positive if is_positive_side else ~positive
        right = _share_beaten(scores, side)
        if not is_positive_side:
            right = 1 - right
        n = len(right)
        if not 0 < n < len(scores):
            area = np.nan
            pull[side] = np.nan
            continue
        area = float(right.mean())
        pull[side] = (right - area) / np.sqrt(n * max(n - 1, 1))
    return area, pull


def half_width(
    pull: np.ndarray, positive: np.ndarray, codes: np.ndarray | None = None
) -> float:
    """Return the half-width of the 95 % interval of a sum of contributions.

    With `codes` the contributions of one group are added first.
    """
    upper = 0.5 + LEVEL / 2
    if codes is None:
        return float(ndtri(upper) * np.sqrt(np.square(pull).sum()))
    sums = np.bincount(codes, weights=pull)
    units = fewest_units(positive, codes)
    freedom = max(units - 1, 1)
    square = np.square(sums).sum() * units / freedom
    return float(stdtrit(freedom, upper) * np.sqrt(square))


def _check_boolean(positive: np.ndarray) -> None:
    if np.asarray(positive).dtype != bool:
        raise ValueError(
            f"labels must be boolean, not {np.asarray(positive).dtype}: give y == 1"
        )


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the mean precision over the positives, each at its own score.

    Ties are counted together. A score that knows nothing has the prevalence.
    """
    _check_boolean(positive)
    thresholds = np.unique(scores)
    hits, alarms = ThresholdCounts(scores, positive, None, thresholds).counts
    return float(_precision_area(hits, alarms))


def _precision_area(hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
    """Return average precision from counts (..., n_thresholds), shape (...)."""
    none = np.zeros_like(hits[..., :1])
    next_hits = np.concatenate([hits[..., 1:], none], axis=-1)
    gained = hits - next_hits
    precision = gained * hits / np.maximum(hits + alarms, 1)
    return precision.sum(axis=-1) / np.maximum(hits[..., 0], 1)


def precision_with_interval(
    scores: np.ndarray,
    positive: np.ndarray,
    codes: np.ndarray | None,
    seed: int = 0,
    variance_inflation: float = 1.0,
) -> Estimate:
    """Return the average precision with its 95 % bootstrap interval.

    Precision is gained at the scores of positives alone; of more than 400 of them about
    400 are thresholds, and centring removes the small loss. Parameters as for
    ``delong``; `seed` is of the bootstrap.
    """
    precision = average_precision(scores, positive)
    thresholds = _gaining_thresholds(scores, positive)
    counts = ThresholdCounts(scores, positive, codes, thresholds, seed)
    units = fewest_units(positive, codes)
    resampled = counts.resampled
    has_positives = resampled[0][:, 0] > 0
    resampled_precision = np.where(has_positives, _precision_area(*resampled), np.nan)
    drawn = resampled_precision - _precision_area(*counts.counts)
    shift = np.sqrt(variance_inflation) * np.array(percentiles(drawn, units))
    return Estimate(precision, *np.clip(precision + shift, 0, 1))


def _gaining_thresholds(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return about 400 scores of positives, and the smallest score of all."""
    scores_of_positives = scores[positive]
    each_positive = np.ones(len(scores_of_positives), bool)
    gaining = spaced_thresholds(scores_of_positives, each_positive)
    return np.union1d(gaining, scores.min())
