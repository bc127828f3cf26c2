"""Draw the page of a model or of a run: one HTML file that needs nothing else and sends nothing anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.stored import model_in, run_in
from screening.page import (
    beside,
    card,
    cases,
    chances,
    forward,
    lesions,
    night,
    performance,
    rarity,
    review,
    strip,
    subgroups,
    tradeoff,
    usefulness,
    voxels,
    worklist,
)
from screening.page import format as shown
from screening.page.drawing import draw

SCRIPTS = ("report.js",)
LIST = {"styles": ("report.css", "list.css"), "scripts": (*SCRIPTS, "list.js", "review.js")}
"""What the page of a night has beside that of a model."""


def render_model(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of a trained model.

    Parameters
    ----------
    document : mapping
        The parsed ``model.json``.
    templates : Path, optional
        A site's own templates, which stand in the place of those of the same name.

    Returns
    -------
    str
        HTML; the same document always gives the same text.
    """
    model = model_in(document)
    places = performance.score_places(model, [])
    return draw(
        "model.html.j2",
        {
            "useful": usefulness.usefulness(model),
            "froc": lesions.froc(model),
            "banner": night.model_banner(model),
            **_shared(model, None, places),
        },
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=SCRIPTS,
        footer=f"model {shown.text(model.sha256 or 'not recorded', 80)}",
    )


def render_run(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of one night.

    Parameters
    ----------
    document : mapping
        The parsed ``run.json``. Its ``times`` are not shown, so that a repeated run gives the same page.
    templates : Path, optional
        A site's own templates, which stand in the place of those of the same name.

    Returns
    -------
    str
        HTML; the same document always gives the same text.
    """
    return draw_run(run_in(document), templates)


def draw_run(run: RunDocument, templates: Path | None = None) -> str:
    """The same of a run that was just made: its document need not be read back."""
    model = run.model
    places = performance.score_places(model, cases.scores(run))
    inputs = card.data_section(run)
    voxel_block = voxels.voxels(run, places)
    return draw(
        "run.html.j2",
        {
            "banner": night.run_banner(run),
            "tonight": night.tonight(run, inputs.notable),
            "strip": strip.strip(run),
            "list": worklist.worklist(run, voxel_block.patients if voxel_block else [], places),
            "review": review.form(run),
            "evaluation": performance.evaluation(run),
            "inputs": inputs,
            "rarity": rarity.rarity(run),
            "voxels": voxel_block,
            **_shared(model, run, places),
        },
        templates=templates,
        **LIST,
        pictures=bool(voxel_block and voxel_block.pictures),
        footer=f"run {shown.name(run.run_id)}{review.trail(run)}",
    )


def _shared(model: ModelDocument, run: RunDocument | None, places: int) -> dict[str, object]:
    return {
        "operating": performance.operating_points(model, places, run),
        "panels": tradeoff.panels(model, run, places),
        "choices": performance.choices(model, places),
        "per_class": performance.per_class(model),
        "confusion": performance.confusion(model),
        "predictive": chances.predictive(model),
        "workload": chances.workload(model, run),
        "calibration": chances.calibration(model),
        "subgroups": subgroups.subgroups(model, run),
        "forward": forward.forward(model),
        "beside": beside.beside(model),
        "card": card.model_card(model),
        "lead": run is None,
        "multi": model.multi,
        "unit": model.unit_of_review,
        "explained": night.terms(model),
    }
