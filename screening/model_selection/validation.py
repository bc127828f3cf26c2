"""Held-out scores of the watched classes, what is chosen by them, and methods side by side on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.metrics.calibration import likeliest
from screening.metrics.operating_point import choose, overall
from screening.metrics.p_values import group_maxima
from screening.metrics.paired import (
    DRAWS,
    auroc_difference,
    drawn_weights,
    false_alarms_at,
    recall_difference,
    share_difference,
    weighted_ranking,
    weighted_rates,
    weighted_recalls,
)
from screening.metrics.performance import area
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOut
from screening.model_selection.task import Task
from screening.schemas.base import Estimate
from screening.schemas.figures import OperatingPoint, Rule
from screening.schemas.validation import Platt


@dataclass(frozen=True)
class Validation:
    """Scores of every row by machines that had not seen it."""

    task: Task
    target: np.ndarray  # (n_rows,), the class of each row, as the task numbers it
    repeats: np.ndarray  # (n_repeats, n_rows, n_watched), of each dealing of the folds
    fold: np.ndarray  # the fold a row was held out in, in the first repeat
    groups: np.ndarray | None  # what was kept whole
    predicted: np.ndarray | None = None  # class with the highest chance; None for a binary task
    n_settings: int = 1  # that competed on these rows
    alike: np.ndarray | None = None  # a number for each distinct row, where one stands for many
    # bool, (n_rows, n_watched): flagged by a decision above 0, or the largest; None where it was not kept
    own: np.ndarray | None = None
    # (n_rows, n_watched), by the stored machines, which have seen the rows; None where none has
    trained: np.ndarray | None = None

    @cached_property
    def scores(self) -> np.ndarray:
        """Mean over the repeats, shape (n_rows, n_watched)."""
        return self.repeats.mean(axis=0)

    @cached_property
    def watched(self) -> np.ndarray:
        """What the rows really are, shape (n_rows, n_watched), boolean."""
        return self.target[:, None] == np.asarray(self.task.watched_codes)

    @classmethod
    def of(cls, held_out: HeldOut, study: Study) -> Validation:
        """The scores that a recipe's folds give."""
        return cls.of_decisions(
            held_out.decisions.astype(float), study.task, study.target, study.groups, held_out.class_chances,
            fold=held_out.fold[0], n_settings=held_out.search.n_candidates, alike=held_out.encoded.alike,
        )  # fmt: skip

    @classmethod
    def of_decisions(
        cls, decisions: np.ndarray, task: Task, target: np.ndarray, groups: np.ndarray | None,
        chances: Sequence[Platt], fold: np.ndarray | None = None, **others: Any,
    ) -> Validation:  # fmt: skip
        """Decisions (n_repeats, n_rows, n_outputs) by machines that had not seen the rows.

        `fold` is None of rows that took no part in any training; `others` are fields.
        """
        columns, mean, multi = task.watched_columns, decisions.mean(axis=0), task.kind == "multi"
        return cls(
            task, target,
            repeats=decisions[:, :, columns],
            fold=np.zeros(len(mean), dtype=int) if fold is None else fold,
            groups=groups,
            predicted=likeliest(chances, mean) if multi else None,
            own=mean.argmax(axis=1)[:, None] == np.asarray(columns) if multi else mean > 0,
            **others,
        )  # fmt: skip

    def take(self, rows: np.ndarray) -> Validation:
        """Some rows, by their numbers; groups as text, which is how they are kept."""
        groups = None if self.groups is None else np.asarray(self.groups)[rows].astype(str).astype(object)
        columns = {name: getattr(self, name) for name in ("predicted", "alike", "own", "trained")}
        taken = {name: values[rows] for name, values in columns.items() if values is not None}
        return replace(
            self, target=self.target[rows], repeats=self.repeats[:, rows], fold=self.fold[rows],
            groups=groups, **taken,
        )  # fmt: skip

    def of_class(self, m: int) -> dict[str, Any]:
        """What `choose` and `points` take of one watched class, by their names."""
        return {
            "scores": self.scores[:, m],
            "y": self.watched[:, m],
            "groups": self.groups,
            "fold": self.fold,
            "repeats": self.repeats[:, :, m],
            "alike": self.alike,
        }

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
    def figures(self) -> Mapping[str, Estimate]:
        """AUROC, sensitivity and specificity at the thresholds, means over the watched classes."""
        found = self.validation
        areas = [
            Estimate(*area(own, cases, found.groups, n_settings=found.n_settings))
            for own, cases in zip(found.scores.T, found.watched.T, strict=True)
        ]
        return {
            "auroc": _mean_of(areas),
            "sensitivity": _mean_of([point.sensitivity for point in self.points]),
            "specificity": _mean_of([point.specificity for point in self.points]),
        }


def _mean_of(classes: Sequence[Estimate]) -> Estimate:
    """Means over classes of a figure and of its ends; None where one is."""
    means = np.array([one.ends for one in classes], float).mean(axis=0)
    return Estimate(*(None if np.isnan(end) else end for end in means))


def measured(outcome: Outcome, asked: float, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Figures of one method on one cohort, over the rows of all folds together, (n_draws,) each.

    Several watched classes are averaged. `asked` is the sensitivity at which `specificity_at` is read from
    the ROC curve; `weights` (n_draws, n_rows) say how often each row counts in each draw. NaN where a draw
    holds no positive or no negative row.
    """
    held = outcome.validation
    w = np.ones((1, len(held.fold))) if weights is None else weights
    by_class = []
    for m, positive in enumerate(held.watched.T):
        sensitivity, specificity, g_mean = weighted_rates(outcome.flagged[:, m], positive, w)
        rates = {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "g_mean": g_mean,
            "min_sensitivity": np.minimum(sensitivity, specificity),
        }
        if held.own is not None:
            rates["own_g_mean"] = weighted_rates(held.own[:, m], positive, w)[2]
        by_class.append(rates | weighted_ranking(held.scores[:, m], positive, w, asked))
    found = {name: np.mean([figures[name] for figures in by_class], axis=0) for name in by_class[0]}
    if held.predicted is not None:
        found |= weighted_recalls(held.target, held.predicted, w)
    return found


def resampled(
    methods: Sequence[Outcome], asked: float, *, seed: int = 0, draws: int = DRAWS
) -> list[dict[str, np.ndarray]]:
    """Figures of every method, (draws,) each, in the same bootstrap samples of groups (or rows).

    The fitted models are kept: the spread is that of new rows, not of training on another cohort.
    """
    held = methods[0].validation
    parts = [
        [measured(method, asked, weights) for method in methods]
        for weights in drawn_weights(len(held.fold), held.groups, seed, draws)
    ]
    return [
        {name: np.concatenate([part[m][name] for part in parts]) for name in parts[0][m]}
        for m in range(len(methods))
    ]


def mean_curve(held: Validation) -> np.ndarray:
    """1 - specificity at sensitivities of 0, 0.01, ... 1, averaged over watched classes; shape (101,)."""
    grid, pairs = np.linspace(0.0, 1.0, 101), zip(held.scores.T, held.watched.T, strict=True)
    return np.mean([false_alarms_at(scores, positive, grid) for scores, positive in pairs], axis=0)


def differences(method: Outcome, other: Outcome) -> dict[str, Estimate]:
    """AUROC, sensitivity and specificity of a method minus those of another, with 95 % intervals.

    Over several watched classes means, of the ends of intervals too, as if all classes erred together. Where
    both thresholds were chosen for one sensitivity, its interval says how far other cases would move them.
    """
    own, others = method.validation, other.validation
    n_settings, groups = max(own.n_settings, others.n_settings), own.groups
    found: dict[str, list[Estimate]] = {"auroc": [], "sensitivity": [], "specificity": []}
    for m, positive in enumerate(own.watched.T):
        pair = own.scores[:, m], others.scores[:, m]
        found["auroc"].append(auroc_difference(*pair, positive, groups, n_settings=n_settings))
        for name, side, fold in (("sensitivity", positive, None), ("specificity", ~positive, own.fold)):
            mine, theirs = (each.flagged[side, m] == positive[side] for each in (method, other))
            of_fold, units = (None if values is None else values[side] for values in (fold, groups))
            found[name].append(share_difference(mine, theirs, of_fold, units))
    means = {name: _mean_of(classes) for name, classes in found.items()}
    if own.predicted is None or others.predicted is None:
        return means
    right = own.predicted == own.target, others.predicted == own.target
    return means | {"macro_recall": recall_difference(*right, own.target, groups)}
