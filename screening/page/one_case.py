"""The page of one row alone: what it scored, and which of its values made it so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from screening.documents.reading import (
    by_excess,
    mapping,
    multi,
    part,
    points,
    sequence,
    unit_of_review,
    words,
)
from screening.page import cases, night, performance, review
from screening.page import format as shown
from screening.page.drawing import draw


def render_case(run: Mapping[str, Any], case: Mapping[str, Any], templates: Path | None = None) -> str:
    """Return the page of one row of a run.

    Parameters
    ----------
    run : mapping
        The parsed ``run.json``.
    case : mapping
        The row as `screening.scoring.explaining.explain` tells it.
    templates : Path, optional
        A site's own templates, which stand in the place of those of the same name.

    Returns
    -------
    str
        HTML; the same case always gives the same text.
    """
    return draw(
        "case.html.j2",
        templates=templates,
        footer=f"run {shown.name(run.get('run_id'))}{review.trail(run)}, one case",
        banner=night.run_banner(run),
        case=told(run, case),
        unit=unit_of_review(mapping(run, "model")),
        multi=multi(mapping(run, "model")),
        explained=words(mapping(run, "model")),
    )


def told(run: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row in words and figures, for the page and for the terminal."""
    model = mapping(run, "model")
    places = performance.score_places(model, [*cases.scores(run), case.get("score")])
    line = cases.case_line(run, case, places, None)
    rank, total = case.get("rank"), part(run, "cases_total")
    own = [p.get("threshold") for p in points(model) if str(p.get("class")) == str(case.get("class"))]
    said = "Flagged" if case.get("flagged") else "Not flagged"
    if shown.finite(rank):
        said += f": number {shown.count(rank)} of {shown.count(total)}, the highest score first"
    facts = [("Patient", line["group"])] if line["group"] else []
    facts += [("Class", line["class"])] if multi(model) else []
    facts += [("Above threshold" if by_excess(model) else "Score", line["score"])]
    facts += [("Threshold", shown.fixed(own[0], places))] if own else []
    facts += [("p-value", line["p_value"])]
    facts += [("Chance", line["chance"].removeprefix("chance "))] if line["chance"] else []
    said_before = [known for known in line["known"].values() if known]
    facts += [("So far", ", ".join(said_before))] if said_before else []
    return {
        "id": line["id"],
        "said": said,
        "facts": facts,
        "why": line["why"],
        "missing": [shown.feature(m) for m in sequence(case, "missing")],
    }
