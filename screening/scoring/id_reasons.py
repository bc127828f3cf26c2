"""What is wrong with the ids of a night's table: their writing, and collisions."""

from __future__ import annotations

import numpy as np

from screening.data.observed_ids import rows_in_words
from screening.data.stream import CohortStream
from screening.identity.shapes import has_lost_zeros, id_shape, other_shape
from screening.report import format as fmt
from screening.schemas.base import Reason
from screening.schemas.model import IdShape
from screening.schemas.reasons import (
    IDS_COLLIDE,
    IDS_OF_ANOTHER_SHAPE,
    IDS_REWRITTEN,
)
from screening.schemas.run import RunDocument
from screening.scoring.summary import Summary

# Findings after which other systems may not recognise the ids of a run.
_OF_WRITING = (IDS_OF_ANOTHER_SHAPE, IDS_REWRITTEN, IDS_COLLIDE)


def reasons_of_ids(
    summary: Summary, stream: CohortStream, has_ledger: bool
) -> list[Reason]:
    """Return reasons why ids may match no patient, or one patient has several ids.

    Parameters
    ----------
    summary : Summary
    stream : CohortStream
    has_ledger : bool
        Without a ledger no patient is recognised by an id, so another hospital's ids
        may be different. But an id without its leading zeros is wrong, and its patient
        is not found.
    """
    reasons = []
    for column, differences in _differences(summary, has_ledger):
        text = "; ".join(differences)
        reason = IDS_OF_ANOTHER_SHAPE(column=column, differences=text)
        reasons.append(reason)
    for column, colliding in stream.ids.colliding().items():
        words = rows_in_words(stream.source, colliding)
        reasons.append(IDS_COLLIDE(column=column, figure=len(colliding), rows=words))
    rewritten = stream.ids.counts.rewritten
    if any(rows.size for rows in rewritten):
        rows = np.unique(np.concatenate(rewritten))
        reason = IDS_REWRITTEN(
            column=stream.ids.reader.patient,
            figure=len(rows),
            rows=rows_in_words(stream.source, rows),
            share=fmt.plural(len(rows), "id"),
        )
        reasons.append(reason)
    return reasons


def note_on_writing(run: RunDocument) -> str | None:
    """Return a note for other systems about how a run's ids are written.

    None for ids that are written as always.
    """
    found = () if run.delivery is None else run.delivery.found
    if not any(reason.code in found for reason in _OF_WRITING):
        return None
    return (
        "ids of this run are written differently than before, and were accepted; "
        "other systems may not recognise the patients"
    )


def _differences(summary: Summary, has_ledger: bool) -> list[tuple[str, list[str]]]:
    """Return by column in what tonight's ids are written unlike those of training."""
    training = summary.model.facts.training
    contract = summary.model.contract
    groups = None
    if summary.groups is not None:
        groups = summary.groups["group"].to_numpy()
    columns = [
        (contract.id, training.ids, summary.first_ids()),
        (contract.group, training.group_ids, groups),
    ]
    found = []
    for column, trained, names in columns:
        if column is None or names is None:
            continue
        differences = _other(trained, id_shape(names, trained), has_ledger)
        if differences:
            found.append((column, differences))
    return found


def _other(
    trained: IdShape | None, tonight: IdShape | None, has_ledger: bool
) -> list[str]:
    if (
        trained is None
        or tonight is None
        or not (has_ledger or has_lost_zeros(trained, tonight))
    ):
        return []
    return other_shape(trained, tonight)
