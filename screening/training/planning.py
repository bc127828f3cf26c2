"""What is settled before anything is trained: which rows, which question, which rule, which folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from screening.cohort.cohort import Cohort, labels_of
from screening.documents.model import Leak
from screening.errors import UsageError
from screening.machines.landmarks import RARE_SHARE
from screening.recipes.blend import tells_apart
from screening.recipes.building import build
from screening.recipes.recipe import Recipe
from screening.statistics.operating_point import Rule
from screening.training.labels import refuse_slips
from screening.training.leaks import before_the_outcome, leaks
from screening.validation.approximation import with_landmarks
from screening.validation.candidates import Parameters
from screening.validation.folds import Plan, in_hash_order, planned, sub_sample, units
from screening.validation.task import Task, ask, watchable

# Rows that a kernel machine takes all of: where it reads the matrix row by row, and where it needs the whole.
LARGEST_EXACT, LARGEST_WHOLE = 50_000, 20_000


@dataclass(frozen=True)
class Groundwork:
    """What a training rests on.

    Parameters
    ----------
    cohort, sample : Cohort
        All rows, without what is known only after the outcome; and those that are trained and validated on.
    task : Task
        What is told apart, and which classes are watched.
    rule : Rule
        With the prevalence that the sample no longer shows.
    plan : Plan
        The folds.
    params : dict
        What the caller fixed, landmarks among them where there are too many rows for all.
    suspects : list of Leak
        Columns that may be the answer itself.
    notes : list of str
        What has to be said of all this.
    """

    cohort: Cohort
    sample: Cohort
    task: Task
    rule: Rule
    plan: Plan
    params: Parameters
    suspects: Sequence[Leak]
    notes: list[str]

    @property
    def exact(self) -> bool:
        """Whether machines see all rows, and not landmarks that stand for them."""
        return self.params.get("approximation") != "landmarks"


def laid(
    cohort: Cohort,
    recipe: Recipe,
    rule: Rule,
    params: Parameters,
    *,
    folds: int,
    repeats: int | None,
    max_rows: int | None,
    seed: int,
) -> Groundwork:
    """Settle what a recipe is trained on; a `UsageError` where the cohort does not allow it."""
    cohort, late = before_the_outcome(cohort)
    multi_class = tells_apart(recipe, cohort)
    refuse_slips(cohort, multi_class)
    task = ask(cohort, multi_class)
    largest = largest_exact(recipe, params)
    too_many = max_rows is None and largest is not None and cohort.n_rows > largest
    params = with_landmarks(recipe, params, too_many)
    exact = params.get("approximation") != "landmarks"
    sample, rule, notes = sample_rows(cohort, task, rule, max_rows, seed, largest if exact else None)
    target = task.target(labels_of(sample))
    kept = units(sample, target, folds)
    task = watchable(task, target, kept.groups, folds)
    suspects = leaks(sample, task)
    notes += [*task.notes, *kept.notes]
    notes += [f"{name} is left out: it is known only after the outcome (contract)" for name in late]
    notes += [each.said for each in suspects]
    plan = planned(sample, target, kept, repeats, seed)
    return Groundwork(cohort, sample, task, rule, plan, params, suspects, notes)


def largest_exact(recipe: Recipe, params: Parameters) -> int | None:
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
