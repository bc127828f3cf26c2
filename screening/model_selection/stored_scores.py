"""Held-out scores as `validation.parquet` keeps them: a line a row, so that any rule can be judged again.

Beside `id, group, unit, alike, held, fold, label, score` there are the scores of several dealings (`score@0`,
`score@1`, ...), those of the same rows by the stored machines (`trained:`), of members and baselines
(`method:NAME:`), of a training on the past alone (`past:`), and subgroups (`subgroup:`).
"""

from __future__ import annotations

import numpy as np

from screening.errors import ModelError
from screening.io.columns import Columns
from screening.metrics.operating_point import overall
from screening.model_selection.judge import HeldOutScores
from screening.model_selection.task import Task
from screening.model_selection.validation import Validation
from screening.store.model import Model

Arrays = dict[str, np.ndarray]
PAST, TRAINED, SUBGROUP = "past:", "trained:", "subgroup:"


def columns_of(held: HeldOutScores, thresholds: np.ndarray) -> Arrays:
    """The scores as columns, each of shape (n_rows,); `held_out_scores` takes them back.

    `thresholds` (n_watched,) are in use: of several watched classes `score` is the largest excess over them.
    """
    columns = {"fold": held.validation.fold, "score": overall(held.validation.scores, thresholds)}
    columns |= _columns("", held.validation)
    for recipe, scores in held.methods.items():
        columns |= _columns(f"method:{recipe}:", scores)
    if held.later is not None:
        columns |= {f"{PAST}fold": held.later.fold} | _columns(PAST, held.later)
        if held.later.groups is not None:
            columns[f"{PAST}unit"] = held.later.groups
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
    predictive = facts.validation.predictive[task.watched[0]]
    beside = facts.validation.comparison.beside if facts.validation.comparison else None
    settings = {member.recipe: 1 for member in facts.blend}
    settings |= {each.recipe: each.n_candidates or 1 for each in beside or () if each.reason is None}
    subgroups = {
        name.removeprefix(SUBGROUP): values for name, values in table.items() if name.startswith(SUBGROUP)
    }
    classes = zip(task.watched, task.score_columns, strict=True)
    past = [name for name, column in classes if f"{PAST}{column}" in table]
    later = _validation(PAST, table, task.replace(watched=past), table.get(f"{PAST}unit")) if past else None
    return HeldOutScores(
        recipe=facts.recipe.name,
        validation=_validation("", table, task, groups, facts.validation.search.n_candidates),
        one_class=facts.validation.encoded_by == "negatives",
        subgroups=Columns(subgroups, table.n_rows) if subgroups else None,
        shares=facts.validation.prevalence,
        prevalence=predictive.rows[1].prevalence if predictive.source == "given" else None,
        methods={
            name: _validation(f"method:{name}:", table, task, groups, n_settings)
            for name, n_settings in settings.items()
        },
        members={member.recipe: member.title for member in facts.blend},
        pooling=getattr(model.ensemble, "pooling", None),
        beside=beside,
        forward=facts.validation.forward and facts.validation.forward.replace(classes=None),
        later=later,
    )


def _columns(prefix: str, scores: Validation) -> Arrays:
    """The scores of one method: their mean, of each dealing of the folds, by machines that saw the rows."""
    matrices = {"": scores.scores}
    if len(scores.repeats) > 1:
        matrices |= {f"@{number}": repeat for number, repeat in enumerate(scores.repeats)}
    names = scores.task.score_columns
    columns = {
        f"{prefix}{name}{suffix}": np.ascontiguousarray(matrix[:, m])
        for suffix, matrix in matrices.items()
        for m, name in enumerate(names)
    }
    columns |= {
        f"{prefix}{name}": values
        for name in ("predicted", "alike")
        if (values := getattr(scores, name)) is not None
    }
    if scores.trained is not None:
        columns |= {
            f"{prefix}{TRAINED}{name}": np.ascontiguousarray(scores.trained[:, m])
            for m, name in enumerate(names)
        }
    return columns


def _validation(
    prefix: str, table: Columns, task: Task, groups: np.ndarray | None, n_settings: int = 1
) -> Validation:
    """Inverse of `_columns`; of another method's scores the folds are the model's."""

    def matrix(prefix: str, suffix: str = "") -> np.ndarray:
        try:
            return np.column_stack([table[f"{prefix}{name}{suffix}"] for name in task.score_columns])
        except KeyError as missing:
            raise ModelError(
                f"validation.parquet lacks the column {missing}; train the model again"
            ) from None

    n_repeats = sum(name.startswith(f"{prefix}{task.score_columns[0]}@") for name in table)
    repeats = [matrix(prefix, f"@{number}") for number in range(n_repeats)] or [matrix(prefix)]
    return Validation(
        task=task,
        target=task.target(table["label"]),
        repeats=np.stack(repeats),
        fold=table.get(f"{prefix}fold", table["fold"]),
        groups=groups,
        predicted=table.get(f"{prefix}predicted"),
        n_settings=n_settings,
        alike=table.get(f"{prefix}alike"),
        trained=matrix(f"{prefix}{TRAINED}")
        if f"{prefix}{TRAINED}{task.score_columns[0]}" in table
        else None,
    )
