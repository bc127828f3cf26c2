"""Read a table of outcomes: whose event was known, and when it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.parsing import parse_texts, parse_times
from screening.contract.violations import refuse_absent
from screening.data.stream import BATCH_ROWS
from screening.errors import CohortError
from screening.io.arrow_types import to_texts
from screening.io.columns import absent
from screening.io.opening import Readable, source_at

# Offset from UTC behind a time of day.
OFFSET = r"(:\d\d(?:\.\d+)?)\s*[+-]\d\d:?\d\d\s*$"


def read_outcomes(
    source: Readable,
    id_column: str,
    time_column: str,
    date_order: str | None = None,
    event_column: str | None = None,
) -> pd.DataFrame:
    """Return the outcomes that a table states, a line each.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
    id_column : str
        Column of the ids that the nights have.
    time_column : str
        Column of the time of the event. A blank cell states that there was none, which
        takes back what an earlier table said of this id. A time with a zone counts by
        the clock of that zone, as the nights' days do.
    date_order : {"dmy", "mdy"}, optional
    event_column : str, optional
        Column that names the event.

    Returns
    -------
    DataFrame
        `patient`, text, `time`, datetime64[us], NaT where there was no event, and
        `name` of the event, "" without such a column.

    Raises
    ------
    CohortError
        A column is missing, a row has no id, or a time cannot be read; rows are named
        by their numbers.
    """
    table = source_at(source)
    columns = [id_column, time_column]
    if event_column is not None:
        columns.append(event_column)
    refuse_absent(table, columns)
    patients = []
    times = []
    names = []
    faults = []
    n_rows = 0
    for file in table.files:
        for block in file.blocks(columns, BATCH_ROWS):
            ids = parse_texts(block.columns[id_column], None, strip=True).values
            cells = _without_zone(block.columns[time_column])
            of_block = parse_times(cells, date_order).values
            texts = to_texts(cells)
            is_blank = np.ones(len(ids), dtype=bool)
            if texts is not None:
                trimmed = pc.utf8_trim_whitespace(texts)
                is_empty = pc.equal(trimmed, "")
                is_blank = np.asarray(pc.fill_null(is_empty, True))
            numbers = n_rows + 1 + np.arange(len(ids))
            faults += _faults(id_column, "no id", numbers[absent(ids)])
            unread = np.isnat(of_block) & ~is_blank
            faults += _faults(
                time_column, "not a date such as 2024-01-31", numbers[unread]
            )
            name = np.full(len(ids), "", dtype=object)
            if event_column is not None:
                cells = block.columns[event_column]
                name = parse_texts(cells, None, strip=True).values
                is_unnamed = absent(name) & ~np.isnat(of_block)
                faults += _faults(event_column, "no event", numbers[is_unnamed])
            names.append(name)
            patients.append(ids)
            times.append(of_block)
            n_rows += len(ids)
    if faults:
        raise CohortError(faults)
    return pd.DataFrame(
        {
            "patient": np.concatenate([np.array([], object), *patients]),
            "time": np.concatenate([np.array([], "datetime64[us]"), *times]),
            "name": np.concatenate([np.array([], object), *names]),
        }
    )


def _without_zone(cells: pa.Array) -> pa.Array:
    """Return times as the clock of their zone shows them."""
    kind = cells.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pc.local_timestamp(cells)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.replace_substring_regex(cells, OFFSET, r"\1")
    return cells


def _faults(column: str, description: str, rows: np.ndarray) -> list[str]:
    """Return a fault that names the first of its rows; none without rows."""
    if not len(rows):
        return []
    first = ", ".join(map(str, rows[:5]))
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return [f"column '{column}', rows {first}{more}: {description}; correct the cells"]
