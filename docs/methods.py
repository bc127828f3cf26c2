"""Write a page a method: its recipe, the formulas of its parts, one paragraph, and a
picture.

Run by `make docs`: pages are made from `models/*.toml` and `docs/methods.toml`, and
kept in no repository.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from screening.recipes.building import list_recipes
from screening.recipes.recipe import Recipe
from screening.registry import refuse_plugins

DOCS = Path(__file__).parent
FOLDER = DOCS / "methods"
KINDS = {
    "blend": "The default",
    "two_class": "Two classes",
    "one_class": "One class",
    "multi_class": "Several classes",
    "baseline": "Baselines",
    "given": "Scores made elsewhere",
    "points": "Tables of points",
}
CAPTION = {
    True: (
        "Left: c(x) on a logarithmic scale, and the first machine's boundary. Middle: how much longer a "
        "small step becomes in the rescaled kernel's feature space, relative to the step at the median row. "
        "Right: the boundary before and after. Both machines have the same parameters, and their own "
        "thresholds."
    ),
    False: (
        "The boundaries of the plain kernel machine and of the method, on the same synthetic rows, at their "
        "own thresholds."
    ),
}


def read() -> dict[str, Any]:
    """Formulas and paragraphs."""
    return tomllib.loads((DOCS / "methods.toml").read_text(encoding="utf-8"))


def parts_of(recipe: Recipe, words: dict[str, Any]) -> list[dict[str, str]]:
    """Return title, formula and words of the components that `docs/methods.toml`
    describes.
    """
    names = [
        ("kernel", recipe.kernel.get("type")),
        ("machine", recipe.scheme or recipe.machine),
        ("factor", recipe.factor.get("type")),
        *(("remedy", name) for name in recipe.remedy),
    ]
    return [words[kind][name] for kind, name in names if name in words[kind]]


def page(recipe: Recipe, words: dict[str, Any]) -> str:
    """The page of one recipe."""
    lines = [
        f"# {recipe.name}",
        "",
        f"**{recipe.title}.** {recipe.about}",
        "",
        f"Paper: {recipe.paper}.",
        "",
    ]
    lines += [words["recipe"].get(recipe.name, "").strip(), ""]
    if pictured(recipe):
        lines += [
            f"![Effect of {recipe.name} on a plane of synthetic rows]({recipe.name}.png)",
            "",
        ]
        lines += [CAPTION[bool(recipe.factor)], ""]
    for part in parts_of(recipe, words):
        lines += [
            f"## {part['title']}",
            "",
            "$$",
            part["formula"],
            "$$",
            "",
            part.get("says", "").strip(),
            "",
        ]
        if part is words["factor"].get(recipe.factor.get("type")):
            again = f"The machine is trained again with the rescaled kernel ${words['rescaled']['formula']}$."
            lines += [
                f"{again} For a new row $f$, $c$ and $\\tilde K$ are computed, in this order.",
                "",
            ]
    if recipe.members:
        lines += [
            "## Members",
            "",
            ", ".join(f"[{name}]({name}.md)" for name in recipe.members) + ".",
        ]
        stand_in = ", ".join(f"[{name}]({name}.md)" for name in recipe.scarce)
        lines += ["", f"With few cases also: {stand_in}.", ""]
    if recipe.parameters:
        lines += [*table(recipe, words["parameter"]), ""]
    return "\n".join(
        [*lines, "## Recipe", "", "```toml", recipe.text.strip(), "```", ""]
    )


def table(recipe: Recipe, meanings: dict[str, str]) -> list[str]:
    """Every parameter with its default, and what is tried."""
    lines = [
        "## Parameters",
        "",
        "| name | default | tried by the search | in the paper | meaning |",
        "|---|---|---|---|---|",
    ]
    # The paper may have its own word for one, such as sigma for gamma.
    for name in [
        *recipe.parameters,
        *(name for name in recipe.search.paper if name not in recipe.parameters),
    ]:
        default = f"`{recipe.parameters[name]}`" if name in recipe.parameters else ""
        tried, printed = (
            listed(grid.get(name, []))
            for grid in (recipe.search.grid, recipe.search.paper)
        )
        lines.append(
            f"| `{name}` | {default} | {tried} | {printed} | {meanings.get(name, '')} |"
        )
    return [
        *lines,
        "",
        f"Without `--search`, {recipe.search.candidates} settings are tried.",
    ]


def listed(values: list[Any]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def pictured(recipe: Recipe) -> bool:
    """A blend's parts have pictures of their own, and a given score has no plane of its
    own.
    """
    return recipe.machine not in ("blend", "given", "points")


def index(recipes: list[Recipe]) -> str:
    """The list of all methods, by what they are for."""
    lines = [
        "# Methods",
        "",
        "A method is a recipe: a kernel, a factor c(x), a machine and a remedy for imbalance. These pages",
    ]
    lines += ["show the files of `models/`. [Which one to choose](../choosing.md).", ""]
    for kind, title in KINDS.items():
        lines += [f"## {title}", "", "| recipe | method |", "|---|---|"]
        lines += [
            f"| [{one.name}]({one.name}.md) | {one.title} |"
            for one in recipes
            if one.machine == kind
        ]
        lines.append("")
    names = "\n".join(one.name for one in recipes)
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", names, "```", ""])


def pages() -> dict[str, str]:
    """Text of every page, by the name of its file."""
    words, recipes = read(), list_recipes()
    return {"index.md": index(recipes)} | {
        f"{one.name}.md": page(one, words) for one in recipes
    }


def main() -> None:
    """Write pages and pictures."""
    refuse_plugins()
    from geometry import drawn

    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for recipe in filter(pictured, list_recipes()):
        drawn(recipe, FOLDER / f"{recipe.name}.png")


if __name__ == "__main__":
    main()
