"""Held-out scores of the watched classes: all that a model is judged by, and how they are kept with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.estimators.ensembles import Pooling
from screening.io.columns import Columns, count_rows
from screening.metrics.calibration import group_maxima, likeliest
from screening.metrics.operating_point import ThresholdSelector, overall
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOut
from screening.model_selection.task import Task
from screening.schemas.base import Estimate
from screening.schemas.figures import OperatingPoint, Rule
from screening.schemas.validation import Beside, Calibration, Forward, Platt
from screening.store.model import Model

# The fold of rows that no machine of the past was trained on.
AFTER = -1
# Before the names of columns of `validation.parquet`.
PAST, TRAINED, SUBGROUP = "past:", "trained:", "subgroup:"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fixed:
    """What was chosen before these rows were seen: it is tried on them, and nothing is chosen by them."""

    thresholds: np.ndarray  # (n_watched,)
    calibration: Mapping[str, Calibration]


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of every row by machines that had not seen it, and what else a model is judged by."""

    task: Task
    target: np.ndarray  # (n_rows,), the class of each row, as the task numbers it
    repeats: np.ndarray  # (n_repeats, n_rows, n_watched), of each dealing of the folds
    fold: np.ndarray  # the fold a row was held out in, in the first repeat
    groups: np.ndarray | None  # what was kept whole
    recipe: str = ""
    one_class: bool = False  # whether nothing was learned from positives
    predicted: np.ndarray | None = (
        None  # class with the highest chance; None for a binary task
    )
    n_settings: int = 1  # that competed on these rows
    alike: np.ndarray | None = (
        None  # a number for each distinct row, where one stands for many
    )
    # bool, (n_rows, n_watched): flagged by a decision above 0, or the largest; None where it was not kept
    own: np.ndarray | None = None
    # (n_rows, n_watched), by the stored machines, which have seen the rows; None where none has
    trained: np.ndarray | None = None
    # of each watched class in the whole table, of which the rows may be a sample
    shares: Mapping[str, Estimate] = field(default_factory=dict)
    prevalence: float | None = None  # as the caller or the contract states it
    subgroups: Columns | None = None  # text
    # other methods on the same folds, by recipe: members of the blend, and what it is compared with
    methods: Mapping[str, HeldOutScores] = field(default_factory=dict)
    members: Mapping[str, str] = field(
        default_factory=dict
    )  # of a blend: recipes and their titles
    pooling: Pooling | None = None  # how they are blended
    # What it is compared with, without figures; None where no comparison was asked for.
    beside: Sequence[Beside] | None = None
    # the cut in time, without figures, or why there is none; None where the table has no dates
    forward: Forward | None = None
    # of machines of the past alone: what came after is of fold `AFTER`; it may watch fewer classes
    later: HeldOutScores | None = None
    fixed: Fixed | None = (
        None  # of another cohort than the model's: what the model had chosen
    )

    @cached_property
    def scores(self) -> np.ndarray:
        """Mean over the repeats, shape (n_rows, n_watched)."""
        return self.repeats.mean(axis=0)

    @cached_property
    def watched(self) -> np.ndarray:
        """What the rows really are, shape (n_rows, n_watched), boolean."""
        return self.target[:, None] == np.asarray(self.task.watched_codes)

    @classmethod
    def of(cls, held_out: HeldOut, study: Study) -> HeldOutScores:
        """The scores that a recipe's folds give."""
        return cls.of_decisions(
            held_out.decisions.astype(float),
            study.task,
            study.target,
            study.groups,
            held_out.class_chances,
            fold=held_out.fold[0],
            recipe=held_out.recipe.name,
            one_class=held_out.one_class,
            n_settings=held_out.search.n_candidates,
            alike=held_out.encoded.alike,
        )

    @classmethod
    def of_decisions(
        cls,
        decisions: np.ndarray,
        task: Task,
        target: np.ndarray,
        groups: np.ndarray | None,
        chances: Sequence[Platt],
        fold: np.ndarray | None = None,
        **others: Any,
    ) -> HeldOutScores:
        """Decisions (n_repeats, n_rows, n_outputs) by machines that had not seen the rows.

        `fold` is None of rows that took no part in any training; `others` are fields.
        """
        columns, mean, multi = (
            task.watched_columns,
            decisions.mean(axis=0),
            task.kind == "multi",
        )
        return cls(
            task,
            target,
            repeats=decisions[:, :, columns],
            fold=np.zeros(len(mean), dtype=int) if fold is None else fold,
            groups=groups,
            predicted=likeliest(chances, mean) if multi else None,
            own=mean.argmax(axis=1)[:, None] == np.asarray(columns)
            if multi
            else mean > 0,
            **others,
        )

    def take(self, rows: np.ndarray) -> HeldOutScores:
        """Some rows, by their numbers; groups as text, which is how they are kept."""
        groups = (
            None
            if self.groups is None
            else np.asarray(self.groups)[rows].astype(str).astype(object)
        )
        columns = {
            name: getattr(self, name)
            for name in ("predicted", "alike", "own", "trained")
        }
        taken = {
            name: values[rows] for name, values in columns.items() if values is not None
        }
        return replace(
            self,
            target=self.target[rows],
            repeats=self.repeats[:, rows],
            fold=self.fold[rows],
            groups=groups,
            **taken,
        )

    def selector(self, m: int, seed: int) -> ThresholdSelector:
        """What chooses thresholds of a watched class."""
        scores, cases, repeats = (
            self.scores[:, m],
            self.watched[:, m],
            self.repeats[:, :, m],
        )
        return ThresholdSelector.of(
            scores, cases, self.groups, seed, self.fold, repeats, self.alike
        )

    def operating_point(self, m: int, rule: Rule, seed: int) -> OperatingPoint:
        """The threshold of a watched class by a rule, with what it promises."""
        return self.selector(m, seed).point(rule)

    def calibration(self, thresholds: np.ndarray) -> np.ndarray:
        """Sorted scores of known negatives, what p-values are ranks in: one a row, or one a group.

        A group stands for its highest negative row: then a row's rank is valid whatever else its group holds.
        """
        negative = ~self.watched.any(axis=1)
        scores = overall(self.scores[negative], thresholds)
        return (
            np.sort(scores)
            if self.groups is None
            else group_maxima(scores, self.groups[negative])
        )

    def columns(self, thresholds: np.ndarray) -> Arrays:
        """Everything as columns of `validation.parquet`, (n_rows,) each; `held_out_scores` takes them back.

        `thresholds` (n_watched,) are in use: of several watched classes `score` is the largest excess over
        them.
        """
        columns = {
            "fold": self.fold,
            "score": overall(self.scores, thresholds),
        } | self._columns("")
        for recipe, scores in self.methods.items():
            columns |= scores._columns(f"method:{recipe}:")
        if self.later is not None:
            columns |= {f"{PAST}fold": self.later.fold} | self.later._columns(PAST)
            if self.later.groups is not None:
                columns[f"{PAST}unit"] = self.later.groups
        if self.subgroups is not None:
            columns |= {
                f"{SUBGROUP}{name}": values for name, values in self.subgroups.items()
            }
        return columns

    def _columns(self, prefix: str) -> Arrays:
        """Of this method alone: mean scores, of each dealing of the folds, by machines that saw the rows."""
        names = self.task.score_columns
        matrices = {"": self.scores}
        if len(self.repeats) > 1:
            matrices |= {
                f"@{number}": scores for number, scores in enumerate(self.repeats)
            }
        columns = {
            f"{prefix}{name}{suffix}": np.ascontiguousarray(matrix[:, m])
            for suffix, matrix in matrices.items()
            for m, name in enumerate(names)
        }
        for name in ("predicted", "alike"):
            if getattr(self, name) is not None:
                columns[f"{prefix}{name}"] = getattr(self, name)
        if self.trained is not None:
            for m, name in enumerate(names):
                columns[f"{prefix}{TRAINED}{name}"] = np.ascontiguousarray(
                    self.trained[:, m]
                )
        return columns


def held_out_scores(model: Model) -> HeldOutScores:
    """The held-out scores that a stored model was judged by; ModelError where it holds none."""
    table, facts = model.held_out, model.facts
    task, validation = Task.of(facts.task), facts.validation
    if not count_rows(table) or not set(task.score_columns) <= set(table):
        raise ModelError(
            "the model holds no held-out scores to choose from; train it again"
        )
    groups = (
        table["unit" if "unit" in table else "group"] if validation.grouped else None
    )
    predictive = validation.predictive[task.watched[0]]
    beside = validation.comparison.beside if validation.comparison else None
    settings = {member.recipe: 1 for member in facts.blend}
    settings |= {
        other.recipe: other.n_candidates or 1
        for other in beside or ()
        if other.reason is None
    }
    subgroups = {
        name.removeprefix(SUBGROUP): values
        for name, values in table.items()
        if name.startswith(SUBGROUP)
    }
    classes = zip(task.watched, task.score_columns, strict=True)
    past = [name for name, column in classes if f"{PAST}{column}" in table]
    later = (
        _from_columns(PAST, table, task.replace(watched=past), table.get(f"{PAST}unit"))
        if past
        else None
    )
    return replace(
        _from_columns("", table, task, groups),
        recipe=facts.recipe.name,
        one_class=validation.encoded_by == "negatives",
        n_settings=validation.search.n_candidates,
        subgroups=subgroups or None,
        shares=validation.prevalence,
        prevalence=predictive.rows[1].prevalence
        if predictive.source == "given"
        else None,
        methods={
            name: replace(
                _from_columns(f"method:{name}:", table, task, groups),
                recipe=name,
                n_settings=n,
            )
            for name, n in settings.items()
        },
        members={member.recipe: member.title for member in facts.blend},
        pooling=getattr(model.ensemble, "pooling", None),
        beside=beside,
        forward=validation.forward and validation.forward.replace(classes=None),
        later=later,
    )


def _from_columns(
    prefix: str, table: Columns, task: Task, groups: np.ndarray | None
) -> HeldOutScores:
    """Inverse of `HeldOutScores._columns`; of another method's scores the folds are the model's."""

    def matrix(prefix: str, suffix: str = "") -> np.ndarray:
        try:
            return np.column_stack(
                [table[f"{prefix}{name}{suffix}"] for name in task.score_columns]
            )
        except KeyError as missing:
            raise ModelError(
                f"validation.parquet lacks the column {missing}; train the model again"
            ) from None

    first = task.score_columns[0]
    n_repeats = sum(name.startswith(f"{prefix}{first}@") for name in table)
    repeats = [matrix(prefix, f"@{number}") for number in range(n_repeats)] or [
        matrix(prefix)
    ]
    trained = f"{prefix}{TRAINED}"
    return HeldOutScores(
        task=task,
        target=task.target(table["label"]),
        repeats=np.stack(repeats),
        fold=table.get(f"{prefix}fold", table["fold"]),
        groups=groups,
        predicted=table.get(f"{prefix}predicted"),
        alike=table.get(f"{prefix}alike"),
        trained=matrix(trained) if f"{trained}{first}" in table else None,
    )
