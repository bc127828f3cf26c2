"""From a labelled cohort to a model: plan folds, hold every row out, choose a threshold, write the card."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from screening.cohort.cohort import Cohort
from screening.cohort.encoding import Encoder
from screening.cohort.identity import row_number_ids
from screening.documents.attention import of_model
from screening.errors import UsageError
from screening.recipes.blend import tells_apart
from screening.recipes.building import build
from screening.recipes.loading import load_recipe
from screening.recipes.recipe import Recipe
from screening.statistics.operating_point import OperatingPoint, Rule, overall
from screening.storage.model import Model
from screening.training import card as record
from screening.training.appraisal import appraise
from screening.training.beside import comparison, recipes_of
from screening.training.labels import refuse_slips
from screening.training.leaks import before_the_outcome, leaks
from screening.validation.approximation import cost_of_landmarks, with_landmarks
from screening.validation.blending import held_out_by
from screening.validation.checks import check_model, check_promise
from screening.validation.folds import in_hash_order, planned, sub_sample, units
from screening.validation.held_out import Effort, Progress
from screening.validation.lesson import labels_of
from screening.validation.task import Task, ask, watchable
from screening.validation.validation import Validation, calibration_of

DEFAULT_RULE = Rule("min_sensitivity", 0.9)
# The share a sub-sample brings a rarer positive class to: enough to learn from, and still the rarer one.
RARE_SHARE = 0.2
# Rows that a kernel machine takes all of: where it reads the matrix row by row, and where it needs the whole.
LARGEST_EXACT, LARGEST_WHOLE = 50_000, 20_000


def train(
    cohort: Cohort,
    recipe: Recipe | str = "auto",
    *,
    rule: Rule = DEFAULT_RULE,
    folds: int = 5,
    repeats: int | None = None,
    search: int | None = None,
    params: dict[str, Any] | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    jobs: int = -1,
    memory: int | None = None,
    progress: Progress | None = None,
    command: str | None = None,
    forward: bool = True,
    beside: Sequence[str] | None = (),
) -> Model:
    """Hold every row of a cohort out, choose setting and operating point on the held-out scores.

    The machines of the folds are the model: a new row's score is the mean of their decisions.

    Parameters
    ----------
    cohort : Cohort with labels
    recipe : Recipe or str
        A recipe, its name, or the path of a recipe file.
    rule : Rule
        How the threshold is chosen from the held-out scores.
    folds : int
        Fewer where there are fewer groups, or fewer rows of the rarer class.
    repeats : int, optional
        How often the folds are dealt, at the chosen setting; by default three times where fits are cheap.
    search : int, optional
        Settings that compete on the held-out rows; the recipe's own number by default, 1 for none.
    params : dict, optional
        Parameters fixed by the caller; they are taken out of the search.
    max_rows : int, optional
        Train on a stratified sub-sample of this many rows.
    seed : int
        Deals the folds, the sub-sample and the candidates.
    jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    memory : int, optional
        Bytes for kernel matrices: a Gram that does not fit is computed by rows.
    progress : callable, optional
        Called with (fits finished, fits in all).
    forward : bool
        Also train on the past alone and test on what came after, where the contract names a time column.
    beside : sequence of str, optional
        Recipes to compare the method with on the same folds; None for those that `screen train` takes.

    Returns
    -------
    Model
        Not yet written; see `save_model`.

    Raises
    ------
    UsageError
        No labels, one class only, too few cases for the rule's promise or for two folds, or too many rows.
    RecipeError
        The recipe or a parameter cannot be built, or its model does not do what it would promise.
    """
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    recipe.refuse_if_not_persistable()
    cohort, late = before_the_outcome(cohort)
    stated = rule.prevalence or cohort.contract.prevalence
    again = partial(
        train, recipe=recipe, folds=min(folds, 3), repeats=1, search=search, params=params, seed=seed,
        jobs=jobs, forward=False,
    )  # fmt: skip
    multi_class = tells_apart(recipe, cohort)
    refuse_slips(cohort, multi_class)
    task = ask(cohort, multi_class)
    largest = largest_exact(recipe, params or {})
    too_many = max_rows is None and largest is not None and cohort.n_rows > largest
    params = with_landmarks(recipe, params or {}, too_many)
    exact = params.get("approximation") != "landmarks"
    sample, rule, notes = sample_rows(cohort, task, rule, max_rows, seed, largest if exact else None)
    kept = units(sample, task.target(labels_of(sample)), folds)
    task = watchable(task, task.target(labels_of(sample)), kept.groups, folds)
    notes += [*task.notes, *kept.notes]
    notes += [f"{name} is left out: it is known only after the outcome (contract)" for name in late]
    suspects = leaks(sample, task)
    notes += [each["said"] for each in suspects]
    others = recipes_of(beside, recipe, task, sample.n_rows)
    plan = planned(sample, task.target(labels_of(sample)), kept, repeats, seed)

    held_out = held_out_by(
        sample, recipe, task, plan, params=params, search=search, seed=seed,
        effort=Effort(jobs, memory, progress),
    )  # fmt: skip
    notes += held_out.notes
    validation = Validation.of(held_out, sample, task, kept.groups)
    points = [validation.operating_point(m, rule, seed) for m in range(len(task.watched))]
    check_promise(task, points)
    own = held_out.ensemble.decisions(held_out.lesson.x)
    columns = [0] if task.kind == "binary" else task.watched_columns
    check_model(held_out.recipe.name, task, points, validation, own[:, columns])
    approximate = {}
    if not exact:
        approximate = cost_of_landmarks(sample, held_out, task, kept.groups, RARE_SHARE, seed)
    notes += [each["note"] for each in approximate.values()]

    document = record.model_document(
        cohort, sample, task, points, validation, held_out, plan,
        seed=seed, max_rows=max_rows, command=command, notes=notes,
    )  # fmt: skip
    document["training"] |= approximate | {"leaks": suspects}
    if held_out.parts:
        document["blend"] = record.members_of(held_out, sample, task, kept.groups, rule, seed)
    document["validation"] |= appraise(
        cohort, sample, task, points, validation,
        one_class=held_out.one_class, prevalence=stated,
        learn=partial(again, rule=rule) if forward else None,
    )  # fmt: skip
    document["validation"] |= comparison(
        sample, task, others, held_out, validation, points, plan, rule,
        search=search, params=params, seed=seed, jobs=jobs, memory=memory,
    )  # fmt: skip
    document["attention"] = [each.to_dict() for each in [*of_model(document), *row_number_ids(cohort)]]
    return Model(
        document=document,
        recipe=held_out.recipe,
        contract=cohort.contract,
        encoder=held_out.encoder,
        ensemble=held_out.ensemble,
        calibration=calibration_of(validation, np.array([point.threshold for point in points])),
        validation=_table(validation, sample, task, points),
        selftest=_self_test(held_out.encoder, sample),
        trained=datetime.datetime.now(),
    )


def largest_exact(recipe: Recipe, params: dict[str, Any]) -> int | None:
    """Rows that the recipe's machine can take all of; None where it is no kernel machine."""
    if recipe.machine == "baseline":
        return None
    if recipe.machine == "blend":
        sizes = [largest_exact(member, {}) for member in recipe.every.values()]
        return min((size for size in sizes if size is not None), default=None)
    return LARGEST_EXACT if build(recipe, **params).by_rows else LARGEST_WHOLE


def sample_rows(
    cohort: Cohort, task: Task, rule: Rule, max_rows: int | None, seed: int, largest: int | None
) -> tuple[Cohort, Rule, list[str]]:
    """The rows to train on (no more than `largest`), and the rule with the prevalence they no longer show."""
    notes = list(cohort.notes)
    if rule.prevalence is None and cohort.contract.prevalence is not None:
        rule = replace(rule, prevalence=cohort.contract.prevalence)
    cohort = in_hash_order(cohort, seed)
    if max_rows is None or max_rows >= cohort.n_rows:
        if largest is not None and cohort.n_rows > largest:
            raise UsageError(
                f"{cohort.n_rows} rows are more than the {largest} that an exact kernel machine takes; "
                f"train on a stratified sub-sample with --max-rows {LARGEST_WHOLE // 4}"
            )
        return cohort, rule, notes
    target = task.target(labels_of(cohort))
    kept = sub_sample(target, cohort.group, max_rows, RARE_SHARE if task.kind == "binary" else 0.0, seed)
    positives, kept_positives = int((target == 1).sum()), int((target[kept] == 1).sum())
    if task.kind == "binary":
        notes.append(
            f"trained and validated on {len(kept)} of {cohort.n_rows} rows, "
            f"{kept_positives} of {positives} positive; predictive values at the table's prevalence"
        )
        if rule.prevalence is None:
            rule = replace(rule, prevalence=positives / len(target))
    else:
        notes.append(
            f"trained and validated on {len(kept)} of {cohort.n_rows} rows, every class in proportion"
        )
    return cohort.take(kept), rule, notes


def _table(validation: Validation, sample: Cohort, task: Task, points: list[OperatingPoint]) -> pd.DataFrame:
    """`validation.parquet`: a line a row, with the score of every repeat where there are several."""
    table: dict[str, np.ndarray] = {"id": sample.id}
    if sample.group is not None:
        table["group"] = sample.group
    if validation.groups is not None and validation.groups is not sample.group:
        table["unit"] = validation.groups
    table |= {"fold": validation.fold, "label": labels_of(sample)}
    table["score"] = overall(validation.scores, np.array([point.threshold for point in points]))
    names = [f"score_{name}" for name in task.watched] if task.kind == "multi" else ["score"]
    if task.kind == "multi":
        table |= {name: validation.scores[:, m] for m, name in enumerate(names)}
    if len(validation.repeats) > 1:
        table |= {
            f"{name}@{repeat}": scores[:, m]
            for repeat, scores in enumerate(validation.repeats)
            for m, name in enumerate(names)
        }
    return pd.DataFrame(table).sort_values(["fold", "id"], kind="stable", ignore_index=True)


def _self_test(encoder: Encoder, sample: Cohort) -> np.ndarray:
    """A few encoded rows, blended so that none is a patient's, whose scores are compared at each loading."""
    rows = np.linspace(0, sample.n_rows - 1, min(sample.n_rows, 32)).astype(int)
    encoded = encoder.transform(sample.take(rows))
    return (encoded + encoded[::-1]) / 2
