"""Write down which values each template of a page is given, read off the templates themselves.

Run `python docs/templates.py` after changing a template; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from screening.report.drawing import environment_of

ROOT = Path(__file__).parents[1]
# What every page is given, whatever it shows.
PAGE = {"policy", "style", "script", "footer"}


def table() -> str:
    """One row a template with the names that it takes from outside."""
    environment = environment_of()
    lines = ["| template | is given |", "|---|---|"]
    for path in sorted((ROOT / "templates").glob("*.j2")):
        tree = environment.parse(path.read_text(encoding="utf-8"))
        own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        own |= {
            name if isinstance(name, str) else name[1]
            for n in tree.find_all(nodes.FromImport)
            for name in n.names
        }
        names = find_undeclared_variables(tree) - PAGE - set(environment.globals) - own
        lines.append(
            f"| `{path.name}` | {', '.join(f'`{name}`' for name in sorted(names)) or '-'} |"
        )
    return "\n".join(lines)


def page(text: str) -> str:
    """The document with its table brought up to date."""
    begin, end = "<!-- table: begin -->", "<!-- table: end -->"
    return re.sub(
        f"{begin}.*?{end}",
        lambda _: f"{begin}\n{table()}\n{end}",
        text,
        count=1,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write the document."""
    path = ROOT / "docs" / "templates.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
