"""A recipe: a published method as data over kernel, factor, machine and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from screening.errors import RecipeError
from screening.machines import boosting
from screening.recipes.text import ALWAYS, MACHINE_PARAMETERS, PERSISTABLE_BASELINES


@dataclass(frozen=True)
class Recipe:
    """A method, read from its TOML text.

    Parameters
    ----------
    name, title, paper, about : str
    machine : {"one_class", "two_class", "multi_class", "baseline", "blend"}
    text : str
        The TOML, verbatim.
    parameters : dict
        What ``build`` lets the caller override, with the defaults.
    search : dict of list
        Values that the search tries, by parameter.
    paper_search : dict of list
        The paper's own grid, for data scaled as in the paper.
    criterion : str
        What the search maximises on held-out rows.
    default_candidates : int
        Settings tried where the caller does not say how many.
    kernel, factor : dict
        ``type`` and fixed fields; empty where there is none.
    remedies : dict of dict
        Fixed fields by remedy, outermost first.
    scheme : str or None
        Of a multi-class machine.
    baseline : str or None
    members, scarce : tuple of str
        Names of the recipes that a blend averages, and of those that stand in where positives are few.
    every : mapping of str to Recipe
        The recipes themselves, by name.
    """

    name: str
    title: str
    paper: str
    machine: str
    text: str
    about: str = ""
    parameters: dict[str, object] = field(default_factory=dict)
    search: dict[str, list[Any]] = field(default_factory=dict)
    paper_search: dict[str, list[Any]] = field(default_factory=dict)
    criterion: str = "auroc"
    default_candidates: int = 8
    kernel: dict[str, object] = field(default_factory=dict)
    factor: dict[str, object] = field(default_factory=dict)
    remedies: dict[str, dict[str, object]] = field(default_factory=dict)
    scheme: str | None = None
    baseline: str | None = None
    members: tuple[str, ...] = ()
    scarce: tuple[str, ...] = ()
    every: Mapping[str, Recipe] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> list[str]:
        """Names that `build` takes."""
        names = list(self.parameters)
        if self.kernel.get("type") == "gaussian" and {"gamma", "sigma"} & set(names):
            names += [name for name in ("gamma", "sigma") if name not in names]
        of_machine = MACHINE_PARAMETERS.get(self.machine, ())
        return names + [name for name in ALWAYS if name in of_machine and name not in names]

    def resolved(self, **overrides: Any) -> dict[str, object]:
        """All parameters with the overrides in place; of ``gamma`` and ``sigma`` the one that was chosen."""
        resolved = self.parameters | overrides
        if {"gamma", "sigma"} <= set(resolved):
            default = "gamma" if "gamma" in self.parameters else "sigma"
            other = "sigma" if default == "gamma" else "gamma"
            if overrides.get(default, self.parameters.get(default)) != self.parameters.get(default):
                raise RecipeError(f"recipe {self.name}: give gamma or sigma = 1 / sqrt(2 gamma), not both")
            del resolved[default if other in overrides else other]
        return resolved

    @property
    def persistable(self) -> bool:
        """Whether a fitted estimator can be stored as plain arrays."""
        return self.baseline is None or self.baseline in PERSISTABLE_BASELINES

    @property
    def lacks(self) -> str | None:
        """What must be installed before a fitted estimator can be stored; None where nothing is missing."""
        return None if self.baseline != "boosting" or boosting.lightgbm() else boosting.NEEDED

    def refuse_if_not_persistable(self) -> None:
        """Raise RecipeError where a fitted estimator cannot be stored as arrays."""
        if not self.persistable:
            raise RecipeError(
                f"recipe {self.name} is a baseline for `screen compare`: its trees cannot be stored as plain "
                "arrays, and nothing is ever unpickled from a model; train random_forest, balanced_forest, "
                "logistic or a kernel method"
            )
        if self.lacks:
            raise RecipeError(
                f"recipe {self.name} is stored with {self.lacks} (and the system's libgomp); without it, it "
                "is compared with only"
            )
        for each in self.every.values():
            each.refuse_if_not_persistable()
