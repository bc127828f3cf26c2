"""A recipe: a published method as data over kernel, factor, machine and remedy; or a blend of recipes."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
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

from screening.data.cohort import Cohort
from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.remedies import REMEDIES
from screening.factors import FACTORS
from screening.kernels import KERNELS
from screening.registry import members
from screening.spelling import did_you_mean

ESTIMATORS: Mapping[str, type[Estimator]] = members("screening.estimators")
COMPONENTS: dict[str, Mapping[str, type]] = {
    "kernel": KERNELS,
    "factor": FACTORS,
    "remedy": REMEDIES,
    "machine": {
        name: kind
        for name, kind in ESTIMATORS.items()
        if issubclass(kind, KernelMachine)
    },
    "baseline": {
        name: kind
        for name, kind in ESTIMATORS.items()
        if not issubclass(kind, KernelMachine)
    },
}
"""Name to class, of everything that a recipe may name."""
# What every recipe of the kernel machines takes, named in its [parameters] or not.
ALWAYS = ("approximation", "n_landmarks")
# With fewer positives than this, machines that learn labels learn noise: `scarce` members carry the blend.
SCARCE = 10

FITS = {
    "binary": ("one_class", "two_class", "baseline"),
    "multi": ("multi_class", "baseline"),
}
"""Machines that answer a question by its kind: one class and the rest, or several classes."""
Criterion = Literal[
    "auroc", "average_precision", "g_mean", "best_g_mean", "balanced_accuracy"
]

MOST_CANDIDATES = 10_000
# Encoded columns are of size 1: a number beyond these is a slip, and sums of it overflow.
LEAST, MOST = 1e-9, 1e9
MOST_OF = {
    "seed": 2**32 - 1,
    "passes": 100,
    "folds": 1000,
    "n_estimators": 100_000,
    "n_rounds": 100_000,
}
_SCALED = re.compile(r"scale\s*\*(.+)")


def check_number(name: str, value: object) -> None:
    """Refuse a parameter that is infinite, negative, or too small or large for any machine (ValueError)."""
    own = name.rpartition(".")[2]
    if own == "seed" and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return
    scaled = _SCALED.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        number = float(scaled[1] if scaled else value)
    except ValueError:
        return  # a word
    except OverflowError:
        number = math.inf
    most = MOST_OF.get(own, MOST)
    if number != 0 and not LEAST <= number <= most:
        raise ValueError(
            f"{name} must be a number from {LEAST:g} to {most:g}, got {value!r}"
        )


def _of_sane_size(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        for number in value if isinstance(value, list) else [value]:
            check_number(name, number)
    return values


def _of_single_values(values: dict[str, Any]) -> dict[str, Any]:
    lists = [name for name, value in values.items() if isinstance(value, (list, dict))]
    if lists:
        raise ValueError(f"{', '.join(lists)} must be a number or a word")
    return values


Values = Annotated[
    dict[str, Any], AfterValidator(_of_single_values), AfterValidator(_of_sane_size)
]
Grid = Annotated[
    dict[str, Annotated[list[Any], Field(min_length=1)]], AfterValidator(_of_sane_size)
]


class Search(BaseModel):
    """[search]: what is tried where the caller names no setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    criterion: Criterion = "auroc"  # what the search maximises on held-out rows
    # settings tried where the caller does not say how many
    candidates: Annotated[int, Field(ge=1, le=MOST_CANDIDATES)] = 8
    grid: Grid = {}  # values that the search tries, by parameter
    paper: Grid = {}  # the paper's own grid, for data scaled as in the paper


class Recipe(BaseModel):
    """A method, as its TOML text has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    title: str
    paper: str
    machine: Literal["one_class", "two_class", "multi_class", "baseline", "blend"]
    about: str = ""
    scheme: str | None = None  # of a multi-class machine
    baseline: str | None = None
    kernel: Values = {}  # ``type`` and fixed fields; empty where there is none
    factor: Values = {}  # likewise
    remedy: dict[str, Values] = {}  # fixed fields by remedy, outermost first
    members: list[str] = []  # names of the recipes that a blend averages
    scarce: list[str] = []  # names of those that stand in where positives are few
    parameters: Values = {}  # what ``build`` lets the caller override, with the defaults
    search: Search = Search()
    _text: str = PrivateAttr("")
    _every: dict[str, Recipe] = PrivateAttr(default_factory=dict)

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Read a recipe's text, checked as far as it goes by itself; RecipeError names every problem."""
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
        known = {
            *recipe.parameters,
            *(["sigma"] if "gamma" in recipe.parameters else []),
        }
        grids = {"grid": recipe.search.grid, "paper": recipe.search.paper}
        problems = [
            f"search.{part}.{name} is not in [parameters]"
            for part, grid in grids.items()
            for name in grid
            if name not in known
        ]
        problems += [
            f"{key} belong to machine blend, not to {recipe.machine}"
            for key in ("members", "scarce")
            if getattr(recipe, key) and recipe.machine != "blend"
        ]
        if problems:
            raise RecipeError(f"{source}: {'; '.join(problems)}")
        recipe._text = text
        return recipe

    @property
    def text(self) -> str:
        """The TOML, verbatim."""
        return self._text

    @property
    def every(self) -> dict[str, Recipe]:
        """The recipes that `members` and `scarce` name, by name; put in by who reads the recipe."""
        return self._every

    @property
    def names(self) -> list[str]:
        """Names that `build` takes."""
        names = list(self.parameters)
        if self.kernel.get("type") == "gaussian" and {"gamma", "sigma"} & set(names):
            names += [name for name in ("gamma", "sigma") if name not in names]
        always = () if self.machine in ("baseline", "blend") else ALWAYS
        return names + [name for name in always if name not in names]

    def resolved(self, **overrides: Any) -> dict[str, object]:
        """All parameters with the overrides in place; of ``gamma`` and ``sigma`` the one that was chosen."""
        resolved = self.parameters | overrides
        if {"gamma", "sigma"} <= set(resolved):
            default = "gamma" if "gamma" in self.parameters else "sigma"
            other = "sigma" if default == "gamma" else "gamma"
            if overrides.get(
                default, self.parameters.get(default)
            ) != self.parameters.get(default):
                raise RecipeError(
                    f"recipe {self.name}: give gamma or sigma = 1 / sqrt(2 gamma), not both"
                )
            del resolved[default if other in overrides else other]
        return resolved

    @property
    def estimator(self) -> type[Estimator] | None:
        """What is fitted; None for a blend, and for a baseline that is none."""
        return ESTIMATORS.get(self.baseline or self.machine)

    @property
    def persistable(self) -> bool:
        """Whether a fitted estimator can be stored without a pickle."""
        return self.estimator is None or self.estimator.storable

    @property
    def lacks(self) -> str | None:
        """What must be installed before it can be fitted; None where nothing is missing."""
        return None if self.estimator is None else self.estimator.lacks()

    def refuse_if_not_persistable(self) -> None:
        """Raise RecipeError where a fitted estimator cannot be stored as arrays."""
        if not self.persistable:
            raise RecipeError(
                f"recipe {self.name} is a baseline for `screen compare`: its trees cannot be stored as plain "
                "arrays, and nothing is ever unpickled from a model; train random_forest, balanced_forest, "
                "histogram_boosting, logistic or a kernel method"
            )
        if self.lacks:
            raise RecipeError(
                f"recipe {self.name} needs {self.lacks} (and libgomp); histogram_boosting does not"
            )
        for member in self.every.values():
            member.refuse_if_not_persistable()


def _problem(error: ErrorDetails) -> str:
    """One of pydantic's errors by its key, with what is possible there."""
    *within, last = map(str, error["loc"])
    key = ".".join([*within, last])
    if error["type"] == "missing":
        return f"{key!r} is missing"
    if error["type"] == "extra_forbidden":
        keys = tuple((Search if within else Recipe).model_fields)
        possible = did_you_mean(last, keys) or f" ({', '.join(keys)})"
        return f"{key!r} is not a key of a recipe{possible}"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}"
    got = (
        f", got {error['input']!r}"
        if isinstance(error["input"], (str, int, float))
        else ""
    )
    return f"{key}: {error['msg']}{got}"


def check_blend(recipe: Recipe) -> None:
    """Refuse a list that names another blend, or what cannot be stored (ValueError)."""
    every = recipe.every
    if not recipe.members:
        raise ValueError("machine blend needs members = [...], names of recipes")
    if len({*recipe.members}) < len(recipe.members):
        raise ValueError("a blend has each of its members once")
    nested = [name for name, member in every.items() if member.machine == "blend"]
    loose = [name for name, member in every.items() if not member.persistable]
    if nested:
        raise ValueError(
            f"a blend cannot have the blend {', '.join(nested)} as a member"
        )
    if loose:
        raise ValueError(
            f"members of a blend are stored, and {', '.join(loose)} cannot be"
        )
    wrong = [name for name in recipe.scarce if every[name].machine != "one_class"]
    if wrong:
        raise ValueError(
            f"scarce members learn from negatives alone, {', '.join(wrong)} does not"
        )
    if recipe.parameters or recipe.search.grid:
        raise ValueError(
            "a blend has no [parameters] and no [search.grid]: its members have theirs"
        )


def members_for(
    recipe: Recipe, kind: str, n_positive: int | None = None
) -> list[Recipe]:
    """The members that answer a cohort's question; RecipeError where there is none.

    `kind` is the question's, "binary" or "multi". With few positives the `scarce` members stand in; None
    where their number is not known yet.
    """
    few = (
        kind == "binary"
        and n_positive is not None
        and n_positive < SCARCE
        and bool(recipe.scarce)
    )
    named = recipe.scarce if few else recipe.members
    members = [
        recipe.every[name] for name in named if recipe.every[name].machine in FITS[kind]
    ]
    if not members:
        raise RecipeError(
            f"recipe {recipe.name} has no member for this cohort among {', '.join(named)}"
        )
    return members


def refuse_overrides(recipe: Recipe, overrides: Mapping[str, object]) -> None:
    """A blend has no parameters of its own (RecipeError)."""
    if overrides:
        raise RecipeError(
            f"recipe {recipe.name} has no parameter {', '.join(map(repr, overrides))}: it is a blend, and "
            f"parameters belong to its members ({', '.join(recipe.members)})"
        )


def several_asked(cohort: Cohort) -> bool:
    """Whether there are more than two classes and not a single one was named positive."""
    return len(cohort.classes) > 2 and (
        not cohort.contract.positive or len(cohort.positives()) > 1
    )


def tells_apart(recipe: Recipe, cohort: Cohort) -> bool:
    """Whether a recipe tells all classes of a cohort apart, and not one from the rest.

    A machine of several classes always does, what can do either where several are asked for.
    """
    machines = {recipe.every[name].machine for name in recipe.members} or {
        recipe.machine
    }
    return machines == {"multi_class"} or (
        several_asked(cohort) and not machines.isdisjoint(FITS["multi"])
    )
