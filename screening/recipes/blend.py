"""The recipe that blends recipes: the mean of their standardised scores; nothing is chosen between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from screening.errors import RecipeError
from screening.recipes.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    import numpy as np

    from screening.machines.blended import BlendedEnsemble
    from screening.machines.fold_ensemble import FoldEnsemble

# With fewer positives than this, machines that learn labels learn noise: `scarce` members carry the blend.
SCARCE = 10

FITS = {False: ("one_class", "two_class", "baseline"), True: ("multi_class", "baseline")}
"""Machines that answer a question with two classes, and with several."""


@dataclass(frozen=True)
class Blend(Recipe):
    """A recipe of recipes: `members`, and `scarce`, those that stand in where positives are very few."""

    @cached_property
    def every(self) -> dict[str, Recipe]:
        """All recipes it names, by name."""
        return {name: load_recipe(name) for name in (*self.members, *self.scarce)}

    @cached_property
    def _parts(self) -> Any:
        return self

    def check(self) -> None:
        """Refuse a list that names no recipe, another blend, or what cannot be stored (ValueError)."""
        if not self.members:
            raise ValueError("machine blend needs members = [...], names of recipes")
        try:
            every = self.every
        except RecipeError as error:
            raise ValueError(str(error)) from None
        if len({*self.members}) < len(self.members):
            raise ValueError("a blend has each of its members once")
        nested = [name for name, each in every.items() if each.machine == "blend"]
        loose = [name for name, each in every.items() if not each.persistable]
        if nested:
            raise ValueError(f"a blend cannot have the blend {', '.join(nested)} as a member")
        if loose:
            raise ValueError(f"members of a blend are stored, and {', '.join(loose)} cannot be")
        wrong = [name for name in self.scarce if every[name].machine != "one_class"]
        if wrong:
            raise ValueError(f"scarce members learn from negatives alone, {', '.join(wrong)} does not")
        if self.parameters or self.search:
            raise ValueError("a blend has no [parameters] and no [search.grid]: its members have theirs")

    def refuse_if_not_persistable(self) -> None:
        """Raise RecipeError where a member cannot be stored here."""
        for each in self.every.values():
            each.refuse_if_not_persistable()

    def for_cohort(self, several_classes: bool, n_positive: int) -> list[Recipe]:
        """The members that answer a cohort's question; RecipeError where there is none.

        Parameters
        ----------
        several_classes : bool
            Whether the cohort's classes are all told apart.
        n_positive : int
        """
        few = not several_classes and n_positive < SCARCE and bool(self.scarce)
        named = self.scarce if few else self.members
        found = [self.every[name] for name in named if self.every[name].machine in FITS[several_classes]]
        if not found:
            raise RecipeError(f"recipe {self.name} has no member for this cohort among {', '.join(named)}")
        return found

    def build(self, **overrides: Any) -> Any:
        """The blend as an unfitted estimator; it has no parameters of its own."""
        if overrides:
            raise RecipeError(
                f"recipe {self.name} has no parameter {', '.join(map(repr, overrides))}: it is a blend, and "
                f"parameters belong to its members ({', '.join(self.members)})"
            )
        from screening.machines.blended_classifier import BlendedClassifier

        built = [self.every[name].build() for name in self.members if self.every[name].machine in FITS[False]]
        return BlendedClassifier(tuple(built))


def tells_apart(recipe: Recipe, cohort: Any) -> bool:
    """Whether a recipe tells all classes of a cohort apart: a blend does where none was named positive."""
    if isinstance(recipe, Blend):
        return len(cohort.classes) > 2 and not cohort.contract.positive
    return recipe.machine == "multi_class"


def restored(
    recipe: Recipe, stored: Mapping[str, Any], n_classes: int, state: Mapping[str, np.ndarray]
) -> FoldEnsemble | BlendedEnsemble:
    """The machines of a stored model: of the folds, or of the folds of each member of a blend.

    Parameters
    ----------
    stored : mapping
        `recipe` of `model.json`.
    state : mapping of ndarray
        As the ensemble's ``state`` made it.

    Raises
    ------
    ModelError
        Arrays are missing or do not fit each other.
    """
    from screening.machines.blended import BlendedEnsemble
    from screening.machines.fold_ensemble import FoldEnsemble

    if "members" not in stored:
        return FoldEnsemble.from_state(
            partial(recipe.bare, **stored["parameters"]), recipe.machine, n_classes, state
        )
    members = [(Recipe.from_text(each["text"]), each["parameters"]) for each in stored["members"]]
    builders = [(partial(member.bare, **parameters), member.machine) for member, parameters in members]
    return BlendedEnsemble.from_state(builders, n_classes, state)
