"""Held-out scores of the watched classes, what a method did with them at its thresholds, and its figures.

Figures are of weighted rows: weights 1 for the estimate, drawn ones for its spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

import numpy as np

from screening.cohort.cohort import labels_of
from screening.documents.chances import likeliest
from screening.documents.comparison import Figure
from screening.documents.figures import Ends, Ranking
from screening.documents.validation import Curve
from screening.statistics.operating_point import (
    OperatingPoint,
    Rule,
    choose,
    curve,
    overall,
    points,
    summary,
)
from screening.statistics.p_values import group_maxima
from screening.statistics.performance import area
from screening.validation.folds import Study
from screening.validation.held_out import HeldOut


class OfClass(TypedDict):
    """What `choose` and `points` take of one watched class, by their names."""

    scores: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None
    fold: np.ndarray
    repeats: np.ndarray
    alike: np.ndarray | None


@dataclass(frozen=True)
class Validation:
    """Scores of every row by machines that had not seen it."""

    scores: np.ndarray  # (n_rows, n_watched), mean over the repeats
    repeats: np.ndarray  # (n_repeats, n_rows, n_watched), of each dealing of the folds
    fold: np.ndarray  # the fold a row was held out in, in the first repeat
    watched: np.ndarray  # bool, (n_rows, n_watched): what the rows really are
    own: np.ndarray  # bool, as watched: flagged by a decision above 0, or the largest
    predicted: np.ndarray | None  # class with the highest chance; None for a binary task
    groups: np.ndarray | None  # what was kept whole
    n_settings: int  # that competed on these rows
    target: np.ndarray | None = None  # number of the class of each row; None for a binary task
    alike: np.ndarray | None = None  # a number for each distinct row, where one stands for many

    @classmethod
    def of(cls, held_out: HeldOut, study: Study) -> Validation:
        """The scores that a recipe's folds give."""
        task, columns = study.task, study.task.watched_columns
        decisions = held_out.decisions.astype(float)
        mean = decisions.mean(axis=0)
        multi = task.kind == "multi"
        return cls(
            scores=mean[:, columns],
            repeats=decisions[:, :, columns],
            fold=held_out.fold[0],
            watched=task.is_watched(labels_of(study.sample)),
            own=mean.argmax(axis=1)[:, None] == np.asarray(columns) if multi else mean > 0,
            predicted=likeliest(held_out.class_chances, mean) if multi else None,
            groups=study.groups,
            n_settings=held_out.search.n_candidates,
            target=study.target if multi else None,
            alike=held_out.encoded.alike,
        )

    @classmethod
    def elsewhere(
        cls,
        scores: np.ndarray,
        watched: np.ndarray,
        groups: np.ndarray | None,
        predicted: np.ndarray | None = None,
        target: np.ndarray | None = None,
    ) -> Validation:
        """Scores of rows that took no part in training, (n_rows, n_watched), by the whole model."""
        nothing = np.zeros(watched.shape, dtype=bool)
        fold = np.zeros(len(scores), dtype=int)
        return cls(scores, scores[None], fold, watched, nothing, predicted, groups, 1, target)

    def take(self, rows: np.ndarray) -> Validation:
        """Some rows, by their numbers; groups as text, which is how they are kept."""
        return replace(
            self,
            scores=self.scores[rows],
            repeats=self.repeats[:, rows],
            fold=self.fold[rows],
            watched=self.watched[rows],
            own=self.own[rows],
            groups=None if self.groups is None else np.asarray(self.groups)[rows].astype(str).astype(object),
            predicted=None if self.predicted is None else self.predicted[rows],
            target=None if self.target is None else self.target[rows],
            alike=None if self.alike is None else self.alike[rows],
        )

    def of_class(self, m: int) -> OfClass:
        """The rows as one watched class has them."""
        return {
            "scores": self.scores[:, m],
            "y": self.watched[:, m],
            "groups": self.groups,
            "fold": self.fold,
            "repeats": self.repeats[:, :, m],
            "alike": self.alike,
        }

    def ranking(self, m: int, seed: int) -> Ranking:
        """AUROC and average precision of a watched class, with intervals."""
        return summary(
            self.scores[:, m], self.watched[:, m], self.groups, seed=seed, n_settings=self.n_settings
        )

    def area(self, m: int) -> tuple[float, float, float]:
        """AUROC of a watched class, with its interval."""
        return area(self.scores[:, m], self.watched[:, m], self.groups, n_settings=self.n_settings)

    def curve(self, m: int, prevalence: float, seed: int) -> Curve:
        """What every threshold would do to a watched class."""
        return curve(self.scores[:, m], self.watched[:, m], self.groups, seed=seed, prevalence=prevalence)

    def points(self, m: int, prevalence: float, seed: int) -> list[OperatingPoint]:
        """What the usual rules would choose for a watched class."""
        return points(**self.of_class(m), seed=seed, prevalence=prevalence)

    def operating_points(self, rules: Sequence[Rule], seed: int) -> list[OperatingPoint]:
        """Of every watched class the threshold by its rule."""
        return [self.operating_point(m, rule, seed) for m, rule in enumerate(rules)]

    def operating_point(self, m: int, rule: Rule, seed: int) -> OperatingPoint:
        """The threshold of a watched class by a rule, with what it promises."""
        return choose(**self.of_class(m), rule=rule, seed=seed)


def calibration_of(validation: Validation, thresholds: np.ndarray) -> np.ndarray:
    """Sorted held-out scores of known negatives, what p-values are ranks in: one a row, or one a group.

    A group stands for its highest negative row: then a row's rank is valid whatever else its group holds.
    """
    negative = ~validation.watched.any(axis=1)
    scores = overall(validation.scores[negative], thresholds)
    groups = validation.groups
    return np.sort(scores) if groups is None else group_maxima(scores, groups[negative])


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
