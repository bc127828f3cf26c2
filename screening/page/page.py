"""Draw the page of a model or of a run: one HTML file that needs nothing else and sends nothing anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from screening.documents.reading import mapping, multi, unit_of_review, words
from screening.page import (
    beside,
    card,
    cases,
    chances,
    forward,
    night,
    performance,
    rarity,
    review,
    subgroups,
    tradeoff,
    voxels,
)
from screening.page import format as shown
from screening.page.drawing import draw

SCRIPTS = ("report.js", "review.js")


def render_model(document: Mapping[str, Any], templates: Path | None = None) -> str:
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
    places = performance.score_places(document, [])
    banner = night.model_banner(document)
    identity = str(document.get("digest") or document.get("sha256") or "not recorded")
    return draw(
        "model.html.j2",
        templates=templates,
        scripts=SCRIPTS,
        footer=f"model {shown.text(identity, 80)}",
        banner=banner,
        **_shared(document, None, places),
    )


def render_run(document: Mapping[str, Any], templates: Path | None = None) -> str:
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
    model = mapping(document, "model")
    places = performance.score_places(model, cases.scores(document))
    operating = performance.operating_points(model, places, document)
    inputs = card.data_section(document)
    voxel_block = voxels.voxels(document, places)
    return draw(
        "run.html.j2",
        templates=templates,
        scripts=SCRIPTS,
        pictures=bool(voxel_block and voxel_block["pictures"]),
        footer=f"run {shown.name(document.get('run_id'))}{review.trail(document)}",
        banner=night.run_banner(document),
        tonight=night.tonight(document, operating, inputs["notable"]),
        flagged=cases.flagged(document, places),
        groups=cases.groups(document, places),
        review=review.form(document),
        evaluation=performance.evaluation(document),
        inputs=inputs,
        rarity=rarity.rarity(document),
        voxels=voxel_block,
        **_shared(model, document, places),
    )


def _shared(model: Mapping[str, Any], run: Mapping[str, Any] | None, places: int) -> dict[str, Any]:
    return {
        "operating": performance.operating_points(model, places, run),
        "panels": tradeoff.panels(model, run, places),
        "choices": performance.choices(model, places),
        "per_class": performance.per_class(model),
        "confusion": performance.confusion(model),
        "predictive": chances.predictive(model, run),
        "workload": chances.workload(model, run),
        "calibration": chances.calibration(model),
        "subgroups": subgroups.subgroups(model, run),
        "forward": forward.forward(model),
        "beside": beside.beside(model),
        "card": card.model_card(model),
        "lead": run is None,
        "multi": multi(model),
        "unit": unit_of_review(model),
        "explained": words(model),
    }
