"""Held-out scores as `validation.parquet` keeps them: a line a row, so that any rule can be judged again.

Beside `id, group, unit, alike, held, fold, label, score` there are the scores of several dealings (`score@0`,
`score@1`, ...), those of the same rows by the stored machines (`trained:`), of members and baselines
(`method:NAME:`), of a training on the past alone (`past:`, `later:`), and subgroups (`subgroup:`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from screening.documents.model import ModelDocument
from screening.documents.validation import Forward
from screening.errors import ModelError
from screening.machines.ensembles import BlendedEnsemble
from screening.sources.columns import Columns
from screening.statistics.operating_point import overall
from screening.storage.model import Model
from screening.validation.judge import Baseline, HeldOutScores, Later, Member
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
    methods = {each.recipe: each.validation for each in held.members}
    methods |= {each.facts.recipe: each.validation for each in held.baselines or () if each.validation}
    for recipe, scores in methods.items():
        found |= _kept(f"method:{recipe}:", scores, names)
    if isinstance(held.later, Later):
        found |= _later_columns(held.later, len(validation.fold))
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
    return HeldOutScores(
        recipe=facts.recipe.name,
        task=task,
        validation=_read("", table, names, whole),
        trained=_stacked("trained:", table, names),
        one_class=facts.validation.encoded_by == "negatives",
        subgroups=Columns(subgroups, table.n_rows) if subgroups else None,
        shares=facts.validation.prevalence,
        prevalence=predictive.rows[1].prevalence if predictive.source == "given" else None,
        members=_members(model, table, names, whole),
        baselines=_baselines(facts, table, names, whole),
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


def _members(
    model: Model, table: Mapping[str, np.ndarray], names: list[str], whole: Validation
) -> list[Member]:
    facts, blend = model.facts, model.ensemble
    columns = Task.of(facts.task).watched_columns
    if not isinstance(blend, BlendedEnsemble):
        return []
    return [
        Member(
            member.recipe,
            member.title,
            _read(f"method:{member.recipe}:", table, names, whole),
            *blend.pooling.of_member(m, columns),
        )
        for m, member in enumerate(facts.blend)
    ]


def _baselines(
    facts: ModelDocument, table: Mapping[str, np.ndarray], names: list[str], whole: Validation
) -> list[Baseline] | None:
    if facts.validation.comparison is None:
        return None
    return [
        Baseline(
            each,
            None
            if each.reason is not None
            else replace(
                _read(f"method:{each.recipe}:", table, names, whole), n_settings=each.n_candidates or 1
            ),
        )
        for each in facts.validation.comparison.beside
    ]


def _later_columns(later: Later, n_rows: int) -> Arrays:
    """Scores of the past rows by a training on them alone, and of the later ones; NaN for all others."""
    names, validation = later.past.task.score_columns, later.past.validation
    past, after = later.past_rows, later.later_rows
    fold = np.full(n_rows, -1)
    fold[past] = validation.fold
    found: Arrays = {"past:fold": fold}
    parts = _kept("past:", validation, names)
    if later.past.trained is not None:
        parts |= _named("past:trained:", names, later.past.trained)
    for name, values in parts.items():
        found[name] = np.full(n_rows, -1 if values.dtype.kind in "iu" else np.nan, dtype=values.dtype)
        found[name][past] = values
    for name, values in _named("later:", names, later.later.scores).items():
        found[name] = np.full(n_rows, np.nan)
        found[name][after] = values
    if validation.groups is not None:
        found["past:unit"] = np.full(n_rows, None, dtype=object)
        found["past:unit"][past] = validation.groups
    return found


def _later(facts: ModelDocument, table: Columns, task: Task, whole: Validation) -> Later | Forward | None:
    forward = facts.validation.forward
    if forward is None or "past:fold" not in table:
        return forward
    known = [f"later:{name}" in table for name in task.score_columns]
    watched = tuple(name for name, there in zip(task.watched, known, strict=True) if there)
    own = replace(task, watched=watched)
    past, after = np.flatnonzero(table["past:fold"] >= 0), np.flatnonzero(table["past:fold"] < 0)
    rows = table.take(past)
    described = replace(
        whole,
        fold=rows["past:fold"],
        watched=whole.watched[past][:, known],
        target=None if whole.target is None else whole.target[past],
        own=whole.own[past][:, known],
        groups=rows.get("past:unit"),
        n_settings=1,
    )
    names = own.score_columns
    return Later(
        facts=replace(forward, classes={}, reason=None),
        past=HeldOutScores(
            facts.recipe.name,
            own,
            _read("past:", rows, names, described),
            _stacked("past:trained:", rows, names),
        ),
        later=Validation.elsewhere(
            _stacked("later:", table.take(after), names),
            whole.watched[after][:, known],
            None if whole.groups is None else whole.groups[after],
        ),
        past_rows=past,
        later_rows=after,
    )
