"""A patient leaves a trained model: the held-out scores and what is made of them; copies of rows cannot."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from screening.cohort.id_hash import said_of_ids
from screening.documents.attention import of_model
from screening.documents.shape import plain
from screening.errors import ModelError
from screening.machines.ensembles import FoldEnsemble, as_bytes
from screening.storage.model import Model
from screening.validation.held_out import HeldOut
from screening.validation.stored_scores import held_out_scores
from screening.validation.validation import calibration_of

HELD = "held"
NAMES = ("id", "group", "unit")


def held_rows(held_out: HeldOut) -> np.ndarray:
    """Which rows of training some machine keeps a copy of, shape (n_rows,).

    All of them where a machine keeps rows made of several patients', as over-sampling does: whose they are
    cannot be told.
    """
    held = np.zeros(len(held_out.encoded.x), dtype=bool)
    for part in held_out.parts or (held_out,):
        if not isinstance(part.ensemble, FoldEnsemble) or not part.ensemble.kernel_machines:
            continue
        mine, kept = as_bytes(part.encoded.x), as_bytes(part.ensemble.union[0])
        held |= np.isin(mine, kept) if np.isin(kept, mine).all() else True
    return held


def without(model: Model, name: str, retrain_by: datetime.date, today: datetime.date) -> Model | None:
    """The model without a patient; None where its held-out scores do not name that one.

    Its figures stay as they were measured. Where the machines stand on the patient's rows, it is to be
    trained again.

    Parameters
    ----------
    name : str
        Id of a row, or of the group that rows belong to.
    retrain_by : date
        The day after which such a model scores no more; an earlier one set before stands.

    Raises
    ------
    ModelError
        Nobody else is in it.
    """
    table = model.held_out
    gone = np.zeros(table.n_rows, dtype=bool)
    for column in NAMES:
        if column in table:
            gone |= (table[column] == name).astype(bool)
    if not gone.any():
        return None
    if gone.all():
        raise ModelError("nobody else is in its held-out scores; remove the model")
    facts, rest = model.facts, table.take(~gone)
    said = f"the held-out scores of a patient were erased on {today}; the figures are as they were with them"
    training = replace(facts.training, notes=[*facts.training.notes, said])
    document = replace(facts, training=training)
    if table[HELD][gone].any():
        document = replace(document, retrain_by=min(filter(None, (retrain_by.isoformat(), facts.retrain_by))))
    document = replace(document, attention=[*of_model(document), *said_of_ids(facts)])
    # Its stored test rows are each made of two patients'; noise stands for them.
    fewer = replace(model, document=plain(document), held_out=rest, selftest=None, directory=None)
    return replace(fewer, calibration=_calibration(fewer))


def _calibration(model: Model) -> np.ndarray:
    """What p-values are ranks in, of those who are left."""
    return calibration_of(held_out_scores(model).validation, model.thresholds)
