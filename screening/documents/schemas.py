"""The documents by name, and their JSON Schemas."""

from __future__ import annotations

from screening.documents.comparison import ComparisonDocument
from screening.documents.history import HistoryDocument
from screening.documents.model import ModelDocument
from screening.documents.overview import OverviewDocument
from screening.documents.run import RunDocument
from screening.documents.shape import schema
from screening.errors import UsageError

DOCUMENTS = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "history": HistoryDocument,
    "overview": OverviewDocument,
}


def schema_of(name: str) -> dict[str, object]:
    """The JSON Schema of a document by its name (UsageError where there is none)."""
    if name not in DOCUMENTS:
        raise UsageError(f"no document {name!r}; there are {', '.join(DOCUMENTS)}")
    return schema(DOCUMENTS[name])
