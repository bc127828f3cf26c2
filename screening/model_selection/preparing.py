"""Preparing a study before anything is trained: rows, folds, rule and approximation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from screening.data.cohort import Cohort
from screening.data.dependence import Sign, dependence, refuse_dependent
from screening.data.labels import refuse_slips
from screening.data.reading import labelled_cohort
from screening.errors import ModelError, UsageError
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.landmarks import RARE_SHARE
from screening.io.opening import Readable
from screening.ledger.database import Ledger
from screening.ledger.model_registry import series_of_champion
from screening.model_selection.fold_fits import EncodedRows, FoldTask
from screening.model_selection.folds import (
    Study,
    hash_order,
    split_folds,
    split_study,
    sub_sample,
)
from screening.model_selection.held_out import HeldOutDecisions
from screening.model_selection.leakage import leaks
from screening.model_selection.search import Parameters, criterion
from screening.model_selection.task import Task, infer_task
from screening.model_selection.without_cases import (
    check_without_cases,
    notes_without_cases,
    task_without_cases,
    with_states_of_labels,
)
from screening.recipes.building import build, may_span
from screening.recipes.encoders import columns_of_points, model_contract
from screening.recipes.recipe import Recipe, members_for, separates_classes
from screening.schemas.figures import Rule
from screening.schemas.model import Approximation, ModelDocument
from screening.settings import Search, TableOptions, Validation
from screening.spelling import shown_series
from screening.store.serialization import read_document, read_model

# Rows that a kernel machine is trained on exactly, if it takes the matrix by rows.
_MAX_ROWS_BY_ROWS = 50_000
LARGEST_WHOLE = 20_000
"""Rows that a kernel machine is trained on exactly, if it needs the whole matrix."""


def prepare_study(
    cohort: Cohort,
    recipe: Recipe,
    rule: Rule,
    validation: Validation,
    search: Search,
    *,
    at_most: int | None = None,
) -> Study:
    """Prepare the study that a recipe is trained on.

    If there are more rows than the recipe can take, landmarks represent them.

    Parameters
    ----------
    cohort : Cohort
    recipe : Recipe
    rule : Rule
    validation : Validation
    search : Search
    at_most : int, optional
        For several recipes: more rows than this raise UsageError.

    Raises
    ------
    UsageError, CohortError
        If the cohort does not allow it.
    """
    signs = [] if validation.independent else _signs_of_dependence(cohort)
    cohort, late_notes = _before_the_outcome(cohort)
    if recipe.machine == "one_class":
        cohort = with_states_of_labels(cohort)
    task, task_notes = _task_of(recipe, cohort)
    target = task.target(cohort.labels)
    n_positive = int((target == 1).sum())
    without_cases = check_without_cases(
        cohort, target, recipe, rule, validation, search
    )
    params = search.params or {}
    largest = at_most or _largest_exact(recipe, params, task, n_positive)
    if at_most is None and validation.max_rows is None:
        params = _with_landmarks(recipe, params, cohort.n_rows, largest)
    if by_landmarks(params):
        largest = None
    rows, rule, notes = sample_rows(cohort, task, target, rule, validation, largest)
    sample = cohort.take(rows)
    study = split_study(sample, target[rows], task, validation, without_cases)
    contract = model_contract(recipe, sample)
    read = sample.with_features(contract)
    questions, same = leaks(read, study.task, by_class=without_cases is None)
    notes += [*task_notes, *study.notes, *late_notes]
    notes += [question.said for question in questions]
    if without_cases is not None:
        notes += notes_without_cases(without_cases, rule, n_positive)
    return replace(
        study,
        cohort=cohort,
        contract=contract,
        rule=rule,
        params=params,
        n_settings=search.search if without_cases is None else 1,
        grid=search.grid,
        leaks=questions,
        same_measurements=same,
        signs=signs,
        notes=notes,
    )


def read_labelled_cohort(
    cohort: Cohort | Readable,
    recipes: Sequence[Recipe],
    table: TableOptions,
    *,
    label_optional: bool = False,
) -> Cohort:
    """Read a labelled cohort, with the columns that recipes need."""
    if not isinstance(cohort, Cohort) and not table.keep:
        table = replace(table, keep=columns_of_points(*recipes))
    return labelled_cohort(cohort, table, label_optional=label_optional)


def _before_the_outcome(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """Return the cohort without columns that exist only after the outcome, and notes.

    The contract declares these columns.
    """
    contract = cohort.contract
    early = {
        name: feature
        for name, feature in contract.features.items()
        if feature.available != "after"
    }
    notes = [
        f"{name} is left out: it is known only after the outcome (contract)"
        for name in contract.features
        if name not in early
    ]
    return cohort.with_features(contract.with_features(early)), notes


def _signs_of_dependence(cohort: Cohort) -> list[Sign]:
    """Return signs that rows are of the same patients; UsageError if one is certain."""
    # The table has several rows of a unit, and the cohort one.
    if cohort.contract.per_unit is not None:
        return []
    # The caller gave groups that are not in a column.
    if cohort.group is not None and cohort.contract.group is None:
        return []
    signs = dependence(cohort.source, cohort.contract)
    refuse_dependent(signs)
    return signs


def _task_of(recipe: Recipe, cohort: Cohort) -> tuple[Task, list[str]]:
    """Return the task of a cohort, and what was guessed.

    Raises
    ------
    CohortError, UsageError
        If labels look like typing errors, or do not fit the recipe.
    """
    several = separates_classes(recipe, cohort)
    notes = []
    # Without a label column every row has the label of an unknown state.
    if cohort.contract.label is not None:
        notes = refuse_slips(cohort.labels, cohort.rows, cohort.contract, several)
    if recipe.machine == "one_class":
        task = task_without_cases(cohort)
        if task is not None:
            return task, notes
    task, task_notes = infer_task(cohort, several)
    return task, [*notes, *task_notes]


def _with_landmarks(
    recipe: Recipe, params: Parameters, n_rows: int, largest: int | None
) -> Parameters:
    """Return the parameters, with landmarks if there are more rows than `largest`."""
    if largest is None or n_rows <= largest:
        return params
    members: Sequence[Recipe] = [recipe]
    if recipe.machine == "blend":
        members = list(recipe.every.values())
    if any("approximation" in member.names for member in members):
        return {"approximation": "landmarks"} | params
    return params


def by_landmarks(params: Mapping[str, object]) -> bool:
    """Return True if machines are trained on landmarks that represent all rows."""
    return params.get("approximation") == "landmarks"


def _largest_exact(
    recipe: Recipe, params: Parameters, task: Task, n_positive: int
) -> int | None:
    """Return how many rows a recipe's machine is trained on exactly.

    None if it is not a kernel machine.
    """
    if recipe.machine == "blend":
        sizes = []
        for member in members_for(recipe, task.kind, n_positive):
            if not may_span(member):
                size = _largest_exact(member, {}, task, n_positive)
                if size is not None:
                    sizes.append(size)
        return min(sizes, default=None)
    if not recipe.has_kernel:
        return None
    machine = build(recipe, **params)
    assert isinstance(machine, KernelMachine)
    return _MAX_ROWS_BY_ROWS if machine.by_rows else LARGEST_WHOLE


def sample_rows(
    cohort: Cohort,
    task: Task,
    target: np.ndarray,
    rule: Rule,
    validation: Validation,
    largest: int | None = None,
) -> tuple[np.ndarray, Rule, list[str]]:
    """Sample the numbers of the rows to train on; also return the rule and notes.

    Parameters
    ----------
    cohort : Cohort
    task : Task
    target : int ndarray of shape (n_rows,)
    rule : Rule
        Returned with the prevalence, if the sample no longer has it.
    validation : Validation
        `max_rows` is the size of a stratified sub-sample.
    largest : int, optional
        Without a sub-sample more rows than this raise UsageError.
    """
    notes = list(cohort.notes)
    if rule.prevalence is None and cohort.contract.prevalence is not None:
        rule = replace(rule, prevalence=cohort.contract.prevalence)
    rows = hash_order(cohort, validation.seed)
    max_rows = validation.max_rows
    if max_rows is None or max_rows >= cohort.n_rows:
        if largest is not None and cohort.n_rows > largest:
            raise UsageError(
                f"{cohort.n_rows} rows are more than the {largest} that an exact "
                "kernel machine can learn from; train on a stratified sub-sample with "
                f"`max_rows` {LARGEST_WHOLE // 4}",
                parameters=["max_rows"],
            )
        return rows, rule, notes
    groups = None if cohort.group is None else cohort.group[rows]
    rare_share = RARE_SHARE if task.kind == "binary" else 0.0
    kept = rows[sub_sample(target[rows], groups, max_rows, rare_share, validation.seed)]
    sizes = f"trained and validated on {len(kept)} of {cohort.n_rows} rows"
    if task.kind == "multi":
        notes.append(f"{sizes}, every class in proportion")
        return kept, rule, notes
    n_positive = int((target == 1).sum())
    if n_positive:
        n_kept_positive = int((target[kept] == 1).sum())
        sizes += (
            f", {n_kept_positive} of {n_positive} positive; predictive values at "
            "the table's prevalence"
        )
        if rule.prevalence is None:
            rule = replace(rule, prevalence=n_positive / len(target))
    notes.append(sizes)
    return kept, rule, notes


def refuse_other_model(directory: Path, recipe: Recipe, cohort: Cohort) -> None:
    """Raise UsageError if a directory has a model of another recipe, files or label.

    The same training with other settings or an edited contract may replace its model.
    """
    if not (directory / "model.json").exists():
        return
    remedy = "give another `out`, or `force` to replace it"
    parameters = ["out", "force"]
    try:
        earlier = read_model(directory)
    except ModelError:
        raise UsageError(
            f"{directory} contains a model that cannot be read; {remedy}",
            parameters=parameters,
        ) from None
    earlier_files = [file.sha256 for file in earlier.training.source.files]
    differences = []
    if earlier.recipe.text != recipe.text:
        differences.append("recipe")
    if earlier_files != [file.sha256 for file in cohort.source.files]:
        differences.append("cohort")
    if earlier.task.label != (cohort.contract.label or "label"):
        differences.append("label")
    if differences:
        raise UsageError(
            f"{directory} contains a model with another {' and '.join(differences)}; "
            f"{remedy}",
            parameters=parameters,
        )


def refuse_model_in_use(directory: Path, ledger: Ledger | None = None) -> None:
    """Raise UsageError if a directory contains a model with a decision of a person.

    Such a model was approved, its threshold was chosen after the training, or it is the
    champion of a series in `ledger`: none of these may be lost without notice.
    """
    try:
        document = read_document(directory, "model")
    except ModelError:
        return
    earlier = ModelDocument.from_dict(document)
    series = []
    if ledger is not None:
        series = series_of_champion(ledger, str(document["sha256"]))
    if earlier.approval is not None:
        decision = f"was approved on {earlier.approval.date}"
    elif any(point.chosen_by != "training" for point in earlier.operating_points):
        decision = "had its threshold changed"
    elif series:
        decision = f"is the champion of series {shown_series(series[0])}"
    else:
        return
    raise UsageError(
        f"{directory} contains a model that {decision}; give another `out`, or "
        "replace the model with `screen retrain` and `screen promote`",
        parameters=["out"],
    )


# Rows of the sub-sample on which the cost of landmarks is measured; half of them are
# trained on.
_SUB_SAMPLE = 10_000
# Training rows per landmark in that measurement.
_ROWS_PER_LANDMARK = 5


def cost_of_landmarks(study: Study, held_out: HeldOutDecisions) -> Approximation:
    """Measure the AUROC that landmarks cost, on a sub-sample.

    It is trained exactly, and on a fifth of the rows as landmarks; groups are never on
    both sides. For a blend the first member with an approximation is measured.
    """
    methods = held_out.members or (held_out,)
    method = next(each for each in methods if "approximation" in each.recipe.names)
    recipe = method.recipe
    settings = method.search.chosen
    n_rows = min(_SUB_SAMPLE, study.sample.n_rows)
    seed = study.validation.seed
    rows = sub_sample(study.target, study.groups, n_rows, RARE_SHARE, seed)
    sample = study.sample.take(rows)
    groups = None if study.groups is None else study.groups[rows]
    target = study.target[rows]
    encoded = EncodedRows.of(sample, recipe, target, study.task.n_outputs, groups)
    fold = split_folds(sample, target, groups, 2, seed)
    n_learnable = len(encoded.learnable(np.flatnonzero(fold == 1)))
    n_few = max(n_learnable // _ROWS_PER_LANDMARK, 2)
    tried = [
        settings | {"approximation": name, "n_landmarks": n_few}
        for name in ("none", "landmarks")
    ]
    fit = FoldTask(encoded, fold, 0, [0, 1], tried, keeps_machines=False).fit()
    exact = criterion("auroc", fit.decisions[0], target[fit.rows])
    landmarks = criterion("auroc", fit.decisions[1], target[fit.rows])
    n_test = len(fit.rows)
    n_train = len(rows) - n_test
    machine = build(recipe, **settings)
    assert isinstance(machine, KernelMachine)
    n_landmarks = machine.n_landmarks
    weighting = ""
    if recipe.machine != "one_class" and len(study.task.classes) == 2:
        weighting = ", the rarer class weighted up to a fifth"
    return Approximation(
        method="landmarks",
        n_landmarks=n_landmarks,
        n_rows=study.sample.n_rows,
        exact=float(exact),
        landmarks=float(landmarks),
        note=(
            f"approximate: trained on {n_landmarks} landmarks that represent "
            f"{study.sample.n_rows} rows{weighting}; on {n_test} held-out rows of a "
            f"sub-sample AUROC was {landmarks:.3f} with {n_few} landmarks and "
            f"{exact:.3f} with exact training on {n_train} rows"
        ),
    )
