"""The method beside those a user would pick instead: same folds, same rule, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from screening.cohort.cohort import Cohort
from screening.documents.validation import Beside
from screening.errors import RecipeError, UsageError
from screening.recipes.loading import FITS, load_recipe
from screening.recipes.recipe import ALWAYS, Recipe
from screening.validation.folds import Plan
from screening.validation.held_out import Effort, HeldOut, held_out_by
from screening.validation.judge import Baseline
from screening.validation.task import Task
from screening.validation.validation import Validation

USUAL: dict[str, tuple[str, ...]] = {
    "binary": ("svm", "logistic"),
    "multi": ("one_vs_rest", "logistic", "random_forest"),
}
"""What a method is compared with where nobody says otherwise, itself left out."""

# Beside a method that is no kernel machine, one on more rows than this would take most of the time.
LARGEST_UNASKED = 5000


def recipes_of(names: Sequence[str] | None, method: Recipe, task: Task, n_rows: int) -> list[Recipe]:
    """The recipes to compare with, each once.

    `names`: names or files; None for the usual ones.
    `method`: decides, with the number of rows, whether a kernel machine is added that nobody asked for.
    Raises RecipeError: there is no such recipe.
    Raises UsageError: a recipe that does not answer the cohort's question.
    """
    loaded = [load_recipe(name) for name in (USUAL[task.kind] if names is None else names)]
    found = list({each.name: each for each in loaded}.values())
    if names is None and method.machine == "baseline" and n_rows > LARGEST_UNASKED:
        found = [each for each in found if each.machine == "baseline"]
    wrong = [each.name for each in found if each.machine not in FITS[task.kind]]
    if wrong:
        classes = "several classes" if task.kind == "multi" else "one class and the rest"
        raise UsageError(
            f"{', '.join(wrong)} cannot be compared where {classes} are told apart; name other recipes "
            "with --beside, or --beside none"
        )
    return found


def baselines(
    sample: Cohort,
    task: Task,
    others: Sequence[Recipe],
    method: HeldOut,
    plan: Plan,
    *,
    search: int | None,
    params: Mapping[str, object],
    seed: int,
    effort: Effort,
) -> list[Baseline] | None:
    """Hold every row out by every other method on the method's own folds.

    `sample`: the rows the folds were dealt from.
    `others`: the method itself is left out.
    `method`: a member of a blend is not fitted again to stand beside it.
    `params`: what the caller fixed of the method; its approximation holds for the others too.
    One that cannot be trained on this cohort has the reason; None where there is nothing to compare.
    """
    others = [each for each in others if each.name != method.recipe.name]
    members = {part.recipe.name: part for part in method.parts}
    if not others:
        return None
    found = []
    for other in others:
        facts = Beside(recipe=other.name, title=other.title)
        try:
            fixed = {name: params[name] for name in ALWAYS if name in params and name in other.names}
            held_out = members.get(other.name) or held_out_by(
                sample, other, task, plan, params=fixed, search=search, seed=seed,
                effort=replace(effort, like=method.encoded, progress=None),
            )  # fmt: skip
        except (RecipeError, UsageError) as error:
            found.append(Baseline(replace(facts, reason=str(error)), None))
            continue
        search_facts = held_out.search
        facts = replace(facts, n_candidates=search_facts.n_candidates, chosen=search_facts.chosen)
        found.append(Baseline(facts, Validation.of(held_out, sample, task, plan.groups)))
    return found
