"""Held-out scores as `validation.parquet` keeps them: a line a row, so that any rule can be judged again.

Beside `id, group, unit, alike, held, fold, label, score` there are the scores of several dealings (`score@0`,
`score@1`, ...), those of the same rows by the stored machines (`trained:`), of members and baselines
(`method:NAME:`), of a training on the past alone (`past:`), and subgroups (`subgroup:`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from screening.errors import ModelError
from screening.sources.columns import Columns
from screening.statistics.operating_point import overall
from screening.storage.model import Model
from screening.validation.judge import HeldOutScores
from screening.validation.task import Task
from screening.validation.validation import Validation

Arrays = dict[str, np.ndarray]


def columns_of(held: HeldOutScores, thresholds: np.ndarray) -> Arrays:
    """The scores as columns, each of shape (n_rows,); `held_out_scores` takes them back.

    `thresholds` (n_watched,) are in use: of several watched classes `score` is the largest excess over them.
    """
    whole = overall(held.validation.scores, thresholds)
    columns = {"fold": held.validation.fold, "score": whole} | _columns("", held)
    for recipe, scores in held.methods.items():
        columns |= _of_method(f"method:{recipe}:", scores, held.task.score_columns)
    if held.later is not None:
        columns |= _columns(PAST, held.later)
        if held.later.validation.groups is not None:
            columns[f"{PAST}unit"] = held.later.validation.groups
    if held.subgroups is not None:
        columns |= {f"{SUBGROUP}{name}": values for name, values in held.subgroups.items()}
    return columns


def held_out_scores(model: Model) -> HeldOutScores:
    """The held-out scores that a stored model was judged by; ModelError where it holds none."""
    table, facts = model.held_out, model.facts
    task, grouped = Task.of(facts.task), facts.validation.grouped
    if not table.n_rows or not set(task.score_columns) <= set(table):
        raise ModelError("the model holds no held-out scores to choose from; train it again")
    groups = table["unit" if "unit" in table else "group"] if grouped else None
    whole = _validation("", table, task, table["fold"], groups, facts.validation.search.n_candidates)
    predictive = facts.validation.predictive[task.watched[0]]
    beside = facts.validation.comparison.beside if facts.validation.comparison else None
    settings = {member.recipe: 1 for member in facts.blend}
    settings |= {each.recipe: each.n_candidates or 1 for each in beside or () if each.reason is None}
    subgroups = {
        name.removeprefix(SUBGROUP): values for name, values in table.items() if name.startswith(SUBGROUP)
    }
    past = tuple(name for name, column in _named(task) if f"{PAST}{column}" in table)
    own = replace(task, watched=past)
    return HeldOutScores(
        recipe=facts.recipe.name,
        task=task,
        validation=whole,
        trained=_stacked(TRAINED, table, task),
        one_class=facts.validation.encoded_by == "negatives",
        subgroups=Columns(subgroups, table.n_rows) if subgroups else None,
        shares=facts.validation.prevalence,
        prevalence=predictive.rows[1].prevalence if predictive.source == "given" else None,
        methods={
            name: _validation(f"method:{name}:", table, task, whole.fold, groups, n_settings)
            for name, n_settings in settings.items()
        },
        members={member.recipe: member.title for member in facts.blend},
        pooling=getattr(model.ensemble, "pooling", None),
        beside=beside,
        forward=facts.validation.forward and facts.validation.forward.replace(classes=None),
        later=None if not past else HeldOutScores(
            recipe=facts.recipe.name,
            task=own,
            validation=_validation(PAST, table, own, table[f"{PAST}fold"], table.get(f"{PAST}unit"), 1),
            trained=_stacked(f"{PAST}{TRAINED}", table, own),
        ),
    )  # fmt: skip


PAST, TRAINED, SUBGROUP = "past:", "trained:", "subgroup:"


def _named(task: Task) -> list[tuple[str, str]]:
    """The watched classes, each with the name of its score."""
    return [*zip(task.watched, task.score_columns, strict=True)]


def _columns(prefix: str, held: HeldOutScores) -> Arrays:
    """What machines say of rows that they have not seen, and of those that they have."""
    names = held.task.score_columns
    columns = {f"{prefix}fold": held.validation.fold} | _of_method(prefix, held.validation, names)
    return columns if held.trained is None else columns | _split(f"{prefix}{TRAINED}", names, held.trained)


def _of_method(prefix: str, validation: Validation, names: Sequence[str]) -> Arrays:
    """A method's scores, also of every dealing of the folds where there are several."""
    columns = _split(prefix, names, validation.scores)
    for repeat, scores in enumerate(validation.repeats if len(validation.repeats) > 1 else ()):
        columns |= _split(prefix, [f"{name}@{repeat}" for name in names], scores)
    for name in ("predicted", "alike"):
        if (values := getattr(validation, name)) is not None:
            columns[f"{prefix}{name}"] = values
    return columns


def _split(prefix: str, names: Sequence[str], scores: np.ndarray) -> Arrays:
    return {f"{prefix}{name}": np.ascontiguousarray(scores[:, m]) for m, name in enumerate(names)}


def _validation(
    prefix: str, table: Columns, task: Task, fold: np.ndarray, groups: np.ndarray | None, n_settings: int
) -> Validation:
    """Inverse of `_of_method`."""
    target, scores = task.target(table["label"]), _stacked(prefix, table, task)
    n_repeats = sum(name.startswith(f"{prefix}{task.score_columns[0]}@") for name in table)
    repeats = [_stacked(prefix, table, task, f"@{repeat}") for repeat in range(n_repeats)]
    return Validation(
        scores=scores,
        repeats=np.stack(repeats or [scores]),
        fold=fold,
        watched=task.is_watched(table["label"]),
        predicted=table.get(f"{prefix}predicted"),
        groups=groups,
        n_settings=n_settings,
        target=target if task.kind == "multi" else None,
        alike=table.get(f"{prefix}alike"),
    )


def _stacked(prefix: str, table: Mapping[str, np.ndarray], task: Task, suffix: str = "") -> np.ndarray:
    """Columns of the watched classes side by side, (n_rows, n_watched)."""
    try:
        return np.column_stack([table[f"{prefix}{name}{suffix}"] for name in task.score_columns])
    except KeyError as missing:
        raise ModelError(f"validation.parquet lacks the column {missing}; train the model again") from None
