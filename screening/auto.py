"""The recipe that chooses a recipe: by held-out scores, under the rule that the caller will be judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from screening.errors import RecipeError
from screening.recipe import Recipe, load_recipe

if TYPE_CHECKING:
    import numpy as np

    from screening.cohort.cohort import Cohort

_OWN = ("recipe", "baselines")


@dataclass(frozen=True)
class Auto(Recipe):
    """A recipe whose candidates are settings of other recipes, those of `among`.

    Its parameters are `recipe`, the method built where none was chosen, and `baselines`, whether methods
    that are no kernel machines may be chosen too.
    """

    @cached_property
    def members(self) -> dict[str, Recipe]:
        """The recipes it chooses from, by name."""
        return {name: load_recipe(name) for name in self.among}

    @cached_property
    def _parts(self) -> Any:
        return self

    def check(self) -> None:
        """Refuse a list that names no recipe, or another `auto` (ValueError)."""
        if not self.among:
            raise ValueError("machine auto needs among = [...], names of recipes")
        try:
            wrong = [name for name, member in self.members.items() if member.machine in ("auto", "one_class")]
        except RecipeError as error:
            raise ValueError(str(error)) from None
        if wrong:
            raise ValueError(f"auto cannot choose {', '.join(wrong)}: it chooses methods that learn labels")
        unknown = [name for name in self.parameters if name not in _OWN]
        if unknown or self.parameters.get("recipe") not in self.among:
            raise ValueError("auto has the parameters recipe (one of among) and baselines (true or false)")

    def suited(self, several_classes: bool, rule: Any, params: dict[str, Any], stored: bool) -> Auto:
        """Keep the members that answer the cohort's question, and compare them by the caller's rule.

        Parameters
        ----------
        several_classes : bool
            Whether the cohort's classes are all told apart.
        rule : Rule
        params : dict
            What the caller fixes; `baselines` and `recipe` are looked at.
        stored : bool
            Whether the choice will be stored: methods that cannot be are left out.
        """
        allowed = bool(params.get("baselines", self.parameters.get("baselines", False)))
        machine = "multi_class" if several_classes else "two_class"
        machines = {machine, "baseline"} if allowed and not several_classes else {machine}
        kept = [
            name
            for name, member in self.members.items()
            if member.machine in machines
            and (member.persistable or not stored)
            and params.get("recipe", name) == name
        ]
        if not kept:
            raise RecipeError(
                f"recipe {self.name} has no method for this cohort among {', '.join(self.among)}"
            )
        return replace(
            self,
            machine=machine,
            among=tuple(kept),
            parameters=self.parameters | {"recipe": kept[0]},
            criterion=criterion_of(rule),
        )

    def resolve(self, parameters: dict[str, Any]) -> tuple[Recipe, dict[str, Any]]:
        """The method that a candidate names, and the candidate's settings of it."""
        name = parameters.get("recipe", self.parameters["recipe"])
        if name not in self.members:
            raise RecipeError(f"recipe {self.name} does not choose {name!r}; it has {', '.join(self.among)}")
        return self.members[name], {key: value for key, value in parameters.items() if key not in _OWN}

    def build(self, **overrides: Any) -> Any:
        """The named method as an unfitted estimator."""
        member, settings = self.resolve(overrides)
        unknown = [name for name in settings if name not in member.names]
        if unknown:
            raise RecipeError(
                f"recipe {self.name} has no parameter {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(_OWN)}, and those of {member.name}: {', '.join(member.names)}"
            )
        return member.build(**settings)

    def resolved(self, **overrides: Any) -> dict[str, Any]:
        """The name of the method with all its parameters."""
        member, settings = self.resolve(overrides)
        return {"recipe": member.name} | member.resolved(**settings)

    def candidates(
        self, n: int, rng: np.random.Generator, grid: dict[str, list[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Up to `n` settings of every member; the first member's default comes first."""
        return [
            {"recipe": name} | setting
            for name, member in self.members.items()
            for setting in member.candidates(n, rng)
        ]


def suited(recipe: Recipe, cohort: Cohort, rule: Any, params: dict[str, Any], *, stored: bool) -> Recipe:
    """A recipe made ready for a cohort and a rule: `auto` keeps the methods that fit, others are left."""
    if not isinstance(recipe, Auto):
        return recipe
    several = len(cohort.classes) > 2 and not cohort.contract.positive
    return recipe.suited(several, rule, params, stored)


def criterion_of(rule: Any) -> str:
    """The criterion that a rule's promise is compared by, as `validation.criteria` names it."""
    if rule.name == "threshold":
        return "auroc"
    if rule.name == "g_mean":
        return "best_g_mean"
    share = "" if rule.prevalence is None else f"@{rule.prevalence:g}"
    return f"{rule.name}={rule.value:g}{share}"


def account(search: Any) -> dict[str, Any]:
    """What came second: the part of the model card that `auto` adds.

    Parameters
    ----------
    search : Search
        Every setting and its criterion on the held-out rows. The chosen one is not the highest where another
        recipe's is ahead by less than its standard error.
    """
    best: dict[str, dict[str, Any]] = {}
    for candidate, score in zip(search.candidates, search.scores, strict=True):
        name = candidate["recipe"]
        if score is not None and (name not in best or score > best[name]["score"] + 1e-9):
            settings = {key: value for key, value in candidate.items() if key not in _OWN}
            best[name] = {"recipe": name, "score": score, "parameters": settings}
    return {
        "criterion": search.criterion,
        "score": search.scores[search.number],
        "table": sorted(best.values(), key=lambda row: -round(row["score"], 9)),
    }
