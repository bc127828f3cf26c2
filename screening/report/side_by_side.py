"""One table of models, of their validations elsewhere, and of the nights of series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from screening.metrics.figures import figures_in
from screening.report.drawing import draw
from screening.report.page import title_of
from screening.schemas.base import PopulationFigures, Reason
from screening.schemas.comparison import ExternalValidation
from screening.schemas.history import KnownNights, SeriesFacts
from screening.schemas.model import ModelDocument

N_DIGITS = 12


class ComparedPopulation(PopulationFigures):
    """Rows with labels on which a model was judged.

    Parameters
    ----------
    question : str
        Title of the model or series, with the class if several are watched.
    method : str
        Title of the model's recipe; empty where it is not known.
    model : str
        First digits of the model's digest.
    basis : str
        How the rows relate to those of training.
    place : str
        Names of the tables, or of the series.
    rows, cases : int
    attention : sequence of Reason
    """

    question: str
    method: str
    model: str
    basis: str
    place: str
    rows: int
    cases: int
    attention: Sequence[Reason] = ()


def populations_of(
    document: ModelDocument | ExternalValidation,
) -> Iterator[ComparedPopulation]:
    """Yield the rows on which a document judges a model, for each watched class."""
    if isinstance(document, ExternalValidation):
        model = document.here
        digest = document.model.digest
        basis = "another place or time"
        source = document.source
    else:
        model = document
        digest = document.sha256
        basis = "held out in training"
        source = document.training.source
    question = title_of(model)
    for point in model.points:
        summary = model.validation.summary.get(point.label)
        ranking = {} if summary is None else summary.figures
        yield ComparedPopulation(
            question=f"{question}: {point.label}" if model.multi else question,
            method=model.recipe.title,
            model=digest[:N_DIGITS],
            basis=basis,
            place=", ".join(PurePath(file.name).name for file in source.files),
            rows=point.n_positive + point.n_negative,
            cases=point.n_positive,
            figures={**ranking, **point.figures},
            attention=document.attention,
        )


def populations_of_series(series: SeriesFacts) -> Iterator[ComparedPopulation]:
    """Yield the rows of nights with outcomes, of all events and of each class."""
    outcomes = series.outcomes
    if outcomes is None:
        return
    question = series.title or series.question.label
    by_question: dict[str, KnownNights] = {question: outcomes}
    for of_class in outcomes.by_class:
        by_question[f"{question}: {of_class.label}"] = of_class
    for title, nights in by_question.items():
        yield ComparedPopulation(
            question=title,
            method="",
            model="" if series.forward is None else series.forward.model[:N_DIGITS],
            basis=f"nights {series.first} to {series.last}, by outcomes",
            place=series.series,
            rows=nights.rows,
            cases=nights.cases,
            figures=nights.figures,
        )


def render_side_by_side(
    populations: Iterable[ComparedPopulation], templates: Path | None = None
) -> str:
    """Render one page with a row for each population.

    Parameters
    ----------
    populations : iterable of ComparedPopulation
    templates : Path, optional
        Folder of a site's own templates.
    """
    return draw(
        "side_by_side.html.j2",
        {
            "banner": {
                "title": "Models and validations",
                "kind": "side by side",
                "date": "",
            },
            "populations": list(populations),
            "columns": figures_in("side_by_side"),
        },
        templates=templates,
        styles=("report.css", "stacked.css"),
        footer="models and validations side by side",
    )
