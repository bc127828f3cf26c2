"""Cells that were refused or out of bounds, for the source of a table.

A line names the row and the column and says why, never the cell's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from screening.contract.violations import (
    FAULTS,
    NEEDED_OUT_OF_BOUNDS,
    OUT_OF_BOUNDS,
)
from screening.data.observers import CheckedBlock, Observer

SCHEMA = pa.schema(
    {
        "file": pa.string(),
        "row": pa.int64(),
        "id": pa.string(),
        "column": pa.string(),
        "reason": pa.string(),
    }
)


def refused_cells(block: CheckedBlock) -> tuple[pa.Table, ...]:
    """Return a line for each cell of a block that has a fault, in the order of rows.

    Cells out of bounds, which refuse no row, have one too.
    """
    parts = []
    for column, kind, mask in [*block.faults.left_out, *block.faults.unused]:
        rows = np.flatnonzero(mask)
        if not rows.size:
            continue
        reason, _ = FAULTS[kind]
        if kind in (OUT_OF_BOUNDS, NEEDED_OUT_OF_BOUNDS):
            low, high = block.bounds[column]
            reason = f"out of bounds: under {low:.6g}"
            if np.isfinite(high):
                reason += f" or over {high:.6g}"
        if kind == NEEDED_OUT_OF_BOUNDS:
            reason += "; no score without the value"
        numbers = block.first_row + rows
        ids = block.rows.id[rows]
        parts.append(_lines(block.file, numbers, ids, column, reason))
    if not parts:
        return ()
    order = [("row", "ascending"), ("column", "ascending")]
    return (pa.concat_tables(parts).sort_by(order),)


class RefusedCells(Observer):
    """Writes a line for each cell that is refused or out of bounds.

    Parameters
    ----------
    write : callable
        Takes lines, in the order of the table.
    """

    counter = staticmethod(refused_cells)

    def __init__(self, write: Callable[[pa.Table], None]) -> None:
        self._write = write

    def add(self, counts: Sequence[pa.Table]) -> None:
        """Write the lines of the next rows."""
        for lines in counts:
            self._write(lines)

    def add_repeated_ids(self, file: str, column: str, rows: np.ndarray) -> None:
        """Write a line for each row with a repeated id; the id itself is not stored."""
        reason, _ = FAULTS["repeated_id"]
        self._write(_lines(file, rows, [None] * rows.size, column, reason))


def _lines(
    file: str,
    rows: np.ndarray,
    ids: np.ndarray | Sequence[None],
    column: str,
    reason: str,
) -> pa.Table:
    """Return a line for each of some rows, which have the same fault in one column."""
    lines = {
        "file": [file] * rows.size,
        "row": rows,
        "id": ids,
        "column": [column] * rows.size,
        "reason": [reason] * rows.size,
    }
    return pa.table(lines, schema=SCHEMA)
