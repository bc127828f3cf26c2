"""The documents as a site: `make docs` builds it without a network, warnings being
errors.

Sphinx, for it comes with numpydoc, which the tests need anyway; MyST, for the documents
are Markdown that must read well in the repository too; Furo, for it fetches nothing,
and is light, dark and readable on a telephone. Formulas become MathML while the site is
built: no script draws them in the reader's browser.
"""

from __future__ import annotations

import logging
import re
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "screening"
author = "The screening developers"
version = release = installed("screening")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
# Each script is run, and shown with its figure; nothing is offered for download.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "notebook_extensions": {},
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}
# It says at each bar of a night that its label could be a date.
logging.getLogger("matplotlib.category").setLevel(logging.WARNING)
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["examples", "images", "paper", "plots", "schemas"]
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "furo"
html_title = "screening"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
suppress_warnings = ["myst.strikethrough"]


def drawn(node: nodes.Element, as_block: bool = False) -> str:
    """A formula as MathML; without a font for formulas a browser sets an accent into
    the letter below it.
    """
    return str(tex2mathml(node.astext(), as_block=as_block)).replace(
        ' accent="true"', ""
    )


def inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(drawn(node))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.Element) -> None:
    formula = drawn(node, as_block=True)
    translator.body.append(
        f'<div class="math" tabindex="0" style="overflow-x: auto">{formula}</div>\n'
    )
    raise nodes.SkipNode


def bars(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """A bar in a docstring is a distance; only Sphinx takes it for a substitution."""
    lines[:] = [
        re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) for line in lines
    ]


# What axe finds in the theme's pages: a level of headings, code that scrolls by keys,
# names of landmarks.
MENDED = {
    ' role="heading">': ' role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
}


def mend(app: Any, error: Exception | None) -> None:
    """Make the written pages accessible."""
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for fault, mended in MENDED.items():
            text = text.replace(fault, mended)
        page.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer of formulas, and what docstrings need."""
    app.connect("autodoc-process-docstring", bars)
    app.connect("build-finished", mend)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
