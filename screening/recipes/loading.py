"""Recipes found by name or file, and read with everything they name; a blend with its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from screening.data.cohort import Cohort
from screening.errors import RecipeError
from screening.files import read_bounded
from screening.recipes.parts import Parts
from screening.recipes.recipe import Recipe
from screening.spelling import did_you_mean

# With fewer positives than this, machines that learn labels learn noise: `scarce` members carry the blend.
SCARCE = 10

FITS = {"binary": ("one_class", "two_class", "baseline"), "multi": ("multi_class", "baseline")}
"""Machines that answer a question by its kind: one class and the rest, or several classes."""


def check_blend(recipe: Recipe) -> None:
    """Refuse a list that names another blend, or what cannot be stored (ValueError)."""
    every = recipe.every
    if not recipe.members:
        raise ValueError("machine blend needs members = [...], names of recipes")
    if len({*recipe.members}) < len(recipe.members):
        raise ValueError("a blend has each of its members once")
    nested = [name for name, each in every.items() if each.machine == "blend"]
    loose = [name for name, each in every.items() if not each.persistable]
    if nested:
        raise ValueError(f"a blend cannot have the blend {', '.join(nested)} as a member")
    if loose:
        raise ValueError(f"members of a blend are stored, and {', '.join(loose)} cannot be")
    wrong = [name for name in recipe.scarce if every[name].machine != "one_class"]
    if wrong:
        raise ValueError(f"scarce members learn from negatives alone, {', '.join(wrong)} does not")
    if recipe.parameters or recipe.search.grid:
        raise ValueError("a blend has no [parameters] and no [search.grid]: its members have theirs")


def members_for(recipe: Recipe, kind: str, n_positive: int | None = None) -> list[Recipe]:
    """The members that answer a cohort's question; RecipeError where there is none.

    `kind` is the question's, "binary" or "multi". With few positives the `scarce` members stand in; None
    where their number is not known yet.
    """
    few = kind == "binary" and n_positive is not None and n_positive < SCARCE and bool(recipe.scarce)
    named = recipe.scarce if few else recipe.members
    members = [recipe.every[name] for name in named if recipe.every[name].machine in FITS[kind]]
    if not members:
        raise RecipeError(f"recipe {recipe.name} has no member for this cohort among {', '.join(named)}")
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
    return len(cohort.classes) > 2 and (not cohort.contract.positive or len(cohort.positives()) > 1)


def tells_apart(recipe: Recipe, cohort: Cohort) -> bool:
    """Whether a recipe tells all classes of a cohort apart, and not one from the rest.

    A machine of several classes always does, what can do either where several are asked for.
    """
    machines = {recipe.every[name].machine for name in recipe.members} or {recipe.machine}
    return machines == {"multi_class"} or (several_asked(cohort) and not machines.isdisjoint(FITS["multi"]))


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
    return read_recipe(*_text_of(name_or_path))


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


def _text_of(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a recipe and what errors call it."""
    name = str(name_or_path)
    if name.endswith(".toml") or isinstance(name_or_path, Path):
        path = Path(name_or_path)
        try:
            return read_bounded(path, MOST_BYTES, RecipeError).decode(), path.name
        except UnicodeDecodeError as error:
            raise RecipeError(f"cannot read the recipe {path.name}: {type(error).__name__}") from None
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
        named = (*recipe.members, *recipe.scarce)
        return recipe.with_every({name: _parsed(*_text_of(name), nested=True) for name in named})
    except RecipeError as error:
        raise RecipeError(f"{source}: {error}") from None
