"""From a labelled cohort to a model: folds, operating point, final fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from screening.auto import Auto, suited
from screening.card import record
from screening.card.appraisal import appraise
from screening.card.beside import comparison, recipes_of
from screening.cohort.cohort import Cohort
from screening.conformal_p import group_maxima
from screening.errors import UsageError
from screening.operating_point import OperatingPoint, Rule
from screening.recipe import Recipe, load_recipe
from screening.store import Model
from screening.task import Task, ask, overall, watchable
from screening.validation.approximation import cost_of_landmarks, with_landmarks
from screening.validation.candidates import candidates_of
from screening.validation.final_scale import Validation, on_final_scale, operating_points
from screening.validation.folds import split, sub_sample, units
from screening.validation.out_of_fold import (
    Fitted,
    Progress,
    cross_validate,
    fit,
    labels_of,
)

DEFAULT_RULE = Rule("min_sensitivity", 0.9)
# The share a sub-sample brings a rarer positive class to: enough to learn from, and still the rarer one.
RARE_SHARE = 0.2
# Rows that a kernel machine takes all of: where it reads the matrix row by row, and where it needs the whole.
LARGEST_EXACT, LARGEST_WHOLE = 50_000, 20_000


def train(
    cohort: Cohort,
    recipe: Recipe | str,
    *,
    rule: Rule = DEFAULT_RULE,
    folds: int = 5,
    repeats: int = 1,
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
    """Cross-validate a recipe on a cohort, choose the operating point, and fit on all rows.

    Parameters
    ----------
    cohort : Cohort with labels
    recipe : Recipe or str
        A recipe, its name, or the path of a recipe file.
    rule : Rule
        How the threshold is chosen from the out-of-fold scores.
    folds, repeats : int
        Outer folds, and how often they are dealt anew.
    search : int, optional
        Candidates that inner validation chooses among; the recipe's own number by default, 1 for none.
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
        No labels, one class only, too few positives or groups for the folds, or too many rows.
    RecipeError
        The recipe or a parameter cannot be built.
    """
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    recipe.refuse_if_not_persistable()
    stated = rule.prevalence or cohort.contract.prevalence
    again = partial(
        train, recipe=recipe, folds=min(folds, 3), search=search, params=params, seed=seed, jobs=jobs,
        forward=False,
    )  # fmt: skip
    asked = recipe = suited(recipe, cohort, rule, params or {}, stored=True)
    task = ask(cohort, recipe.machine == "multi_class")
    largest = largest_exact(recipe, params or {})
    too_many = max_rows is None and largest is not None and cohort.n_rows > largest
    params = with_landmarks(recipe, params or {}, too_many)
    exact = params.get("approximation") != "landmarks"
    sample, rule, notes = sample_rows(cohort, task, rule, max_rows, seed, largest if exact else None)
    groups, note = units(sample, folds)
    task = watchable(task, task.target(labels_of(sample)), groups, folds)
    notes += [*task.notes, *([note] if note else [])]
    target = task.target(labels_of(sample))
    candidates = candidates_of(recipe, params, search, seed)
    others = recipes_of(beside, recipe, task, sample.n_rows)

    splits = [pair for repeat in range(repeats) for pair in split(target, groups, folds, seed + repeat)]
    judged, choice = cross_validate(
        sample, recipe, task, splits, candidates, groups, seed=seed, jobs=jobs, progress=progress,
        memory=memory,
    )  # fmt: skip
    recipe, settings = asked.resolve(choice.chosen)
    final = fit(sample, recipe, task, settings, groups, memory)
    approximate = {} if exact else cost_of_landmarks(sample, recipe, settings, task, groups, RARE_SHARE, seed)
    notes += [each["note"] for each in approximate.values()]
    validation = on_final_scale(judged, final, sample, task, groups is not None)
    points = operating_points(validation, sample, task, rule, groups, repeats, seed)

    document = record.model_document(
        cohort, sample, recipe, settings, task, points, validation, choice, judged, final, groups,
        n_folds=folds, repeats=repeats, seed=seed, max_rows=max_rows, command=command, notes=notes,
    )  # fmt: skip
    document["training"] |= approximate
    if asked is not recipe:
        document["validation"] |= record.cost_of_choosing(asked, choice, judged, validation, sample, task)
    document["validation"] |= appraise(
        cohort, sample, task, points, validation, groups, one_class=final.one_class, prevalence=stated,
        learn=partial(again, rule=rule) if forward else None,
    )  # fmt: skip
    document["validation"] |= comparison(
        sample, task, others, recipe, validation, points, splits, rule, groups,
        repeats=repeats, search=search, params=params, seed=seed, jobs=jobs, memory=memory,
    )  # fmt: skip
    return Model(
        document=document,
        recipe=recipe,
        contract=cohort.contract,
        encoder=final.encoder,
        estimator=final.estimator,
        calibration=_calibration(validation, sample, task, groups, points),
        validation=_out_of_fold(validation, sample, task, points),
        selftest=_self_test(final, sample),
    )


def largest_exact(recipe: Recipe, params: dict[str, Any]) -> int | None:
    """Rows that the recipe's machine can take all of; None where it is no kernel machine."""
    if recipe.machine == "baseline":
        return None
    by_rows = not isinstance(recipe, Auto) and recipe.build(**params).by_rows
    return LARGEST_EXACT if by_rows else LARGEST_WHOLE


def sample_rows(
    cohort: Cohort, task: Task, rule: Rule, max_rows: int | None, seed: int, largest: int | None
) -> tuple[Cohort, Rule, list[str]]:
    """The rows to train on (no more than `largest`), and the rule with the prevalence they no longer show."""
    notes = list(cohort.notes)
    if rule.prevalence is None and cohort.contract.prevalence is not None:
        rule = replace(rule, prevalence=cohort.contract.prevalence)
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


def _out_of_fold(
    validation: Validation, sample: Cohort, task: Task, points: list[OperatingPoint]
) -> pd.DataFrame:
    rows = validation.rows
    thresholds = np.array([point.threshold for point in points])
    table = {"id": sample.id[rows]}
    if sample.group is not None:
        table["group"] = sample.group[rows]
    table |= {"fold": validation.fold, "label": labels_of(sample)[rows]}
    table["score"] = overall(validation.scores, thresholds)
    if task.kind == "multi":
        table |= {f"score_{name}": validation.scores[:, m] for m, name in enumerate(task.watched)}
    return pd.DataFrame(table).sort_values(["fold", "id"], kind="stable", ignore_index=True)


def _calibration(
    validation: Validation,
    sample: Cohort,
    task: Task,
    groups: np.ndarray | None,
    points: list[OperatingPoint],
) -> np.ndarray:
    """Sorted out-of-fold scores of known negatives, what p-values are ranks in: one a row, or one a group.

    A group stands for its highest negative row: then a row's rank is valid whatever else its group holds.
    """
    once = np.sort(np.unique(validation.rows, return_index=True)[1])
    negative = once[~task.is_watched(labels_of(sample))[validation.rows[once]].any(axis=1)]
    scores = overall(validation.scores[negative], np.array([point.threshold for point in points]))
    return np.sort(scores) if groups is None else group_maxima(scores, groups[validation.rows[negative]])


def _self_test(final: Fitted, sample: Cohort) -> np.ndarray:
    """A few encoded rows, blended so that none is a patient's, whose scores are compared at each loading."""
    rows = np.linspace(0, sample.n_rows - 1, min(sample.n_rows, 32)).astype(int)
    encoded = final.encoder.transform(sample.take(rows))
    return (encoded + encoded[::-1]) / 2
