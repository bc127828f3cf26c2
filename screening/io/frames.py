"""Tables in memory as files of a source.

Any library's table is read by one way in, Arrow's C stream interface: pandas, polars,
PyArrow, DuckDB, and whatever else has `__arrow_c_stream__`.
"""

from __future__ import annotations

import hashlib
from typing import Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.io.arrow_types import to_plain_types
from screening.io.readers import (
    RecordBatches,
    Source,
    SourceFile,
    rebatch,
    refuse_header,
    update_digest,
)

# By one of these a table is known; PyArrow's dataset is scanned, and polars' lazy frame
# collected, before there is a stream.
TABLE_METHODS = ("__arrow_c_stream__", "__arrow_c_array__", "scanner", "collect")
# The digest of a table is over blocks of so many rows, however it was cut before.
DIGEST_ROWS = 1 << 16


class ArrowStream(Protocol):
    """A table of any library that streams as Arrow does, such as polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table: TypeAlias = pd.DataFrame | pa.Table | pa.RecordBatch | ArrowStream


class TableInMemory(SourceFile):
    """A table in memory, read like a file; `sha256` is over its names and values."""

    name = "table"

    def __init__(self, table: pa.Table):
        self.table = table
        self.header = list(table.column_names)
        self.rows = table.num_rows
        self.bytes = table.nbytes
        names = repr(self.header).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(names)
        for batch in rebatch(iter(table.to_batches()), DIGEST_ROWS):
            update_digest(digest, batch)
        self.sha256 = digest.hexdigest()

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order."""
        yield from self.table.select(wanted).to_batches(max_chunksize=batch_rows)


def open_table(frame: Table) -> Source:
    """Open a table in memory as a source; see `to_arrow` for what it refuses."""
    table = TableInMemory(to_arrow(frame))
    refuse_header(table)
    return Source([table], ["a table in memory"])


def is_table(value: object) -> bool:
    """Return True for a table of some library, which `to_arrow` converts or refuses."""
    return any(hasattr(value, name) for name in TABLE_METHODS)


def to_arrow(frame: Table) -> pa.Table:
    """Read a table of any library into Arrow, its columns in the few plain types.

    Parameters
    ----------
    frame : pandas, polars or PyArrow table, or anything that exports an Arrow stream
        Also a record batch, a dataset, a relation of DuckDB, and a reader, which is
        read to its end.

    Returns
    -------
    pa.Table

    Raises
    ------
    UsageError
        The object is not a table, or was not computed yet.
    CohortError
        A column has mixed or unsupported types.
    """
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    if not is_table(frame):
        raise UsageError(
            f"a cohort must be a path, or a pandas, polars or Arrow table, not {kind}"
        )
    if hasattr(frame, "collect"):
        raise UsageError(
            f"{kind} is not evaluated yet; give the result of its collect()"
        )
    if isinstance(frame, pd.DataFrame):
        return _plain(_from_pandas(frame))
    try:
        if hasattr(frame, "scanner"):
            return _plain(frame.scanner().to_table())
        return _plain(pa.table(frame))
    except (MemoryError, CohortError):
        raise
    except Exception as error:
        # A library's own message may contain values.
        raise CohortError(
            f"table: it cannot be read as Arrow ({type(error).__name__}); give each "
            "column a type that Arrow supports"
        ) from None


def _plain(table: pa.Table) -> pa.Table:
    # A table without rows may have no batch to take the types of.
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return pa.Table.from_batches([to_plain_types(batch) for batch in batches])


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    """Convert a frame column by column, so that a fault has the column's name."""
    # A named index is a column, as in the Parquet file that pandas writes.
    named = [name for name in frame.index.names if name is not None]
    absent = [name for name in named if name not in frame.columns]
    if absent:
        frame = frame.reset_index(absent)
    columns = []
    for position, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise CohortError(
                "table: the name of a column is not text; rename the column"
            )
        try:
            # By position: two columns may have one name, which is refused later.
            columns.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except (pa.ArrowException, TypeError, UnicodeEncodeError):
            raise CohortError(
                f"table: column '{name}' has mixed or unsupported types, or text that "
                "is not UTF-8; give it one plain type"
            ) from None
    return pa.table(columns, names=list(frame.columns))
