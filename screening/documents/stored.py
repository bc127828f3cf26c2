"""The documents by name, from stored JSON to their types, and their JSON Schemas."""

from __future__ import annotations

from screening.documents.case import ExplainedCase
from screening.documents.comparison import ComparisonDocument
from screening.documents.external_validation import ExternalValidation
from screening.documents.history import HistoryDocument
from screening.documents.model import FORMAT_VERSION, ModelDocument, SourceFacts
from screening.documents.overview import OverviewDocument
from screening.documents.run import RunDocument, RunModel
from screening.documents.shape import read, schema
from screening.documents.tables import Table
from screening.errors import UsageError

# What sealing adds once the page is drawn.
UNSEALED = {"format_version": FORMAT_VERSION, "arrays_sha256": "", "validation_sha256": "", "sha256": ""}


def model_in(stored: Table) -> ModelDocument:
    """The model of a `model.json`, or of one that is not sealed yet."""
    return read(ModelDocument, UNSEALED | dict(stored), "model.json")


def run_model_in(stored: Table) -> RunModel:
    """The model that a run holds."""
    return read(RunModel, stored, "model.json")


def run_in(stored: Table) -> RunDocument:
    """The run of a `run.json`."""
    return read(RunDocument, stored, "run.json")


def source_in(stored: Table) -> SourceFacts:
    """What a table was read from."""
    return read(SourceFacts, stored, "the source")


def comparison_in(stored: Table) -> ComparisonDocument:
    """The comparison of a `comparison.json`, or of one that is not sealed yet."""
    unsealed = {"format_version": FORMAT_VERSION, "sha256": ""}
    return read(ComparisonDocument, unsealed | dict(stored), "comparison.json")


def validation_in(stored: Table) -> ExternalValidation:
    """The external validation of a `validation.json`."""
    return read(ExternalValidation, stored, "validation.json")


def history_in(told: Table) -> HistoryDocument:
    """What `screening.ledger.history` tells."""
    return read(HistoryDocument, told, "the history")


def case_in(stored: Table) -> ExplainedCase:
    """One row as `screen explain` tells it."""
    return read(ExplainedCase, stored, "run.json")


DOCUMENTS = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "validation": ExternalValidation,
    "history": HistoryDocument,
    "overview": OverviewDocument,
}


def schema_of(name: str) -> dict[str, object]:
    """The JSON Schema of a document by its name (UsageError where there is none)."""
    if name not in DOCUMENTS:
        raise UsageError(f"no document {name!r}; there are {', '.join(DOCUMENTS)}")
    return schema(DOCUMENTS[name])
