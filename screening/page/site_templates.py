"""Finding what is wrong with a site's own templates before the work whose page they are to draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, TemplateError, TemplateNotFound, meta, nodes

from screening.errors import UsageError
from screening.page.drawing import environment_of, refusal, text_of

PAGES = {
    "run": "run.html.j2",
    "model": "model.html.j2",
    "comparison": "compare.html.j2",
    "validation": "validation.html.j2",
}
TEXTS = ("report.css", "list.css", "compare.css", "report.js", "list.js", "review.js")


def check_templates(templates: Path | None, kind: str) -> None:
    """Refuse templates that cannot draw a page of `kind`, as far as can be told without its content.

    Every template that the page is put together from is compiled, and asks for no other names than those
    the shipped ones of that page ask for. A field that is missing shows only when the page is drawn.

    Parameters
    ----------
    templates : Path or None
        A site's own templates; nothing is to be checked where there are none.
    kind : {"run", "model", "comparison", "validation"}

    Raises
    ------
    UsageError
        Naming the template and the line.
    """
    if templates is None:
        return
    environment = environment_of(templates)
    given = names_given(kind) | set(environment.globals)
    try:
        trees = dict(_reached(environment, PAGES[kind]))
        for name in TEXTS:
            text_of(environment, name)
    except (TemplateError, UnicodeDecodeError) as error:
        raise refusal(templates, error) from None
    # An include sees what the template around it has set, so a name set anywhere may be meant.
    for tree in trees.values():
        given |= {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    unknown = [
        f"{name}: '{word}' is undefined"
        for name, tree in sorted(trees.items())
        for word in sorted(meta.find_undeclared_variables(tree) - given - _asked_after(tree))
    ]
    if unknown:
        raise UsageError(f"--templates {templates}: {'; '.join(unknown)}")


def names_given(kind: str) -> set[str]:
    """Names that the shipped templates of a page take from outside."""
    trees = dict(_reached(environment_of(), PAGES[kind])).values()
    return set().union(*(meta.find_undeclared_variables(tree) for tree in trees))


def _reached(environment: Environment, first: str) -> Iterator[tuple[str, nodes.Template]]:
    """The syntax trees of a template and of all that it includes, extends or imports by name."""
    found: set[str] = set()
    waiting = [(first, True)]
    while waiting:
        name, needed = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            text = text_of(environment, name)
        except TemplateNotFound:
            if needed:
                raise
            continue
        # Compiled as well as parsed: only that knows the filters.
        environment.get_template(name)
        tree = environment.parse(text, name)
        yield name, tree
        for node in tree.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
            named = getattr(node, "template", None)
            if isinstance(named, nodes.Const) and isinstance(named.value, str):
                waiting.append((named.value, not getattr(node, "ignore_missing", False)))


def _asked_after(tree: nodes.Template) -> set[str]:
    """Names that may well be absent: the template asks whether they are, or says what to write instead."""
    asked = [
        node.node
        for node in tree.find_all((nodes.Test, nodes.Filter))
        if node.name in ("defined", "undefined", "default", "d")
    ]
    return {node.name for node in asked if isinstance(node, nodes.Name)}
