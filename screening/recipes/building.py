"""From a recipe to an unfitted estimator, and the settings that a search tries."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from screening.errors import RecipeError
from screening.estimators.base import Estimator
from screening.estimators.ensembles import BlendedClassifier
from screening.recipes.loading import load_recipe, members_for, refuse_overrides
from screening.recipes.parts import Parts
from screening.recipes.recipe import Recipe


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
        return BlendedClassifier(tuple(build(member) for member in members_for(recipe, "binary")))
    return Parts(recipe).estimator(overrides)


def may_span(recipe: Recipe) -> bool:
    """Whether a recipe's machine can be solved in the span of some rows (`machines.landmarks`)."""
    return recipe.machine == "two_class" and not recipe.factor and build(recipe).by_rows


def param_grid(recipe: Recipe | str | Path) -> dict[str, list[Any]]:
    """The recipe's search by the names that its estimator has, for ``GridSearchCV(build(recipe), ...)``.

    Settings whose parts do not go together, which the recipe's own search leaves out, fail there.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    parts, search = Parts(recipe), dict(recipe.search.grid)
    of_kernel = {name: search.pop(name) for name in list(search) if parts.owners(name)[0][0] == "kernel"}
    grid: dict[str, list[Any]] = {}
    if of_kernel:
        settings = (dict(zip(of_kernel, values, strict=True)) for values in product(*of_kernel.values()))
        grid["kernel"] = [build(recipe, **setting).kernel for setting in settings]
    for name, values in search.items():
        ((part, own), *_) = parts.owners(name)
        grid[own if part == "machine" else f"{part.removeprefix('remedy.')}__{own}"] = values
    return grid


def candidates_for(recipe: Recipe, n: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Settings to choose among, each overrides for ``build`` with all names of the grid.

    The first is the default and, where there is a factor, the second its limit (no pass), so that validation
    can decline the factor; the rest, up to `n` in all, is drawn from the grid without repetition and without
    settings whose parts do not go together.
    """
    if n < 1:
        raise RecipeError(f"at least one candidate is needed, got {n}")
    grid, parts = recipe.search.grid, Parts(recipe)
    names = [name for name in recipe.parameters if name in grid]
    names += [name for name in grid if name not in names]
    default = {name: recipe.parameters[name] for name in names if name in recipe.parameters}
    if "sigma" in names and "gamma" in recipe.parameters:
        default["gamma"] = recipe.parameters["gamma"]
    candidates = [default]
    if "passes" in default:
        candidates.append(_plain(parts, default | {"passes": 0}))
    total = math.prod(len(grid[name]) for name in names)
    tried = 0
    # A permutation of the whole grid is drawn only while it is small; beyond that repetitions are rare.
    order = rng.permutation(total) if total <= 100_000 else rng.integers(total, size=20 * n)
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


def _works(parts: Parts, setting: dict[str, object]) -> bool:
    """Whether the parts of this setting go together."""
    try:
        parts.estimator(setting)
    except RecipeError:
        return False
    return True


def _plain(parts: Parts, setting: dict[str, object]) -> dict[str, object]:
    """Without a pass the factor's own parameters say nothing: keep them at their defaults."""
    if setting.get("passes") != 0:
        return setting
    idle = [name for name in setting if name in parts.factor_names]
    return setting | {name: parts.recipe.parameters[name] for name in idle}
