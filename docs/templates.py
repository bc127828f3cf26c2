"""Write down which values each template of a page is given, read off the templates themselves.

Run `python docs/templates.py` after changing a template; a test compares.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from jinja2 import Environment, nodes

ROOT = Path(__file__).parents[1]
# What every page is given, whatever it shows.
PAGE = {"policy", "style", "script", "footer"}
# Documents, whose fields the schemas list.
DOCUMENTS = {"model", "run"}


def values(path: Path) -> dict[str, set[str]]:
    """Names that a template takes from outside, each with the fields that it reads of it."""
    tree = Environment().parse(path.read_text(encoding="utf-8"))
    found: dict[str, set[str]] = defaultdict(set)
    _walk(tree, {macro.name: "" for macro in tree.find_all(nodes.Macro)}, found)
    return {name: fields for name, fields in found.items() if name not in PAGE}


def _walk(node: nodes.Node, known: dict[str, str], found: dict[str, set[str]]) -> None:
    """Follow loops: `for row in groups.rows` makes `row.share` a field of `groups.rows`."""
    if isinstance(node, nodes.Macro):
        # A parameter of a macro is given by its caller.
        _each(node.body, known | {arg.name: "" for arg in node.args}, found)
        return
    if isinstance(node, nodes.FromImport):
        known |= {name if isinstance(name, str) else name[1]: "" for name in node.names}
        return
    if isinstance(node, nodes.Assign):
        _walk(node.node, known, found)
        several = isinstance(node.target, nodes.Tuple) and isinstance(node.node, nodes.Tuple)
        pairs = (
            zip(node.target.items, node.node.items, strict=True) if several else [(node.target, node.node)]
        )
        for target, source in pairs:
            known |= {name.name: _path(source, known) for name in [target, *target.find_all(nodes.Name)]
                      if isinstance(name, nodes.Name)}  # fmt: skip
        return
    if isinstance(node, nodes.For):
        _walk(node.iter, known, found)
        targets = (
            [node.target] if isinstance(node.target, nodes.Name) else list(node.target.find_all(nodes.Name))
        )
        alone = len(targets) == 1
        source = _path(node.iter, known) if alone else ""
        inner = known | {target.name: f"{source}[]" if source else "" for target in targets}
        _each(node.body, inner | {"loop": ""}, found)
        _each(node.else_, known, found)
        return
    path = _path(node, known)
    if isinstance(node, nodes.Filter):
        _each(node.args, known, found)
    if path:
        head, _, rest = path.partition(".") if "." in path else (path, "", "")
        found[head.removesuffix("[]")].update({rest} if rest else set())
        return
    _each(list(node.iter_child_nodes()), known, found)


def _each(found_nodes: list[nodes.Node], known: dict[str, str], found: dict[str, set[str]]) -> None:
    for node in found_nodes:
        _walk(node, known, found)


def _path(node: nodes.Node, known: dict[str, str]) -> str:
    """`tonight.read` of such an expression; empty where it is none, or is about something made here."""
    if isinstance(node, nodes.Name) and node.ctx == "load":
        return known.get(node.name, node.name)
    if isinstance(node, nodes.Getattr):
        head = _path(node.node, known)
        return f"{head}.{node.attr}" if head else ""
    if isinstance(node, nodes.Filter) and node.node is not None:
        return _path(node.node, known)
    return ""


def table() -> str:
    """One row a template: what it draws and what it is given."""
    lines = ["| template | is given |", "|---|---|"]
    for path in sorted((ROOT / "templates").glob("*.j2")):
        given = []
        for name, fields in sorted(values(path).items()):
            kept = set() if name in DOCUMENTS else fields
            own = sorted(field for field in kept if not any(o.startswith(f"{field}[]") for o in kept))
            given.append(f"`{name}`" + (f" ({', '.join(own)})" if own else ""))
        lines.append(f"| `{path.name}` | {'; '.join(given) or '-'} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The document with its table brought up to date."""
    begin, end = "<!-- table: begin -->", "<!-- table: end -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{table()}\n{end}", text, count=1, flags=re.DOTALL)


def main() -> None:
    """Write the document."""
    path = ROOT / "docs" / "templates.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
