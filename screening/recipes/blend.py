"""The recipe that blends recipes: the mean of their standardised scores; nothing is chosen between them."""

from __future__ import annotations

from collections.abc import Mapping

from screening.cohort.cohort import Cohort
from screening.errors import RecipeError
from screening.recipes.recipe import Recipe

# With fewer positives than this, machines that learn labels learn noise: `scarce` members carry the blend.
SCARCE = 10

FITS = {False: ("one_class", "two_class", "baseline"), True: ("multi_class", "baseline")}
"""Machines that answer a question with two classes, and with several."""


def check_blend(recipe: Recipe) -> None:
    """Refuse a list that names another blend, or what cannot be stored (ValueError)."""
    every = recipe.every
    if not recipe.members:
        raise ValueError("machine blend needs members = [...], names of recipes")
    if len({*recipe.members}) < len(recipe.members):
        raise ValueError("a blend has each of its members once")
    nested = [name for name, each in every.items() if each.machine == "blend"]
    loose = [name for name, each in every.items() if not each.persistable]
    if nested:
        raise ValueError(f"a blend cannot have the blend {', '.join(nested)} as a member")
    if loose:
        raise ValueError(f"members of a blend are stored, and {', '.join(loose)} cannot be")
    wrong = [name for name in recipe.scarce if every[name].machine != "one_class"]
    if wrong:
        raise ValueError(f"scarce members learn from negatives alone, {', '.join(wrong)} does not")
    if recipe.parameters or recipe.search.grid:
        raise ValueError("a blend has no [parameters] and no [search.grid]: its members have theirs")


def members_for(recipe: Recipe, several_classes: bool, n_positive: int | None = None) -> list[Recipe]:
    """The members that answer a cohort's question; RecipeError where there is none.

    `several_classes` where all are told apart. With few positives the `scarce` members stand in; None where
    their number is not known yet.
    """
    few = not several_classes and n_positive is not None and n_positive < SCARCE and bool(recipe.scarce)
    named = recipe.scarce if few else recipe.members
    found = [recipe.every[name] for name in named if recipe.every[name].machine in FITS[several_classes]]
    if not found:
        raise RecipeError(f"recipe {recipe.name} has no member for this cohort among {', '.join(named)}")
    return found


def refuse_overrides(recipe: Recipe, overrides: Mapping[str, object]) -> None:
    """A blend has no parameters of its own (RecipeError)."""
    if overrides:
        raise RecipeError(
            f"recipe {recipe.name} has no parameter {', '.join(map(repr, overrides))}: it is a blend, and "
            f"parameters belong to its members ({', '.join(recipe.members)})"
        )


def tells_apart(recipe: Recipe, cohort: Cohort) -> bool:
    """Whether a recipe tells all classes of a cohort apart: a blend does where none was named positive."""
    if recipe.machine == "blend":
        return len(cohort.classes) > 2 and not cohort.contract.positive
    return recipe.machine == "multi_class"
