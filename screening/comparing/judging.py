"""One method on a cohort's folds: setting and thresholds from its held-out scores, as `train` has them."""

from __future__ import annotations

from collections.abc import Sequence

from screening.cohort.cohort import Cohort
from screening.comparing.outcome import Outcome, outcome_of
from screening.operating_point import Rule
from screening.recipe import Recipe
from screening.task import Task
from screening.validation.candidates import Parameters
from screening.validation.folds import Plan
from screening.validation.held_out import hold_out
from screening.validation.validation import Validation


def judge(
    sample: Cohort,
    recipe: Recipe,
    task: Task,
    rule: Rule,
    candidates: Sequence[Parameters],
    plan: Plan,
    *,
    seed: int,
) -> Outcome:
    """Hold every row out by a method, choose its setting and thresholds, and record what it does.

    Parameters
    ----------
    sample : Cohort with labels
    rule : Rule
        Chooses the thresholds, from the held-out scores.
    candidates : sequence of dict
    plan : Plan
        The folds that all methods share.

    Raises
    ------
    RecipeError
        No setting of the method can be used.
    """
    held_out = hold_out(sample, recipe, task, plan, candidates, seed=seed, jobs=1)
    validation = Validation.of(held_out, sample, task, plan.groups)
    points = [validation.operating_point(m, rule, seed) for m in range(len(task.watched))]
    search = held_out.search
    fit_seconds, score_seconds = held_out.seconds
    facts = {
        "chosen": search.chosen,
        "candidates": search.candidates,
        "scores": search.scores,
        "dropped": search.dropped,
        "fit_seconds": fit_seconds,
        "score_seconds": score_seconds,
        "sv_share": held_out.sv_share,
    }
    return outcome_of(validation, points, seed, facts)
