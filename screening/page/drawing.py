"""How any page is put together: templates, the style and scripts inside it, and the fence around them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    meta,
    nodes,
)
from markupsafe import Markup

from screening.errors import UsageError
from screening.page import format as shown
from screening.page.night import clusters, drawn_size, millimetres, pictured
from screening.page.worklist import value_text

SHIPPED = "shipped"
"""Prefix under which a site's template finds the one that it replaces."""


def draw(
    template: str,
    blocks: Mapping[str, object],
    *,
    footer: str,
    templates: Path | None = None,
    styles: Sequence[str] = ("report.css",),
    scripts: Sequence[str] = (),
    pictures: bool = False,
) -> str:
    """Return a page that needs nothing outside itself.

    `blocks` is what the template may write: a name it does not get is an error. `footer` ends the page and
    every printed sheet. Only the texts of `styles` and `scripts`, which are inlined, may style the page or
    run in it; `pictures` says whether it holds any (inlined too). Of a site's own `templates` one of a
    shipped name stands in its place; UsageError where they cannot be drawn.
    """
    environment = environment_of(templates)
    try:
        style = "".join(text_of(environment, name) for name in styles) + _page_footer(footer)
        script = "".join(text_of(environment, name) for name in scripts)
        # The fence that holds even if an escape were forgotten: nothing but these two texts may style or run.
        policy = (
            f"default-src 'none'; style-src {_digest(style)}; "
            + (f"script-src {_digest(script)}; " if scripts else "")
            + ("img-src data:; " if pictures else "")
            + "base-uri 'none'; form-action 'none'"
        )
        fence = {"policy": policy, "style": Markup(style), "footer": footer}
        written = {"script": Markup(script)} if scripts else {}
        return environment.get_template(template).render({**blocks, **fence, **written})
    except (TemplateError, UnicodeDecodeError) as error:
        if templates is None:
            raise
        raise refusal(templates, error) from None


def refusal(templates: Path, error: Exception) -> UsageError:
    """What is wrong with a site's templates, with the template and line where the error tells them."""
    place = "no template " if isinstance(error, TemplateNotFound) else ""
    if isinstance(error, TemplateSyntaxError):
        place = f"{error.name} line {error.lineno}: "
    return UsageError(f"--templates {templates}: {place}{error}")


# Read anew for each page where a site has templates of its own: they may be edited between two pages.
def environment_of(templates: Path | None = None) -> Environment:
    """Where templates are: a site's own first (UsageError without such a directory), then the shipped."""
    if templates is None:
        return _shipped()
    if not templates.is_dir():
        raise UsageError(f"--templates {templates}: there is no such directory")
    shipped = PackageLoader("screening.templates", "")
    return _made(ChoiceLoader([FileSystemLoader(templates), shipped, PrefixLoader({SHIPPED: shipped})]))


@lru_cache(maxsize=1)
def _shipped() -> Environment:
    return _made(PackageLoader("screening.templates", ""))


def _made(loader: BaseLoader) -> Environment:
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= shown.FILTERS
    environment.filters |= {"json": as_json, "value_text": value_text, "drawn_size": drawn_size}
    environment.filters |= {"clusters": clusters, "millimetres": millimetres}
    environment.tests["pictured"] = pictured
    return environment


def _visible(value: object) -> object:
    """Spell out invisible characters in whatever a template writes, in case a block forgot to."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else shown.text(value, 10**6)


def as_json(value: object) -> Markup:
    """Return `value` as JSON that cannot end the script element it stands in."""
    written = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def text_of(environment: Environment, name: str) -> str:
    """A template as it is written."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _page_footer(footer: str) -> str:
    """Return the rule that prints `footer` on every sheet; all but letters and digits go as CSS escapes."""
    text = "".join(
        c if c.isascii() and c.isalnum() else f"\\{ord(c):06x}" for c in f"Confidential · {footer}"
    )
    return f'@media print{{@page{{@bottom-left{{content:"{text}"}}}}}}\n'


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
