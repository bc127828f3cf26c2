"""Cells that were refused or out of bounds, for the source of a table.

A line names the row and the column and says why, never the cell's value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from screening.contract.violations import (
    FAULTS,
    NEEDED_OUT_OF_BOUNDS,
    OUT_OF_BOUNDS,
    Fault,
)
from screening.io.readers import Block
from screening.monitoring.out_of_bounds import Bounds

SCHEMA = pa.schema(
    {
        "file": pa.string(),
        "row": pa.int64(),
        "id": pa.string(),
        "column": pa.string(),
        "reason": pa.string(),
    }
)


def refused_cells(
    file: str,
    block: Block,
    ids: np.ndarray,
    faults: Sequence[Fault],
    bounds: Mapping[str, Bounds],
) -> pa.Table:
    """Return a line for each cell of a block that has a fault, in the order of rows.

    Parameters
    ----------
    file : str
    block : Block
    ids : ndarray of str, shape (n_rows,)
    faults : sequence of Fault
        Also of cells out of bounds, which refuse no row.
    bounds : mapping of str to Bounds
    """
    parts = []
    for column, kind, mask in faults:
        rows = np.flatnonzero(mask)
        if not rows.size:
            continue
        reason, _ = FAULTS[kind]
        if kind in (OUT_OF_BOUNDS, NEEDED_OUT_OF_BOUNDS):
            low, high = bounds[column]
            reason = f"out of bounds: under {low:.6g}"
            if np.isfinite(high):
                reason += f" or over {high:.6g}"
        if kind == NEEDED_OUT_OF_BOUNDS:
            reason += "; no score without the value"
        numbers = block.first_row + rows
        parts.append(_lines(file, numbers, ids[rows], column, reason))
    if not parts:
        return SCHEMA.empty_table()
    order = [("row", "ascending"), ("column", "ascending")]
    return pa.concat_tables(parts).sort_by(order)


def repeated_ids(file: str, column: str, rows: np.ndarray) -> pa.Table:
    """Return a line for each row whose id repeats; the id itself is not stored."""
    reason, _ = FAULTS["repeated_id"]
    return _lines(file, rows, [None] * rows.size, column, reason)


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
