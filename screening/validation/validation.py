"""Held-out scores of the watched classes: what every promise and every figure is read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from screening.cohort.cohort import labels_of
from screening.documents.chances import likeliest
from screening.documents.figures import Ranking
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
from screening.statistics.threshold_search import alike
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
            alike=alike(held_out.encoded.x),
        )

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
