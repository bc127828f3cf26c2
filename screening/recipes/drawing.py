"""Settings of a search, drawn from one sequence by all recipes of a kernel.

Recipes can be compared only if their machines try the same C, gamma and cost. So these
are drawn by the seed and the kernel alone, without regard to a factor, and the factor's
own parameters are drawn apart, to be tried on the best settings of the plain machine.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from screening.recipes.building import RecipeComponents
from screening.recipes.recipe import Recipe

# Parameters that are drawn together, so that no pair of values repeats before all
# pairs were drawn. The others, such as a cost, are drawn each by itself.
_DRAWN_TOGETHER = ("C", "nu", "gamma", "sigma")
# Parameters of a machine that change nothing without a factor.
_OF_RESCALING = ("passes", "stop", "normalise")
# Grids up to this size are drawn from without repetition.
_MAX_PERMUTED_GRID = 100_000
# Draws per setting, after which a grid is taken for exhausted.
_DRAWS_PER_SETTING = 20

_Setting = dict[str, Any]


@dataclass(frozen=True)
class SettingSpace:
    """Settings that a recipe's search draws from.

    Parameters
    ----------
    recipe : Recipe
    seed : int
    fixed : dict
        Parameters that the caller fixed, as overrides for ``build``.
    paper : bool
        Draw from the paper's grid if the recipe has one.
    """

    recipe: Recipe
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)
    paper: bool = False

    @property
    def grid(self) -> Mapping[str, list[Any]]:
        """Values by parameter."""
        search = self.recipe.search
        return search.paper if self.from_paper else search.grid

    @property
    def from_paper(self) -> bool:
        """True if the grid is the paper's."""
        return self.paper and bool(self.recipe.search.paper)

    @property
    def n_plain(self) -> int:
        """Number of settings of the grid without those of a factor."""
        return math.prod([len(self.grid[name]) for name in self._plain_names])

    @property
    def _kernel(self) -> str:
        """Name of the kernel, "" without one."""
        if not self.recipe.has_kernel:
            return ""
        return str(self.recipe.kernel.get("type", "gaussian"))

    @cached_property
    def _components(self) -> RecipeComponents:
        return RecipeComponents(self.recipe)

    @cached_property
    def _names(self) -> list[str]:
        """Names of the grid's parameters, in the order of the recipe's."""
        names = [name for name in self.recipe.parameters if name in self.grid]
        return names + [name for name in self.grid if name not in names]

    @cached_property
    def _factor_names(self) -> list[str]:
        """Names of the grid's parameters that mean nothing without a factor."""
        if not self.recipe.factor:
            return []
        of_factor = self._components.factor_names
        return [
            name for name in self._names if name in of_factor or name in _OF_RESCALING
        ]

    @property
    def _plain_names(self) -> list[str]:
        return [name for name in self._names if name not in self._factor_names]

    @cached_property
    def default(self) -> _Setting:
        """The recipe's own values of the grid's parameters."""
        parameters = self.recipe.parameters
        default = {name: parameters[name] for name in self._names if name in parameters}
        # The grid may set the kernel's width by sigma and the recipe by gamma.
        if "sigma" in self._names and "gamma" in parameters:
            default["gamma"] = parameters["gamma"]
        return default | dict(self.fixed)

    def plain(self, n: int) -> list[_Setting]:
        """Return up to n settings without the factor; the first is the default.

        Two recipes of one kernel have the same values of the parameters that they
        share, in the same order, apart from repetitions. If the factor cannot be
        declined, because the grid has no passes or the caller fixed them, its
        parameters are the default ones.

        Parameters
        ----------
        n : int
        """
        declined = {}
        if "passes" in self._names:
            declined = {"passes": 0}
        settings: list[_Setting] = []
        if not self.from_paper or not self._plain_names:
            self._add(settings, self.default | declined)
        for values in self._draw_plain(_DRAWS_PER_SETTING * n):
            if len(settings) >= n:
                break
            self._add(settings, self._with(self.default, values) | declined)
        return settings[:n]

    def with_factor(
        self, best: Sequence[_Setting], tried: Sequence[_Setting], n: int
    ) -> list[_Setting]:
        """Return up to n settings that add the factor to settings of the machine.

        Parameters
        ----------
        best : sequence of dict
            Settings of the machine. The factor's own parameters are tried on each, its
            default ones first.
        tried : sequence of dict
            Settings that are not returned again.
        n : int
        """
        factor_default = {name: self.default[name] for name in self._factor_names}
        settings = list(tried)
        for values in [factor_default, *self._draw_factor(n)]:
            if len(settings) >= len(tried) + n:
                break
            for base in best:
                self._add(settings, base | values)
        return settings[len(tried) :][:n]

    def machine_of(self, setting: _Setting) -> _Setting | None:
        """Return the setting without its factor; None if the factor is always used."""
        if "passes" not in self._factor_names or "passes" in self.fixed:
            return None
        return self._without_factor(setting | {"passes": 0})

    def _add(self, settings: list[_Setting], setting: _Setting) -> None:
        """Append a setting unless it is there or its components cannot work."""
        for name, other in (("gamma", "sigma"), ("sigma", "gamma")):
            if other in self.fixed:
                setting = {key: setting[key] for key in setting if key != name}
        setting = self._without_factor(setting | dict(self.fixed))
        # A default that cannot work is reported when it is built.
        is_usable = not settings or self._components.works(setting)
        if is_usable and setting not in settings:
            settings.append(setting)

    def _without_factor(self, setting: _Setting) -> _Setting:
        """Return the setting; without passes the factor's parameters are default."""
        if setting.get("passes") != 0:
            return setting
        unused = {
            name: self.default[name] for name in self._factor_names if name != "passes"
        }
        return setting | unused

    def _with(self, default: _Setting, values: _Setting) -> _Setting:
        """Return the default with drawn values, of gamma and sigma only the drawn."""
        setting = default | values
        if "sigma" in values and "gamma" not in self.fixed:
            setting.pop("gamma", None)
        return setting

    def _draw_plain(self, n: int) -> Iterator[_Setting]:
        """Yield n draws of the machine's parameters."""
        if not self._plain_names:
            return
        together = self._plain_names
        if self._kernel:
            together = [name for name in self._plain_names if name in _DRAWN_TOGETHER]
        streams = {
            name: self._rng(name) for name in self._plain_names if name not in together
        }
        # The default was tried already, and only some recipes would notice.
        tried = None
        if not self.from_paper:
            tried = {name: self.recipe.parameters.get(name) for name in together}
        for values in self._draws(together, self._rng(), n, tried):
            for name, rng in streams.items():
                grid = self.grid[name]
                values[name] = grid[rng.integers(len(grid))]
            yield values

    def _draw_factor(self, n: int) -> Iterator[_Setting]:
        """Yield up to n draws of the factor's parameters, at least one pass each."""
        if not self._factor_names:
            return
        for values in self._draws(
            self._factor_names, self._rng("factor"), _DRAWS_PER_SETTING * n
        ):
            if values.get("passes") != 0:
                yield values

    def _draws(
        self,
        names: Sequence[str],
        rng: np.random.Generator,
        n: int,
        tried: _Setting | None = None,
    ) -> Iterator[_Setting]:
        """Yield n draws of a grid: all its settings in random order, again and again.

        Parameters
        ----------
        names : sequence of str
            Parameters of the grid; the first varies fastest in the order of settings.
        rng : numpy.random.Generator
        n : int
        tried : dict, optional
            Setting that is left out the first time.
        """
        sizes = [len(self.grid[name]) for name in names]
        is_machine = set(names) <= set(_DRAWN_TOGETHER) and bool(self._kernel)
        numbers = _shuffled(rng, sizes, is_machine)
        for _ in range(n):
            if not numbers:
                tried = None
                numbers = _shuffled(rng, sizes, is_machine)
            setting = self._nth(names, numbers.pop())
            if setting != tried:
                yield setting

    def _nth(self, names: Sequence[str], number: int) -> _Setting:
        """Return a setting of the grid by its number."""
        setting: _Setting = {}
        for name in names:
            number, index = divmod(number, len(self.grid[name]))
            setting[name] = self.grid[name][index]
        return setting

    def _rng(self, name: str = "") -> np.random.Generator:
        """Return the generator of the kernel's draws, or of a parameter's own."""
        if not self._kernel:
            return np.random.default_rng(self.seed)
        key = [self.seed, zlib.crc32(self._kernel.encode())]
        if name:
            key.append(zlib.crc32(name.encode()))
        return np.random.default_rng(key)


def _shuffled(
    rng: np.random.Generator, sizes: Sequence[int], is_machine: bool
) -> list[int]:
    """Return numbers of the settings of a grid in random order, to be popped.

    Of the two parameters of a machine, such as C and gamma, every value is drawn before
    one is drawn again (a Latin square): few draws then cover both ranges.

    Parameters
    ----------
    rng : numpy.random.Generator
    sizes : sequence of int
        Number of values of each parameter; the first varies fastest in the numbers.
    is_machine : bool
        They are parameters of a kernel machine.
    """
    total = math.prod(sizes)
    if total > _MAX_PERMUTED_GRID:
        # Repetitions are rare.
        order = rng.integers(total, size=_MAX_PERMUTED_GRID)
    elif is_machine and len(sizes) == 2:
        order = _latin_order(rng, *sizes)
    else:
        order = rng.permutation(total)
    return [int(number) for number in order[::-1]]


def _latin_order(rng: np.random.Generator, n_first: int, n_second: int) -> np.ndarray:
    """Return the numbers of all pairs, (n_first * n_second,).

    In consecutive pairs values of neither side repeat before all of it were drawn,
    apart from the ends of blocks.
    """
    n_many = max(n_first, n_second)
    n_few = min(n_first, n_second)
    many = rng.permutation(n_many)
    few = rng.permutation(n_few)
    blocks = []
    for shift in rng.permutation(n_few):
        of_few = few[(np.arange(n_many) + shift) % n_few]
        if n_first >= n_second:
            blocks.append(many + n_first * of_few)
        else:
            blocks.append(of_few + n_first * many)
    return np.concatenate(blocks)
