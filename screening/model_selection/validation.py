"""Held-out scores of the watched classes, what is chosen by them, and methods side by side on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.metrics.calibration import group_maxima, likeliest
from screening.metrics.operating_point import choose, overall
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOut
from screening.model_selection.task import Task
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
