"""Boundary moved to where inner cross-validation would have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.estimators.kernel_machine import KernelClassifier, Rows, fit_on_some
from screening.estimators.remedies.base import Remedy
from screening.estimators.training import inner_folds
from screening.factors.base import check_count


@dataclass(frozen=True)
class MovedBoundary(Remedy):
    """Intercept shifted to the threshold with the best out-of-fold G-mean (Wu and Chang's BM).

    Parameters
    ----------
    folds : int, >= 2
        Inner folds, stratified, by group where there is one; fewer if the rarer class has fewer rows.
    seed : int
    """

    folds: int = 5
    seed: int = 0

    name: ClassVar[str] = "moved_boundary"
    whole_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("folds", self.folds, least=2)

    def threshold(
        self, machine: KernelClassifier, rows: Rows, memory: int | None
    ) -> float:
        fit, decisions = (
            fit_on_some(machine, rows, memory),
            np.full(len(rows.x), np.nan),
        )
        for train, test in inner_folds(rows.codes, rows.groups, self.folds, self.seed):
            decisions[test] = fit(train).decision_function(rows.x[test])
        decided = np.isfinite(decisions)
        weights = rows.class_weight or {0: 1.0, 1: 1.0}
        share = weights[1] / (weights[0] + weights[1])
        return best_g_mean(decisions[decided], rows.codes[decided] == 1, share)


def best_g_mean(
    decisions: np.ndarray, positive: np.ndarray, share: float = 0.5
) -> float:
    """Threshold with the largest sensitivity^share * specificity^(1 - share), flagged being above it.

    Candidates lie halfway between neighbouring decisions; of equally good ones the nearest to 0 is taken.
    """
    values, at = np.unique(decisions, return_inverse=True)
    if len(values) < 2 or not positive.any() or positive.all():
        return 0.0
    missed = np.cumsum(np.bincount(at, weights=positive))[:-1]
    cleared = np.cumsum(np.bincount(at, weights=~positive))[:-1]
    sensitivity, specificity = (
        1.0 - missed / positive.sum(),
        cleared / (~positive).sum(),
    )
    mean = sensitivity**share * specificity ** (1.0 - share)
    middle = (values[1:] + values[:-1]) / 2.0
    best = np.flatnonzero(mean >= mean.max() - 1e-12)
    return float(middle[best[np.abs(middle[best]).argmin()]])
