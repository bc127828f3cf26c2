"""How any page is put together: templates, the style and scripts inside it, and the fence around them."""

from __future__ import annotations

import base64
import hashlib
import json
import traceback
from collections.abc import Mapping, Sequence
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
    UndefinedError,
)
from markupsafe import Markup

from screening.errors import UsageError
from screening.report import format as fmt
from screening.report.night import clusters, drawn_size, millimetres, pictured
from screening.report.worklist import value_text

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
    rules: str = "",
    pictures: bool = False,
) -> str:
    """Return a page that needs nothing outside itself.

    `blocks` is what the template may write: a name it does not get is an error. `footer` ends the page and
    every printed sheet. Only the texts of `styles` and `scripts`, which are inlined, and the CSS `rules` may
    style the page or run in it; `pictures` allows inlined pictures. A file of `templates` replaces the shipped
    one of the same name; UsageError if they cannot be drawn.
    """
    environment = environment_of(templates)
    try:
        # On every printed sheet; all but letters and digits go as CSS escapes.
        words = "".join(
            c if c.isascii() and c.isalnum() else f"\\{ord(c):06x}"
            for c in f"Confidential · {footer}"
        )
        style = "".join(text_of(environment, name) for name in styles) + rules
        style += f'@media print{{@page{{@bottom-left{{content:"{words}"}}}}}}\n'
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
    elif isinstance(error, UndefinedError):
        frames = traceback.extract_tb(error.__traceback__)
        file, line = next(
            (each.filename, each.lineno)
            for each in frames[::-1]
            if ".j2" in each.filename
        )
        place = f"{Path(file).name} line {line}: "
    return UsageError(f"--templates {templates}: {place}{error}")


# Read anew for each page where a site has templates of its own: they may be edited between two pages.
def environment_of(templates: Path | None = None) -> Environment:
    """Where templates are: a site's own first (UsageError without such a directory), then the shipped."""
    if templates is None:
        return ENVIRONMENT
    if not templates.is_dir():
        raise UsageError(f"--templates {templates}: there is no such directory")
    shipped = PackageLoader("screening.templates", "")
    return _made(
        ChoiceLoader(
            [FileSystemLoader(templates), shipped, PrefixLoader({SHIPPED: shipped})]
        )
    )


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
    environment.filters |= fmt.FILTERS
    environment.filters |= {
        "json": as_json,
        "value_text": value_text,
        "drawn_size": drawn_size,
    }
    environment.filters |= {"clusters": clusters, "millimetres": millimetres}
    environment.tests["pictured"] = pictured
    return environment


def _visible(value: object) -> object:
    """Spell out invisible characters in whatever a template writes, in case a block forgot to."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str)
        else fmt.text(value, 10**6)
    )


def as_json(value: object) -> Markup:
    """Return `value` as JSON that cannot end the script element it stands in."""
    written = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return Markup(
        written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )


def text_of(environment: Environment, name: str) -> str:
    """A template as it is written."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _digest(text: str) -> str:
    return (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    )


ENVIRONMENT = _made(PackageLoader("screening.templates", ""))
"""That of the shipped templates alone."""
