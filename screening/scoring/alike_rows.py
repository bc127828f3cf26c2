"""Rows of a night that agree in everything but their number: possibly one patient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.schemas.run import AlikeRow

# Rows of a table that are compared: the first ones.
MAX_ROWS = 20_000
# Largest expected number of pairs of rows that agree by chance. Columns are taken as
# independent, which they are not, so the bound is low.
MAX_EXPECTED = 1e-3
MULTIPLIER = np.uint64(0x100000001B3)


@dataclass(frozen=True)
class RowContents:
    """Contents of some rows, by hash.

    Parameters
    ----------
    cells : ndarray of uint64, shape (n_rows, n_columns)
        Of all columns but those of the numbers of row and patient.
    rows : ndarray of int64, shape (n_rows,)
    ids, patients : ndarray of str, shape (n_rows,)
    flagged : ndarray of bool, shape (n_rows,)
    """

    cells: np.ndarray
    rows: np.ndarray
    ids: np.ndarray
    patients: np.ndarray
    flagged: np.ndarray

    @classmethod
    def of(cls, batch: Cohort, flagged: np.ndarray) -> tuple[RowContents, ...]:
        """Return those of the first rows of a table; none for voxels, or without ids.

        A row without any value is not compared.
        """
        contract = batch.contract
        if contract.coordinates or not (contract.id or contract.group):
            return ()
        has_value = np.zeros(batch.n_rows, dtype=bool)
        for values in batch.values.values():
            has_value |= ~pd.isna(values)
        compared = np.flatnonzero(has_value & (batch.rows <= MAX_ROWS))
        if not len(compared):
            return ()
        columns = {**batch.values, **(batch.raw or {})}
        for name, texts in {**(batch.display or {}), **(batch.subgroups or {})}.items():
            columns.setdefault(name, texts)
        if batch.time is not None:
            columns["time of the row"] = batch.time.view(np.int64)
        numbers = {contract.id, contract.group}
        cells = [
            pd.util.hash_array(values[compared], categorize=False)
            for name, values in columns.items()
            if name not in numbers
        ]
        patients = batch.id if batch.group is None else batch.group
        contents = cls(
            np.column_stack(cells),
            batch.rows[compared],
            batch.id[compared],
            patients[compared],
            flagged[compared],
        )
        return (contents,)


def alike_rows(parts: Sequence[RowContents], has_group: bool) -> list[AlikeRow]:
    """Return the rows that agree with one of another patient, in the order of rows.

    Empty if two of these rows would agree by chance.
    """
    if not parts:
        return []
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in RowContents.__dataclass_fields__
    }
    cells = columns.pop("cells")
    table = pd.DataFrame(columns).assign(contents=_hashes_of_rows(cells))
    by_contents = table.groupby("contents", sort=False)
    alike = table[by_contents["patients"].transform("nunique") > 1]
    if not len(alike) or _pairs_expected(cells) > MAX_EXPECTED:
        return []
    first = alike.groupby("contents")[["rows", "patients"]].transform("first")
    is_of_first = alike["patients"] == first["patients"]
    second = alike[~is_of_first].groupby("contents")["rows"].first()
    other = first["rows"].where(~is_of_first, alike["contents"].map(second))
    found = [
        AlikeRow(
            id=row["ids"],
            group=row["patients"] if has_group else None,
            row=row["rows"],
            other=int(row["other"]),
            flagged=row["flagged"],
        )
        for row in alike.assign(other=other).to_dict("records")
    ]
    return sorted(found, key=lambda line: line.row)


def _hashes_of_rows(cells: np.ndarray) -> np.ndarray:
    """Return a hash of all cells of each row, shape (n_rows,)."""
    hashes = np.zeros(len(cells), np.uint64)
    for column in cells.T:
        hashes = (hashes ^ column) * MULTIPLIER
    return hashes


def _pairs_expected(cells: np.ndarray) -> float:
    """Return the number of pairs of rows that agree by chance in every column."""
    n_rows = len(cells)
    n_pairs = n_rows * (n_rows - 1) / 2
    expected = n_pairs
    for column in cells.T:
        _, counts = np.unique(column, return_counts=True)
        n_alike = float((counts * (counts - 1) / 2).sum())
        expected *= (n_alike + 1) / (n_pairs + 1)
    return expected
