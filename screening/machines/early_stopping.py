"""Judging inside the training rows: inner folds, and how many passes they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

# Wu and Chang's theta: the loop goes on while the score gains more than this.
LEAST_GAIN = 1e-3


class Judged(Protocol):
    """A fitted machine that can say what it predicted after fewer passes."""

    def codes_after(self, X: np.ndarray, passes: int) -> np.ndarray: ...


def inner_folds(
    codes: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified (train, test) row numbers, groups kept whole; every training part holds all classes.

    Fewer folds where the rarest class has fewer rows or groups, none where it has one only.
    """
    n_classes = int(codes.max()) + 1
    holders = [
        np.sum(codes == m) if groups is None else len(np.unique(groups[codes == m])) for m in range(n_classes)
    ]
    folds = min(folds, int(min(holders)))
    if folds < 2:
        return
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    for train, test in splitter(folds, shuffle=True, random_state=seed).split(codes, codes, groups):
        if len(np.unique(codes[train])) == n_classes:
            yield train, test


def mean_recall(codes: np.ndarray, predicted: np.ndarray) -> float:
    """Geometric mean of the recalls of the classes present; of two classes the G-mean."""
    recalls = [np.mean(predicted[codes == m] == m) for m in np.unique(codes)]
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


def inner_scores(
    fit: Callable[[np.ndarray], Judged],
    x: np.ndarray,
    codes: np.ndarray,
    groups: np.ndarray | None,
    passes: int,
    folds: int,
    seed: int,
) -> np.ndarray:
    """Out-of-fold geometric mean of recalls after 0, 1, ... ``passes`` rescalings, shape (passes + 1,).

    `fit` makes of row numbers a machine fitted on them with all passes.
    """
    predicted = np.full((passes + 1, len(x)), -1)
    for train, test in inner_folds(codes, groups, folds, seed):
        machine = fit(train)
        for t in range(passes + 1):
            predicted[t, test] = machine.codes_after(x[test], t)
    judged = predicted[0] >= 0
    if not judged.any():
        return np.zeros(passes + 1)
    return np.array([mean_recall(codes[judged], each[judged]) for each in predicted])


def n_passes_by_cv(scores: np.ndarray) -> int:
    """Number of passes after which the next one no longer gains ``LEAST_GAIN``."""
    worth = 0
    while worth + 1 < len(scores) and scores[worth + 1] - scores[worth] > LEAST_GAIN:
        worth += 1
    return worth
