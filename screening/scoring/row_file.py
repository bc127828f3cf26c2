"""Writing `scores.parquet`: by one process, of row groups that any process encodes.

A row group holds the rows that were scored of `GROUP_ROWS` rows of the table, so that
the file is the same however the table was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.files import discard
from screening.io.parquet_join import ParquetJoin
from screening.store.model import OUT_OF_BOUNDS

# Rows of the table whose scored rows are a row group.
GROUP_ROWS = 1 << 16
# Most listed rows that are read back, and sorted, at a time.
LISTED_ROWS = 1 << 14
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")


@dataclass(frozen=True)
class EncodedGroups:
    """Consecutive rows of `scores.parquet`, encoded as far as row groups are whole.

    Parameters
    ----------
    before : pyarrow.Table
        Rows of a row group that begins above them.
    groups : buffer, Path or None
        A Parquet file of whole row groups; a path is removed once it is appended.
    after : pyarrow.Table
        Rows of a row group that ends below them.
    listed : pyarrow.Table
        Those rows of `groups` that `flagged.csv` lists.
    """

    before: pa.Table
    groups: pa.Buffer | Path | None
    after: pa.Table
    listed: pa.Table


def unencoded(rows: pa.Table) -> EncodedGroups:
    """Return rows that are encoded when they are written."""
    none = rows.schema.empty_table()
    return EncodedGroups(before=rows, groups=None, after=none, listed=none)


class RowGroupEncoder:
    """Encodes consecutive rows of `scores.parquet`, each row group once it is whole.

    Parameters
    ----------
    path : Path, optional
        File to write the row groups to; they are kept in memory by default.
    """

    def __init__(self, path: Path | None = None):
        self._path = path
        self._groups = _RowGroups()
        self._numbers = range(0)
        self._before: list[pa.Table] = []
        self._after: list[pa.Table] = []
        self._listed: list[pa.Table] = []
        self._sink: Any = None
        self._writer: Any = None

    def append(self, rows: pa.Table, numbers: range) -> None:
        """Append the rows that were scored of the rows `numbers` of the table.

        Parameters
        ----------
        rows : pyarrow.Table
            With the numbers of the rows in the column `row`, ascending.
        numbers : range
            Counted from 1.
        """
        first = self._numbers.start or numbers.start
        self._numbers = range(first, numbers.stop)
        for number, group in self._groups.add(rows):
            self._add_group(number, group)

    def _add_group(self, number: int, group: pa.Table) -> None:
        """Encode a row group, or keep its rows if it has others above or below."""
        start = number * GROUP_ROWS + 1
        if start < self._numbers.start:
            self._before.append(_copy(group))
        elif start + GROUP_ROWS > self._numbers.stop:
            self._after.append(_copy(group))
        else:
            if self._writer is None:
                self._sink = pa.BufferOutputStream()
                if self._path is not None:
                    self._sink = pa.OSFile(str(self._path), "wb")
                self._writer = _open_writer(self._sink, group.schema)
            self._writer.write_table(group)
            self._listed.append(group.filter(is_listed(group)))

    def finish(self) -> EncodedGroups | None:
        """Return all rows; None if there are none."""
        for number, group in self._groups.rest():
            self._add_group(number, group)
        kept = [*self._before, *self._listed, *self._after]
        if not kept:
            return None
        groups = None
        if self._writer is not None:
            self._writer.close()
            groups = self._path or self._sink.getvalue()
            self._sink.close()
        none = kept[0].schema.empty_table()
        return EncodedGroups(
            before=pa.concat_tables([none, *self._before]),
            groups=groups,
            after=pa.concat_tables([none, *self._after]),
            listed=pa.concat_tables([none, *self._listed]),
        )


def _copy(rows: pa.Table) -> pa.Table:
    """Copy rows, which as a slice would be pickled together with all others."""
    return rows.take(np.arange(rows.num_rows))


def _open_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a Parquet file of rows."""
    few = [name for name in schema.names if name in FEW_VALUES]
    return pq.ParquetWriter(sink, schema, use_dictionary=few)


def _encode(schema: pa.Schema, groups: Iterable[pa.Table] = ()) -> pa.Buffer:
    """Return a Parquet file of row groups."""
    sink = pa.BufferOutputStream()
    with _open_writer(sink, schema) as writer:
        for group in groups:
            writer.write_table(group)
    return sink.getvalue()


class _RowGroups:
    """Gathers rows until their row group is whole."""

    def __init__(self) -> None:
        self._number = 0
        self._rows: list[pa.Table] = []

    def add(self, rows: pa.Table, n_above: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """Add further rows, and yield each row group that ended above them.

        `n_above` is the number of rows above them, which counts if the rows have no
        number.
        """
        for number, group in _by_row_group(rows, n_above):
            if number != self._number:
                yield from self.rest()
                self._number = number
            self._rows.append(group)

    def rest(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the row group that was gathered last, with its number."""
        if self._rows:
            yield self._number, pa.concat_tables(self._rows).combine_chunks()
        self._rows = []


def _by_row_group(rows: pa.Table, n_above: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of each row group, with those of the rows that it has."""
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
        The rows that `flagged.csv` lists; None until the first rows are appended.
    """

    def __init__(self, path: Path):
        self.path = path
        self.copy: ListedCopy | None = None
        self._file: ParquetJoin | None = None
        self._n_rows = 0
        self._groups = _RowGroups()

    def append(self, rows: pa.Table) -> None:
        """Append rows; the first have the columns of all."""
        if self._file is None:
            self._open(rows.schema)
        self._list(rows.filter(is_listed(rows)))
        for _, group in self._groups.add(rows, self._n_rows):
            self._write(_encode(group.schema, [group]))
        self._n_rows += rows.num_rows

    def append_encoded(self, rows: EncodedGroups) -> None:
        """Append rows of which whole row groups are encoded."""
        self.append(rows.before)
        if rows.groups is not None:
            self._write_gathered()
            self._write(rows.groups)
            self._list(rows.listed)
        self.append(rows.after)

    def _open(self, schema: pa.Schema) -> None:
        """Begin the file, and the copy of listed rows."""
        self._file = ParquetJoin(self.path)
        # A file without rows has columns.
        self._write(_encode(schema))
        self.copy = ListedCopy(self.path.parent, schema)

    def _list(self, rows: pa.Table) -> None:
        assert self.copy is not None, "`append` opens it"
        self.copy.append(rows)

    def _write_gathered(self) -> None:
        """Write the row group that was gathered last, which is whole."""
        for _, group in self._groups.rest():
            self._write(_encode(group.schema, [group]))

    def _write(self, groups: pa.Buffer | Path) -> None:
        assert self._file is not None, "`append` opens it"
        if isinstance(groups, Path):
            self._file.append_file(groups)
            groups.unlink()
        else:
            self._file.append(memoryview(groups))

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        try:
            self._write_gathered()
        finally:
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
        finalize(self, discard, self._file)

    def append(self, rows: pa.Table) -> None:
        """Append rows that are listed."""
        self._writer.write_table(rows, max_chunksize=LISTED_ROWS)

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
