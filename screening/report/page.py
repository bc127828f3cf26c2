"""The pages of a model, a run, a case, a validation or a site: one HTML file each, which sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import count
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from screening.report import format as fmt
from screening.report import model_charts, night, trade_off, worklist
from screening.report.columns import grid_style, people_of
from screening.report.comparison import render_comparison
from screening.report.drawing import draw
from screening.report.model_attention import review_due
from screening.report.score_drift import describe_drift
from screening.schemas.base import Document
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.figures import MinSensitivity, Rule
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.model import ModelDocument
from screening.schemas.run import ExplainedCase, RunDocument

SCRIPTS = ("report.js",)
LIST = {
    "styles": ("report.css", "list.css"),
    "scripts": (*SCRIPTS, "list.js", "review.js"),
}
"""What the page of a night has beside that of a model."""


def render_model(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the HTML page of a trained model, of the parsed ``model.json``: always the same of the same.

    `templates` are a site's own, which stand in the place of those of the same name.
    """
    model = ModelDocument.from_dict(document)
    return draw(
        "model.html.j2",
        {
            "useful": model_charts.usefulness(model),
            "froc": model_charts.froc(model),
            **figures_of(model),
        },
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=SCRIPTS,
        footer=f"model {fmt.text(model.sha256 or 'not recorded', 80)}",
    )


def render_head(document: Mapping[str, object]) -> str:
    """The head of that page: what it is fit for, and its operating points."""
    model = ModelDocument.from_dict(document)
    return draw(
        "head.html.j2",
        {"useful": model_charts.usefulness(model), **_head(model, None)},
        styles=("report.css", "model.css"),
        footer=f"model {fmt.text(model.sha256 or 'not recorded', 80)}",
    )


def render_run(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of one night, of the parsed ``run.json``; `templates` as of `render_model`.

    Its ``times`` are not shown, so that a repeated run gives the same page.
    """
    return draw_run(RunDocument.from_dict(document), templates)


def draw_run(run: RunDocument, templates: Path | None = None) -> str:
    """The same of a run that was just made: its document need not be read back."""
    patients = run.voxels.patients if run.voxels else ()
    pictures = any(
        night.pictured(piece) for patient in patients for piece in patient.slices
    )
    blocks = figures_of(run.model, run)
    return draw(
        "run.html.j2",
        {
            "strip": night.strip(run),
            "list": worklist.worklist(run, blocks["places"]),
            "review": worklist.form(run),
            "inputs": night.data_section(run),
            "drift": describe_drift(run.drift),
            "pictures": pictures,
            **blocks,
        },
        templates=templates,
        **LIST,
        rules=grid_style(),
        pictures=pictures,
        footer=f"run {fmt.name(run.run_id)}{worklist.trail(run)}",
    )


def figures_of(model: ModelDocument, run: RunDocument | None = None) -> dict[str, Any]:
    """The documents with the charts and tables of a model's figures, of which a page writes its blocks."""
    places = worklist.score_places(model, run)
    return _head(model, run) | {
        "basis": "past patients, each scored by a model that was not trained on them",
        "panels": trade_off.panels(model, run, places),
        "places": places,
        "rarest_first": model_charts.rarest_first(model),
        "chances": model_charts.chance_charts(model),
        "beside": model_charts.comparison_table(model),
        "pruning": model_charts.pruning_chart(model),
        "review_due": review_due(model),
    }


def _head(model: ModelDocument, run: RunDocument | None) -> dict[str, object]:
    """The documents themselves, and what the head and the glossary of a page need beside them."""
    return {
        "model": model,
        "run": run,
        "external": None,
        "banner": {
            "title": fmt.name(
                model.stated.title or f"Screening for {model.task.label}"
            ),
            "kind": "Trained model" if run is None else "Night of",
            "date": "" if run is None else fmt.name(run.date),
        },
        "explained": {
            "by_group": model.validation.grouped,
            "chance": any(
                fitted.earned for fitted in model.validation.calibration.values()
            ),
            "factor": any(one.get("factor") for one in model.machine.passes),
        },
    }


def render_case(
    run: Mapping[str, object], case: Mapping[str, object], templates: Path | None = None
) -> str:
    """Return the page of one row of a run, as `screening.scoring.explaining.explain` tells it.

    `run` is the parsed ``run.json``; `templates` as of `render_model`.
    """
    night_of = RunDocument.from_dict(run)
    line = worklist.line_of_one(night_of, ExplainedCase.from_dict(case))
    return draw(
        "case.html.j2",
        {
            "line": line,
            "people": people_of(night_of.model),
            **_head(night_of.model, night_of),
        },
        templates=templates,
        styles=("report.css", "stacked.css"),
        footer=f"run {fmt.name(night_of.run_id)}{worklist.trail(night_of)}, one case",
    )


BASIS = "patients of this cohort, scored by a model that was not trained on them"


def render_validation(
    document: Mapping[str, object], templates: Path | None = None
) -> str:
    """Return the page of a parsed ``validation.json``; `templates` as of `screening.report.render_model`."""
    validation = ExternalValidation.from_dict(document)
    blocks = figures_of(validation.here) | {"external": validation, "basis": BASIS}
    blocks["banner"] |= {"kind": "External validation"}
    return draw(
        "validation.html.j2",
        blocks,
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=SCRIPTS,
        footer=f"external validation of model {fmt.name(validation.model.id)}",
    )


def render_overview(overview: OverviewDocument) -> str:
    """Return the page; the same document always gives the same text."""
    tables = (
        ("Tonight", overview.series),
        ("Missed nights", overview.caught_up),
        ("In shadow", overview.shadows),
    )
    return draw(
        "overview.html.j2",
        {
            "banner": {
                "title": fmt.text(overview.title, 200),
                "kind": "All series, night of",
                "date": overview.night,
            },
            "overview": overview,
            "tables": [
                (title, _worst_first(lines)) for title, lines in tables if lines
            ],
        },
        styles=("report.css", "stacked.css", "overview.css"),
        footer=f"overview of {fmt.name(overview.night)}, exit code {overview.exit_code}",
    )


def _worst_first(lines: Sequence[SeriesNight]) -> list[SeriesNight]:
    """What has no page, then what wants attention, then the rest; by name within."""
    return sorted(
        lines,
        key=lambda one: (
            one.scored is not None,
            not one.attention,
            one.series,
            one.night,
        ),
    )


PAGES: dict[str, tuple[type[Document], Callable[..., str]]] = {
    "run": (RunDocument, render_run),
    "model": (ModelDocument, render_model),
    "comparison": (ComparisonDocument, render_comparison),
    "validation": (ExternalValidation, render_validation),
}
TEXT = "2026-01-01"
"""Every text of a sample: a class, a column, an id and a day at once."""


def check_templates(templates: Path | None, kind: str) -> None:
    """Draw a sample page of `kind` with a site's own templates; nothing is to be done where there are none.

    Raises UsageError, naming the template and the line: it asks for what no page has, or is no template.
    """
    if templates is not None:
        draw_sample(kind, templates)


def draw_sample(kind: str, templates: Path | None = None) -> str:
    """A page of `kind` on which every block is drawn."""
    document, drawn = PAGES[kind]
    return drawn(sample_of(document, count(1)), templates)


class Every(dict[str, Any]):
    """A mapping that has the same under every name."""

    def __missing__(self, name: str) -> Any:
        return self[TEXT]

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """What is under every name."""
        return self[name]


def sample_of(kind: Any, numbers: Iterator[int]) -> Any:
    """A value of a type: of a document one with every field, two of each list, and rising numbers."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Annotated, Union, UnionType):
        return sample_of(args[0], numbers)
    if origin is Literal:
        return args[0]
    if origin in (Sequence, list):
        return [sample_of(args[0], numbers) for _ in "ab"]
    if origin is tuple:
        return tuple(sample_of(one, numbers) for one in args if one is not ...)
    if origin in (Mapping, dict):
        return (
            {}
            if args[1] in (Any, object)
            else Every({TEXT: sample_of(args[1], numbers)})
        )
    if kind in (bool, str):
        return True if kind is bool else TEXT
    if kind in (int, float):
        return next(numbers) if kind is int else next(numbers) / 1e5
    if kind is Rule:
        return MinSensitivity(0.9)
    if issubclass(kind, Document):
        fields = {
            name: sample_of(field.annotation, numbers)
            for name, field in kind.model_fields.items()
        }
        if isinstance(fields.get("threshold"), float):
            fields["threshold"] = 0.5  # As one rule's are, on a page.
        return kind.model_construct(**fields)
    assert isinstance(kind, type) and is_dataclass(kind)
    made = object.__new__(kind)
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is not ClassVar and hint is not ClassVar:
            object.__setattr__(made, name, sample_of(hint, numbers))
    return made
