"""What names a row: an id of its own, or only its place in the table."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from screening.cohort.cohort import Cohort
from screening.documents.model import ModelDocument
from screening.documents.reason import Reason

ROW_NUMBERS = "ids_are_row_numbers"
PLACE_NAMES = r"#|nr|no|number|index|row|unnamed: \d+|__index_level_\d+__"
"""How a column is called that says where a row stands."""
INDEX_NAME = re.compile(
    rf"{PLACE_NAMES}|id|record|unnamed:\d+|(row|line|record|sample)[ _]?(nr|no|number|id)",
    re.IGNORECASE,
)
PLAIN_NUMBER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
REMEDY = "Name the column that holds the patients' ids (`--id`, or `id` in the contract)."


def row_number_ids(cohort: Cohort) -> list[Reason]:
    """Say where a row is known by its place alone, which names another patient in the next table.

    Where rows come in groups, the group names the patient.
    """
    column = cohort.contract.id
    if cohort.contract.group or cohort.contract.coordinates:
        return []
    if column is None:
        words = "No column names the patients: the ids on this page are row numbers of the table."
        return [Reason(ROW_NUMBERS, words, remedy=REMEDY)]
    if not INDEX_NAME.fullmatch(column) or not _consecutive(cohort.id):
        return []
    words = f"The ids in column '{column}' look like row numbers of the table, not like patients' ids."
    return [Reason(ROW_NUMBERS, words, column, remedy=REMEDY)]


def said_of_ids(model: ModelDocument) -> list[Reason]:
    """What a model says of its ids, which holds for every table it reads."""
    return [reason for reason in model.attention if reason.code == ROW_NUMBERS]


def _consecutive(ids: np.ndarray) -> bool:
    """Whether the ids are 0, 1, 2... or 1, 2, 3..., in any order."""
    # A number with zeros before it was written by somebody who gives numbers to patients.
    if len(ids) < 2 or not all(PLAIN_NUMBER.fullmatch(text) for text in ids):
        return False
    numbers = np.sort([int(text) for text in ids])
    return bool(numbers[0] in (0, 1) and (np.diff(numbers) == 1).all())


def keyed_lots(names: np.ndarray, key: str) -> np.ndarray:
    """A number of 64 bits for each name that nobody can tell without the key, shape (n,)."""
    return pd.util.hash_array(np.asarray(names, dtype=object), hash_key=key[:16])


def kept_half(lots: np.ndarray) -> np.ndarray:
    """The half of such numbers by which the ledger knows a unit on several nights, shape (n,)."""
    return lots & np.uint64(0xFFFFFFFF)


def kept_lot(name: str, key: str) -> int:
    """The number by which the ledger knows one unit on several nights of the model that is the key."""
    return int(kept_half(keyed_lots(np.array([name], dtype=object), key))[0])
