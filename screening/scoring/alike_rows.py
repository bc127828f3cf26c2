"""Rows of a night that agree in everything but their number: possibly one patient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.io.columns import absent
from screening.schemas.run import AlikeRow

# Rows of a table that are compared: the first ones.
MAX_ROWS = 100_000
# Share of rows that agree with another from which values tell nobody apart, and the
# number of rows up to which that is not judged.
MAX_SHARE = 0.05
MIN_ROWS = 4


@dataclass(frozen=True)
class RowContents:
    """Contents of some rows, by hash.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n_rows,)
        Of everything but the numbers of row and patient.
    rows : ndarray of int64, shape (n_rows,)
    ids, patients : ndarray of str, shape (n_rows,)
    flagged : ndarray of bool, shape (n_rows,)
    """

    hashes: np.ndarray
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
            has_value |= ~absent(values)
        compared = np.flatnonzero(has_value & (batch.rows <= MAX_ROWS))
        if not len(compared):
            return ()
        columns = {**batch.values, **(batch.raw or {})}
        for name, texts in {**(batch.display or {}), **(batch.subgroups or {})}.items():
            columns.setdefault(name, texts)
        if batch.time is not None:
            columns["time of the row"] = batch.time
        numbers = {contract.id, contract.group}
        frame = pd.DataFrame(
            {
                name: values[compared]
                for name, values in columns.items()
                if name not in numbers
            }
        )
        hashes = pd.util.hash_pandas_object(frame, index=False, categorize=False)
        patients = batch.id if batch.group is None else batch.group
        contents = cls(
            hashes.to_numpy(),
            batch.rows[compared],
            batch.id[compared],
            patients[compared],
            flagged[compared],
        )
        return (contents,)


def alike_rows(parts: Sequence[RowContents], has_group: bool) -> list[AlikeRow]:
    """Return the rows that agree with one of another patient, in the order of rows.

    Empty where so many do that values tell nobody apart.
    """
    if not parts:
        return []
    table = pd.DataFrame(
        {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in RowContents.__dataclass_fields__
        }
    )
    by_contents = table.groupby("hashes", sort=False)
    alike = table[by_contents["patients"].transform("nunique") > 1]
    if len(alike) > max(MIN_ROWS, MAX_SHARE * len(table)):
        return []
    found = []
    for _, rows in alike.groupby("hashes", sort=False):
        for row in rows.to_dict("records"):
            others = rows.loc[rows["patients"] != row["patients"], "rows"]
            line = AlikeRow(
                id=row["ids"],
                group=row["patients"] if has_group else None,
                row=row["rows"],
                other=int(others.iloc[0]),
                flagged=row["flagged"],
            )
            found.append(line)
    return sorted(found, key=lambda line: line.row)
