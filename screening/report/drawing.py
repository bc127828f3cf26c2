"""Draw a page from templates, with its styles, scripts and security policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
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
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup

from screening.errors import UsageError
from screening.metrics.figures import FIGURES, figures_in
from screening.report import format as fmt
from screening.report.values import value_text
from screening.report.voxels import clusters, drawn_size, is_pictured, millimetres

SHIPPED = "shipped"
"""Prefix of the shipped template that a site's template replaces."""


HANDLING = (
    "contains patient data or figures derived from it; store and destroy it accordingly"
)
"""The end of every page, and of every printed sheet."""

CELL = r"</?(?:td|th|dd|dt)\b[^<>]*>"
LAYOUT = re.compile(rf"({CELL})?(?:[ \t]*\n[ \t\n]*|[ \t]{{2,}})(?=({CELL})|(<))?")
"""A line break of a template with its indentation, between tags or texts."""


class Layout(Extension):
    """Write line breaks and indentation of templates as one character, or as none.

    There is nothing beside the tag of a cell, a line break between other tags, a space
    between words. The text of ``<pre>`` is left as it is.
    """

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens of a template, its texts without their layout."""
        is_preformatted = False
        for token in stream:
            if token.type != "data":
                yield token
                continue
            parts = re.split(r"(</?pre\b)", token.value)
            for i, part in enumerate(parts):
                if part in {"<pre", "</pre"}:
                    is_preformatted = part == "<pre"
                elif not is_preformatted:
                    parts[i] = LAYOUT.sub(_without_layout, part)
            yield Token(token.lineno, "data", "".join(parts))


def _without_layout(match: re.Match[str]) -> str:
    cell_before, cell_after, tag_after = match.groups()
    if cell_before or cell_after:
        return cell_before or ""
    ends_line = match[0] == "\n" and match.string[: match.start()].endswith(">")
    return "\n" if tag_after or ends_line else " "


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
    """Draw a page that needs nothing outside itself.

    Parameters
    ----------
    template : str
        Name of the template.
    blocks : mapping
        Values that the template may use; any other name is an error.
    footer : str
        Ends the page, and every printed sheet.
    templates : Path, optional
        Folder of templates used in place of the shipped ones of the same name.
    styles, scripts : sequence of str
        Names of texts that are inlined. Nothing else may style the page or run in it.
    rules : str
        Further CSS.
    pictures : bool
        Allow inlined pictures.

    Raises
    ------
    UsageError
        If `templates` cannot be drawn.
    """
    environment = environment_of(templates)
    try:
        style = "".join(text_of(environment, name) for name in styles)
        style += rules + _footer_of_sheets(footer)
        script = "".join(text_of(environment, name) for name in scripts)
        values = dict(blocks)
        values["policy"] = _content_policy(style, script, pictures)
        values["style"] = Markup(style)
        values["footer"] = footer
        values["handling"] = HANDLING
        if scripts:
            values["script"] = Markup(script)
        return environment.get_template(template).render(values)
    except (TemplateError, UnicodeDecodeError) as error:
        if templates is None:
            raise
        raise template_error(templates, error) from None


def _footer_of_sheets(footer: str) -> str:
    """Return the CSS that writes the footer on every printed sheet."""
    # All but letters and digits are written as CSS escapes.
    content = "".join(
        char if char.isascii() and char.isalnum() else f"\\{ord(char):06x}"
        for char in f"Confidential · {footer} · {HANDLING}."
    )
    return f'@media print{{@page{{@bottom-left{{content:"{content}"}}}}}}\n'


def _content_policy(style: str, script: str, pictures: bool) -> str:
    """Return the content security policy of a page.

    It protects even if an escape was forgotten: nothing but these two texts may style
    the page or run in it.
    """
    directives = ["default-src 'none'", f"style-src {_digest(style)}"]
    if script:
        directives.append(f"script-src {_digest(script)}")
    if pictures:
        directives.append("img-src data:")
    directives += ["base-uri 'none'", "form-action 'none'"]
    return "; ".join(directives)


def template_error(templates: Path, error: Exception) -> UsageError:
    """Return an error of a site's templates, with template and line if known."""
    place = ""
    if isinstance(error, TemplateNotFound):
        place = "no template "
    elif isinstance(error, TemplateSyntaxError):
        place = f"{error.name} line {error.lineno}: "
    elif isinstance(error, UndefinedError):
        frames = traceback.extract_tb(error.__traceback__)
        frame = next(frame for frame in frames[::-1] if ".j2" in frame.filename)
        place = f"{Path(frame.filename).name} line {frame.lineno}: "
    return UsageError(
        f"`templates` {templates}: {place}{error}", parameters=["templates"]
    )


def environment_of(templates: Path | None = None) -> Environment:
    """Return the environment that finds a site's own templates first, then the shipped.

    A site's templates are read again for each page: they may be edited between two.

    Raises
    ------
    UsageError
        The folder does not exist.
    """
    if templates is None:
        return ENVIRONMENT
    if not templates.is_dir():
        raise UsageError(
            f"`templates` {templates}: this directory does not exist",
            parameters=["templates"],
        )
    shipped = PackageLoader("screening.templates", "")
    prefixed = PrefixLoader({SHIPPED: shipped})
    site = FileSystemLoader(templates)
    return _new_environment(ChoiceLoader([site, shipped, prefixed]))


def _new_environment(loader: BaseLoader) -> Environment:
    """Return an environment in which undefined names are errors."""
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spell_out_invisible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=[Layout],
    )
    environment.filters |= fmt.FILTERS
    environment.filters |= {
        "json": as_json,
        "value_text": value_text,
        "drawn_size": drawn_size,
        "clusters": clusters,
        "millimetres": millimetres,
    }
    environment.tests["pictured"] = is_pictured
    environment.globals["figures_in"] = figures_in
    environment.globals["FIGURES"] = FIGURES
    return environment


def _spell_out_invisible(value: object) -> object:
    """Spell out invisible characters of any text, in case a template forgot to."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return fmt.text(value, 10**6)


def as_json(value: object) -> Markup:
    """Return `value` as JSON that cannot end its script element."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def text_of(environment: Environment, name: str) -> str:
    """Return the source text of a template."""
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return text


def _digest(text: str) -> str:
    """Return the SHA-256 of a text as a content security policy writes it."""
    sha256 = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(sha256).decode()}'"


ENVIRONMENT = _new_environment(PackageLoader("screening.templates", ""))
"""The environment of the shipped templates alone."""
