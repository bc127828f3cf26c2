"""Threshold moved to where inner cross-validation puts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.estimators.kernel_machine import (
    KernelClassifier,
    TrainingRows,
    fit_on_subset,
)
from screening.estimators.remedies.base import Remedy
from screening.estimators.training import inner_folds
from screening.factors.base import check_count


@dataclass(frozen=True)
class MovedBoundary(Remedy):
    """Intercept shifted to the threshold with the best out-of-fold G-mean.

    Boundary movement (BM) of Wu and Chang.

    Parameters
    ----------
    folds : int, >= 2
        Inner folds, stratified, and by group if there are groups; fewer if the rarer
        class has fewer rows.
    seed : int
    """

    folds: int = 5
    seed: int = 0

    name: ClassVar[str] = "moved_boundary"
    whole_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("folds", self.folds, least=2)

    def threshold(
        self, machine: KernelClassifier, rows: TrainingRows, memory: int | None
    ) -> float:
        """Return the threshold with the best G-mean on inner folds."""
        fit = fit_on_subset(machine, rows, memory)
        decisions = np.full(len(rows.x), np.nan)
        folds = inner_folds(rows.codes, rows.groups, self.folds, self.seed)
        for train, test in folds:
            decisions[test] = fit(train).decision_function(rows.x[test])
        decided = np.isfinite(decisions)
        weights = rows.class_weight or {0: 1.0, 1: 1.0}
        positive_share = weights[1] / (weights[0] + weights[1])
        positive = rows.codes[decided] == 1
        return best_g_mean(decisions[decided], positive, positive_share)


def best_g_mean(
    decisions: np.ndarray, positive: np.ndarray, share: float = 0.5
) -> float:
    """Return the threshold with the largest weighted G-mean.

    It is sensitivity^share * specificity^(1 - share); rows above the threshold are
    flagged. Candidates lie halfway between neighboring decisions; of equally good ones
    the nearest to 0 is taken. 0 if there is one decision or one class only.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    share : float in [0, 1]
    """
    values, index = np.unique(decisions, return_inverse=True)
    one_class = positive.all() or not positive.any()
    if len(values) < 2 or one_class:
        return 0.0
    n_missed = np.cumsum(np.bincount(index, weights=positive))
    n_cleared = np.cumsum(np.bincount(index, weights=~positive))
    sensitivity = 1.0 - n_missed[:-1] / positive.sum()
    specificity = n_cleared[:-1] / (~positive).sum()
    g_mean = sensitivity**share * specificity ** (1.0 - share)
    thresholds = (values[1:] + values[:-1]) / 2.0
    best = thresholds[g_mean >= g_mean.max() - 1e-12]
    return float(best[np.abs(best).argmin()])
