"""Methods on the same held-out rows: figures of weighted rows, and paired differences with their intervals.

Differences of AUROC, specificity and recall by formula (of the first two 94 to 97 in 100 intervals held);
weights 1 give a figure's estimate, drawn ones its spread. At equal true sensitivity nothing narrow holds: say
"at these thresholds".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from screening.metrics.intervals import design_effect, percentiles, students_share
from screening.metrics.predictive_intervals import between_folds, variance_inflation
from screening.metrics.ranking import placements, spread
from screening.metrics.tally import group_codes
from screening.schemas.base import Estimate

DRAWS = 1000
_CELLS_AT_ONCE = 4_000_000


def drawn_weights(
    n_rows: int, groups: np.ndarray | None, seed: int, draws: int
) -> Iterator[np.ndarray]:
    """How often each row counts in bootstrap samples of groups (or rows), (some draws, n_rows) at a time."""
    rng, codes = np.random.default_rng(seed), group_codes(groups)
    codes = np.arange(n_rows) if codes is None else codes
    n_units = int(codes.max()) + 1
    step = max(1, min(draws, _CELLS_AT_ONCE // n_rows))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        yield rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=size)[
            :, codes
        ].astype(float)


def weighted_rates(
    flagged: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sensitivity, specificity and their geometric mean, (n_draws,) each; NaN without a row of the class."""
    size = np.array([weights[:, side].sum(axis=1) for side in (positive, ~positive)])
    flags = np.array(
        [weights[:, side] @ flagged[side] for side in (positive, ~positive)]
    )
    sensitivity, alarms = flags / np.where(size > 0, size, np.nan)
    return sensitivity, 1 - alarms, np.sqrt(np.maximum(sensitivity * (1 - alarms), 0.0))


def weighted_ranking(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray, sensitivity: float
) -> dict[str, np.ndarray]:
    """AUROC, average precision, and the specificity at a sensitivity asked, (n_draws,) each."""
    # scikit-learn's functions take one vector of weights; here all draws of the bootstrap go at once.
    hits, alarms = _steps(scores, positive, weights)
    both_classes = (hits[:, -1] > 0) & (alarms[:, -1] > 0)
    n_hits, n_alarms = (
        np.where(both_classes, counts[:, -1], np.nan) for counts in (hits, alarms)
    )
    gained = np.diff(hits, axis=1, prepend=0.0)
    tied = np.diff(alarms, axis=1, prepend=0.0)
    below = alarms[:, -1:] - alarms + tied / 2
    at = (hits >= sensitivity * hits[:, -1:] - 1e-9).argmax(axis=1)
    return {
        "auroc": (gained * below).sum(axis=1) / (n_hits * n_alarms),
        "average_precision": (gained * hits / np.maximum(hits + alarms, 1e-12)).sum(
            axis=1
        )
        / n_hits,
        "specificity_at": 1
        - np.take_along_axis(alarms, at[:, None], axis=1)[:, 0] / n_alarms,
    }


def false_alarms_at(
    scores: np.ndarray, positive: np.ndarray, sensitivities: np.ndarray
) -> np.ndarray:
    """1 - specificity where the ROC curve reaches each sensitivity; 0 at none."""
    hits, alarms = (
        counts[0] for counts in _steps(scores, positive, np.ones((1, len(positive))))
    )
    at = np.searchsorted(hits, sensitivities * hits[-1] - 1e-9)
    return np.where(sensitivities > 0, alarms[at] / alarms[-1], 0.0)


def _steps(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted hits and alarms at or above each distinct score, highest first; (n_draws, n_distinct)."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    w, hit = weights[:, order], positive[order]
    return np.cumsum(w * hit, axis=1)[:, ends], np.cumsum(w * ~hit, axis=1)[:, ends]


def weighted_recalls(
    target: np.ndarray, predicted: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Figures of the predicted class; `macro_g` averages sqrt(sensitivity x specificity) over classes.

    `target` and `predicted` (n_rows,) are numbers of classes; a class that a draw leaves out does not count.
    """
    k = 1 + int(max(target.max(), predicted.max()))
    cells = np.zeros((len(target), k * k))
    cells[np.arange(len(target)), target * k + predicted] = 1.0
    counts = (weights @ cells).reshape(-1, k, k)
    size, called = counts.sum(axis=2), counts.sum(axis=1)
    total = size.sum(axis=1, keepdims=True)
    right = np.diagonal(counts, axis1=1, axis2=2)
    recall = right / np.where(size > 0, size, np.nan)
    specificity = 1 - (called - right) / np.maximum(total - size, 1e-12)
    f1 = np.where(size > 0, 2 * right / np.maximum(size + called, 1e-12), np.nan)
    return {
        "macro_recall": np.nanmean(recall, axis=1),
        "macro_g": np.nanmean(np.sqrt(recall * specificity), axis=1),
        "geometric_recall": np.exp(
            np.nanmean(np.log(np.maximum(recall, 1e-300)), axis=1)
        ),
        "min_recall": np.nanmin(recall, axis=1),
        "macro_f1": np.nanmean(f1, axis=1),
    }


def resampled_difference(
    estimates: tuple[float, float], draws: tuple[np.ndarray, np.ndarray], n_units: int
) -> Estimate:
    """Difference of a method from the control with its 95 % interval, None where it cannot be resampled."""
    gap = draws[0] - draws[1]
    finite = gap[np.isfinite(gap)]
    ends = percentiles(finite, n_units) if len(finite) else ()
    return Estimate(estimates[0] - estimates[1], *ends)


def auroc_difference(
    scores: np.ndarray,
    others: np.ndarray,
    positive: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    n_settings: int = 1,
) -> Estimate:
    """Difference of two methods' AUROC on the same held-out rows: paired DeLong, its variance widened.

    `n_settings` were tried of the method that tried most. Both ends are None for fewer than two rows of a
    class.
    """
    codes = group_codes(groups)
    (area, pull), (other, other_pull) = (
        placements(own, positive) for own in (scores, others)
    )
    if min(positive.sum(), (~positive).sum()) < 2:
        return Estimate(area - other)
    reach = spread(pull - other_pull, positive, codes) * np.sqrt(
        variance_inflation(n_settings)
    )
    return Estimate(area - other, area - other - reach, area - other + reach)


def share_difference(
    clear: np.ndarray,
    others: np.ndarray,
    fold: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Estimate:
    """Difference of two methods' specificity (or sensitivity), each at its own threshold, on the same rows.

    `clear` and `others` (n_rows,) are true where the method, and the one it is compared with, are right: of
    negatives where they are not flagged. The difference is as seen; its ends lie about one drawn towards 0
    by two rows (Agresti and Min 2005), with the variance between folds.
    """
    moved = clear.astype(float) - others.astype(float)
    n, total = len(moved), float(moved.sum())
    own = (np.abs(moved).sum() + 1 - total**2 / (n + 2)) / (n + 2) ** 2
    codes, student = group_codes(groups), 1.0
    if codes is not None:
        own *= design_effect(moved, codes)
        student = students_share(int(codes.max()) + 1)
    between = 0.0
    if fold is not None:
        number = np.unique(fold, return_inverse=True)[1]
        sizes = np.bincount(number)
        between = between_folds(
            np.bincount(number, weights=moved) / sizes, own * n / sizes
        )
    middle, reach = total / (n + 2), 1.96 * float(np.sqrt(own / student + between))
    seen = total / n
    return Estimate(seen, min(middle - reach, seen), max(middle + reach, seen))


def recall_difference(
    right: np.ndarray,
    others: np.ndarray,
    target: np.ndarray,
    groups: np.ndarray | None = None,
) -> Estimate:
    """Difference of two methods' mean recall over classes, on the same rows: a sum of what each row adds.

    `right` and `others` (n_rows,) are true where the method, and the one it is compared with, predict the
    row's class.
    """
    moved, size = right.astype(float) - others, np.bincount(target)
    present = np.count_nonzero(size)
    mean = np.bincount(target, weights=moved) / np.maximum(size, 1)
    pull = (moved - mean[target]) / (
        np.sqrt(size * np.maximum(size - 1, 1))[target] * present
    )
    rarest = target == np.where(size > 0, size, len(target) + 1).argmin()
    reach = spread(pull, rarest, group_codes(groups))
    seen = float(mean.sum() / present)
    return Estimate(seen, seen - reach, seen + reach)
