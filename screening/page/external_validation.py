"""The page of an external validation: promise beside what was found, and the blocks of a model's page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from screening.documents.stored import validation_in
from screening.page import format as shown
from screening.page.drawing import draw
from screening.page.page import figures_of

BASIS = "patients of this cohort, scored by a model that had not seen them"


def render_validation(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of a parsed ``validation.json``; `templates` as of `screening.page.render_model`."""
    found = validation_in(document)
    blocks = figures_of(found.here) | {"external": found, "basis": BASIS}
    blocks["banner"] |= {"kind": "External validation"}
    return draw(
        "validation.html.j2",
        blocks,
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=("report.js",),
        footer=f"external validation of model {shown.name(found.model.id)}",
    )
