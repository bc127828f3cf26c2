"""From a recipe's names to the kernel, factor, remedies and machine they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.kernel_machine import KernelMachine
from screening.factors import Factor
from screening.kernels import KERNELS, Gaussian, Kernel
from screening.recipes.recipe import COMPONENTS, Recipe, check_number
from screening.spelling import did_you_mean

Values = dict[str, dict[str, Any]]
# A name that several parts may have, and all of them take.
_SHARED = ("seed",)
# The parameter that says which kernel, in place of the recipe's [kernel] type.
KERNEL = "kernel"


class Parts:
    """The parts of one recipe, and which of them each parameter belongs to."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Own names of every part, and the fixed values the recipe gives it.
        kind = recipe.estimator
        self.own: dict[str, tuple[str, ...]] = {"machine": kind.recipe_parameters() if kind else ()}
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
        kind, known = table.get("type"), COMPONENTS[part.partition(".")[0]]
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"{part} {kind!r} is not one of {', '.join(known)}")
        own = tuple(each.name for each in fields(known[kind]))
        values = {key: value for key, value in table.items() if key != "type"}
        unknown = [key for key in values if key not in own]
        if unknown:
            has = ", ".join(own) or "nothing"
            raise ValueError(f"{part} {kind} has no {', '.join(unknown)}; it has {has}")
        self.types[part], self.own[part], self.fixed[part] = known[kind], own, values

    @property
    def factor_names(self) -> set[str]:
        """Parameters that only the factor has."""
        names = self.recipe.parameters
        return {name for name in names if [part for part, _ in self.owners(name)] == ["factor"]}

    @cached_property
    def _varied_names(self) -> set[str]:
        """Those of them of which the factor can have several values tried on one first pass."""
        varies: frozenset[str] = getattr(self.types.get("factor"), "varies", frozenset())
        return {name for name in self.factor_names if self.owners(name)[0][1] in varies}

    def owners(self, name: str) -> list[tuple[str, str]]:
        """Parts a parameter goes to, each with the parameter's name there.

        A dotted name (``factor.k``) says which; it is needed where several parts have the name.
        """
        part, _, own = name.rpartition(".")
        if part:
            owners = [(part, own)] if own in self.own.get(part, ()) else []
        else:
            owners = [(part, name) for part, names in self.own.items() if name in names]
        if not owners:
            every = sorted({each for names in self.own.values() for each in names})
            raise ValueError(f"parameter {name!r} belongs to no part of it; there are {', '.join(every)}")
        if len(owners) > 1 and name not in _SHARED:
            both = " and ".join(f"{part}.{own}" for part, own in owners)
            raise ValueError(f"parameter {name!r} is ambiguous: call it {both}")
        return owners

    def check(self) -> None:
        """Refuse what cannot work, naming both sides (ValueError)."""
        recipe = self.recipe
        composed = {"kernel": recipe.kernel, "factor": recipe.factor, "remedy": recipe.remedy}
        if recipe.machine == "baseline":
            baselines = COMPONENTS["baseline"]
            if recipe.baseline not in baselines:
                raise ValueError(f"baseline {recipe.baseline!r} is not one of {', '.join(baselines)}")
            for part, values in composed.items():
                if values:
                    raise ValueError(f"machine baseline takes no [{part}]")
        elif recipe.baseline:
            raise ValueError(f"machine {recipe.machine} takes no baseline")
        if recipe.scheme is not None and recipe.machine != "multi_class":
            raise ValueError(f"machine {recipe.machine} takes no scheme; multi_class does")
        if recipe.remedy and recipe.machine != "two_class":
            names = ", ".join(recipe.remedy)
            raise ValueError(f"remedy {names} needs the machine two_class, not {recipe.machine}")
        for name in ("passes", "stop"):
            if recipe.parameters.get(name) is not None and not recipe.factor:
                raise ValueError(f"{name} needs a [factor]")
        self._estimator(recipe.resolved())

    def _values(self, parameters: Mapping[str, object]) -> Values:
        values = {part: dict(fixed) for part, fixed in self.fixed.items()}
        for name, value in parameters.items():
            for part, own in self.owners(name):
                values[part][own] = value
        return values

    def _factor(self, values: Values) -> Factor | None:
        factor: Factor | None = self.types["factor"](**values["factor"]) if "factor" in self.types else None
        return factor

    def _kernel(self, values: Values) -> Kernel:
        given = {name: value for name, value in values["kernel"].items() if name not in (KERNEL, "sigma")}
        named, sigma = (values["kernel"].get(name) for name in (KERNEL, "sigma"))
        kind: type[Kernel] | None = self.types["kernel"] if named is None else KERNELS.get(str(named))
        if kind is None:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {named!r}")
        if sigma is None:
            return kind(**given)
        if kind is not Gaussian:
            raise ValueError(f"sigma needs the kernel gaussian, not {kind.name}; give gamma")
        return Gaussian.from_sigma(sigma)

    def _estimator(self, parameters: Mapping[str, object]) -> Estimator:
        values, kind = self._values(parameters), self.recipe.estimator
        assert kind is not None  # as `check` saw
        given = values["machine"]
        if issubclass(kind, KernelMachine):
            given = {"random_state" if key == "seed" else key: value for key, value in given.items()}
            given |= {"kernel": self._kernel(values), "factor": self._factor(values)}
            if self.recipe.machine == "two_class":
                remedies = {part: remedy for part, remedy in self.types.items() if part[:7] == "remedy."}
                given["remedies"] = tuple(remedy(**values[part]) for part, remedy in remedies.items())
            if self.recipe.scheme is not None:
                given["scheme"] = self.recipe.scheme
        estimator = kind(**given)
        estimator.check_parameters()
        return estimator

    def estimator(self, overrides: Mapping[str, object]) -> Estimator:
        """The machine with its parts; RecipeError where an override is unknown or out of range."""
        return self._made(self._estimator, overrides)

    def factor(self, overrides: Mapping[str, object]) -> Factor:
        """The factor of that."""
        return self._made(lambda parameters: self._factor(self._values(parameters)), overrides)

    def _made(self, make: Callable[[dict[str, object]], Any], overrides: Mapping[str, object]) -> Any:
        recipe, known = self.recipe, self.recipe.names
        unknown = [name for name in overrides if name not in known]
        if unknown:
            raise RecipeError(
                f"recipe {recipe.name} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(known) or 'none'}{did_you_mean(unknown[0], known)}"
            )
        try:
            for name, value in overrides.items():
                check_number(name, value)
            return make(recipe.resolved(**overrides))
        except (TypeError, ValueError) as error:
            raise RecipeError(f"recipe {recipe.name}: {error}") from None

    def families(self, settings: Sequence[Mapping[str, object]]) -> list[list[int]]:
        """Numbers of the settings, together those that differ in values tried on one first pass alone."""
        families: dict[str, list[int]] = {}
        for at, setting in enumerate(settings):
            rest = {name: value for name, value in setting.items() if name not in self._varied_names}
            families.setdefault(repr(sorted(rest.items())), []).append(at)
        return [*families.values()]
