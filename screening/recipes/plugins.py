"""The plug-ins that the machines of a recipe need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from screening.errors import ModelError
from screening.estimators.remedies import REMEDIES
from screening.factors import FACTORS
from screening.recipes.building import RECIPES
from screening.recipes.recipe import ESTIMATORS, Recipe
from screening.registry import Plugin, Registry
from screening.schemas.model import NeededPlugin

_REGISTRIES: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (FACTORS, REMEDIES, ESTIMATORS, RECIPES)
}


def plugins_needed(recipe: Recipe) -> list[NeededPlugin]:
    """Return the plug-ins without which the recipe's machines cannot be built."""
    members: dict[Plugin, set[str]] = {}
    for kind, name in _members_of(recipe):
        plugin = _REGISTRIES[kind].plugin_of(name)
        if plugin is not None:
            members.setdefault(plugin, set()).add(f"{kind}.{name}")
    return [
        NeededPlugin(name=plugin.name, version=plugin.version, members=sorted(names))
        for plugin, names in sorted(members.items())
    ]


def _members_of(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each member that a recipe names.

    A blend names recipes, and they are read again by their names.
    """
    for one in (recipe, *recipe.every.values()):
        if one.factor:
            yield "factor", str(one.factor["type"])
        for name in one.remedy:
            yield "remedy", name
        if one.baseline:
            yield "estimator", one.baseline
    for name in recipe.every:
        yield "recipe", name


def refuse_missing_plugins(document: Mapping[str, Any], path: Path) -> None:
    """Raise ModelError with the plug-ins that a model needs and that are missing.

    Only what is installed is ever imported, whatever a model names.

    Parameters
    ----------
    document : mapping
        A model's document.
    path : Path
        Its file, for the error.
    """
    needed = map(NeededPlugin.from_dict, document.get("plugins", ()))
    missing = [
        f"{plugin.name} {plugin.version} ({', '.join(plugin.members)})"
        for plugin in needed
        if not all(_is_there(plugin.name, member) for member in plugin.members)
    ]
    if missing:
        raise ModelError(
            f"{path}: the model needs plug-ins that are not installed here, or cannot "
            f"be loaded: {'; '.join(missing)}; install them, then repeat the command"
        )


def _is_there(plugin_name: str, member: str) -> bool:
    """Return True if an installed plug-in of this name has a member."""
    kind, _, name = member.partition(".")
    if kind not in _REGISTRIES:
        return False
    plugin = _REGISTRIES[kind].plugin_of(name)
    return plugin is not None and plugin.name == plugin_name
