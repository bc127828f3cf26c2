"""Models in memory that somebody approves."""

import datetime
from dataclasses import replace

from screening.model_selection.approving import approve
from screening.schemas.model import ModelDocument
from screening.store.model import Model


def approved(
    model: Model,
    by: str,
    date: datetime.date,
    reason: str | None = None,
    known_before: tuple[str, ...] | list[str] = (),
) -> Model:
    """Return a model with an approval, as `screen approve` writes it."""
    sealed = ModelDocument.from_dict(model.sealed)
    document = approve(sealed, by, date, reason, known_before)
    return replace(model, document=document.to_dict(), directory=None)
