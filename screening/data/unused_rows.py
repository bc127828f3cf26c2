"""Rows of a night that are not scored because a value they need cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from screening.contract.violations import (
    NEEDED,
    NEEDED_OUT_OF_BOUNDS,
    NEEDED_UNREADABLE,
    NOT_TAKEN,
    Fault,
)
from screening.data.cohort import Cohort
from screening.data.observers import CheckedBlock, Observer

# Rows that a page lists: nobody reads more. All are counted.
MAX_LISTED = 200

CellFault: TypeAlias = Literal["out_of_bounds", "unreadable", "missing"]
Treatment: TypeAlias = Literal["left_out", "not_taken"]
_FAULTS: Mapping[str, CellFault] = {
    NEEDED_OUT_OF_BOUNDS: "out_of_bounds",
    NEEDED_UNREADABLE: "unreadable",
    NOT_TAKEN: "out_of_bounds",
    "missing": "missing",
}


@dataclass(frozen=True)
class UnusedCell:
    """A cell for which its row is not scored.

    Parameters
    ----------
    id : str
    group : str or None
    row : int
        Number of the row in the table, counted from 1.
    column : str
    fault : {"out_of_bounds", "unreadable", "missing"}
    value : float or None
        The number that is out of bounds.
    treatment : {"left_out", "not_taken"}
        The row has no score, or another row of the same unit was scored.
    display : mapping of str to str, optional
        Texts that the contract shows beside a row.
    """

    id: str
    group: str | None
    row: int
    column: str
    fault: CellFault
    value: float | None
    treatment: Treatment
    display: Mapping[str, str | None] | None


@dataclass(frozen=True)
class UnusedCells:
    """Cells for which rows are not scored; those of consecutive rows add up.

    Parameters
    ----------
    n_cells : Counter
        Number of cells of each treatment.
    first : tuple of UnusedCell
        The first `MAX_LISTED`, in the order of the table.
    """

    n_cells: Counter[str] = field(default_factory=Counter)
    first: tuple[UnusedCell, ...] = ()

    def __add__(self, other: UnusedCells) -> UnusedCells:
        first = self.first + other.first
        return UnusedCells(self.n_cells + other.n_cells, first[:MAX_LISTED])

    @classmethod
    def of(
        cls, rows: Cohort, faults: Sequence[Fault], treatment: Treatment
    ) -> UnusedCells:
        """Return the cells of some rows.

        Parameters
        ----------
        rows : Cohort
            All rows of a block, with the values as they were read.
        faults : sequence of Fault
            Of the kinds that leave a row without a score.
        treatment : {"left_out", "not_taken"}
        """
        n_cells: Counter[str] = Counter()
        cells = []
        for column, kind, mask in faults:
            positions = np.flatnonzero(mask)
            if not positions.size:
                continue
            n_cells[treatment] += int(positions.size)
            cells += [
                _cell_at(rows, int(position), column, _FAULTS[kind], treatment)
                for position in positions[:MAX_LISTED]
            ]
        cells.sort(key=lambda cell: cell.row)
        return cls(n_cells, tuple(cells[:MAX_LISTED]))


def unused_cells(block: CheckedBlock) -> UnusedCells:
    """Return the cells of a block for which rows are left out or not taken."""
    features = block.rows.contract.features
    causes = [
        (column, kind, mask)
        for column, kind, mask in block.faults.left_out
        if kind in NEEDED and features[column].missing == "leave_out"
    ]
    left_out = UnusedCells.of(block.rows, causes, "left_out")
    return left_out + UnusedCells.of(block.rows, block.faults.not_taken, "not_taken")


class UnusedRows(Observer):
    """Lists the cells for which rows that are to be scored are left out.

    Attributes
    ----------
    cells : UnusedCells
        Of the rows read so far.
    """

    counter = staticmethod(unused_cells)

    def __init__(self) -> None:
        self.cells = UnusedCells()

    def add(self, counts: UnusedCells) -> None:
        """Take in the cells of the next rows."""
        self.cells += counts


def _cell_at(
    rows: Cohort, position: int, column: str, fault: CellFault, treatment: Treatment
) -> UnusedCell:
    """Return one cell of a block, with what identifies its row."""
    display = {name: texts[position] for name, texts in (rows.display or {}).items()}
    value = None
    if fault == "out_of_bounds":
        value = float(rows.values[column][position])
    return UnusedCell(
        id=rows.id[position],
        group=None if rows.group is None else rows.group[position],
        row=int(rows.rows[position]),
        column=column,
        fault=fault,
        value=value,
        treatment=treatment,
        display=display or None,
    )
