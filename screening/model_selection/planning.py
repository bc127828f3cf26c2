"""Before anything is trained: which rows, folds, rule and approximation; and whose directory it would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from screening.data.cohort import Cohort, labels_of
from screening.data.dependence import dependence, refuse_dependent
from screening.data.labels import refuse_slips
from screening.errors import ModelError, UsageError
from screening.estimators.landmarks import RARE_SHARE
from screening.model_selection.fold_fits import EncodedRows, fit_fold
from screening.model_selection.folds import (
    Study,
    in_hash_order,
    plan_study,
    split_cohort,
    sub_sample,
)
from screening.model_selection.held_out import HeldOut
from screening.model_selection.leakage import before_the_outcome, leaks
from screening.model_selection.search import Parameters, criterion
from screening.model_selection.task import Task, infer_task
from screening.recipes.building import build, may_span
from screening.recipes.recipe import Recipe, members_for, tells_apart
from screening.schemas.figures import Rule
from screening.schemas.model import Approximation, ModelDocument
from screening.store.serialization import read_document

# Rows that a kernel machine takes all of: where it reads the matrix row by row, and where it needs the whole.
LARGEST_EXACT, LARGEST_WHOLE = 50_000, 20_000


def prepare_study(
    cohort: Cohort,
    recipe: Recipe,
    rule: Rule,
    params: Parameters,
    *,
    folds: int,
    repeats: int | None,
    max_rows: int | None,
    search: int | None,
    seed: int,
    independent: bool,
    at_most: int | None = None,
) -> Study:
    """Settle what a recipe is trained on; a `UsageError` where the cohort does not allow it.

    Where there are more rows than the recipe takes, landmarks stand for them; with `at_most`, for several
    recipes, more rows are refused.
    """
    signs = [] if independent else dependence(cohort.source, cohort.contract)
    refuse_dependent(signs)
    cohort, late = before_the_outcome(cohort)
    several = tells_apart(recipe, cohort)
    refuse_slips(labels_of(cohort), cohort.rows, cohort.contract, several)
    task, guessed = infer_task(cohort, several)
    n_positive = int((task.target(labels_of(cohort)) == 1).sum())
    largest = at_most or largest_exact(recipe, params, task, n_positive)
    too_many = (
        at_most is None
        and max_rows is None
        and largest is not None
        and cohort.n_rows > largest
    )
    members = recipe.every.values() if recipe.machine == "blend" else [recipe]
    if too_many and any("approximation" in member.names for member in members):
        params = {"approximation": "landmarks"} | params
    sample, rule, notes = sample_rows(
        cohort, task, rule, max_rows, seed, None if by_landmarks(params) else largest
    )
    study = plan_study(sample, task, folds, repeats, seed, search=search)
    given_away = leaks(sample, study.task)
    notes += [*guessed, *study.notes]
    notes += [
        f"{name} is left out: it is known only after the outcome (contract)"
        for name in late
    ]
    notes += [leak.said for leak in given_away]
    return replace(
        study,
        cohort=cohort,
        rule=rule,
        params=params,
        leaks=given_away,
        signs=signs,
        notes=notes,
    )


def by_landmarks(params: Mapping[str, object]) -> bool:
    """Whether machines see landmarks that stand for all rows."""
    return params.get("approximation") == "landmarks"


def largest_exact(
    recipe: Recipe, params: Parameters, task: Task, n_positive: int
) -> int | None:
    """Rows that the recipe's machine can take all of; None where it is no kernel machine."""
    if recipe.machine == "baseline":
        return None
    if recipe.machine == "blend":
        members = (
            member
            for member in members_for(recipe, task.kind, n_positive)
            if not may_span(member)
        )
        sizes = [largest_exact(member, {}, task, n_positive) for member in members]
        return min((size for size in sizes if size is not None), default=None)
    return LARGEST_EXACT if build(recipe, **params).by_rows else LARGEST_WHOLE


def sample_rows(
    cohort: Cohort,
    task: Task,
    rule: Rule,
    max_rows: int | None,
    seed: int,
    largest: int | None,
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
    kept = sub_sample(
        target,
        cohort.group,
        max_rows,
        RARE_SHARE if task.kind == "binary" else 0.0,
        seed,
    )
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


def refuse_other_model(directory: Path, recipe: Recipe, cohort: Cohort) -> None:
    """UsageError where a directory's model is of another recipe, other files or another label.

    The same training again, with other settings or an edited contract, may replace its own model.
    """
    if not (directory / "model.json").exists():
        return
    remedy = "give another --out, or --force to replace it"
    try:
        earlier = ModelDocument.from_dict(read_document(directory, "model"))
    except ModelError:
        raise UsageError(
            f"{directory} holds a model that cannot be read; {remedy}"
        ) from None
    files = [file.sha256 for file in earlier.training.source.files]
    same = {
        "recipe": earlier.recipe.text == recipe.text,
        "cohort": files == [file.sha256 for file in cohort.source.files],
        "label": earlier.task.label == (cohort.contract.label or "label"),
    }
    others = [what for what, agrees in same.items() if not agrees]
    if others:
        raise UsageError(
            f"{directory} holds a model of another {' and '.join(others)}; {remedy}"
        )


# Rows of the sub-sample; half of them are trained on, and of that half a fifth are the landmarks.
SUB_SAMPLE = 10_000
_FEWER = 5


def cost_of_landmarks(study: Study, held_out: HeldOut) -> Approximation:
    """AUROC on held-out rows of a sub-sample, trained exactly and on a fifth of the rows as landmarks.

    Of a blend the first member that has an approximation counts. Groups are never on both sides.
    """
    parts = held_out.parts or (held_out,)
    one = next(part for part in parts if "approximation" in part.recipe.names)
    recipe, settings = one.recipe, one.search.chosen
    sample, task, target = study.sample, study.task, study.target
    rows = sub_sample(
        target, study.groups, min(SUB_SAMPLE, sample.n_rows), RARE_SHARE, study.seed
    )
    some, inside = (
        sample.take(rows),
        None if study.groups is None else study.groups[rows],
    )
    encoded = EncodedRows.of(some, recipe, task, inside)
    fold = split_cohort(some, target[rows], inside, 2, study.seed)
    few = max(len(encoded.learnable(np.flatnonzero(fold == 1))) // _FEWER, 2)
    tried = [
        settings | {"approximation": name, "n_landmarks": few}
        for name in ("none", "landmarks")
    ]
    fit = fit_fold(encoded, fold, 0, [0, 1], tried)
    exact, landmarks = (
        criterion("auroc", decided, encoded.target[fit.rows])
        for decided in fit.decisions
    )
    n_test, n_train = len(fit.rows), len(rows) - len(fit.rows)
    # Where the recipe names none, the machine's own number holds.
    wanted = int(
        ({"n_landmarks": build(recipe, **settings).n_landmarks} | settings)[
            "n_landmarks"
        ]
    )
    two_classes = recipe.machine != "one_class" and len(task.classes) == 2
    weighed = ", the rarer class weighed up to a fifth" if two_classes else ""
    return Approximation(
        method="landmarks",
        n_landmarks=wanted,
        n_rows=sample.n_rows,
        auroc_exact=float(exact),
        auroc_landmarks=float(landmarks),
        note=(
            f"approximate: trained on {wanted} landmarks that stand for {sample.n_rows} rows{weighed}; "
            f"on {n_test} held-out rows of a sub-sample AUROC was {landmarks:.3f} with {few} "
            f"landmarks and {exact:.3f} with exact training on {n_train} rows"
        ),
    )
