"""From stored JSON of any version to the types of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from screening.documents import reasons_in
from screening.documents.attention import DECIDED_SINCE, of_model, of_run
from screening.documents.case import ExplainedCase
from screening.documents.model import ModelDocument, SourceFacts
from screening.documents.run import RunDocument, RunModel
from screening.documents.shape import read
from screening.documents.tables import Table, WrongTypeUnder, elements, of, tables, word
from screening.documents.upgrading import CHANCES, model_of_any_version, run_of_any_version
from screening.errors import ModelError

if TYPE_CHECKING:
    from screening.documents.comparison import ComparisonDocument
    from screening.documents.history import HistoryDocument

# What sealing and the clock add once the page is drawn.
UNSEALED = {"format": 0, "arrays_sha256": "", "validation_sha256": "", "sha256": ""}


def model_in(stored: Table) -> ModelDocument:
    """The model of a `model.json` of any version, or of one that is not sealed yet."""
    with _missing_parts_named("model.json"):
        upgraded = model_of_any_version(UNSEALED | dict(stored))
    model = read(ModelDocument, upgraded, "model.json")
    return model if _decided(stored) else replace(model, attention=of_model(model))


def run_model_in(stored: Table) -> RunModel:
    """The model that a run holds, of any version."""
    with _missing_parts_named("model.json"):
        upgraded = model_of_any_version({key: stored[key] for key in stored if key not in ("id", "digest")})
    # Not read as a type of its own: building that reader again would take longer than the whole page.
    model = read(ModelDocument, upgraded, "model.json")
    parts = {each.name: getattr(model, each.name) for each in fields(model)}
    return RunModel(id=word(stored, "id"), digest=word(stored, "digest"), **parts)


def run_in(stored: Table) -> RunDocument:
    """The run of a `run.json` of any version."""
    with _missing_parts_named("run.json"):
        upgraded = run_of_any_version(stored)
    run = read(RunDocument, upgraded, "run.json")
    return run if _decided(stored) else replace(run, attention=of_run(run))


def _decided(stored: Table) -> bool:
    """Whether the document holds what deserved attention when it was made; else that is judged now."""
    return of(int, stored.get("format", 0)) >= DECIDED_SINCE and "attention" in stored


def source_in(stored: Table) -> SourceFacts:
    """What a table was read from."""
    return read(SourceFacts, stored, "the source")


def comparison_in(stored: Table) -> ComparisonDocument:
    """The comparison of a `comparison.json`, or of one that is being made."""
    from screening.documents.comparison import ComparisonDocument

    return read(ComparisonDocument, {"format": 0, "sha256": ""} | dict(stored), "comparison.json")


def history_in(told: Table) -> HistoryDocument:
    """What `screening.ledger.history` tells; reasons of early nights are bare words."""
    from screening.documents.history import HistoryDocument

    runs = [run | {"attention": reasons_in(elements(run, "attention"))} for run in tables(told, "runs")]
    return read(HistoryDocument, dict(told) | {"runs": runs}, "the history")


def case_in(stored: Table) -> ExplainedCase:
    """One row as `screen explain` tells it."""
    return read(ExplainedCase, dict.fromkeys(CHANCES) | dict(stored), "run.json")


@contextmanager
def _missing_parts_named(name: str) -> Iterator[None]:
    try:
        yield
    except KeyError as key:
        raise ModelError(f"{name} is not as this version writes it: {key.args[0]}: Field required") from None
    except WrongTypeUnder as wrong:
        raise ModelError(f"{name} is not as this version writes it: {wrong}") from None
