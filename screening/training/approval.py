"""From draft to approved: who put a model to use, and why where its validation speaks against it."""

from __future__ import annotations

import datetime
from dataclasses import replace

from screening.cohort.id_hash import said_of_ids
from screening.documents.attention import of_model
from screening.documents.model import Approval
from screening.documents.shape import plain
from screening.documents.usefulness import usefulness_of
from screening.errors import UsageError
from screening.storage.model import Model


def approve(model: Model, by: str, date: datetime.date, reason: str | None = None) -> Model:
    """Return the model with somebody's approval; another threshold or training makes it a draft again.

    Parameters
    ----------
    model : Model
    by : str
        Who answers for it.
    date : date
    reason : str, optional
        Required where the verdict of its validation is "no".

    Raises
    ------
    UsageError
        Nobody is named, or the verdict asks for a reason.
    """
    if not by.strip():
        raise UsageError("--by: name who approves the model")
    why = (reason or "").strip() or None
    draft = replace(model.facts, approval=None)
    if why is None and usefulness_of(draft).verdict == "no":
        raise UsageError(
            "--reason: validation says this model is not fit for use; say why it is used all the same"
        )
    document = replace(draft, approval=Approval(by=by.strip(), date=date.isoformat(), reason=why))
    document = replace(document, attention=[*of_model(document), *said_of_ids(draft)])
    return replace(model, document=plain(document), directory=None)


def approval_of(before: Model, after: Model) -> dict[str, object]:
    """What the ledger keeps of an approval: digests before and after, who, when and why."""
    approval = after.facts.approval
    assert approval is not None
    return {"model_before": before.digest, "model_after": after.digest, **plain(approval)}


def refuse_draft(model: Model, name: object) -> None:
    """UsageError where nobody has approved the model."""
    if model.facts.approval is None:
        raise UsageError(f"{name} is a draft: approve it first with screen approve {name} --by NAME")
