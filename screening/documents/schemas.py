"""The documents by name, as `screen schema` prints them."""

from screening.documents.base import Document
from screening.documents.comparison import ComparisonDocument, ExternalValidation
from screening.documents.history import HistoryDocument, OverviewDocument
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.errors import UsageError

DOCUMENTS: dict[str, type[Document]] = {
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
    return DOCUMENTS[name].model_json_schema(mode="serialization")
