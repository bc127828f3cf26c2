"""Paired differences between methods on one cohort, each a model that is its folds with its own threshold.

AUROC and specificity by formula, of which 94 to 97 in 100 intervals held; other figures by resampling rows or
groups. At equal true sensitivity nothing narrow holds: say "at these thresholds".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.documents.validation import Difference
from screening.statistics.intervals import design_effect, percentiles, students_share
from screening.statistics.predictive_intervals import between_folds, widening
from screening.statistics.ranking import placements, spread
from screening.statistics.tally import fewest_units, group_codes
from screening.validation.validation import Outcome, Validation, measured

DRAWS = 1000
MOST = 50_000
"""Rows of a side, watched or not, that are resampled at most; of more some stand for all."""

_CELLS_AT_ONCE = 4_000_000


def resampled(
    methods: Sequence[Outcome], asked: float, *, seed: int = 0, draws: int = DRAWS
) -> list[dict[str, np.ndarray]]:
    """Figures of every method, (draws,) each, in the same bootstrap samples of groups (or rows).

    The fitted models are kept: the spread is that of new rows, not of training on another cohort. Of very
    many rows (``MOST``) only some are resampled, about the figures of all: intervals are then a little wide.
    """
    rng = np.random.default_rng(seed)
    kept, stands = _standing([method.validation.watched for method in methods], rng)
    some = methods
    if thinned := len(kept) < len(methods[0].validation.fold):
        some = [Outcome(method.validation.take(kept), method.points) for method in methods]
    groups = some[0].validation.groups
    codes = np.arange(len(kept)) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    n_units = int(codes.max()) + 1
    parts: list[list[dict[str, np.ndarray]]] = [[] for _ in some]
    step = max(1, min(draws, _CELLS_AT_ONCE // len(kept)))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        weights = stands * rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=size)[:, codes]
        for part, method in zip(parts, some, strict=True):
            part.append(measured(method, asked, weights))
    drawn = [
        {figure: np.concatenate([each[figure] for each in part]) for figure in part[0]} for part in parts
    ]
    for figures, whole, thin in zip(drawn, methods, some, strict=True) if thinned else ():
        of_all, of_some = measured(whole, asked), measured(thin, asked, stands[None])
        for figure in figures:
            figures[figure] += of_all[figure] - of_some[figure]
    return drawn


def _standing(truths: Sequence[np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers, and how many rows each stands for: all of a side, or ``MOST`` drawn from it."""
    watched = np.any([watched.any(axis=1) for watched in truths], axis=0)
    stands = np.zeros(len(watched))
    for side in (np.flatnonzero(watched), np.flatnonzero(~watched)):
        few = side if len(side) <= MOST else rng.choice(side, MOST, replace=False)
        stands[few] = len(side) / max(len(few), 1)
    kept = np.flatnonzero(stands)
    return kept, stands[kept]


def independent_units(validation: Validation) -> int:
    """Groups (rows, where there are none) of the class that has the fewest of them."""
    return min(fewest_units(positive, validation.groups) for positive in validation.watched.T)


def difference(
    estimates: tuple[float, float], draws: tuple[np.ndarray, np.ndarray], n_units: int
) -> Difference:
    """Difference of a method from the control with its 95 % interval, None where it cannot be resampled."""
    gap = draws[0] - draws[1]
    known = gap[np.isfinite(gap)]
    low, high = percentiles(known, n_units) if len(known) else (None, None)
    return Difference(
        difference=estimates[0] - estimates[1],
        low=None if low is None else float(low),
        high=None if high is None else float(high),
    )


def differences(method: Outcome, other: Outcome) -> dict[str, Difference]:
    """AUROC, sensitivity and specificity of a method minus those of another, with 95 % intervals.

    Over several watched classes means, of the ends of intervals too, as if all classes erred together. A
    difference of sensitivity has no interval: both thresholds were chosen for one and the same.
    """
    own, others = method.validation, other.validation
    n_settings, groups = max(own.n_settings, others.n_settings), own.groups
    found: dict[str, list[Difference]] = {"auroc": [], "sensitivity": [], "specificity": []}
    for m, positive in enumerate(own.watched.T):
        pair = own.scores[:, m], others.scores[:, m]
        found["auroc"].append(auroc_difference(*pair, positive, groups, n_settings=n_settings))
        clear, others_clear = (~each.flagged[~positive, m] for each in (method, other))
        units = None if groups is None else groups[~positive]
        found["specificity"].append(specificity_difference(clear, others_clear, own.fold[~positive], units))
        gap = float(method.points[m].sensitivity or 0.0) - float(other.points[m].sensitivity or 0.0)
        found["sensitivity"].append(Difference(difference=gap, low=None, high=None))
    return {name: _mean_of(classes) for name, classes in found.items()}


def _mean_of(classes: Sequence[Difference]) -> Difference:
    return Difference(
        difference=_mean([each.difference for each in classes]),
        low=_mean([each.low for each in classes]),
        high=_mean([each.high for each in classes]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def auroc_difference(
    scores: np.ndarray,
    others: np.ndarray,
    positive: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    n_settings: int = 1,
) -> Difference:
    """Difference of two methods' AUROC on the same held-out rows: paired DeLong, its variance widened.

    `n_settings` were tried of the method that tried most. Both ends are None for fewer than two rows of a
    class.
    """
    codes = group_codes(groups)
    (area, pull), (other, other_pull) = (placements(each, positive) for each in (scores, others))
    if min(positive.sum(), (~positive).sum()) < 2:
        return Difference(difference=area - other, low=None, high=None)
    reach = spread(pull - other_pull, positive, codes) * np.sqrt(widening(n_settings))
    return Difference(difference=area - other, low=area - other - reach, high=area - other + reach)


def specificity_difference(
    clear: np.ndarray,
    others: np.ndarray,
    fold: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Difference:
    """Difference of two methods' specificity, each at its own threshold, on the same negatives.

    `clear` and `others` (n_negative,) are true where not flagged by the method, and by the one it is compared
    with. The difference is as seen; its ends lie about one drawn towards 0 by two rows (Agresti and Min
    2005), with the variance between folds.
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
        between = between_folds(np.bincount(number, weights=moved) / sizes, own * n / sizes)
    middle, reach = total / (n + 2), 1.96 * float(np.sqrt(own / student + between))
    seen = total / n
    return Difference(difference=seen, low=min(middle - reach, seen), high=max(middle + reach, seen))
