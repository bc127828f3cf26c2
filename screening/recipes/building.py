"""From a recipe's text to its parts, an unfitted estimator, and the settings that a search tries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from importlib.resources import files
from inspect import signature
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.ensembles import BlendedClassifier
from screening.estimators.kernel_machine import KernelMachine
from screening.files import read_bounded
from screening.kernels import KERNELS, Gaussian, Kernel
from screening.recipes.recipe import (
    COMPONENTS,
    Recipe,
    check_blend,
    check_number,
    members_for,
    refuse_overrides,
)
from screening.spelling import did_you_mean

MOST_BYTES = 1 << 20
# Settings of a search among which one is looked for that works with a value.
MOST_TRIED = 1000
Values = dict[str, dict[str, Any]]
# A name that several parts may have, and all of them take.
_SHARED = ("seed",)
# The parameter that says which kernel, in place of the recipe's [kernel] type.
KERNEL = "kernel"


class RecipeComponents:
    """The parts of one recipe, and which of them each parameter belongs to."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Own names of every part, and the fixed values the recipe gives it.
        kind = recipe.estimator
        names = (
            [name for name in signature(kind).parameters if name not in kind.composed]
            if kind
            else []
        )
        of_machine = tuple("seed" if name == "random_state" else name for name in names)
        self.own: dict[str, tuple[str, ...]] = {"machine": of_machine}
        self.fixed: dict[str, dict[str, object]] = {"machine": {}}
        self.types: dict[str, type] = {}
        if recipe.machine == "baseline":
            return
        self._add("kernel", recipe.kernel or {"type": "gaussian"})
        if self.types["kernel"] is Gaussian:
            self.own["kernel"] += ("sigma",)
        self.own["kernel"] += (KERNEL,)
        if recipe.factor:
            self._add("factor", recipe.factor)
        for name, values in recipe.remedy.items():
            self._add(f"remedy.{name}", {"type": name, **values})

    def _add(self, part: str, table: Mapping[str, object]) -> None:
        kind, kinds = table.get("type"), COMPONENTS[part.partition(".")[0]]
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(f"{part} {kind!r} is not one of {', '.join(kinds)}")
        own = tuple(field.name for field in fields(kinds[kind]))
        values = {key: value for key, value in table.items() if key != "type"}
        unknown = [key for key in values if key not in own]
        if unknown:
            has = ", ".join(own) or "nothing"
            raise ValueError(f"{part} {kind} has no {', '.join(unknown)}; it has {has}")
        self.types[part], self.own[part], self.fixed[part] = kinds[kind], own, values

    @property
    def factor_names(self) -> set[str]:
        """Parameters that only the factor has."""
        names = self.recipe.parameters
        return {
            name
            for name in names
            if [part for part, _ in self.owners(name)] == ["factor"]
        }

    @cached_property
    def _varied_names(self) -> set[str]:
        """Those of them of which the factor can have several values tried on one first pass."""
        varies: frozenset[str] = getattr(
            self.types.get("factor"), "varies", frozenset()
        )
        return {name for name in self.factor_names if self.owners(name)[0][1] in varies}

    def owners(self, name: str) -> list[tuple[str, str]]:
        """Return the (component, parameter) pairs that a name sets.

        A dotted name, COMPONENT.PARAMETER, is needed where several components have the parameter.
        """
        part, _, own = name.rpartition(".")
        if part:
            owners = [(part, own)] if own in self.own.get(part, ()) else []
        else:
            owners = [(part, name) for part, names in self.own.items() if name in names]
        if not owners:
            names = sorted({own for names in self.own.values() for own in names})
            raise ValueError(
                f"parameter {name!r} belongs to no part of it; there are {', '.join(names)}"
            )
        if len(owners) > 1 and name not in _SHARED:
            both = " and ".join(f"{part}.{own}" for part, own in owners)
            raise ValueError(f"parameter {name!r} is ambiguous: call it {both}")
        return owners

    def check(self) -> None:
        """Refuse what cannot work, naming both sides (ValueError)."""
        recipe = self.recipe
        composed = {
            "kernel": recipe.kernel,
            "factor": recipe.factor,
            "remedy": recipe.remedy,
        }
        if recipe.machine == "baseline":
            baselines = COMPONENTS["baseline"]
            if recipe.baseline not in baselines:
                raise ValueError(
                    f"baseline {recipe.baseline!r} is not one of {', '.join(baselines)}"
                )
            for part, values in composed.items():
                if values:
                    raise ValueError(f"machine baseline takes no [{part}]")
        elif recipe.baseline:
            raise ValueError(f"machine {recipe.machine} takes no baseline")
        if recipe.scheme is not None and recipe.machine != "multi_class":
            raise ValueError(
                f"machine {recipe.machine} takes no scheme; multi_class does"
            )
        if recipe.remedy and recipe.machine != "two_class":
            names = ", ".join(recipe.remedy)
            raise ValueError(
                f"remedy {names} needs the machine two_class, not {recipe.machine}"
            )
        for name in ("passes", "stop"):
            if recipe.parameters.get(name) is not None and not recipe.factor:
                raise ValueError(f"{name} needs a [factor]")
        self._estimator(recipe.resolved())

    def check_grid(self, source: str) -> None:
        """Refuse a value of the search that works neither beside the defaults nor beside others of it."""
        grid = self.recipe.search.grid
        for name, value in (
            (name, value) for name, values in grid.items() for value in values
        ):
            try:
                self._estimator(self.recipe.resolved(**{name: value}))
            except (TypeError, ValueError) as error:
                settings = islice(
                    product(*(grid | {name: [value]}).values()), MOST_TRIED
                )
                if not any(
                    _works(self, dict(zip(grid, setting, strict=True)))
                    for setting in settings
                ):
                    raise RecipeError(
                        f"{source}: search.grid.{name}: {error}"
                    ) from None

    def _kernel(self, values: Values) -> Kernel:
        given = {
            name: value
            for name, value in values["kernel"].items()
            if name not in (KERNEL, "sigma")
        }
        named, sigma = (values["kernel"].get(name) for name in (KERNEL, "sigma"))
        kind: type[Kernel] | None = (
            self.types["kernel"] if named is None else KERNELS.get(str(named))
        )
        if kind is None:
            raise ValueError(
                f"kernel must be one of {', '.join(KERNELS)}, got {named!r}"
            )
        if sigma is None:
            return kind(**given)
        if kind is not Gaussian:
            raise ValueError(
                f"sigma needs the kernel gaussian, not {kind.name}; give gamma"
            )
        return Gaussian.from_sigma(sigma)

    def _estimator(self, parameters: Mapping[str, object]) -> Estimator:
        kind, values = (
            self.recipe.estimator,
            {part: dict(fixed) for part, fixed in self.fixed.items()},
        )
        assert kind is not None  # as `check` saw
        for name, value in parameters.items():
            for part, own in self.owners(name):
                values[part][own] = value
        given = values["machine"]
        if issubclass(kind, KernelMachine):
            given = {
                "random_state" if key == "seed" else key: value
                for key, value in given.items()
            }
            factor = (
                self.types["factor"](**values["factor"])
                if "factor" in self.types
                else None
            )
            given |= {"kernel": self._kernel(values), "factor": factor}
            if self.recipe.machine == "two_class":
                remedies = {
                    part: remedy
                    for part, remedy in self.types.items()
                    if part[:7] == "remedy."
                }
                given["remedies"] = tuple(
                    remedy(**values[part]) for part, remedy in remedies.items()
                )
            if self.recipe.scheme is not None:
                given["scheme"] = self.recipe.scheme
        estimator = kind(**given)
        estimator.check_parameters()
        return estimator

    def estimator(self, overrides: Mapping[str, object]) -> Estimator:
        """The machine with its parts; RecipeError where an override is unknown or out of range."""
        recipe, names = self.recipe, self.recipe.names
        unknown = [name for name in overrides if name not in names]
        if unknown:
            raise RecipeError(
                f"recipe {recipe.name} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(names) or 'none'}{did_you_mean(unknown[0], names)}"
            )
        try:
            for name, value in overrides.items():
                check_number(name, value)
            return self._estimator(recipe.resolved(**overrides))
        except (TypeError, ValueError) as error:
            raise RecipeError(f"recipe {recipe.name}: {error}") from None

    def families(self, settings: Sequence[Mapping[str, object]]) -> list[list[int]]:
        """Numbers of the settings, together those that differ in values tried on one first pass alone."""
        families: dict[str, list[int]] = {}
        for at, setting in enumerate(settings):
            rest = {
                name: value
                for name, value in setting.items()
                if name not in self._varied_names
            }
            families.setdefault(repr(sorted(rest.items())), []).append(at)
        return [*families.values()]


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Read a shipped recipe by name, or a recipe file by path.

    Parameters
    ----------
    name_or_path : str or Path
        A name of ``screen recipes``, or the place of a TOML file; text that ends in ``.toml`` is a place.

    Returns
    -------
    Recipe
        Checked against the parts it names.

    Raises
    ------
    RecipeError
        If there is none (with the list of names), or it cannot be read.

    Examples
    --------
    >>> from screening import load_recipe
    >>> load_recipe("williams").machine
    'two_class'
    """
    text, source = _text_of(name_or_path)
    recipe = read_recipe(text, source)
    # Here and not in `read_recipe`: a model that was trained by the defaults alone can still be loaded.
    if recipe.machine != "blend":
        RecipeComponents(recipe).check_grid(source)
    return recipe


def read_recipe(text: str, source: str = "recipe") -> Recipe:
    """Read a recipe's TOML text, checked against the parts it names; RecipeError says what is possible."""
    recipe = _parsed(text, source)
    try:
        if recipe.machine == "blend":
            check_blend(recipe)
        else:
            RecipeComponents(recipe).check()
    except ValueError as error:
        raise RecipeError(f"{source}: {error}") from None
    except TypeError as error:
        raise RecipeError(
            f"{source}: a parameter has a value of a wrong type: {error}"
        ) from None
    return recipe


def list_recipes() -> list[Recipe]:
    """All shipped recipes by name, read but not checked against the parts they name."""
    return sorted(
        (_parsed(text, source) for text, source in _shipped()),
        key=lambda recipe: recipe.name,
    )


def _shipped() -> Iterator[tuple[str, str]]:
    for entry in files("screening.models").iterdir():
        if entry.name.endswith(".toml"):
            yield entry.read_text(encoding="utf-8"), entry.name


def _text_of(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a recipe and what errors call it."""
    name = str(name_or_path)
    if name.endswith(".toml") or isinstance(name_or_path, Path):
        path = Path(name_or_path)
        try:
            return read_bounded(path, MOST_BYTES, RecipeError).decode(), path.name
        except UnicodeDecodeError as error:
            raise RecipeError(
                f"cannot read the recipe {path.name}: {type(error).__name__}"
            ) from None
    shipped = {source: text for text, source in _shipped()}
    if f"{name}.toml" not in shipped:
        names = sorted(source.removesuffix(".toml") for source in shipped)
        raise RecipeError(
            f"no recipe {name!r}{did_you_mean(name, names) or '; there are ' + ', '.join(names)}"
        )
    return shipped[f"{name}.toml"], f"{name}.toml"


def _parsed(text: str, source: str, nested: bool = False) -> Recipe:
    """A recipe with those it blends; a blend within a blend is read without its own, to be refused."""
    recipe = Recipe.from_toml(text, source)
    if nested:
        return recipe
    try:
        for name in (*recipe.members, *recipe.scarce):
            recipe.every[name] = _parsed(*_text_of(name), nested=True)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from None
    return recipe


def build(recipe: Recipe | str | Path, **overrides: Any) -> Estimator:
    """Make a recipe an unfitted estimator.

    Parameters
    ----------
    recipe : Recipe, str or Path
        A recipe, the name of a shipped one, or a recipe file.
    **overrides
        Parameters named in the recipe; ``sigma`` wherever ``gamma`` is, for the Gaussian kernel.

    Returns
    -------
    estimator
        It has scikit-learn's ``fit`` and ``decision_function``; it encodes nothing, and ``auto`` alone
        scales X.

    Raises
    ------
    RecipeError
        If there is no such recipe, or an override is unknown (with the list of names) or out of range.

    Examples
    --------
    >>> from screening import build
    >>> build("act_feature_space", C=10, gamma=0.5).C
    10
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    if recipe.machine == "blend":
        refuse_overrides(recipe, overrides)
        return BlendedClassifier(
            tuple(build(member) for member in members_for(recipe, "binary"))
        )
    return RecipeComponents(recipe).estimator(overrides)


def may_span(recipe: Recipe) -> bool:
    """Return True if a recipe's machine can be solved in the span of some rows (`estimators.landmarks`)."""
    return recipe.machine == "two_class" and not recipe.factor and build(recipe).by_rows


def param_grid(recipe: Recipe | str | Path) -> dict[str, list[Any]]:
    """The recipe's search by the names that its estimator has, for ``GridSearchCV(build(recipe), ...)``.

    Settings whose parts do not go together, which the recipe's own search leaves out, fail there.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    parts, search = RecipeComponents(recipe), dict(recipe.search.grid)
    of_kernel = {
        name: search.pop(name)
        for name in list(search)
        if parts.owners(name)[0][0] == "kernel"
    }
    grid: dict[str, list[Any]] = {}
    if of_kernel:
        settings = (
            dict(zip(of_kernel, values, strict=True))
            for values in product(*of_kernel.values())
        )
        grid["kernel"] = [build(recipe, **setting).kernel for setting in settings]
    for name, values in search.items():
        ((part, own), *_) = parts.owners(name)
        grid[own if part == "machine" else f"{part.removeprefix('remedy.')}__{own}"] = (
            values
        )
    return grid


def candidates_for(
    recipe: Recipe, n: int, rng: np.random.Generator
) -> list[dict[str, object]]:
    """Settings to choose among, each overrides for ``build`` with all names of the grid.

    The first is the default and, where there is a factor, the second its limit (no pass), so that validation
    can decline the factor; the rest, up to `n` in all, is drawn from the grid without repetition and without
    settings whose parts do not go together.
    """
    if n < 1:
        raise RecipeError(f"at least one candidate is needed, got {n}")
    grid, parts = recipe.search.grid, RecipeComponents(recipe)
    names = [name for name in recipe.parameters if name in grid]
    names += [name for name in grid if name not in names]
    default = {
        name: recipe.parameters[name] for name in names if name in recipe.parameters
    }
    if "sigma" in names and "gamma" in recipe.parameters:
        default["gamma"] = recipe.parameters["gamma"]
    candidates = [default]
    if "passes" in default:
        candidates.append(_plain(parts, default | {"passes": 0}))
    total = math.prod(len(grid[name]) for name in names)
    tried = 0
    # A permutation of the whole grid is drawn only while it is small; beyond that repetitions are rare.
    order = (
        rng.permutation(total) if total <= 100_000 else rng.integers(total, size=20 * n)
    )
    while len(candidates) < n and tried < len(order) and names:
        setting, code = {}, int(order[tried])
        for name in names:
            code, at = divmod(code, len(grid[name]))
            setting[name] = grid[name][at]
        tried += 1
        setting = _plain(parts, setting)
        if setting not in candidates and _works(parts, setting):
            candidates.append(setting)
    return candidates[:n]


def _works(parts: RecipeComponents, setting: dict[str, object]) -> bool:
    """Whether the parts of this setting go together."""
    try:
        parts.estimator(setting)
    except RecipeError:
        return False
    return True


def _plain(parts: RecipeComponents, setting: dict[str, object]) -> dict[str, object]:
    """Without a pass the factor's own parameters say nothing: keep them at their defaults."""
    if setting.get("passes") != 0:
        return setting
    idle = [name for name in setting if name in parts.factor_names]
    return setting | {name: parts.recipe.parameters[name] for name in idle}
