"""Draw the page of a model, a run, one case or a site: one HTML file that needs and sends nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from screening.documents.case import ExplainedCase
from screening.documents.model import ModelDocument
from screening.documents.overview import OverviewDocument, SeriesNight
from screening.documents.run import RunDocument
from screening.documents.stored import case_in, model_in, run_in
from screening.page import (
    card,
    chances,
    night,
    performance,
    tradeoff,
    usefulness,
    voxels,
    worklist,
)
from screening.page import format as shown
from screening.page.drawing import draw
from screening.page.values import others

SCRIPTS = ("report.js",)
LIST = {"styles": ("report.css", "list.css"), "scripts": (*SCRIPTS, "list.js", "review.js")}
"""What the page of a night has beside that of a model."""


def render_model(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the HTML page of a trained model, of the parsed ``model.json``: always the same of the same.

    `templates` are a site's own, which stand in the place of those of the same name.
    """
    model = model_in(document)
    places = performance.score_places(model, [])
    return draw(
        "model.html.j2",
        {
            "useful": usefulness.usefulness(model),
            "froc": performance.froc(model),
            "banner": night.model_banner(model),
            **_shared(model, None, places),
        },
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=SCRIPTS,
        footer=f"model {shown.text(model.sha256 or 'not recorded', 80)}",
    )


def render_run(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of one night, of the parsed ``run.json``; `templates` as of `render_model`.

    Its ``times`` are not shown, so that a repeated run gives the same page.
    """
    return draw_run(run_in(document), templates)


def draw_run(run: RunDocument, templates: Path | None = None) -> str:
    """The same of a run that was just made: its document need not be read back."""
    model = run.model
    places = performance.score_places(model, worklist.scores(run))
    inputs = card.data_section(run)
    voxel_block = voxels.voxels(run, places)
    return draw(
        "run.html.j2",
        {
            "banner": night.run_banner(run),
            "tonight": night.tonight(run, inputs["notable"]),
            "strip": night.strip(run),
            "list": worklist.worklist(run, voxel_block["patients"] if voxel_block else [], places),
            "review": worklist.form(run),
            "evaluation": performance.evaluation(run),
            "inputs": inputs,
            "rarity": night.rarity(run),
            "voxels": voxel_block,
            **_shared(model, run, places),
        },
        templates=templates,
        **LIST,
        pictures=bool(voxel_block and voxel_block["pictures"]),
        footer=f"run {shown.name(run.run_id)}{worklist.trail(run)}",
    )


def _shared(model: ModelDocument, run: RunDocument | None, places: int) -> dict[str, object]:
    return {
        "operating": performance.operating_points(model, places, run),
        "panels": tradeoff.panels(model, run, places),
        "choices": performance.choices(model),
        "places": places,
        "watched": model.task.watched,
        "per_class": performance.per_class(model),
        "confusion": performance.confusion(model),
        "predictive": chances.predictive(model),
        "workload": chances.workload(model, run),
        "calibration": chances.calibration(model),
        "subgroups": performance.subgroups(model, run),
        "forward": performance.forward(model),
        "beside": usefulness.beside(model),
        "card": card.model_card(model),
        "basis": "past patients, each scored by a model that had not seen them",
        "lead": run is None,
        "multi": model.multi,
        "unit": model.unit_of_review,
        "explained": night.terms(model),
    }


def render_case(run: Mapping[str, object], case: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of one row of a run, as `screening.scoring.explaining.explain` tells it.

    `run` is the parsed ``run.json``; `templates` as of `render_model`.
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
        footer=f"run {shown.name(night_of.run_id)}{worklist.trail(night_of)}, one case",
    )


def told(run: RunDocument, case: ExplainedCase) -> dict[str, Any]:
    """Return one row in words and figures, for the page and for the terminal."""
    model = run.model
    places = performance.score_places(model, [*worklist.scores(run), case.score])
    line = worklist.line_of_case(run, case, places)
    rest = line.rest or worklist.Rest()
    threshold = next(point.threshold for point in model.points if point.label == case.label)
    said = "Flagged" if case.flagged else "Not flagged"
    if case.rank is not None:
        total = shown.count(run.cases_total)
        said += f": number {shown.count(case.rank)} of {total}, the highest score first"
    return {
        "id": line.id,
        "said": said,
        "place": line.place,
        "facts": [*rest.facts, ("Threshold", shown.fixed(threshold, places))],
        "why": rest.values,
        "explained": rest.explained,
        "missing": [shown.feature(name) for name in case.missing],
    }


def render_overview(found: OverviewDocument) -> str:
    """Return the page; the same document always gives the same text."""
    absent = [line for line in found.series if line.scored is None]
    wanting = [line for line in found.series if line.attention]
    flagged = [line.flagged for line in found.series if line.flagged is not None]
    return draw(
        "overview.html.j2",
        {
            "banner": {
                "title": shown.text(found.title, 200),
                "kind": "All series, night of",
                "date": found.night,
            },
            "facts": [
                ("Series", shown.count(len(found.series))),
                ("Without a page", shown.count(len(absent))),
                ("Want attention", shown.count(len(wanting))),
                ("Rows flagged", shown.count(sum(flagged))),
                (
                    "Missed nights caught up",
                    shown.count(sum(one.status == "published" for one in found.caught_up)),
                ),
            ],
            "tables": [
                {"title": title, "rows": [_row(line) for line in _worst_first(lines)]}
                for title, lines in (
                    ("Tonight", found.series),
                    ("Missed nights", found.caught_up),
                    ("In shadow", found.shadows),
                )
                if lines
            ],
        },
        styles=("report.css", "stacked.css", "overview.css"),
        footer=f"overview of {shown.name(found.night)}, exit code {found.exit_code}",
    )


def _worst_first(lines: Sequence[SeriesNight]) -> list[SeriesNight]:
    """What has no page, then what wants attention, then the rest; by name within."""
    return sorted(lines, key=lambda one: (one.scored is not None, not one.attention, one.series, one.night))


def _row(line: SeriesNight) -> dict[str, object]:
    reasons = [" ".join(filter(None, (one.words, one.remedy))) for one in line.attention]
    said = [line.said] if line.said else []
    failed = f"FAILED, code {line.exit_code}" if line.status == "failed" else ""
    return {
        "facts": line,
        "status": failed or ("ATTENTION" if reasons else line.status),
        "loud": line.scored is None or bool(reasons),
        "words": [shown.text(each, 400) for each in (*said, *reasons)],
    }
