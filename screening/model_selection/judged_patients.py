"""Match patients of judged rows with those of the past cohort, by id and by merges."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.errors import CohortError
from screening.identity.reduced import reduced_forms
from screening.identity.writing import BUT_FOR, colliding
from screening.ledger.merging import Merges
from screening.schemas.model import IdShape, TrainingFacts
from screening.spelling import first_of

# Rows that a message names.
ROWS_SHOWN = 5


def rows_in_past(past: Cohort, after: Cohort) -> np.ndarray:
    """Return the row of the past cohort that each judged row is, -1 for a new one.

    Found by patient and all values or, where one row of each unit is used, by the unit.
    """
    if past.contract.per_unit is not None:
        past_hashes = past.id
        hashes = after.id
    else:
        past_hashes = _hash_patients_and_values(past)
        hashes = _hash_patients_and_values(after)
    row_of_hash = {row_hash: row for row, row_hash in enumerate(past_hashes)}
    return np.array([row_of_hash.get(row_hash, -1) for row_hash in hashes], int)


def patients_of(cohort: Cohort) -> np.ndarray:
    """Return the patient of each row, as the ledger names it, (n_rows,)."""
    return cohort.id if cohort.group is None else cohort.group


def with_merged_patients(cohort: Cohort, merges: Merges, known: Set[str]) -> Cohort:
    """Return the cohort with patients by the numbers by which they are known now.

    Parameters
    ----------
    cohort : Cohort
    merges : Merges
    known : set of str
        All numbers of the tables to be joined. Without a merge among them the cohort
        stays as it is.

    Returns
    -------
    Cohort
        Rows keep their ids. The patient becomes their group, so that a patient with two
        numbers is not split by folds.
    """
    if known.isdisjoint(merges.by_old):
        return cohort
    patients = [merges.patient(name) for name in patients_of(cohort)]
    return replace(cohort, group=np.array(patients, dtype=object))


def count_rewritten(
    past: Cohort, after: Cohort, training: TrainingFacts, accepted: bool
) -> int:
    """Count rows of the past whose ids are judged ones but for the writing.

    Parameters
    ----------
    past, after : Cohort
        The past cohort, and the judged rows.
    training : TrainingFacts
        Of the champion; where many of its ids collide, reduced forms say nothing.
    accepted : bool
        A reason was given why these ids are right.

    Raises
    ------
    CohortError
        There are such rows, and they were not accepted; they are named by column.
    """
    faults = []
    rows_of_any: set[int] = set()
    for column, of_past, of_judged, shape in _id_columns(past, after, training):
        if shape is not None and shape.compared_whole:
            continue
        rows = past.rows[_is_rewritten(of_past, of_judged)].tolist()
        rows_of_any.update(rows)
        if rows:
            noun = "row" if len(rows) == 1 else "rows"
            shown = first_of(rows, ROWS_SHOWN)
            faults.append(
                f"the past cohort, column '{column}', {noun} {shown}: ids of reviewed "
                f"patients {BUT_FOR}, so one patient would count as two; write them "
                "as in the nights or, if they are other patients, confirm with "
                "`accept_delivery`"
            )
    if faults and not accepted:
        raise CohortError(faults, parameters=["accept_delivery"])
    return len(rows_of_any)


def _id_columns(
    past: Cohort, after: Cohort, training: TrainingFacts
) -> Iterator[tuple[str, np.ndarray, np.ndarray, IdShape | None]]:
    """Yield the columns of ids: name, ids of both tables, and their shape."""
    contract = past.contract
    if contract.id is not None:
        yield contract.id, past.id, after.id, training.ids
    if contract.group is not None:
        assert past.group is not None, "the contract names the column"
        assert after.group is not None, "the contract names the column"
        yield contract.group, past.group, after.group, training.group_ids


def _is_rewritten(of_past: np.ndarray, of_judged: np.ndarray) -> np.ndarray:
    """Return a mask of ids of the past that are a judged one but for the writing."""
    places = colliding(of_judged, of_past, within=False)
    return pd.Index(reduced_forms(of_past)).isin(reduced_forms(of_judged[places]))


def _hash_patients_and_values(cohort: Cohort) -> np.ndarray:
    """Hash each row's patient and values, (n_rows,)."""
    table = cohort.features.assign(**{"": patients_of(cohort)})
    return pd.util.hash_pandas_object(table, index=False).to_numpy()
