"""Held-out scores as `validation.parquet` keeps them: a line a row, so that any rule can be judged again.

Beside `id, group, unit, alike, held, fold, label, score` there are the scores of several dealings (`score@0`,
`score@1`, ...), those of the same rows by the stored machines (`trained:`), of members and baselines
(`method:NAME:`), of a training on the past alone (`past:`), and subgroups (`subgroup:`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from screening.documents.model import ModelDocument
from screening.documents.validation import Forward
from screening.errors import ModelError
from screening.sources.columns import Columns
from screening.statistics.operating_point import overall
from screening.storage.model import Model
from screening.validation.judge import HeldOutScores, Later
from screening.validation.task import Task
from screening.validation.validation import Validation

Arrays = dict[str, np.ndarray]


def columns_of(held: HeldOutScores, thresholds: np.ndarray) -> Arrays:
    """The scores as columns, each of shape (n_rows,); `held_out_scores` takes them back.

    `thresholds` (n_watched,) are in use: of several watched classes `score` is the largest excess over them.
    """
    task, validation = held.task, held.validation
    names = task.score_columns
    found: Arrays = {"fold": validation.fold, "score": overall(validation.scores, thresholds)}
    found |= _kept("", validation, names)
    if held.trained is not None:
        found |= _named("trained:", names, held.trained)
    for recipe, scores in held.methods.items():
        found |= _kept(f"method:{recipe}:", scores, names)
    if isinstance(later := held.later, Later):
        names = later.task.score_columns
        found |= {"past:fold": later.validation.fold} | _kept("past:", later.validation, names)
        found |= _named("past:trained:", names, later.trained)
        if later.validation.groups is not None:
            found["past:unit"] = later.validation.groups
    if held.subgroups is not None:
        found |= {f"subgroup:{name}": values for name, values in held.subgroups.items()}
    return found


def held_out_scores(model: Model) -> HeldOutScores:
    """The held-out scores that a stored model was judged by; ModelError where it holds none."""
    table, facts = model.held_out, model.facts
    task, grouped = Task.of(facts.task), facts.validation.grouped
    names = task.score_columns
    if not table.n_rows or not set(names) <= set(table):
        raise ModelError("the model holds no held-out scores to choose from; train it again")
    target = task.target(table["label"])
    whole = Validation(
        scores=np.empty(0),
        repeats=np.empty(0),
        fold=table["fold"],
        watched=target[:, None] == np.asarray(task.watched_codes),
        own=np.zeros((table.n_rows, len(names)), dtype=bool),
        predicted=None,
        groups=table["unit" if "unit" in table else "group"] if grouped else None,
        n_settings=facts.validation.search.n_candidates,
        target=target if task.kind == "multi" else None,
    )
    subgroups = {
        name.removeprefix("subgroup:"): values
        for name, values in table.items()
        if name.startswith("subgroup:")
    }
    predictive = facts.validation.predictive[task.watched[0]]
    beside = facts.validation.comparison.beside if facts.validation.comparison else None
    settings = {member.recipe: 1 for member in facts.blend}
    settings |= {each.recipe: each.n_candidates or 1 for each in beside or () if each.reason is None}
    return HeldOutScores(
        recipe=facts.recipe.name,
        task=task,
        validation=_read("", table, names, whole),
        trained=_stacked("trained:", table, names),
        one_class=facts.validation.encoded_by == "negatives",
        subgroups=Columns(subgroups, table.n_rows) if subgroups else None,
        shares=facts.validation.prevalence,
        prevalence=predictive.rows[1].prevalence if predictive.source == "given" else None,
        methods={
            name: replace(_read(f"method:{name}:", table, names, whole), n_settings=n_settings)
            for name, n_settings in settings.items()
        },
        members={member.recipe: member.title for member in facts.blend},
        pooling=getattr(model.ensemble, "pooling", None),
        beside=beside,
        later=_later(facts, table, task, whole),
    )


def _kept(prefix: str, validation: Validation, names: list[str]) -> Arrays:
    """A method's scores of every dealing of the folds, and what else is not told by the rows."""
    several = len(validation.repeats) > 1
    found: Arrays = {}
    if several or prefix or len(names) > 1:
        found = _named(prefix, names, validation.scores)
    for repeat, scores in enumerate(validation.repeats if several else ()):
        found |= _named(prefix, [f"{name}@{repeat}" for name in names], scores)
    if validation.predicted is not None:
        found[f"{prefix}predicted"] = validation.predicted
    if validation.alike is not None:
        found[f"{prefix}alike"] = validation.alike
    return found


def _read(prefix: str, table: Mapping[str, np.ndarray], names: list[str], whole: Validation) -> Validation:
    """A method's held-out scores, on the rows that `whole` describes."""
    n_repeats = sum(name.startswith(f"{prefix}{names[0]}@") for name in table)
    repeats = [_stacked(prefix, table, [f"{name}@{repeat}" for name in names]) for repeat in range(n_repeats)]
    scores = _stacked(prefix, table, names)
    return replace(
        whole,
        scores=scores,
        repeats=np.stack(repeats or [scores]),
        predicted=table.get(f"{prefix}predicted"),
        alike=table.get(f"{prefix}alike"),
    )


def _named(prefix: str, names: list[str], scores: np.ndarray) -> Arrays:
    return {f"{prefix}{name}": np.ascontiguousarray(scores[:, m]) for m, name in enumerate(names)}


def _stacked(prefix: str, table: Mapping[str, np.ndarray], names: list[str]) -> np.ndarray:
    try:
        return np.column_stack([table[f"{prefix}{name}"] for name in names])
    except KeyError as missing:
        raise ModelError(f"validation.parquet lacks the column {missing}; train the model again") from None


def _later(facts: ModelDocument, table: Columns, task: Task, whole: Validation) -> Later | Forward | None:
    forward = facts.validation.forward
    if forward is None or "past:fold" not in table:
        return forward
    there = [f"past:{name}" in table for name in task.score_columns]
    watched = tuple(name for name, known in zip(task.watched, there, strict=True) if known)
    own = replace(task, watched=watched)
    described = replace(
        whole,
        fold=table["past:fold"],
        watched=whole.watched[:, there],
        own=whole.own[:, there],
        groups=table.get("past:unit"),
        n_settings=1,
    )
    return Later(
        facts=forward.replace(classes={}, reason=None),
        task=own,
        validation=_read("past:", table, own.score_columns, described),
        trained=_stacked("past:trained:", table, own.score_columns),
    )
