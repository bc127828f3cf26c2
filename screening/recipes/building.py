"""From a recipe's text to an unfitted estimator and the settings of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from importlib.resources import files
from inspect import signature
from itertools import islice, product
from operator import attrgetter
from pathlib import Path
from typing import Any

from sklearn.base import ClassifierMixin

from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.ensembles import BlendedClassifier
from screening.estimators.kernel_machine import KernelMachine
from screening.files import read_bounded
from screening.kernels import KERNELS, Gaussian, Kernel
from screening.recipes.recipe import (
    COMPONENTS,
    EstimatorRecipe,
    Recipe,
    baselines,
    check_blend,
    check_number,
    members_for,
    refuse_overrides,
)
from screening.registry import Registry
from screening.spelling import did_you_mean

# Size of a recipe file.
_MAX_BYTES = 1 << 20
# Settings of a grid among which one is looked for that works with a value.
_MAX_TRIED_SETTINGS = 1000
# Parameters that several components may have; all of them get the value.
_SHARED = ("seed",)
# The parameter that names the kernel, instead of the recipe's [kernel] type.
_KERNEL = "kernel"

_ComponentValues = dict[str, dict[str, Any]]
"""Values by component and parameter."""


class RecipeComponents:
    """The components of one recipe, and the parameters of each.

    Components are called "machine", "kernel", "factor" and "remedy.NAME".
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._parameters = {"machine": _machine_parameters(recipe)}
        self._fixed: dict[str, dict[str, object]] = {"machine": {}}
        self._types: dict[str, type] = {}
        if not recipe.has_kernel:
            return
        self._add("kernel", recipe.kernel or {"type": "gaussian"})
        if self._types["kernel"] is Gaussian:
            self._parameters["kernel"] += ("sigma",)
        self._parameters["kernel"] += (_KERNEL,)
        if recipe.factor:
            self._add("factor", recipe.factor)
        for name, values in recipe.remedy.items():
            self._add(f"remedy.{name}", {"type": name, **values})

    def _add(self, component: str, table: Mapping[str, object]) -> None:
        """Add a component from its table of the recipe; ValueError if it is wrong."""
        type_name = table.get("type")
        types = COMPONENTS[component.partition(".")[0]]
        if not isinstance(type_name, str) or type_name not in types:
            raise ValueError(
                f"{component} {type_name!r} is not one of {', '.join(types)}"
            )
        component_type = types[type_name]
        parameters = tuple([field.name for field in fields(component_type)])
        values = {key: value for key, value in table.items() if key != "type"}
        unknown = [key for key in values if key not in parameters]
        if unknown:
            possible = ", ".join(parameters) or "nothing"
            raise ValueError(
                f"{component} {type_name} has no parameter {', '.join(unknown)}; "
                f"it has {possible}"
            )
        self._types[component] = component_type
        self._parameters[component] = parameters
        self._fixed[component] = values

    @property
    def factor_names(self) -> set[str]:
        """Names of the recipe's parameters that only the factor has."""
        names = set()
        for name in self.recipe.parameters:
            components = [component for component, _ in self.owners(name)]
            if components == ["factor"]:
                names.add(name)
        return names

    @cached_property
    def _varied_names(self) -> set[str]:
        """Parameters whose values the factor can try on one first pass."""
        factor = self._types.get("factor")
        varies: frozenset[str] = getattr(factor, "varies", frozenset())
        names = set()
        for name in self.factor_names:
            _, parameter = self.owners(name)[0]
            if parameter in varies:
                names.add(name)
        return names

    def owners(self, name: str) -> list[tuple[str, str]]:
        """Return the (component, parameter) pairs that a name sets.

        A dotted name, COMPONENT.PARAMETER, names the component; it is needed if several
        components have the parameter. ValueError for unknown and ambiguous names.
        """
        component, _, parameter = name.rpartition(".")
        candidates = [component] if component else list(self._parameters)
        owners = [
            (candidate, parameter)
            for candidate in candidates
            if parameter in self._parameters.get(candidate, ())
        ]
        if not owners:
            raise ValueError(
                f"parameter {name!r} belongs to no component; the parameters are "
                f"{', '.join(self._all_parameters())}"
            )
        if len(owners) > 1 and name not in _SHARED:
            dotted = [f"{candidate}.{parameter}" for candidate, _ in owners]
            raise ValueError(
                f"parameter {name!r} is ambiguous; write {' and '.join(dotted)}"
            )
        return owners

    def _all_parameters(self) -> list[str]:
        """Return the names of all parameters of the components, sorted."""
        names: set[str] = set()
        for parameters in self._parameters.values():
            names.update(parameters)
        return sorted(names)

    def check(self) -> None:
        """Raise ValueError, naming both sides, if components cannot work together."""
        recipe = self.recipe
        if not recipe.has_kernel:
            _refuse_components(recipe)
        if recipe.machine == "baseline":
            _check_baseline(recipe)
        elif recipe.baseline:
            raise ValueError(f"machine {recipe.machine} takes no baseline")
        if recipe.scheme is not None and recipe.machine != "multi_class":
            raise ValueError(
                f"machine {recipe.machine} takes no scheme; only multi_class does"
            )
        if recipe.remedy and recipe.machine != "two_class":
            names = ", ".join(recipe.remedy)
            raise ValueError(
                f"remedy {names} needs the machine two_class, not {recipe.machine}"
            )
        if not recipe.factor:
            for name in ("passes", "stop"):
                if recipe.parameters.get(name) is not None:
                    raise ValueError(f"{name} needs a [factor]")
        self._build(recipe.resolved())

    def check_grid(self, source: str) -> None:
        """Raise RecipeError for a value of the search that works with no other values.

        Of long grids the first `_MAX_TRIED_SETTINGS` settings are tried. `source` is
        the name of the file.
        """
        for name, values in self.recipe.search.grid.items():
            for value in values:
                self._check_grid_value(name, value, source)

    def _check_grid_value(self, name: str, value: object, source: str) -> None:
        try:
            self._build(self.recipe.resolved(**{name: value}))
        except (TypeError, ValueError) as error:
            grid = self.recipe.search.grid | {name: [value]}
            for values in islice(product(*grid.values()), _MAX_TRIED_SETTINGS):
                if self.works(dict(zip(grid, values, strict=True))):
                    return
            raise RecipeError(f"{source}: search.grid.{name}: {error}") from None

    def works(self, setting: dict[str, object]) -> bool:
        """Return True if the components of a setting can work together."""
        try:
            self.estimator(setting)
        except RecipeError:
            return False
        return True

    def _build_kernel(self, values: Mapping[str, Any]) -> Kernel:
        """Build the kernel from its name and parameters, gamma or sigma."""
        parameters = dict(values)
        name = parameters.pop(_KERNEL, None)
        sigma = parameters.pop("sigma", None)
        kernel_type: type[Kernel] = self._types["kernel"]
        if name is not None:
            if str(name) not in KERNELS:
                raise ValueError(
                    f"kernel must be one of {', '.join(KERNELS)}, got {name!r}"
                )
            kernel_type = KERNELS[str(name)]
        if sigma is None:
            return kernel_type(**parameters)
        if kernel_type is not Gaussian:
            raise ValueError(
                f"sigma needs the kernel gaussian, not {kernel_type.name}; give gamma"
            )
        return Gaussian.from_sigma(sigma)

    def _build(self, parameters: Mapping[str, object]) -> Estimator:
        """Build the estimator; ValueError if components cannot work together."""
        estimator_type = self.recipe.estimator
        # Unknown baselines were refused, and blends are built apart.
        assert estimator_type is not None
        values: _ComponentValues = {
            component: dict(fixed) for component, fixed in self._fixed.items()
        }
        for name, value in parameters.items():
            for component, parameter in self.owners(name):
                values[component][parameter] = value
        arguments = values["machine"]
        if issubclass(estimator_type, KernelMachine):
            arguments = self._kernel_machine_arguments(values)
        estimator = estimator_type(**arguments)
        estimator.check_parameters()
        return estimator

    def _kernel_machine_arguments(self, values: _ComponentValues) -> dict[str, Any]:
        """Return the arguments of a kernel machine, with its components built."""
        arguments = dict(values["machine"])
        if "seed" in arguments:
            arguments["random_state"] = arguments.pop("seed")
        arguments["kernel"] = self._build_kernel(values["kernel"])
        arguments["factor"] = None
        if "factor" in self._types:
            arguments["factor"] = self._types["factor"](**values["factor"])
        if self.recipe.machine == "two_class":
            remedies = [
                remedy_type(**values[component])
                for component, remedy_type in self._types.items()
                if component.startswith("remedy.")
            ]
            arguments["remedies"] = tuple(remedies)
        if self.recipe.scheme is not None:
            arguments["scheme"] = self.recipe.scheme
        return arguments

    def estimator(self, overrides: Mapping[str, object]) -> Estimator:
        """Return the unfitted machine with its components.

        RecipeError if an override is unknown or out of range.
        """
        recipe = self.recipe
        names = recipe.names
        unknown = [name for name in overrides if name not in names]
        if unknown:
            raise RecipeError(
                f"recipe {recipe.name} has no parameter "
                f"{', '.join(map(repr, unknown))}; it has "
                f"{', '.join(names) or 'none'}{did_you_mean(unknown[0], names)}"
            )
        try:
            for name, value in overrides.items():
                check_number(name, value)
            return self._build(recipe.resolved(**overrides))
        except (TypeError, ValueError) as error:
            raise RecipeError(f"recipe {recipe.name}: {error}") from None

    def families(self, settings: Sequence[Mapping[str, object]]) -> list[list[int]]:
        """Return indices of settings, grouped by those that can share a first pass."""
        families: dict[str, list[int]] = {}
        for index, setting in enumerate(settings):
            fixed = {
                name: value
                for name, value in setting.items()
                if name not in self._varied_names
            }
            families.setdefault(repr(sorted(fixed.items())), []).append(index)
        return [*families.values()]


def _machine_parameters(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the machine's parameters, without those of components."""
    estimator = recipe.estimator
    if estimator is None:
        return ()
    names = []
    for name in signature(estimator).parameters:
        if name not in estimator.component_parameters:
            own_name = "seed" if name == "random_state" else name
            names.append(own_name)
    return tuple(names)


def _check_baseline(recipe: Recipe) -> None:
    """Raise ValueError unless a recipe of machine "baseline" is valid."""
    possible = baselines()
    if recipe.baseline not in possible:
        raise ValueError(
            f"baseline {recipe.baseline!r} is not one of {', '.join(possible)}"
        )


def _refuse_components(recipe: Recipe) -> None:
    """Raise ValueError if a recipe without a kernel machine has its components."""
    tables = {
        "kernel": recipe.kernel,
        "factor": recipe.factor,
        "remedy": recipe.remedy,
    }
    for name, table in tables.items():
        if table:
            raise ValueError(f"machine {recipe.machine} takes no [{name}]")


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Read an installed recipe by name, or a recipe file by path.

    Parameters
    ----------
    name_or_path : str or Path
        A name of ``screen recipes``, or the path of a TOML file; a text that ends in
        ``.toml`` is a path.

    Returns
    -------
    Recipe
        Checked against the components it names.

    Raises
    ------
    RecipeError
        If it does not exist (with the list of names) or cannot be read.

    Examples
    --------
    >>> from screening import load_recipe
    >>> load_recipe("williams").machine
    'two_class'
    """
    text, source = _read_text(name_or_path)
    recipe = read_recipe(text, source)
    # `read_recipe` does not check the grid: a stored model needs only its defaults.
    if recipe.machine != "blend":
        RecipeComponents(recipe).check_grid(source)
    return recipe


def as_recipe(recipe: Recipe | str | ClassifierMixin) -> Recipe:
    """Return a recipe: loaded if it is a name or a path, or that of a classifier."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, str):
        return load_recipe(recipe)
    return EstimatorRecipe.of(recipe)


def read_recipe(text: str, source: str = "recipe") -> Recipe:
    """Read a recipe's TOML text, checked against the components it names.

    RecipeError says what is wrong and what is possible.
    """
    recipe = _parse(text, source)
    try:
        if recipe.machine == "blend":
            check_blend(recipe)
        else:
            RecipeComponents(recipe).check()
    except ValueError as error:
        raise RecipeError(f"{source}: {error}") from None
    except TypeError as error:
        raise RecipeError(
            f"{source}: the value of a parameter has the wrong type: {error}"
        ) from None
    return recipe


def _shipped_texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each recipe that ships."""
    for file in sorted(files("screening.models").iterdir(), key=attrgetter("name")):
        name, dot, ending = file.name.rpartition(".")
        if dot and ending == "toml":
            yield name, file.read_text(encoding="utf-8")


def _accepted_text(name: str, text: Any) -> str:
    """Return the recipe of a plug-in; RecipeError or TypeError if it cannot work."""
    if not isinstance(text, str):
        raise TypeError("it is not the text of a recipe")
    recipe = Recipe.from_toml(text, name)
    if recipe.name != name:
        raise RecipeError(f"its `name` is not {name!r}")
    # Members of a blend may be recipes that are not registered yet.
    if recipe.machine != "blend":
        RecipeComponents(recipe).check()
    return text


RECIPES: Registry[str] = Registry("recipe", _shipped_texts, _accepted_text)
"""The TOML text of every installed recipe by name."""


def list_recipes() -> list[Recipe]:
    """List all installed recipes by name.

    Those that ship are not checked against their components. Those of plug-ins that
    cannot be read are left out.
    """
    recipes = []
    for name, text in sorted(RECIPES.items()):
        recipe = RECIPES.call(name, _parse, text, f"{name}.toml", default=None)
        if recipe is not None:
            recipes.append(recipe)
    return recipes


def _read_text(name_or_path: str | Path) -> tuple[str, str]:
    """Read the text of a recipe; also return its name for errors."""
    name = str(name_or_path)
    if name.endswith(".toml") or isinstance(name_or_path, Path):
        path = Path(name_or_path)
        try:
            return read_bounded(path, _MAX_BYTES, RecipeError).decode(), path.name
        except UnicodeDecodeError:
            raise RecipeError(
                f"recipe {path.name} is not UTF-8 text; save it as UTF-8"
            ) from None
    if name not in RECIPES:
        names = sorted(RECIPES)
        possible = did_you_mean(name, names) or "; there are " + ", ".join(names)
        raise RecipeError(f"no recipe {name!r}{possible}")
    return RECIPES[name], f"{name}.toml"


def _parse(text: str, source: str, nested: bool = False) -> Recipe:
    """Parse a recipe with its members.

    The members of a `nested` blend are not read: such a blend is refused later.
    """
    recipe = Recipe.from_toml(text, source)
    if nested:
        return recipe
    try:
        for name in (*recipe.members, *recipe.scarce):
            recipe.every[name] = _parse(*_read_text(name), nested=True)
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from None
    return recipe


def build(recipe: Recipe | str | Path, **overrides: Any) -> Estimator:
    """Build the unfitted estimator of a recipe.

    Parameters
    ----------
    recipe : Recipe, str or Path
        A recipe, the name of a shipped one, or a recipe file.
    **overrides
        Parameters that the recipe names; ``sigma`` wherever ``gamma`` is, for the
        Gaussian kernel.

    Returns
    -------
    estimator
        It has scikit-learn's ``fit`` and ``decision_function``. It encodes nothing, and
        only ``auto`` scales X.

    Raises
    ------
    RecipeError
        If the recipe or an override is unknown (with the list of names), or a value is
        out of range.

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
        members = [build(member) for member in members_for(recipe, "binary")]
        return BlendedClassifier(tuple(members))
    return RecipeComponents(recipe).estimator(overrides)


def may_span(recipe: Recipe) -> bool:
    """Return True if a recipe's machine can use the Nystroem approximation.

    See ``estimators.landmarks``.
    """
    if recipe.machine != "two_class" or recipe.factor:
        return False
    estimator = build(recipe)
    assert isinstance(estimator, KernelMachine)
    return estimator.by_rows


def param_grid(recipe: Recipe | str | Path) -> dict[str, list[Any]]:
    """Return the recipe's search for ``GridSearchCV(build(recipe), ...)``.

    Names are those of the estimator's parameters. Settings whose components cannot work
    together, which the recipe's own search leaves out, fail there. A blend has
    no parameters to search: its grid is empty.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    components = RecipeComponents(recipe)
    kernel_grid: dict[str, list[Any]] = {}
    grid: dict[str, list[Any]] = {}
    other_grid: dict[str, list[Any]] = {}
    for name, values in recipe.search.grid.items():
        component, parameter = components.owners(name)[0]
        if component == "kernel":
            kernel_grid[name] = values
        elif component == "machine":
            other_grid[parameter] = values
        else:
            other_grid[f"{component.removeprefix('remedy.')}__{parameter}"] = values
    if kernel_grid:
        grid["kernel"] = []
        for combination in product(*kernel_grid.values()):
            setting = dict(zip(kernel_grid, combination, strict=True))
            grid["kernel"].append(build(recipe, **setting).kernel)
    return grid | other_grid
