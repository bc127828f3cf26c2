"""The page of one row alone: what it scored, and which of its values made it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from screening.documents.case import ExplainedCase
from screening.documents.run import RunDocument
from screening.documents.stored import case_in, run_in
from screening.page import cases, night, performance, review
from screening.page import format as shown
from screening.page.drawing import draw
from screening.page.values import Value, others


def render_case(run: Mapping[str, object], case: Mapping[str, object], templates: Path | None = None) -> str:
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
    night_of = run_in(run)
    model = night_of.model
    return draw(
        "case.html.j2",
        {
            "banner": night.run_banner(night_of),
            "case": told(night_of, case_in(case)),
            "unit": model.unit_of_review,
            "people": others(model),
            "multi": model.multi,
            "explained": night.terms(model),
        },
        templates=templates,
        footer=f"run {shown.name(night_of.run_id)}{review.trail(night_of)}, one case",
    )


@dataclass(frozen=True)
class Told:
    """One row in words and figures."""

    id: str
    said: str
    place: Sequence[str]
    facts: Sequence[tuple[str, str]]
    why: Sequence[Value]
    explained: str
    missing: Sequence[str]


def told(run: RunDocument, case: ExplainedCase) -> Told:
    """Return one row in words and figures, for the page and for the terminal."""
    model = run.model
    places = performance.score_places(model, [*cases.scores(run), case.score])
    line = cases.line_of_case(run, case, places)
    threshold = next(point.threshold for point in model.points if point.label == case.label)
    said = "Flagged" if case.flagged else "Not flagged"
    if case.rank is not None:
        total = shown.count(run.cases_total)
        said += f": number {shown.count(case.rank)} of {total}, the highest score first"
    facts = [*(line.rest.facts if line.rest else ()), ("Threshold", shown.fixed(threshold, places))]
    return Told(
        id=line.id,
        said=said,
        place=line.place,
        facts=facts,
        why=line.rest.values if line.rest else (),
        explained=line.rest.explained if line.rest else "",
        missing=[shown.feature(name) for name in case.missing],
    )
