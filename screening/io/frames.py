"""A table in memory as the source of a cohort: pandas, polars, Arrow, or whatever streams as Arrow does."""

from __future__ import annotations

import hashlib
from typing import Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.io.readers import Batches, Part, Source, refuse_header, update_digest

# Rows whose values are put into the digest at a time.
BLOCK_ROWS = 1 << 16


class ArrowStream(Protocol):
    """A table of any library that streams as Arrow does, such as polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table: TypeAlias = pd.DataFrame | pa.Table | pa.RecordBatch | ArrowStream


class TableInMemory(Part):
    """One table, read like a file; `sha256` is that of its Arrow stream."""

    name = "table"

    def __init__(self, table: pa.Table):
        self.table = table
        self.header = list(table.column_names)
        self.rows: int | None = table.num_rows
        self.bytes = table.nbytes
        # Over names and values, whatever the pieces the table came in.
        digest = hashlib.sha256(repr(table.column_names).encode("utf-8", "surrogatepass"))
        for block in table.to_batches(BLOCK_ROWS):
            update_digest(digest, block)
        self.sha256 = digest.hexdigest()

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order."""
        yield from self.table.select(wanted).to_batches(max_chunksize=batch_rows)


def source_of(frame: Table) -> Source:
    """A source over a table in memory.

    Raises UsageError: the object is no table; CohortError: a column holds values of several kinds, or two
    columns have one name.
    """
    part = TableInMemory(_arrow(frame).combine_chunks())
    refuse_header(part)
    return Source([part], ["a table in memory"])


def _arrow(frame: Table) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        if isinstance(frame, pd.DataFrame):
            return _of_pandas(frame)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError) as error:
        raise CohortError(f"table: it cannot be read as Arrow ({type(error).__name__})") from None
    raise UsageError(
        f"a cohort is a path, or a pandas, polars or Arrow table, not {type(frame).__module__}."
        f"{type(frame).__name__}"
    )


def _of_pandas(frame: pd.DataFrame) -> pa.Table:
    # A named index is a column, as it is in the Parquet file that pandas writes of the frame.
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    # Frames may give two columns one name, which the header's faults then tell.
    columns = []
    for position, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise CohortError("table: a column's name is no text; rename the columns")
        try:
            columns.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except pa.ArrowException:
            raise CohortError(
                f"table: column '{name}' holds values of several kinds, or of one that Arrow has not; "
                "give it one plain type"
            ) from None
    return pa.table(columns, names=list(frame.columns))
