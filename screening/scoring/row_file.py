"""Writing `scores.parquet`: by one process, of row groups that any process encodes.

A row group holds the rows that were scored of `GROUP_ROWS` rows of the table, so that
the file is the same however the table was cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.io.parquet_join import ParquetJoin
from screening.store.model import OUT_OF_BOUNDS

# Rows of the table whose scored rows are a row group.
GROUP_ROWS = 1 << 16
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")


@dataclass(frozen=True)
class EncodedGroups:
    """Consecutive rows of `scores.parquet`, encoded as far as row groups are whole.

    Parameters
    ----------
    before : pyarrow.Table
        Rows of a row group that begins above them.
    groups : buffer or None
        A Parquet file of whole row groups.
    after : pyarrow.Table
        Rows of a row group that ends below them.
    listed : pyarrow.Table
        Those rows of `groups` that `flagged.csv` lists.
    """

    before: pa.Table
    groups: pa.Buffer | None
    after: pa.Table
    listed: pa.Table


def unencoded(rows: pa.Table) -> EncodedGroups:
    """Return rows that are encoded when they are written."""
    none = rows.schema.empty_table()
    return EncodedGroups(before=rows, groups=None, after=none, listed=none)


def encode_rows(rows: pa.Table, first: int, last: int) -> EncodedGroups:
    """Encode the rows that were scored of rows `first` to `last` of the table.

    Parameters
    ----------
    rows : pyarrow.Table
        With the numbers of the rows in the column `row`, ascending.
    first, last : int
        Counted from 1.
    """
    start = -(-(first - 1) // GROUP_ROWS) * GROUP_ROWS
    end = max(last // GROUP_ROWS * GROUP_ROWS, start)
    numbers = rows["row"].to_numpy()
    above, below = np.searchsorted(numbers, [start, end], side="right").tolist()
    whole = rows.slice(above, below - above)
    groups = None
    if whole.num_rows:
        groups = _encode(whole)
    # Copies, as a slice would be pickled together with all other rows.
    return EncodedGroups(
        before=rows.take(np.arange(above)),
        groups=groups,
        after=rows.take(np.arange(below, rows.num_rows)),
        listed=whole.filter(is_listed(whole)),
    )


def _encode(rows: pa.Table) -> pa.Buffer:
    """Return a Parquet file of rows."""
    few = [name for name in rows.column_names if name in FEW_VALUES]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, use_dictionary=few) as writer:
        for _, group in _by_row_group(rows, 0):
            writer.write_table(group.combine_chunks())
    return sink.getvalue()


def _by_row_group(rows: pa.Table, n_above: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of each row group, with those of the rows that it has.

    `n_above` is the number of rows above them, which counts if the rows have no number.
    """
    if "row" in rows.column_names:
        numbers = (rows["row"].to_numpy() - 1) // GROUP_ROWS
    else:
        numbers = (n_above + np.arange(rows.num_rows)) // GROUP_ROWS
    cuts = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    for start, end in pairwise(cuts):
        yield int(numbers[start]), rows.slice(start, end - start)


class RowFile:
    """A file of rows that is being written.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    copy : ListedCopy or None
        The rows that `flagged.csv` lists; None if no row says whether it is flagged.
    """

    def __init__(self, path: Path):
        self.path = path
        self.copy: ListedCopy | None = None
        self._file: ParquetJoin | None = None
        self._n_rows = 0
        self._group = 0
        self._waiting: list[pa.Table] = []

    def append(self, rows: pa.Table) -> None:
        """Append rows; the first have the columns of all."""
        if self._file is None:
            self._open(rows.schema)
        if self.copy is not None:
            self.copy.append(rows.filter(is_listed(rows)))
        for number, group in _by_row_group(rows, self._n_rows):
            if number != self._group:
                self._write_waiting()
                self._group = number
            self._waiting.append(group)
        self._n_rows += rows.num_rows

    def append_encoded(self, rows: EncodedGroups) -> None:
        """Append rows of which whole row groups are encoded."""
        self.append(rows.before)
        if rows.groups is not None:
            self._write_waiting()
            self._write(rows.groups)
            if self.copy is not None:
                self.copy.append(rows.listed)
        self.append(rows.after)

    def _open(self, schema: pa.Schema) -> None:
        """Begin the file, and the copy of listed rows if rows are flagged."""
        self._file = ParquetJoin(self.path)
        # A file without rows has columns.
        self._write(_encode(schema.empty_table()))
        if "flagged" in schema.names:
            self.copy = ListedCopy(self.path.parent, schema)

    def _write_waiting(self) -> None:
        """Write the rows of a row group that is complete."""
        if self._waiting:
            self._write(_encode(pa.concat_tables(self._waiting)))
        self._waiting = []

    def _write(self, groups: pa.Buffer) -> None:
        assert self._file is not None, "`append` opens it"
        self._file.append(memoryview(groups))

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._write_waiting()
        if self._file is not None:
            self._file.close()


class ListedCopy:
    """The rows of a file that is being written which `flagged.csv` lists.

    They are in a file without a name: who has just written the rows need not decode all
    of them to read these.
    """

    def __init__(self, folder: Path, schema: pa.Schema):
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115
        self._writer = pa.ipc.new_stream(self._file, schema)
        finalize(self, self._file.close)

    def append(self, rows: pa.Table) -> None:
        """Append rows that are listed."""
        self._writer.write_table(rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows in their order."""
        self._writer.close()
        self._file.seek(0)
        for batch in pa.ipc.open_stream(self._file):
            yield batch.select(columns)


def is_listed(rows: pa.Table) -> pa.ChunkedArray:
    """Return a mask of rows that are flagged or have a cell out of bounds."""
    if OUT_OF_BOUNDS not in rows.schema.names:
        return rows["flagged"]
    return pc.or_(rows["flagged"], pc.is_valid(rows[OUT_OF_BOUNDS]))
