"""Boundary moved to where inner cross-validation would have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from screening.factors.base import check_count
from screening.machines.training import inner_folds
from screening.remedies.base import Remedy


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

    def threshold(self, machine: Any, x: np.ndarray, codes: np.ndarray, groups: np.ndarray | None) -> float:
        decisions = np.full(len(x), np.nan)
        for train, test in inner_folds(codes, groups, self.folds, self.seed):
            part = None if groups is None else groups[train]
            decisions[test] = (
                clone(machine).fit(x[train], codes[train], groups=part).decision_function(x[test])
            )
        known = np.isfinite(decisions)
        weights = machine.class_weight or {0: 1.0, 1: 1.0}
        return best_g_mean(decisions[known], codes[known] == 1, weights[1] / (weights[0] + weights[1]))


def best_g_mean(decisions: np.ndarray, positive: np.ndarray, share: float = 0.5) -> float:
    """Threshold with the largest sensitivity^share * specificity^(1 - share), flagged being above it.

    Candidates lie halfway between neighbouring decisions; of equally good ones the nearest to 0 is taken.
    """
    values, at = np.unique(decisions, return_inverse=True)
    if len(values) < 2 or not positive.any() or positive.all():
        return 0.0
    missed = np.cumsum(np.bincount(at, weights=positive))[:-1]
    cleared = np.cumsum(np.bincount(at, weights=~positive))[:-1]
    found, kept = 1.0 - missed / positive.sum(), cleared / (~positive).sum()
    mean = found**share * kept ** (1.0 - share)
    middle = (values[1:] + values[:-1]) / 2.0
    best = np.flatnonzero(mean >= mean.max() - 1e-12)
    return float(middle[best[np.abs(middle[best]).argmin()]])
