"""Recipes found by name or file, and read with everything they name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from screening.errors import RecipeError
from screening.files import read_bounded
from screening.recipes.blend import check_blend
from screening.recipes.parts import Parts
from screening.recipes.recipe import Recipe
from screening.spelling import did_you_mean

MOST_BYTES = 1 << 20


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
    return read_recipe(*_found(name_or_path))


def read_recipe(text: str, source: str = "recipe") -> Recipe:
    """Read a recipe's TOML text, checked against the parts it names; RecipeError says what is possible."""
    recipe = _parsed(text, source)
    try:
        if recipe.machine == "blend":
            check_blend(recipe)
        else:
            Parts(recipe).check()
    except ValueError as error:
        raise RecipeError(f"{source}: {error}") from None
    return recipe


def list_recipes() -> list[Recipe]:
    """All shipped recipes by name, read but not checked against the parts they name."""
    return sorted((_parsed(text, source) for text, source in _shipped()), key=lambda recipe: recipe.name)


def _shipped() -> Iterator[tuple[str, str]]:
    for each in files("screening.models").iterdir():
        if each.name.endswith(".toml"):
            yield each.read_text(encoding="utf-8"), each.name


def _found(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a recipe and what errors call it."""
    text = str(name_or_path)
    if text.endswith(".toml") or isinstance(name_or_path, Path):
        path = Path(name_or_path)
        try:
            return read_bounded(path, MOST_BYTES, RecipeError).decode(), path.name
        except UnicodeDecodeError as error:
            raise RecipeError(f"cannot read the recipe {path.name}: {type(error).__name__}") from None
    shipped = {source: found for found, source in _shipped()}
    if f"{text}.toml" not in shipped:
        names = sorted(source.removesuffix(".toml") for source in shipped)
        raise RecipeError(
            f"no recipe {text!r}{did_you_mean(text, names) or '; there are ' + ', '.join(names)}"
        )
    return shipped[f"{text}.toml"], f"{text}.toml"


def _parsed(text: str, source: str, nested: bool = False) -> Recipe:
    """A recipe with those it blends; a blend within a blend is read without its own, to be refused."""
    recipe = Recipe.from_toml(text, source)
    if nested:
        return recipe
    try:
        named = (*recipe.members, *recipe.scarce)
        return recipe.with_every({name: _parsed(*_found(name), nested=True) for name in named})
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from None
