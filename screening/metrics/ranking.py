"""How well scores rank positives above negatives, whatever the threshold."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from screening.metrics.intervals import LEVEL, percentiles, wilson
from screening.metrics.tally import Tally, fewest_units, spaced_thresholds
from screening.schemas.base import Estimate


# Not scikit-learn's: DeLong needs the placements, and the bootstrap counts all its draws at once.
def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve, ties counting half; `positive` is boolean."""
    _check_boolean(positive)
    share = _beaten(scores, positive)
    return float(share.mean()) if 0 < len(share) < len(scores) else np.nan


def auroc_either_way(values: np.ndarray, positive: np.ndarray) -> float:
    """AUROC of values whichever way they point; one half where a class is missing or all are alike."""
    if positive.all() or not positive.any() or np.ptp(values) == 0:
        return 0.5
    area = auroc(values, positive)
    return max(area, 1 - area)


def auroc_of_levels(level: np.ndarray, positive: np.ndarray) -> float:
    """How well a category ranks alone: each half of the rows by the shares of cases in the other half.

    Its own rows would make any category of many levels rank well. `level` (n_rows,) are numbers from 0.
    """
    if positive.all() or not positive.any():
        return 0.5
    half = np.random.default_rng(0).permutation(len(level)) % 2
    ranked = np.empty(len(level))
    for number in (0, 1):
        theirs = half != number
        cases, rows = (
            np.bincount(level[theirs], weights, int(level.max()) + 1)
            for weights in (positive[theirs], None)
        )
        ranked[~theirs] = ((cases + positive.mean()) / (rows + 1))[level[~theirs]]
    return auroc(ranked, positive)


def _beaten(scores: np.ndarray, side: np.ndarray) -> np.ndarray:
    """The share of the rows of the other side that each row of a side lies above, ties counting half."""
    across = np.sort(scores[~side])
    below = np.searchsorted(across, scores[side]) + np.searchsorted(
        across, scores[side], side="right"
    )
    return below / 2 / max(len(across), 1)


def delong(
    scores: np.ndarray,
    positive: np.ndarray,
    codes: np.ndarray | None = None,
    variance_inflation: float = 1.0,
) -> tuple[float, float]:
    """95 % interval of the AUROC by DeLong et al. (1988) on the logit scale.

    Separated classes have no placement variance; Wilson on the rarer class then gives the honest end. With
    `codes`, each row's group, what a group's rows do to the area is added up (Obuchowski 1997), and Student's
    quantile stands for the normal one. `variance_inflation` is a factor on the variance.
    """
    area, pull = placements(scores, positive)
    rarer = fewest_units(positive, codes)
    if area in (0.0, 1.0) or rarer < 2:
        low, high = wilson(
            area * rarer / variance_inflation, rarer / variance_inflation
        )
        return float(low), float(high)
    reach = (
        spread(pull, positive, codes)
        * np.sqrt(variance_inflation)
        / (area * (1 - area))
    )
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


def placements(scores: np.ndarray, positive: np.ndarray) -> tuple[float, np.ndarray]:
    """AUROC, and how far each row pulls it: the squares of independent rows' pulls sum to DeLong's variance.

    A pull is the share of the other class that a row is on the right side of, less the area, over sqrt(n (n -
    1)) with n the rows of its class. Labels that are not boolean are refused (ValueError): -1 - and ~1 of 0/1
    integers would give nonsense in silence.
    """
    _check_boolean(positive)
    pull, area = np.empty(len(scores)), np.nan
    for side, sign in ((~positive, -1), (positive, 1)):
        right = _beaten(scores, side)
        right = right if sign > 0 else 1 - right
        n = len(right)
        area = float(right.mean()) if 0 < n < len(scores) else np.nan
        pull[side] = (right - area) / np.sqrt(n * max(n - 1, 1)) if n else 0.0
    return area, pull


def spread(
    pull: np.ndarray, positive: np.ndarray, codes: np.ndarray | None = None
) -> float:
    """Half-width of the 95 % interval of a sum of pulls, those of one group taken together."""
    if codes is None:
        return float(ndtri(0.5 + LEVEL / 2) * np.sqrt(np.square(pull).sum()))
    sums = np.bincount(codes, weights=pull)
    units = fewest_units(positive, codes)
    square = np.square(sums).sum() * units / max(units - 1, 1)
    return float(stdtrit(max(units - 1, 1), 0.5 + LEVEL / 2) * np.sqrt(square))


def _check_boolean(positive: np.ndarray) -> None:
    if np.asarray(positive).dtype != bool:
        raise ValueError(
            f"labels must be boolean, not {np.asarray(positive).dtype}: give y == 1"
        )


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Mean precision over the positives, each at its own score, ties together; by chance the prevalence."""
    _check_boolean(positive)
    thresholds = np.unique(scores)
    hits, alarms = Tally(scores, positive, None, thresholds).counts
    return float(_precision_area(hits, alarms))


def _precision_area(hits: np.ndarray, alarms: np.ndarray) -> np.ndarray:
    gained = hits - np.concatenate(
        [hits[..., 1:], np.zeros_like(hits[..., :1])], axis=-1
    )
    return (gained * hits / np.maximum(hits + alarms, 1)).sum(axis=-1) / np.maximum(
        hits[..., 0], 1
    )


def area_ends(
    scores: np.ndarray,
    positive: np.ndarray,
    codes: np.ndarray | None,
    variance_inflation: float,
) -> tuple[float, float, float]:
    """AUROC with its 95 % interval (DeLong), by group where there are any."""
    return auroc(scores, positive), *delong(
        scores, positive, codes=codes, variance_inflation=variance_inflation
    )


def ranking(
    scores: np.ndarray,
    positive: np.ndarray,
    codes: np.ndarray | None,
    seed: int = 0,
    variance_inflation: float = 1.0,
) -> dict[str, Estimate]:
    """AUROC (DeLong) and average precision (bootstrap) with 95 % intervals, by group where there are any.

    Resampled precision is counted on about 400 cells; the small loss of the cells is taken out by centring.
    """
    precision = average_precision(scores, positive)
    tally = Tally(scores, positive, codes, spaced_thresholds(scores, positive), seed)
    units = fewest_units(positive, codes)
    resampled = tally.resampled
    present = resampled[0][:, 0] > 0
    drawn = np.where(present, _precision_area(*resampled), np.nan) - _precision_area(
        *tally.counts
    )
    shift = np.sqrt(variance_inflation) * np.array(percentiles(drawn, units))
    return {
        "auroc": Estimate(*area_ends(scores, positive, codes, variance_inflation)),
        "average_precision": Estimate(precision, *np.clip(precision + shift, 0, 1)),
    }
