"""The figures of a comparison, from weighted rows: weights 1 for the estimate, drawn ones for its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from screening.comparing.outcome import Outcome

GRID = np.linspace(0.0, 1.0, 101)
"""Sensitivities at which the mean ROC curve is kept."""

BINARY = (
    "sensitivity", "specificity", "g_mean", "min_sensitivity", "auroc", "average_precision", "specificity_at",
    "own_g_mean", "fold_g_mean",
)  # fmt: skip
MULTI = ("macro_recall", "macro_g", "geometric_recall", "min_recall", "macro_f1")


@dataclass(frozen=True)
class Truth:
    """What the rows of a cohort really are.

    Parameters
    ----------
    watched : ndarray of bool, shape (n_rows, n_watched)
    target : ndarray of int, shape (n_rows,), or None
        Class numbers of a multi-class task.
    n_classes : int
    """

    watched: np.ndarray
    target: np.ndarray | None = None
    n_classes: int = 2

    def take(self, rows: np.ndarray) -> Truth:
        """What some of the rows are."""
        return replace(
            self, watched=self.watched[rows], target=None if self.target is None else self.target[rows]
        )


def measured(
    outcomes: Sequence[Outcome],
    truth: Truth,
    asked: float,
    weights: np.ndarray | None = None,
    repeats: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort.

    Sensitivity and specificity count every row once a repeat, over all folds, and the G-mean is of those two;
    `fold_g_mean` is the mean over folds as most papers print it. AUROC, average precision and specificity at
    the asked sensitivity are means over folds, because fold models have their own scales. Several watched
    classes are averaged.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Every fold of every repeat.
    truth : Truth
    asked : float
        Sensitivity, 0 to 1, at which `specificity_at` is read from each fold's ROC curve.
    weights : ndarray, shape (n_draws, n_rows), optional
        How often each row counts in each draw; once, if None.
    repeats : ndarray, shape (n_draws, n_repeats), optional
        How often each repeat counts.

    Returns
    -------
    dict of ndarray, shape (n_draws,)
        NaN where a draw holds no positive or no negative row.
    """
    if weights is None:
        weights = np.ones((1, len(truth.watched)))
    if repeats is None:
        repeats = np.ones((len(weights), 1 + max(outcome.repeat for outcome in outcomes)))
    by_class = [
        _one_class(outcomes, truth.watched[:, m], m, asked, weights, repeats)
        for m in range(truth.watched.shape[1])
    ]
    found = {name: np.mean([figures[name] for figures in by_class], axis=0) for name in BINARY}
    if truth.target is not None:
        found |= _of_all_classes(outcomes, truth, weights, repeats)
    return found


def _one_class(
    outcomes: Sequence[Outcome],
    watched: np.ndarray,
    m: int,
    asked: float,
    weights: np.ndarray,
    repeats: np.ndarray,
) -> dict[str, np.ndarray]:
    n_draws = len(weights)
    tuned, own, size = (np.zeros((2, n_draws)) for _ in range(3))
    rankings: dict[str, list[np.ndarray]] = {"auroc": [], "average_precision": [], "specificity_at": []}
    fold_g, shares = [], []
    for outcome in outcomes:
        positive, share = watched[outcome.rows], repeats[:, outcome.repeat]
        w = weights[:, outcome.rows]
        both = [w[:, positive], w[:, ~positive]]
        here = np.array([part.sum(axis=1) for part in both])
        flags = np.array(
            [part @ outcome.flagged[c, m] for part, c in zip(both, (positive, ~positive), strict=True)]
        )
        own_flags = np.array(
            [part @ outcome.own[c, m] for part, c in zip(both, (positive, ~positive), strict=True)]
        )
        size += share * here
        tuned += share * flags
        own += share * own_flags
        fold_g.append(_g_mean(flags, here)[2])
        shares.append(share)
        for name, value in _ranking(outcome.scores[:, m], positive, w, asked).items():
            rankings[name].append(value)
    sensitivity, specificity, g_mean = _g_mean(tuned, size)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "g_mean": g_mean,
        "min_sensitivity": np.minimum(sensitivity, specificity),
        "own_g_mean": _g_mean(own, size)[2],
        "fold_g_mean": _mean(fold_g, shares),
    } | {name: _mean(values, shares) for name, values in rankings.items()}


def _g_mean(flags: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rate = flags / np.where(size > 0, size, np.nan)
    sensitivity, specificity = rate[0], 1 - rate[1]
    return sensitivity, specificity, np.sqrt(np.maximum(sensitivity * specificity, 0.0))


def _mean(values: Sequence[np.ndarray], shares: Sequence[np.ndarray]) -> np.ndarray:
    """Weighted mean over folds, those without a positive or a negative row left out."""
    stacked, weight = np.array(values), np.array(shares, float)
    weight = np.where(np.isfinite(stacked), weight, 0.0)
    total = weight.sum(axis=0)
    return (np.where(weight > 0, stacked, 0.0) * weight).sum(axis=0) / np.where(total > 0, total, np.nan)


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


def _of_all_classes(
    outcomes: Sequence[Outcome], truth: Truth, weights: np.ndarray, repeats: np.ndarray
) -> dict[str, np.ndarray]:
    """Figures of the predicted class; `macro_g` averages sqrt(sensitivity x specificity) over classes."""
    assert truth.target is not None
    k = truth.n_classes
    counts = np.zeros((len(weights), k, k))
    for outcome in outcomes:
        target, share = truth.target[outcome.rows], repeats[:, outcome.repeat, None]
        cells = np.zeros((len(target), k * k))
        cells[np.arange(len(target)), target * k + outcome.predicted] = 1.0
        counts += (share * (weights[:, outcome.rows] @ cells)).reshape(-1, k, k)
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


def mean_curve(outcomes: Sequence[Outcome], truth: Truth) -> np.ndarray:
    """1 - specificity at each sensitivity of `GRID`, averaged over folds and watched classes; shape (101,).

    Averaged along that axis, the area beside the curve is the mean AUROC and `specificity_at` a point of it.
    """
    curves = []
    for outcome in outcomes:
        for m in range(truth.watched.shape[1]):
            positive = truth.watched[outcome.rows, m]
            if not positive.any() or positive.all():
                continue
            hits, alarms = _steps(outcome.scores[:, m], positive, np.ones((1, len(positive))))
            at = np.searchsorted(hits[0], GRID * hits[0, -1] - 1e-9)
            curve = alarms[0, at] / alarms[0, -1]
            curve[0] = 0.0
            curves.append(curve)
    return np.mean(curves, axis=0) if curves else GRID
