"""The documents by name, from stored JSON to their types, and their JSON Schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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

T = TypeVar("T")

# What sealing adds once the page is drawn.
UNSEALED = {"format_version": FORMAT_VERSION, "arrays_sha256": "", "validation_sha256": "", "sha256": ""}


def _reader(declared: type[T], name: str, unsealed: Table | None = None) -> Callable[[Table], T]:
    """The function that makes of stored JSON its type; what `unsealed` has may be missing from it."""
    return lambda stored: read(declared, {**(unsealed or {}), **stored}, name)


model_in = _reader(ModelDocument, "model.json", UNSEALED)
run_model_in = _reader(RunModel, "model.json")
run_in = _reader(RunDocument, "run.json")
source_in = _reader(SourceFacts, "the source")
comparison_in = _reader(
    ComparisonDocument, "comparison.json", {"format_version": FORMAT_VERSION, "sha256": ""}
)
validation_in = _reader(ExternalValidation, "validation.json")
history_in = _reader(HistoryDocument, "the history")
case_in = _reader(ExplainedCase, "run.json")

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
