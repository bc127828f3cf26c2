"""`screen recipes`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson

if TYPE_CHECKING:
    from screening.recipes.recipe import Recipe


def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this recipe in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, or show one in full.

    In full: its paper, its parameters with their defaults, and what its search tries.
    """
    from screening.recipes.loading import list_recipes, load_recipe

    shipped = [recipe for recipe in list_recipes() if name in (None, recipe.name)]
    chosen = shipped or [load_recipe(str(name))]
    if as_json:
        tell({"recipes": [_entry(recipe) for recipe in chosen]}, as_json)
    elif name:
        tell(_entry(chosen[0]), as_json)
    else:
        tell({recipe.name: f"{recipe.title} ({recipe.paper})" for recipe in chosen}, as_json)


def _entry(recipe: Recipe) -> dict[str, object]:
    entry = recipe.model_dump(include={"name", "title", "paper", "machine", "about", "parameters"})
    return entry | {"search": recipe.search.grid, "criterion": recipe.search.criterion}
