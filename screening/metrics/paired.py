"""Methods compared on the same held-out rows: weighted figures, paired differences.

Differences of AUROC, specificity and recall have formulas (coverage of the first two:
94 to 97 %). For other figures, weights of 1 give the estimate and resampled weights its
spread. At equal true sensitivity no narrow interval is valid: state differences "at
these thresholds".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.metrics.evaluated_rows import Need
from screening.metrics.groups import codes_of, group_codes
from screening.metrics.intervals import design_effect, percentiles, student_size_factor
from screening.metrics.predictive_intervals import between_folds
from screening.metrics.ranking import half_width, placements
from screening.schemas.base import UNDEFINED, Estimate

DRAWS = 1000
"""Bootstrap draws behind a resampled difference."""
# Weights that are in memory at a time.
_MAX_WEIGHTS = 4_000_000
# Smallest divisor of counts.
_TINY = 1e-12


def drawn_weights(
    n_rows: int, groups: np.ndarray | None, seed: int, draws: int
) -> Iterator[np.ndarray]:
    """Yield how often each row counts in bootstrap samples of groups, or of rows.

    Yields
    ------
    ndarray of shape (some draws, n_rows)
        `draws` in all.
    """
    rng = np.random.default_rng(seed)
    codes = group_codes(groups)
    if codes is None:
        codes = np.arange(n_rows)
    n_units = int(codes.max()) + 1
    shares = np.full(n_units, 1 / n_units)
    step = max(1, min(draws, _MAX_WEIGHTS // n_rows))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        unit_weights = rng.multinomial(n_units, shares, size=size)
        yield unit_weights[:, codes].astype(float)


@dataclass(frozen=True)
class ResampledRows:
    """Rows of several bootstrap samples; figures are computed for all at once.

    Figures have the shape (n_draws,), NaN where a draw has too few rows.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive, flagged : bool ndarray of shape (n_rows,)
    weights : ndarray of shape (n_draws, n_rows)
        How often each row counts in each draw.
    chance_at_threshold : float, optional
        As for ``EvaluatedRows``.
    """

    scores: np.ndarray
    positive: np.ndarray
    flagged: np.ndarray
    weights: np.ndarray
    chance_at_threshold: float | None = None

    def has(self, need: Need) -> bool:
        """Return True if the rows that were drawn from have what a figure needs."""
        needs: Mapping[Need, bool] = {
            "rows": len(self.scores) > 0,
            "cases": bool(self.positive.any()),
            "others": not self.positive.all(),
            "flagged": bool(self.flagged.any()),
            "unflagged": not self.flagged.all(),
            "class_sizes": True,
            "one_model": True,
            "chance": False,
            "chance_at_threshold": self.chance_at_threshold is not None,
        }
        return needs[need]

    def share(self, events: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Return the share of some rows with an event.

        Parameters
        ----------
        events, among : bool ndarray of shape (n_rows,)
        """
        size = self.weights[:, among].sum(axis=1)
        count = self.weights[:, among] @ events[among]
        return count / np.where(size > 0, size, np.nan)

    @cached_property
    def sensitivity(self) -> np.ndarray:
        """Share of cases that is flagged."""
        return self.share(self.flagged, self.positive)

    @cached_property
    def specificity(self) -> np.ndarray:
        """Share of others that is not flagged."""
        return 1 - self.share(self.flagged, ~self.positive)

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Cases and others at or above each score, (n_draws, n_distinct) each."""
        return _cumulative_counts(self.scores, self.positive, self.weights)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of cases and of others, NaN where a class is missing, (2, n_draws)."""
        hits, alarms = self.counts
        sizes = np.stack([hits[:, -1], alarms[:, -1]])
        return np.where((sizes > 0).all(axis=0), sizes, np.nan)

    def specificity_at(self, sensitivity: float) -> np.ndarray:
        """Return the specificity of the highest threshold with a sensitivity."""
        hits, alarms = self.counts
        is_reached = hits >= sensitivity * hits[:, -1:] - 1e-9
        alarms_at = alarms[np.arange(len(alarms)), is_reached.argmax(axis=1)]
        return 1 - alarms_at / self.sizes[1]


def false_alarms_at(
    scores: np.ndarray, positive: np.ndarray, sensitivities: np.ndarray
) -> np.ndarray:
    """Return 1 - specificity where the ROC curve reaches each sensitivity; 0 at 0."""
    ones = np.ones((1, len(positive)))
    (hits,), (alarms,) = _cumulative_counts(scores, positive, ones)
    at = np.searchsorted(hits, sensitivities * hits[-1] - 1e-9)
    return np.where(sensitivities > 0, alarms[at] / alarms[-1], 0.0)


def _cumulative_counts(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted positives and negatives at or above each distinct score.

    Highest score first, (n_draws, n_distinct) each.
    """
    order = np.argsort(-scores, kind="stable")
    changes = np.flatnonzero(np.diff(scores[order]))
    ends = np.append(changes, len(scores) - 1)
    w = weights[:, order]
    hit = positive[order]
    hits = np.cumsum(w * hit, axis=1)
    alarms = np.cumsum(w * ~hit, axis=1)
    return hits[:, ends], alarms[:, ends]


def weighted_recalls(
    target: np.ndarray, predicted: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Return figures of predicted classes, with values (n_draws,).

    `macro_g` is the mean over classes of sqrt(sensitivity x specificity). A class that
    a draw leaves out does not count.

    Parameters
    ----------
    target, predicted : int ndarray of shape (n_rows,)
        Class numbers.
    weights : ndarray of shape (n_draws, n_rows)
    """
    k = int(max(target.max(), predicted.max())) + 1
    cells = np.zeros((len(target), k * k))
    cells[np.arange(len(target)), target * k + predicted] = 1.0
    counts = (weights @ cells).reshape(-1, k, k)
    size = counts.sum(axis=2)
    n_predicted = counts.sum(axis=1)
    total = size.sum(axis=1, keepdims=True)
    right = np.diagonal(counts, axis1=1, axis2=2)
    recall = right / np.where(size > 0, size, np.nan)
    specificity = 1 - (n_predicted - right) / np.maximum(total - size, _TINY)
    f1 = 2 * right / np.maximum(size + n_predicted, _TINY)
    f1 = np.where(size > 0, f1, np.nan)
    log_recall = np.log(np.maximum(recall, 1e-300))
    return {
        "macro_recall": np.nanmean(recall, axis=1),
        "macro_g": np.nanmean(np.sqrt(recall * specificity), axis=1),
        "geometric_recall": np.exp(np.nanmean(log_recall, axis=1)),
        "min_recall": np.nanmin(recall, axis=1),
        "macro_f1": np.nanmean(f1, axis=1),
    }


def with_resampled_interval(value: float, draws: np.ndarray, n_units: int) -> Estimate:
    """Return a figure, or a difference of two, with its 95 % interval.

    Parameters
    ----------
    value : float
        Undefined unless finite.
    draws : ndarray of shape (n_draws,)
        The same in bootstrap samples; without a finite one the interval is None.
    n_units : int
        Number of independent units.
    """
    if not np.isfinite(value):
        return UNDEFINED
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return Estimate(value)
    low, high = map(float, percentiles(finite, n_units))
    return Estimate(value, min(low, value), max(high, value))


def area_difference(
    scores: np.ndarray,
    others: np.ndarray,
    positive: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    variance_inflation: float = 1.0,
) -> Estimate:
    """Return the area under the ROC curve of scores minus that of others.

    Paired DeLong, by group.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    others : ndarray of shape (n_rows,) or (n_others, n_rows)
        Of several the mean of their areas is subtracted.
    positive : bool ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
    variance_inflation : float
        Factor on the variance, as for ``delong``.

    Returns
    -------
    Estimate
        Both ends are None for fewer than two rows of a class.
    """
    area, pull = placements(scores, positive)
    subtracted = [placements(other, positive) for other in np.atleast_2d(others)]
    difference = area - float(np.mean([other for other, _ in subtracted]))
    if min(positive.sum(), (~positive).sum()) < 2:
        return Estimate(difference)
    pull = pull - np.mean([pulls for _, pulls in subtracted], axis=0)
    reach = half_width(pull, positive, group_codes(groups))
    reach = reach * np.sqrt(variance_inflation)
    return Estimate(difference, difference - reach, difference + reach)


def share_difference(
    clear: np.ndarray,
    others: np.ndarray,
    fold: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Estimate:
    """Return the difference of two methods' specificity, or sensitivity.

    Each is at its own threshold, on the same rows. The ends lie around the difference
    shrunk towards 0 by two rows (Agresti and Min 2005), with the variance between
    folds.

    Parameters
    ----------
    clear, others : bool ndarray of shape (n_rows,)
        True where the method, and the one it is compared with, are right: for
        specificity, where a negative is not flagged.
    fold : ndarray of shape (n_rows,), optional
    groups : ndarray of shape (n_rows,), optional
    """
    change = clear.astype(float) - others.astype(float)
    n = len(change)
    total = float(change.sum())
    squares = np.abs(change).sum() + 1 - total**2 / (n + 2)
    within = squares / (n + 2) ** 2
    codes = group_codes(groups)
    size_factor = 1.0
    if codes is not None:
        within *= design_effect(change, codes)
        size_factor = student_size_factor(int(codes.max()) + 1)
    between = 0.0
    if fold is not None:
        number = codes_of(fold)
        sizes = np.bincount(number)
        fold_means = np.bincount(number, weights=change) / sizes
        between = between_folds(fold_means, within * n / sizes)
    middle = total / (n + 2)
    reach = 1.96 * float(np.sqrt(within / size_factor + between))
    difference = total / n
    return Estimate(
        difference, min(middle - reach, difference), max(middle + reach, difference)
    )


def recall_difference(
    right: np.ndarray,
    others: np.ndarray,
    target: np.ndarray,
    groups: np.ndarray | None = None,
) -> Estimate:
    """Return the difference of two methods' mean recall over classes, on the same rows.

    Parameters
    ----------
    right, others : bool ndarray of shape (n_rows,)
        True where the method, and the one it is compared with, predict the row's class.
    target : int ndarray of shape (n_rows,)
        Class numbers.
    groups : ndarray of shape (n_rows,), optional
    """
    change = right.astype(float) - others
    size = np.bincount(target)
    n_present = np.count_nonzero(size)
    mean = np.bincount(target, weights=change) / np.maximum(size, 1)
    divisor = np.sqrt(size * np.maximum(size - 1, 1))
    pull = (change - mean[target]) / (divisor[target] * n_present)
    size_if_present = np.where(size > 0, size, len(target) + 1)
    is_rarest = target == size_if_present.argmin()
    reach = half_width(pull, is_rarest, group_codes(groups))
    difference = float(mean.sum() / n_present)
    return Estimate(difference, difference - reach, difference + reach)
