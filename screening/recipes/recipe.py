"""Recipes: a published method as a TOML file over kernel, factor, machine and remedy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screening.errors import RecipeError
from screening.files import read_bounded
from screening.recipes.text import (
    ALWAYS,
    BASELINES,
    CRITERIA,
    MACHINE_PARAMETERS,
    MOST_BYTES,
    PERSISTABLE_BASELINES,
    fields_of,
)
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from screening.machines.fitted import Fitted
    from screening.recipes.parts import Parts

__all__ = [
    "BASELINES",
    "CRITERIA",
    "MACHINE_PARAMETERS",
    "Recipe",
    "build",
    "list_recipes",
    "load_recipe",
]


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
    """

    name: str
    title: str
    paper: str
    machine: str
    text: str
    about: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    search: dict[str, list[Any]] = field(default_factory=dict)
    paper_search: dict[str, list[Any]] = field(default_factory=dict)
    criterion: str = "auroc"
    default_candidates: int = 8
    kernel: dict[str, Any] = field(default_factory=dict)
    factor: dict[str, Any] = field(default_factory=dict)
    remedies: dict[str, dict[str, Any]] = field(default_factory=dict)
    scheme: str | None = None
    baseline: str | None = None
    members: tuple[str, ...] = ()
    scarce: tuple[str, ...] = ()

    @classmethod
    def from_text(cls, text: str, source: str = "recipe") -> Recipe:
        """Read a recipe.

        Parameters
        ----------
        text : str
            TOML.
        source : str
            What errors call it.

        Raises
        ------
        RecipeError
            Naming the key and what is possible there.
        """
        recipe = _parsed(text, source)
        try:
            recipe._parts.check()
        except ValueError as error:
            raise RecipeError(f"{source}: {error}") from None
        return recipe

    @cached_property
    def _parts(self) -> Parts:
        from screening.recipes.parts import Parts

        return Parts(self)

    def build(self, **overrides: Any) -> Any:
        """The recipe as an unfitted estimator.

        Parameters
        ----------
        **overrides
            Parameters named in the recipe; ``sigma`` wherever ``gamma`` is, for the Gaussian kernel.

        Raises
        ------
        RecipeError
            If an override is unknown (with the list of names) or out of range.
        """
        return self._made(self._parts.estimator, overrides)

    def bare(self, **overrides: Any) -> Fitted:
        """What a stored state is restored to: scores like the estimator, without reading scikit-learn.

        Takes and refuses the same as `build`.
        """
        return self._made(self._parts.bare, overrides)

    def _made(self, make: Callable[[dict[str, Any]], Any], overrides: dict[str, Any]) -> Any:
        known = self.names
        unknown = [name for name in overrides if name not in known]
        if unknown:
            raise RecipeError(
                f"recipe {self.name} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(known) or 'none'}{did_you_mean(unknown[0], known)}"
            )
        try:
            return make(self.resolved(**overrides))
        except (TypeError, ValueError) as error:
            raise RecipeError(f"recipe {self.name}: {error}") from None

    @property
    def names(self) -> list[str]:
        """Names that ``build`` takes."""
        names = list(self.parameters)
        if self.kernel.get("type") == "gaussian" and {"gamma", "sigma"} & set(names):
            names += [name for name in ("gamma", "sigma") if name not in names]
        of_machine = MACHINE_PARAMETERS.get(self.machine, ())
        return names + [name for name in ALWAYS if name in of_machine and name not in names]

    def resolved(self, **overrides: Any) -> dict[str, Any]:
        """All parameters with the overrides in place; of ``gamma`` and ``sigma`` the one that was chosen."""
        resolved = self.parameters | overrides
        if {"gamma", "sigma"} <= set(resolved):
            default = "gamma" if "gamma" in self.parameters else "sigma"
            other = "sigma" if default == "gamma" else "gamma"
            if overrides.get(default, self.parameters.get(default)) != self.parameters.get(default):
                raise RecipeError(f"recipe {self.name}: give gamma or sigma = 1 / sqrt(2 gamma), not both")
            del resolved[default if other in overrides else other]
        return resolved

    def candidates(
        self, n: int, rng: np.random.Generator, grid: dict[str, list[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Settings to choose among.

        The first is the default and, where there is a factor, the second its limit (no pass), so that
        validation can decline the factor; the rest is drawn from the grid without repetition and without
        settings whose parts do not go together.

        Parameters
        ----------
        n : int, >= 1
            Wanted; fewer where the grid has fewer.
        rng : numpy Generator
        grid : dict of list, optional
            ``search`` if None; ``paper_search`` is the other sensible one.

        Returns
        -------
        list of dict
            Overrides for ``build``, each with all names of the grid.
        """
        if n < 1:
            raise RecipeError(f"at least one candidate is needed, got {n}")
        grid = self.search if grid is None else grid
        names = [name for name in self.parameters if name in grid]
        names += [name for name in grid if name not in names]
        default = {name: self.parameters[name] for name in names if name in self.parameters}
        if "sigma" in names and "gamma" in self.parameters:
            default["gamma"] = self.parameters["gamma"]
        found = [default]
        if "passes" in default:
            found.append(self._plain(default | {"passes": 0}))
        total = math.prod(len(grid[name]) for name in names)
        tried = 0
        # A permutation of the whole grid is drawn only while it is small; beyond that repetitions are rare.
        order = rng.permutation(total) if total <= 100_000 else rng.integers(total, size=20 * n)
        while len(found) < n and tried < len(order) and names:
            setting, code = {}, int(order[tried])
            for name in names:
                code, at = divmod(code, len(grid[name]))
                setting[name] = grid[name][at]
            tried += 1
            setting = self._plain(setting)
            if setting not in found and self._works(setting):
                found.append(setting)
        return found[:n]

    def _works(self, setting: dict[str, Any]) -> bool:
        """Whether the parts of this setting go together."""
        try:
            self.build(**setting)
        except RecipeError:
            return False
        return True

    def _plain(self, setting: dict[str, Any]) -> dict[str, Any]:
        """Without a pass the factor's own parameters say nothing: keep them at their defaults."""
        if setting.get("passes") != 0:
            return setting
        idle = [name for name in setting if name in self._parts.factor_names]
        return setting | {name: self.parameters[name] for name in idle}

    @property
    def persistable(self) -> bool:
        """Whether a fitted estimator can be stored as plain arrays."""
        return self.baseline is None or self.baseline in PERSISTABLE_BASELINES

    @property
    def lacks(self) -> str | None:
        """What must be installed before a fitted estimator can be stored; None where nothing is missing."""
        if self.baseline != "boosting":
            return None
        from screening.machines.boosting import lightgbm

        return None if lightgbm() else 'LightGBM: pip install "screening[boosting]"'

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


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Read a shipped recipe by name, or a recipe file by path.

    Raises
    ------
    RecipeError
        If there is none (with the list of names), or it cannot be read.
    """
    text = str(name_or_path)
    if text.endswith(".toml") or isinstance(name_or_path, Path):
        path = Path(name_or_path)
        try:
            return Recipe.from_text(read_bounded(path, MOST_BYTES, RecipeError).decode(), path.name)
        except UnicodeDecodeError as error:
            raise RecipeError(f"cannot read the recipe {path.name}: {type(error).__name__}") from None
    for each in files("screening.models").iterdir():
        if each.name == f"{text}.toml":
            return Recipe.from_text(each.read_text(encoding="utf-8"), each.name)
    names = [recipe.name for recipe in list_recipes()]
    raise RecipeError(f"no recipe {text!r}{did_you_mean(text, names) or '; there are ' + ', '.join(names)}")


def list_recipes() -> list[Recipe]:
    """All shipped recipes by name, read but not checked against the parts they name."""
    texts = [each for each in files("screening.models").iterdir() if each.name.endswith(".toml")]
    recipes = [_parsed(each.read_text(encoding="utf-8"), each.name) for each in texts]
    return sorted(recipes, key=lambda recipe: recipe.name)


def build(name_or_path: str | Path, **overrides: Any) -> Any:
    """A recipe as an unfitted estimator; see ``Recipe.build``."""
    return load_recipe(name_or_path).build(**overrides)


def _parsed(text: str, source: str) -> Recipe:
    found = fields_of(text, source)
    if found["machine"] != "blend":
        return Recipe(**found)
    from screening.recipes.blend import Blend

    return Blend(**found)
