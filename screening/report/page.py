"""The pages of a model, a run, a case, a validation and a site, one HTML file each.

A page loads nothing and sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from screening.metrics.figures import FIGURES
from screening.report import format as fmt
from screening.report import model_charts, trade_off, worklist
from screening.report.check_values import check_section
from screening.report.columns import COLUMNS, grid_style, people_of
from screening.report.comparison import render_comparison
from screening.report.drawing import draw
from screening.report.histograms import data_section
from screening.report.model_attention import review_due
from screening.report.night_attention import describe_drift
from screening.report.outcome_words import hour_words
from screening.report.reliance import reliance_words
from screening.report.tonight import score_strip, sentences_of_night, tasks_of
from screening.report.verdict import usefulness_of
from screening.report.voxels import has_pictures
from screening.schemas import reasons
from screening.schemas.base import Document, Estimate, PopulationFigures, new_reasons
from screening.schemas.comparison import ComparisonDocument, ExternalValidation
from screening.schemas.figures import MinSensitivity, Rule
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.model import ModelDocument
from screening.schemas.run import ExplainedCase, RunDocument

MODEL_STYLES = ("report.css", "stacked.css", "model.css")
MODEL_SCRIPTS = ("report.js", "subgroups.js")
NIGHT_STYLES = ("report.css", "stacked.css", "list.css")
NIGHT_SCRIPTS = ("report.js", "list.js", "review.js")


def render_model(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Render the HTML page of a trained model.

    Parameters
    ----------
    document : mapping
        The parsed ``model.json``. The same document always gives the same page.
    templates : Path, optional
        Folder of a site's own templates, used in place of those of the same name.
    """
    model = ModelDocument.from_dict(document)
    return draw(
        "model.html.j2",
        {
            "useful": model_charts.usefulness(model),
            "froc": model_charts.froc(model),
            "pruning": model_charts.pruning_chart(model),
            "settings": model_charts.settings_chart(model),
            "factor": model_charts.factor_chart(model),
            "reliance": reliance_words(model),
            **figures_of(model),
        },
        templates=templates,
        styles=MODEL_STYLES,
        scripts=MODEL_SCRIPTS,
        footer=f"model {fmt.text(model.sha256 or 'not recorded', 80)}",
    )


def render_head(document: Mapping[str, object]) -> str:
    """Render the head of a model's page: the verdict and the operating points."""
    model = ModelDocument.from_dict(document)
    return draw(
        "head.html.j2",
        {
            "useful": model_charts.usefulness(model),
            "reliance": reliance_words(model),
            **_head(model, None),
        },
        styles=MODEL_STYLES,
        footer=f"model {fmt.text(model.sha256 or 'not recorded', 80)}",
    )


def render_run(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Render the page of one night.

    Parameters
    ----------
    document : mapping
        The parsed ``run.json``. Its ``times`` are not shown, so a repeated run gives
        the same page.
    templates : Path, optional
        As for `render_model`.
    """
    return draw_run(RunDocument.from_dict(document), templates)


def draw_run(run: RunDocument, templates: Path | None = None) -> str:
    """Draw the page of a run; `templates` as for `render_model`."""
    pictures = bool(run.voxels and has_pictures(run.voxels))
    listed = worklist.worklist(run, worklist.score_places(run.model, run))
    # Columns that failed only now, such as on the page of an old run.
    known = {reason.words for reason in run.attention}
    left_out = reasons.reasons_of_left_out(COLUMNS.faults)
    new = [reason for reason in left_out if reason.words not in known]
    if new:
        run = run.replace(attention=[*run.attention, *new])
    blocks = figures_of(run.model, run)
    return draw(
        "run.html.j2",
        {
            "strip": score_strip(run),
            "list": listed,
            "check": check_section(run),
            "review": worklist.form(run),
            "inputs": data_section(run),
            "sentences": sentences_of_night(run),
            "tasks": tasks_of(run),
            "drift": describe_drift(run.drift),
            "pictures": pictures,
            **blocks,
        },
        templates=templates,
        styles=NIGHT_STYLES,
        scripts=NIGHT_SCRIPTS,
        rules=grid_style(listed["cells"]),
        pictures=pictures,
        footer=f"{_sheet_of(run)} · run {fmt.name(run.run_id)}{worklist.trail(run)}",
    )


def _sheet_of(run: RunDocument) -> str:
    """Return what a loose sheet of paper is of: the title, the only ward, the night."""
    wards = {next(iter(case.display.values())) for case in run.cases if case.display}
    parts = [title_of(run.model)]
    if len(wards) == 1:
        parts += filter(None, wards)
    parts.append(f"night of {run.date}")
    return " · ".join(map(fmt.name, parts))


def figures_of(model: ModelDocument, run: RunDocument | None = None) -> dict[str, Any]:
    """Return the documents, charts and tables of a page about a model."""
    places = worklist.score_places(model, run)
    return _head(model, run) | {
        "basis": "past patients, each scored by a model that was not trained on them",
        "panels": trade_off.panels(model, run, places),
        "places": places,
        "rarest_first": model_charts.rarest_first(model),
        "chances": model_charts.chance_charts(model),
        "beside": model_charts.comparison_table(model),
    }


def _head(model: ModelDocument, run: RunDocument | None) -> dict[str, object]:
    """Return what the head and the glossary of a page need."""
    calibrations = model.validation.calibration.values()
    return {
        "model": model,
        "run": run,
        "hour": "" if run is None else hour_words(run),
        "external": None,
        "verdict": usefulness_of(model).words,
        "review_due": review_due(model),
        "banner": {
            "title": fmt.name(title_of(model)),
            "kind": "Trained model" if run is None else "Night of",
            "date": "" if run is None else fmt.name(run.date),
        },
        "explained": {
            "by_group": model.validation.grouped,
            "chance": any(calibration.earned for calibration in calibrations),
            "factor": any(fitted.get("factor") for fitted in model.machine.passes),
        },
    }


def title_of(model: ModelDocument) -> str:
    """Return the title of a model's pages: the contract's, or one of its label."""
    if model.stated.title:
        return model.stated.title
    without_cases = model.validation.without_cases
    if without_cases is not None and without_cases.state == "unknown":
        return f"Screening for unusual {people_of(model)}"
    label = model.task.label
    if model.task.positive:
        label += f" = {', '.join(model.task.positive)}"
    return f"Patients with {label}"


def render_case(
    run: Mapping[str, object], case: Mapping[str, object], templates: Path | None = None
) -> str:
    """Render the page of one row of a run.

    Parameters
    ----------
    run : mapping
        The parsed ``run.json``.
    case : mapping
        The row, as `screening.scoring.explaining.explain` returns it.
    templates : Path, optional
        As for `render_model`.
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
    """Render a parsed ``validation.json`` as a page; `templates` as above."""
    validation = ExternalValidation.from_dict(document)
    blocks = figures_of(validation.here) | {"external": validation, "basis": BASIS}
    blocks["banner"] |= {"kind": "External validation"}
    return draw(
        "validation.html.j2",
        blocks,
        templates=templates,
        styles=MODEL_STYLES,
        scripts=MODEL_SCRIPTS,
        footer=f"external validation of model {fmt.name(validation.model.id)}",
    )


DRIFT = frozenset(
    kind.code
    for kind in (
        reasons.MISSING_MORE,
        reasons.OUTSIDE_RANGE,
        reasons.VALUES_DIFFER,
        reasons.SCORES_DIFFER,
        reasons.DRIFT_OVER_NIGHTS,
        reasons.COLUMN_DRIFTS,
        reasons.SCORES_DRIFT,
        reasons.FLAGS_DRIFT,
        reasons.OUTBREAK,
    )
)
"""Codes of reasons that say that patients or measurements have changed."""


def drift_word(line: SeriesNight) -> str:
    """Return whether a change should be checked; empty if unknown."""
    if any(reason.code in DRIFT for reason in (*line.attention, *line.acknowledged)):
        return "look"
    return "" if line.scored is None else "ok"


def render_overview(overview: OverviewDocument) -> str:
    """Render the page of all series of a site on one night."""
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
            "drift_word": drift_word,
            # A table without new outcomes has no line.
            "outcomes": [
                table
                for table in overview.outcomes
                if table.new or table.corrected or table.refused or table.table
            ],
            "wanting": sum(
                bool(new_reasons(line.attention)) for line in overview.series
            ),
            "tables": [
                (title, _worst_first(lines)) for title, lines in tables if lines
            ],
        },
        styles=("report.css", "stacked.css", "overview.css"),
        footer=f"overview of {fmt.name(overview.night)}, "
        f"exit code {overview.exit_code}",
    )


def _worst_first(lines: Sequence[SeriesNight]) -> list[SeriesNight]:
    """Return lines without a page first, then those that need attention, by name."""

    def order(line: SeriesNight) -> tuple[bool, bool, str, str]:
        return (
            line.scored is not None,
            not new_reasons(line.attention),
            line.series,
            line.night,
        )

    return sorted(lines, key=order)


PAGES: dict[str, tuple[type[Document], Callable[..., str]]] = {
    "run": (RunDocument, render_run),
    "model": (ModelDocument, render_model),
    "comparison": (ComparisonDocument, render_comparison),
    "validation": (ExternalValidation, render_validation),
}
SAMPLE_TEXT = "2026-01-01"
"""Every text of a sample, so that it is a class, a column, an id and a day at once."""


def check_templates(templates: Path | None, kind: str) -> None:
    """Draw a sample page of `kind` with a site's own templates, if there are any.

    Raises
    ------
    UsageError
        Names the template and the line that ask for what no page has, or that are not
        valid.
    """
    if templates is not None:
        draw_sample(kind, templates)


def draw_sample(kind: str, templates: Path | None = None) -> str:
    """Draw a page of `kind` ("run", "model", ...) with every block."""
    document, render = PAGES[kind]
    return render(sample_of(document, count(1)), templates)


class _AnyKey(dict[str, Any]):
    """A mapping with the same value under every key."""

    def __missing__(self, key: str) -> Any:
        return self[SAMPLE_TEXT]

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under every key."""
        return self[key]


def sample_of(annotation: Any, numbers: Iterator[int]) -> Any:
    """Return a value of a type; of a document, one with every field filled.

    Parameters
    ----------
    annotation : type
        A type of a field, such as ``Sequence[float] | None``.
    numbers : iterator of int
        Every number of the sample is the next of these.
    """
    origin = get_origin(annotation)
    if origin is not None:
        return _sample_of_generic(origin, get_args(annotation), numbers)
    if annotation is bool:
        return True
    if annotation is str:
        return SAMPLE_TEXT
    if annotation is int:
        return next(numbers)
    if annotation is float:
        return next(numbers) / 1e5
    if annotation is Rule:
        return MinSensitivity(0.9)
    if issubclass(annotation, Document):
        return _sample_of_document(annotation, numbers)
    return _sample_of_dataclass(annotation, numbers)


def _sample_of_generic(
    origin: Any, args: tuple[Any, ...], numbers: Iterator[int]
) -> Any:
    """Return a value of a generic type: two items of a list, the first of a union."""
    if origin is Literal:
        return args[0]
    if origin in (Sequence, list):
        return [sample_of(args[0], numbers) for _ in range(2)]
    if origin is tuple:
        return tuple(sample_of(item, numbers) for item in args if item is not ...)
    if origin in (Mapping, dict):
        if args[1] in (Any, object):
            return {}
        return _AnyKey({SAMPLE_TEXT: sample_of(args[1], numbers)})
    # Annotated, and unions.
    return sample_of(args[0], numbers)


def _sample_of_document(kind: type[Document], numbers: Iterator[int]) -> Document:
    """Return a document with every field filled; nothing is validated."""
    fields = {
        name: sample_of(field.annotation, numbers)
        for name, field in kind.model_fields.items()
    }
    if isinstance(fields.get("threshold"), float):
        # On a page all thresholds are those of one rule.
        fields["threshold"] = 0.5
    if issubclass(kind, PopulationFigures):
        fields["figures"] = {name: sample_of(Estimate, numbers) for name in FIGURES}
    return kind.model_construct(**fields)


def _sample_of_dataclass(kind: type, numbers: Iterator[int]) -> Any:
    """Return a dataclass with every field filled; nothing is validated."""
    sample: Any = object.__new__(kind)
    for name, hint in _type_hints(kind).items():
        if hint is not ClassVar and get_origin(hint) is not ClassVar:
            object.__setattr__(sample, name, sample_of(hint, numbers))
    return sample


# Annotations are strings, which are compiled each time they are asked for.
_type_hints = cache(get_type_hints)
