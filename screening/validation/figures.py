"""The figures of a comparison, from weighted rows: weights 1 for the estimate, drawn ones for its spread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.validation.outcome import Outcome
from screening.validation.task import Task

GRID = np.linspace(0.0, 1.0, 101)
"""Sensitivities at which the mean ROC curve is kept."""

BINARY = (
    "sensitivity", "specificity", "g_mean", "min_sensitivity", "auroc", "average_precision", "specificity_at",
    "own_g_mean",
)  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What the rows of a cohort really are."""

    watched: np.ndarray  # (n_rows, n_watched)
    target: np.ndarray | None = None  # class numbers of a multi-class task
    n_classes: int = 2

    def take(self, rows: np.ndarray) -> Truth:
        """What some of the rows are."""
        return replace(
            self, watched=self.watched[rows], target=None if self.target is None else self.target[rows]
        )


def truth_of(sample: Cohort, task: Task) -> Truth:
    """What a cohort's rows really are to a task."""
    label = labels_of(sample)
    target = task.target(label) if task.kind == "multi" else None
    return Truth(task.is_watched(label), target, len(task.classes))


def measured(
    outcome: Outcome, truth: Truth, asked: float, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort, over the rows of all folds together, (n_draws,) each.

    Several watched classes are averaged. `asked` is the sensitivity at which `specificity_at` is read from
    the ROC curve; `weights` (n_draws, n_rows) say how often each row counts in each draw. NaN where a draw
    holds no positive or no negative row.
    """
    if weights is None:
        weights = np.ones((1, len(truth.watched)))
    w = weights[:, outcome.rows]
    by_class = [
        _one_class(outcome, truth.watched[outcome.rows, m], m, asked, w)
        for m in range(truth.watched.shape[1])
    ]
    found = {name: np.mean([figures[name] for figures in by_class], axis=0) for name in BINARY}
    if truth.target is not None:
        found |= _of_all_classes(outcome, truth, w)
    return found


def _one_class(
    outcome: Outcome, positive: np.ndarray, m: int, asked: float, w: np.ndarray
) -> dict[str, np.ndarray]:
    size = np.array([w[:, side].sum(axis=1) for side in (positive, ~positive)])
    tuned, own = (
        np.array([w[:, side] @ flags[side, m] for side in (positive, ~positive)])
        for flags in (outcome.flagged, outcome.own)
    )
    sensitivity, specificity, g_mean = _g_mean(tuned, size)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "g_mean": g_mean,
        "min_sensitivity": np.minimum(sensitivity, specificity),
        "own_g_mean": _g_mean(own, size)[2],
    } | _ranking(outcome.scores[:, m], positive, w, asked)


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


def _of_all_classes(outcome: Outcome, truth: Truth, w: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the predicted class; `macro_g` averages sqrt(sensitivity x specificity) over classes."""
    assert truth.target is not None
    k = truth.n_classes
    target = truth.target[outcome.rows]
    cells = np.zeros((len(target), k * k))
    cells[np.arange(len(target)), target * k + outcome.predicted] = 1.0
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


def mean_curve(outcome: Outcome, truth: Truth) -> np.ndarray:
    """1 - specificity at each sensitivity of `GRID`, averaged over watched classes; shape (101,)."""
    curves = []
    for m in range(truth.watched.shape[1]):
        positive = truth.watched[outcome.rows, m]
        hits, alarms = _steps(outcome.scores[:, m], positive, np.ones((1, len(positive))))
        at = np.searchsorted(hits[0], GRID * hits[0, -1] - 1e-9)
        curve = alarms[0, at] / alarms[0, -1]
        curve[0] = 0.0
        curves.append(curve)
    return np.mean(curves, axis=0)
