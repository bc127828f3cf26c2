"""Write the values that each template of a page is given, and the columns of the
worklist.

Run `python docs/templates.py` after changing a template or a column; tests compare. The
values of templates are a page of the site, which is kept in no repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from screening.registry import refuse_plugins
from screening.report.columns import COLUMNS
from screening.report.drawing import environment_of

ROOT = Path(__file__).parents[1]
HEAD = """# Values of each template

What a template is given besides `model`, `run` and what every page has ([templates of
your own](../templates.md)).
"""
# What pages of models and runs are given, whatever they show.
PAGE = {"policy", "style", "script", "footer", "model", "run"}


def table() -> str:
    """One row for each template that takes names of its own from outside."""
    environment = environment_of()
    lines = ["| template | its own values |", "|---|---|"]
    for path in sorted((ROOT / "templates").glob("*.j2")):
        tree = environment.parse(path.read_text(encoding="utf-8"))
        own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        own |= {
            name if isinstance(name, str) else name[1]
            for n in tree.find_all(nodes.FromImport)
            for name in n.names
        }
        names = find_undeclared_variables(tree) - PAGE - set(environment.globals) - own
        own_names = ", ".join(f"`{name}`" for name in sorted(names))
        lines += [f"| `{path.name}` | {own_names} |"] if names else []
    return "\n".join(lines)


def reference() -> str:
    """Return the page of the values of each template."""
    return f"{HEAD}\n{table()}\n"


def worklist(text: str) -> str:
    """Return docs/page.md with its table of columns brought up to date."""
    begin, end = "<!-- table: begin -->", "<!-- table: end -->"
    lines = ["| column | shows |", "|---|---|"]
    lines += [f"| {column.name} | {column.help} |" for column in COLUMNS.values()]
    columns = "\n".join(lines)
    return re.sub(
        f"{begin}.*?{end}",
        lambda _: f"{begin}\n{columns}\n{end}",
        text,
        count=1,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write both documents."""
    refuse_plugins()
    path = ROOT / "docs" / "page.md"
    path.write_text(worklist(path.read_text(encoding="utf-8")), encoding="utf-8")
    folder = ROOT / "docs" / "reference"
    folder.mkdir(exist_ok=True)
    (folder / "templates.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
