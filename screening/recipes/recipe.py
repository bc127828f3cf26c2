"""A recipe: a published method as data, or a blend of recipes.

It names a kernel, a factor, a machine and remedies, all of them defined elsewhere.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)
from pydantic_core import ErrorDetails
from sklearn.base import BaseEstimator, is_classifier

from screening.data.cohort import Cohort
from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.remedies import REMEDIES
from screening.estimators.scores import GivenScore
from screening.estimators.wrapped import WrappedEstimator
from screening.factors import FACTORS
from screening.kernels import KERNELS
from screening.recipes.points import PointsTable
from screening.registry import Registry, accepted_class, classes_of
from screening.spelling import did_you_mean

ALWAYS = ("approximation", "n_landmarks")
"""Parameters of every kernel machine, whether or not its [parameters] name them."""
# With fewer positives a blend has its `scarce` members beside the others.
ENOUGH_POSITIVES = 30

FITS = {
    "binary": ("one_class", "two_class", "baseline", "given", "points"),
    "multi": ("multi_class", "baseline"),
}
"""Machines by the kind of question they answer: one class and the rest, or several."""
Criterion = Literal[
    "auroc",
    "average_precision",
    "g_mean",
    "best_g_mean",
    "balanced_accuracy",
    "macro_recall",
]
"""Figure of held-out rows that a search maximizes. With several classes g_mean and
balanced_accuracy are macro_recall, the mean recall over classes, and are called so."""

_MAX_CANDIDATES = 10_000
# Encoded columns are of size 1: a parameter outside this range is a mistake, and sums
# of such numbers overflow.
_MIN_NUMBER = 1e-9
_MAX_NUMBER = 1e9
# Upper limits of single parameters.
_MAX_NUMBER_OF = {
    "seed": 2**32 - 1,
    "passes": 100,
    "folds": 1000,
    "n_estimators": 100_000,
    "n_rounds": 100_000,
}
_SCALED = re.compile(r"scale\s*\*(.+)")


def _accepted_estimator(name: str, member: Any) -> type[Estimator]:
    """Return the estimator of a plug-in, which recipes name as their baseline."""
    estimator: type[Estimator] = accepted_class(Estimator, name, member)
    if issubclass(estimator, KernelMachine):
        raise TypeError("recipes use only the kernel machines of screening itself")
    return estimator


ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator", partial(classes_of, "screening.estimators"), _accepted_estimator
)
"""Every estimator by name."""


COMPONENTS: dict[str, Mapping[str, type]] = {
    "kernel": KERNELS,
    "factor": FACTORS,
    "remedy": REMEDIES,
}
"""Classes that a recipe's tables may name, by table and name."""


def baselines() -> dict[str, type[Estimator]]:
    """Return the estimators that a recipe of machine "baseline" may name, by name."""
    others = (KernelMachine, GivenScore)
    return {
        name: estimator
        for name, estimator in ESTIMATORS.items()
        if not issubclass(estimator, others)
    }


def check_number(name: str, value: object) -> None:
    """Raise ValueError for a parameter that is too small or large for any machine.

    Parameters
    ----------
    name : str
        Name of the parameter, such as "C" or "factor.k".
    value : object
        Texts without a number are valid.
    """
    parameter = name.rpartition(".")[2]
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if parameter == "seed" and not is_integer:
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    number = _number_of(value)
    largest = _MAX_NUMBER_OF.get(parameter, _MAX_NUMBER)
    if number and not _MIN_NUMBER <= number <= largest:
        raise ValueError(
            f"{name} must be a number from {_MIN_NUMBER:g} to {largest:g}, "
            f"got {value!r}"
        )


def _number_of(value: object) -> float | None:
    """Return a value, or a text, as a number; None if it is not one.

    Of a text such as "scale * 2", which is relative to the data, it is the multiple.
    """
    if isinstance(value, str):
        scaled = _SCALED.fullmatch(value.strip())
        value = scaled[1] if scaled else value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _check_numbers(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        numbers = value if isinstance(value, list) else [value]
        for number in numbers:
            check_number(name, number)
    return values


def _check_single_values(values: dict[str, Any]) -> dict[str, Any]:
    lists = [name for name, value in values.items() if isinstance(value, (list, dict))]
    if lists:
        raise ValueError(f"{', '.join(lists)} must be a number or a word")
    return values


Values = Annotated[
    dict[str, Any], AfterValidator(_check_single_values), AfterValidator(_check_numbers)
]
Grid = Annotated[
    dict[str, Annotated[list[Any], Field(min_length=1)]], AfterValidator(_check_numbers)
]


class SearchSpace(BaseModel):
    """The [search] table: settings that are tried if the caller names none.

    Parameters
    ----------
    criterion : str
        Figure of held-out rows that the search maximizes.
    candidates : int
        Number of settings that are tried at least if the caller does not say how many;
        machines of several classes try more where the work is small, see
        ``model_selection.search``.
    grid : dict of str to list
        Values that the search tries, by parameter.
    paper : dict of str to list
        The paper's own grid, for data scaled as in the paper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    criterion: Criterion = "auroc"
    candidates: Annotated[int, Field(ge=1, le=_MAX_CANDIDATES)] = 8
    grid: Grid = {}
    paper: Grid = {}


class Recipe(BaseModel):
    """A method, as its TOML text describes it.

    Parameters
    ----------
    name, title, paper, about : str
    machine : str
        Name of the machine.
    scheme : str, optional
        Scheme of a multi-class machine.
    baseline : str, optional
        Name of the estimator of machine "baseline".
    kernel, factor : dict
        ``type`` and fixed fields; empty without one.
    remedy : dict of str to dict
        Fixed fields by remedy, outermost first.
    points : PointsTable, optional
        Of machine "points".
    members : list of str
        Names of the recipes that a blend averages.
    scarce : list of str
        Names of those that join them if there are few positives.
    log_skewed : bool
        Positive numbers that are strongly skewed are put on a log scale (`Encoder`).
    parameters : dict
        Parameters that ``build`` lets the caller override, with their defaults.
    search : SearchSpace
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    title: str
    paper: str
    machine: Literal[
        "one_class",
        "two_class",
        "multi_class",
        "baseline",
        "blend",
        "given",
        "points",
    ]
    about: str = ""
    scheme: str | None = None
    baseline: str | None = None
    kernel: Values = {}
    factor: Values = {}
    remedy: dict[str, Values] = {}
    points: PointsTable | None = None
    members: list[str] = []
    scarce: list[str] = []
    log_skewed: bool = False
    parameters: Values = {}
    search: SearchSpace = SearchSpace()
    _text: str = PrivateAttr("")
    _every: dict[str, Recipe] = PrivateAttr(default_factory=dict)

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Read a recipe's text and check it by itself.

        Parameters
        ----------
        text : str
        source : str
            Name of the file, for errors.

        Raises
        ------
        RecipeError
            With all problems.
        """
        try:
            recipe = cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"{source}: not valid TOML: {error}") from None
        except RecursionError:
            raise RecipeError(
                f"{source}: tables are nested too deeply for a recipe"
            ) from None
        except ValidationError as error:
            problems = [
                _problem(problem) for problem in error.errors(include_url=False)
            ]
            raise RecipeError(f"{source}: {'; '.join(problems)}") from None
        problems = recipe._inconsistencies()
        if problems:
            raise RecipeError(f"{source}: {'; '.join(problems)}")
        recipe._text = text
        return recipe

    def _inconsistencies(self) -> list[str]:
        """Return what is wrong between the tables of the recipe."""
        problems = []
        known = set(self.parameters)
        if "gamma" in known:
            known.add("sigma")
        grids = {"grid": self.search.grid, "paper": self.search.paper}
        for grid_name, grid in grids.items():
            for name in grid:
                if name not in known:
                    problems.append(f"search.{grid_name}.{name} is not in [parameters]")
        for key in ("members", "scarce"):
            if getattr(self, key) and self.machine != "blend":
                problems.append(f"{key} belong to machine blend, not to {self.machine}")
        if self.log_skewed and self.machine in ("given", "points"):
            problems.append(f"log_skewed is not for machine {self.machine}")
        if (self.machine == "points") != (self.points is not None):
            problems.append("a [points] table and machine points belong together")
        return problems

    @property
    def text(self) -> str:
        """The TOML text, verbatim."""
        return self._text

    @property
    def every(self) -> dict[str, Recipe]:
        """The recipes in `members` and `scarce`, by name; set when a recipe is read."""
        return self._every

    @property
    def names(self) -> list[str]:
        """Names of the parameters that `build` takes."""
        names = list(self.parameters)
        is_gaussian = self.kernel.get("type") == "gaussian"
        if is_gaussian and {"gamma", "sigma"} & set(names):
            names += [name for name in ("gamma", "sigma") if name not in names]
        if self.has_kernel:
            names += [name for name in ALWAYS if name not in names]
        return names

    def resolved(self, **overrides: Any) -> dict[str, object]:
        """Return all parameters, with overrides.

        Of ``gamma`` and ``sigma`` only the one that was chosen is returned; RecipeError
        if both are overridden. With ``sigma`` the kernel is Gaussian by default.
        """
        resolved = self.parameters | overrides
        if "sigma" in overrides and "kernel" in self.parameters:
            resolved["kernel"] = overrides.get("kernel", "gaussian")
        if {"gamma", "sigma"} <= set(resolved):
            default = "gamma" if "gamma" in self.parameters else "sigma"
            other = "sigma" if default == "gamma" else "gamma"
            default_value = self.parameters.get(default)
            if overrides.get(default, default_value) != default_value:
                raise RecipeError(
                    f"recipe {self.name}: give gamma or sigma = 1 / sqrt(2 gamma), "
                    "not both"
                )
            del resolved[default if other in overrides else other]
        return resolved

    @property
    def estimator(self) -> type[Estimator] | None:
        """Class of the estimator; None for a blend and for an unknown baseline."""
        return ESTIMATORS.get(self.baseline or self.machine)

    @property
    def has_kernel(self) -> bool:
        """True if its machine is a kernel machine; of a blend some members may be."""
        estimator = self.estimator
        return estimator is not None and issubclass(estimator, KernelMachine)

    @property
    def stated_parameters(self) -> dict[str, Any]:
        """Its parameters as a model's document states them."""
        return self.parameters

    @property
    def persistable(self) -> bool:
        """True if a fitted estimator can be stored without pickle."""
        return self.estimator is None or self.estimator.storable

    @property
    def missing_requirement(self) -> str | None:
        """What must be installed before it can be fitted; None if nothing."""
        return None if self.estimator is None else self.estimator.missing_requirement()

    def refuse_if_not_persistable(self) -> None:
        """Raise RecipeError if a fitted estimator cannot be stored as arrays."""
        if not self.persistable:
            raise RecipeError(
                f"recipe {self.name} is only a baseline for `screen compare`: its "
                "trees cannot be stored as plain arrays, and model files contain no "
                "pickles. Train random_forest, balanced_forest, histogram_boosting, "
                "logistic or a kernel method"
            )
        if self.missing_requirement:
            raise RecipeError(
                f"recipe {self.name} needs {self.missing_requirement} (and libgomp); "
                "histogram_boosting does not"
            )
        for member in self.every.values():
            member.refuse_if_not_persistable()


def _problem(error: ErrorDetails) -> str:
    """Return one of pydantic's errors with its key and the possible values."""
    *within, last = map(str, error["loc"])
    key = ".".join([*within, last])
    if error["type"] == "missing":
        return f"{key!r} is missing"
    if error["type"] == "extra_forbidden":
        table = SearchSpace if within else Recipe
        keys = tuple(table.model_fields)
        possible = did_you_mean(last, keys) or f" ({', '.join(keys)})"
        return f"{key!r} is not a key of a recipe{possible}"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}"
    got = ""
    if isinstance(error["input"], (str, int, float)):
        got = f", got {error['input']!r}"
    return f"{key}: {error['msg']}{got}"


def _refuse_members(
    members: Mapping[str, Recipe], is_wrong: Callable[[Recipe], bool], message: str
) -> None:
    """Raise ValueError with the names of the members that are wrong, if any is."""
    names = [name for name, member in members.items() if is_wrong(member)]
    if names:
        raise ValueError(message.format(names=", ".join(names)))


def check_blend(recipe: Recipe) -> None:
    """Raise ValueError unless a blend's members can be blended and stored."""
    if not recipe.members:
        raise ValueError("machine blend needs members = [...], the names of recipes")
    if len({*recipe.members}) < len(recipe.members):
        raise ValueError("a blend contains a member twice; name each once")
    _refuse_members(
        recipe.every,
        lambda member: member.machine == "blend",
        "a blend cannot have the blend {names} as a member",
    )
    _refuse_members(
        recipe.every,
        lambda member: not member.persistable,
        "members of a blend must be stored, but {names} cannot be stored",
    )
    _refuse_members(
        {name: recipe.every[name] for name in recipe.scarce},
        lambda member: member.machine != "one_class",
        "scarce members learn from negatives alone; remove {names} from `scarce`",
    )
    if recipe.parameters or recipe.search.grid:
        raise ValueError(
            "a blend has no [parameters] and no [search.grid]; set those of its members"
        )


def members_for(
    recipe: Recipe, kind: str, n_positive: int | None = None
) -> list[Recipe]:
    """Return the members of a blend that answer a cohort's question.

    Parameters
    ----------
    recipe : Recipe
    kind : {"binary", "multi"}
        Kind of question.
    n_positive : int, optional
        Number of positives, None if it is not known yet. If there are few, the
        `scarce` members join the others.

    Raises
    ------
    RecipeError
        If a member is unknown.
    """
    names = recipe.members
    has_few = n_positive is not None and n_positive < ENOUGH_POSITIVES
    if kind == "binary" and has_few:
        names = [*recipe.members, *recipe.scarce]
    members = [
        recipe.every[name] for name in names if recipe.every[name].machine in FITS[kind]
    ]
    if not members:
        raise RecipeError(
            f"recipe {recipe.name} has no member for this cohort among "
            f"{', '.join(names)}"
        )
    return members


def refuse_overrides(recipe: Recipe, overrides: Mapping[str, object]) -> None:
    """Raise RecipeError if parameters of a blend are overridden: it has none."""
    if overrides:
        raise RecipeError(
            f"recipe {recipe.name} has no parameter {', '.join(map(repr, overrides))}: "
            "it is a blend, and parameters belong to its members "
            f"({', '.join(recipe.members)})"
        )


class EstimatorRecipe(Recipe):
    """An estimator of the caller as a method; no model of it is ever stored."""

    @classmethod
    def of(cls, estimator: Any) -> EstimatorRecipe:
        """Return the recipe of a scikit-learn classifier; RecipeError for others."""
        if not isinstance(estimator, BaseEstimator) or not is_classifier(estimator):
            raise RecipeError(
                "recipe must be a name, a recipe or a classifier of scikit-learn, not "
                f"{type(estimator)}"
            )
        name = type(estimator).__name__
        return cls(
            name=name,
            title=f"{name}, an estimator supplied by the caller",
            paper="none",
            machine="baseline",
            parameters={"estimator": estimator},
        )

    def refuse_if_not_persistable(self) -> None:
        """Accept every estimator: its model serves one process and is not stored."""

    @property
    def estimator(self) -> type[Estimator]:
        """Class of the estimator."""
        return WrappedEstimator

    @property
    def stated_parameters(self) -> dict[str, Any]:
        """The estimator, as it prints itself."""
        return {"estimator": repr(self.parameters["estimator"])}


def several_asked(cohort: Cohort) -> bool:
    """Return True if there are more than two classes and no single positive one."""
    if len(cohort.classes) <= 2:
        return False
    return not cohort.contract.positive or len(cohort.positives) > 1


def separates_classes(recipe: Recipe, cohort: Cohort) -> bool:
    """Return True if a recipe separates all classes of a cohort, not one from the rest.

    A multi-class machine always does; a machine that can do either does if several
    classes are asked for.
    """
    machines = {recipe.every[name].machine for name in recipe.members}
    if not machines:
        machines = {recipe.machine}
    if machines == {"multi_class"}:
        return True
    return several_asked(cohort) and not machines.isdisjoint(FITS["multi"])
