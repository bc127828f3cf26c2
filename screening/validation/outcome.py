"""What one method did on rows held out from its machines, at the thresholds chosen on them, and its figures.

Figures are of weighted rows: weights 1 for the estimate, drawn ones for its spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from screening.documents.comparison import Figure
from screening.documents.figures import Ends
from screening.statistics.operating_point import OperatingPoint
from screening.validation.validation import Validation


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of one method, and the operating points chosen on them, one a watched class."""

    validation: Validation
    points: Sequence[OperatingPoint]

    @property
    def thresholds(self) -> np.ndarray:
        """One a watched class, shape (n_watched,)."""
        return np.array([point.threshold for point in self.points])

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the thresholds, shape (n_rows, n_watched)."""
        return self.validation.scores >= self.thresholds

    @cached_property
    def figures(self) -> Mapping[str, Figure]:
        """AUROC, sensitivity and specificity at the thresholds, means over the watched classes."""
        return {
            "auroc": _mean([self.validation.area(m) for m in range(len(self.points))]),
            "sensitivity": _mean([point.sensitivity_ends for point in self.points]),
            "specificity": _mean([point.specificity_ends for point in self.points]),
        }


def _mean(found: Sequence[Ends]) -> Figure:
    value, low, high = (float(each) for each in np.mean(np.array(found, float), axis=0))
    return Figure(value=value, low=low, high=high)


GRID = np.linspace(0.0, 1.0, 101)
"""Sensitivities at which the mean ROC curve is kept."""

BINARY = (
    "sensitivity", "specificity", "g_mean", "min_sensitivity", "auroc", "average_precision", "specificity_at",
    "own_g_mean",
)  # fmt: skip


def measured(outcome: Outcome, asked: float, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort, over the rows of all folds together, (n_draws,) each.

    Several watched classes are averaged. `asked` is the sensitivity at which `specificity_at` is read from
    the ROC curve; `weights` (n_draws, n_rows) say how often each row counts in each draw. NaN where a draw
    holds no positive or no negative row.
    """
    watched = outcome.validation.watched
    w = np.ones((1, len(watched))) if weights is None else weights
    by_class = [_one_class(outcome, positive, m, asked, w) for m, positive in enumerate(watched.T)]
    found = {name: np.mean([figures[name] for figures in by_class], axis=0) for name in BINARY}
    if outcome.validation.target is not None:
        found |= _of_all_classes(outcome.validation, w)
    return found


def _one_class(
    outcome: Outcome, positive: np.ndarray, m: int, asked: float, w: np.ndarray
) -> dict[str, np.ndarray]:
    size = np.array([w[:, side].sum(axis=1) for side in (positive, ~positive)])
    tuned, own = (
        np.array([w[:, side] @ flags[side, m] for side in (positive, ~positive)])
        for flags in (outcome.flagged, outcome.validation.own)
    )
    sensitivity, specificity, g_mean = _g_mean(tuned, size)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "g_mean": g_mean,
        "min_sensitivity": np.minimum(sensitivity, specificity),
        "own_g_mean": _g_mean(own, size)[2],
    } | _ranking(outcome.validation.scores[:, m], positive, w, asked)


def _g_mean(flags: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rate = flags / np.where(size > 0, size, np.nan)
    sensitivity, specificity = rate[0], 1 - rate[1]
    return sensitivity, specificity, np.sqrt(np.maximum(sensitivity * specificity, 0.0))


def _steps(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted hits and alarms at or above each distinct score, highest first; (n_draws, n_distinct)."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    w, hit = weights[:, order], positive[order]
    return np.cumsum(w * hit, axis=1)[:, ends], np.cumsum(w * ~hit, axis=1)[:, ends]


def _ranking(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray, asked: float
) -> dict[str, np.ndarray]:
    # scikit-learn's functions take one vector of weights; here all draws of the bootstrap go at once.
    hits, alarms = _steps(scores, positive, weights)
    there = (hits[:, -1] > 0) & (alarms[:, -1] > 0)
    n_hits, n_alarms = (np.where(there, each[:, -1], np.nan) for each in (hits, alarms))
    gained = np.diff(hits, axis=1, prepend=0.0)
    tied = np.diff(alarms, axis=1, prepend=0.0)
    below = alarms[:, -1:] - alarms + tied / 2
    at = (hits >= asked * hits[:, -1:] - 1e-9).argmax(axis=1)
    return {
        "auroc": (gained * below).sum(axis=1) / (n_hits * n_alarms),
        "average_precision": (gained * hits / np.maximum(hits + alarms, 1e-12)).sum(axis=1) / n_hits,
        "specificity_at": 1 - np.take_along_axis(alarms, at[:, None], axis=1)[:, 0] / n_alarms,
    }


def _of_all_classes(validation: Validation, w: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the predicted class; `macro_g` averages sqrt(sensitivity x specificity) over classes."""
    target, predicted = validation.target, validation.predicted
    assert target is not None and predicted is not None
    k = 1 + int(max(target.max(), predicted.max()))
    cells = np.zeros((len(target), k * k))
    cells[np.arange(len(target)), target * k + predicted] = 1.0
    counts = (w @ cells).reshape(-1, k, k)
    size, called = counts.sum(axis=2), counts.sum(axis=1)
    total = size.sum(axis=1, keepdims=True)
    right = np.diagonal(counts, axis1=1, axis2=2)
    # A class that a draw leaves out has no recall; the mean is over those that are there.
    recall = right / np.where(size > 0, size, np.nan)
    specificity = 1 - (called - right) / np.maximum(total - size, 1e-12)
    f1 = np.where(size > 0, 2 * right / np.maximum(size + called, 1e-12), np.nan)
    return {
        "macro_recall": np.nanmean(recall, axis=1),
        "macro_g": np.nanmean(np.sqrt(recall * specificity), axis=1),
        "geometric_recall": np.exp(np.nanmean(np.log(np.maximum(recall, 1e-300)), axis=1)),
        "min_recall": np.nanmin(recall, axis=1),
        "macro_f1": np.nanmean(f1, axis=1),
    }


def mean_curve(validation: Validation) -> np.ndarray:
    """1 - specificity at each sensitivity of `GRID`, averaged over watched classes; shape (101,)."""
    curves = []
    for scores, positive in zip(validation.scores.T, validation.watched.T, strict=True):
        hits, alarms = _steps(scores, positive, np.ones((1, len(positive))))
        at = np.searchsorted(hits[0], GRID * hits[0, -1] - 1e-9)
        curve = alarms[0, at] / alarms[0, -1]
        curve[0] = 0.0
        curves.append(curve)
    return np.mean(curves, axis=0)
