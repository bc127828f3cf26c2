"""`screen recipes`: the methods that can be trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import print_answer
from screening.cli.options import AsJson
from screening.errors import UsageError
from screening.option_groups import Option

if TYPE_CHECKING:
    from screening.recipes.recipe import Recipe


def recipes_command(
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Show this recipe in full.")
    ] = None,
    toml: Annotated[bool, Option("Print the recipe's file, for copying.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the methods, or show one: paper, parameters, search."""
    from screening.recipes.building import list_recipes, load_recipe

    shipped = [recipe for recipe in list_recipes() if name in (None, recipe.name)]
    listed = shipped or [load_recipe(str(name))]
    if toml:
        if name is None:
            raise UsageError("--toml prints one recipe; give its name")
        print(listed[0].text.strip())
        return
    if as_json:
        answer: dict[str, object] = {"recipes": list(map(_recipe_in_full, listed))}
    elif name:
        answer = _recipe_in_full(listed[0])
    else:
        answer = {recipe.name: f"{recipe.title} ({recipe.paper})" for recipe in listed}
    print_answer(answer, as_json)


def _recipe_in_full(recipe: Recipe) -> dict[str, object]:
    """Return a recipe's paper, parameters with defaults, and search."""
    entry = recipe.model_dump(
        include={"name", "title", "paper", "machine", "about", "parameters"}
    )
    return entry | {"search": recipe.search.grid, "criterion": recipe.search.criterion}
