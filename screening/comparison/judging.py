"""One method on a cohort's folds: setting and thresholds from its held-out scores, as `train` has them."""

from __future__ import annotations

from screening.cohort.cohort import Cohort
from screening.recipes.recipe import Recipe
from screening.statistics.operating_point import Rule
from screening.validation.blending import held_out_by
from screening.validation.folds import Plan
from screening.validation.held_out import Effort
from screening.validation.outcome import Outcome, outcome_of
from screening.validation.task import Task
from screening.validation.validation import Validation


def judge(
    sample: Cohort,
    recipe: Recipe,
    task: Task,
    rule: Rule,
    search: int | None,
    plan: Plan,
    *,
    seed: int,
    end_point: Task | None = None,
) -> Outcome:
    """Hold every row out by a method, choose its setting and thresholds, and record what it does.

    Parameters
    ----------
    sample : Cohort with labels
    rule : Rule
        Chooses the thresholds, from the held-out scores.
    search : int, optional
        Settings that compete; the recipe's own number if None.
    plan : Plan
        The folds that all methods share.
    end_point : Task, optional
        What the method is judged on, where that is less than it tells apart: its watched classes as one.

    Raises
    ------
    RecipeError
        No setting of the method can be used.
    """
    held_out = held_out_by(
        sample, recipe, task, plan, params={}, search=search, seed=seed, effort=Effort(jobs=1)
    )
    validation = Validation.of(held_out, sample, task, plan.groups)
    if end_point is not None and end_point != task:
        validation = validation.pooled()
    points = [validation.operating_point(m, rule, seed) for m in range(validation.scores.shape[1])]
    return outcome_of(held_out, validation, points)
