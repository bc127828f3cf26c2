"""Take one row of each unit, such as a stay that is scored every hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.errors import CohortError
from screening.identity.hashes import HASH_KEY, keyed_hashes
from screening.io.columns import Columns

ScoreOfRows: TypeAlias = Callable[[Columns], np.ndarray]
"""Scores of rows by their features, shape (n_rows,), higher for more suspicious; NaN
where a row has none."""

TAKEN_ROW = {
    "max": "the row with the most suspicious score",
    "last": "the last row with a score",
    "first": "the first row with a score",
}


class RowChoice:
    """Chooses the row of each unit, in blocks of a table of any length.

    Parameters
    ----------
    take : {"max", "last", "first"}
        See `contract.ScorePerUnit`.
    score_of : ScoreOfRows
    """

    def __init__(
        self, take: Literal["max", "last", "first"], score_of: ScoreOfRows
    ) -> None:
        self._take = take
        self._score_of = score_of
        self._blocks: list[pd.DataFrame] = []

    def add(self, rows: Cohort) -> None:
        """Take in the next rows of the table."""
        score = self._score_of(rows.values)
        time = np.zeros(rows.n_rows, np.int64)
        if rows.time is not None:
            time = rows.time.astype("datetime64[us]").astype(np.int64)
        block = pd.DataFrame(
            {
                "unit": keyed_hashes(rows.id, HASH_KEY),
                "row": rows.rows,
                "time": time,
                "score": score,
                "has_score": ~np.isnan(score),
            }
        )
        self._blocks.append(self._chosen(block))

    def rows(self) -> np.ndarray:
        """Return the numbers of the rows that are taken, in ascending order."""
        if not self._blocks:
            return np.zeros(0, np.int64)
        chosen = self._chosen(pd.concat(self._blocks))
        return np.sort(chosen["row"].to_numpy())

    def _chosen(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the row of each unit that is taken."""
        keys = ["has_score", "time", "row"]
        if self._take == "max":
            keys = ["has_score", "score", "time", "row"]
        ascending = [key == "has_score" or self._take != "first" for key in keys]
        return rows.sort_values(keys, ascending=ascending).drop_duplicates(
            "unit", keep="last"
        )


def one_row_per_unit(cohort: Cohort, score_of: ScoreOfRows | None) -> Cohort:
    """Return the row of each unit that the contract takes, noted; all rows without.

    Raises
    ------
    CohortError
        Rows of one unit have different labels.
    """
    per_unit = cohort.contract.per_unit
    if per_unit is None or score_of is None:
        return cohort
    if cohort.label is not None:
        labels = pd.Series(cohort.label).groupby(cohort.id).nunique()
        n_different = int((labels > 1).sum())
        if n_different:
            raise CohortError(
                f"column '{cohort.contract.label}': rows of one '{per_unit.per}' have "
                f"different labels in {n_different} units; give all rows of a unit "
                "the same label"
            )
    choice = RowChoice(per_unit.take, score_of)
    choice.add(cohort)
    taken = cohort.take(np.isin(cohort.rows, choice.rows()))
    note = note_on_units(cohort.contract, taken.n_rows, cohort.n_rows)
    return replace(taken, notes=[*cohort.notes, note])


def note_on_units(contract: Contract, n_units: int, n_rows: int) -> str:
    """Return the note that one row of each unit is used."""
    assert contract.per_unit is not None, "only if the contract says so"
    row = TAKEN_ROW[contract.per_unit.take]
    unit = contract.per_unit.per
    return f"{n_units} of {n_rows} rows are used: for each {unit}, {row}"
