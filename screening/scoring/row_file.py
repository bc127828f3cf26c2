"""Writing `scores.parquet`, and a copy of the rows that `flagged.csv` lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.files import discard
from screening.store.model import OUT_OF_BOUNDS

# Rows of a row group, so that the file is the same however the table was cut.
GROUP_ROWS = 1 << 16
# Most listed rows that are read back, and sorted, at a time.
LISTED_ROWS = 1 << 14
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")


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
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []

    def append(self, rows: pa.Table) -> None:
        """Append rows; the first have the columns of all."""
        if self._writer is None or self.copy is None:
            few = [name for name in rows.schema.names if name in FEW_VALUES]
            self._writer = pq.ParquetWriter(self.path, rows.schema, use_dictionary=few)
            self.copy = ListedCopy(self.path.parent, rows.schema)
        self.copy.append(rows.filter(is_listed(rows)))
        waiting = pa.concat_tables([*self._waiting, rows])
        n_whole = waiting.num_rows - waiting.num_rows % GROUP_ROWS
        for start in range(0, n_whole, GROUP_ROWS):
            group = waiting.slice(start, GROUP_ROWS)
            self._writer.write_table(group.combine_chunks())
        self._waiting = [waiting.slice(n_whole)]

    def finish(self) -> None:
        """Write the rows that wait for more of their row group."""
        if self._writer is not None:
            for rows in self._waiting:
                self._writer.write_table(rows.combine_chunks())

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class ListedCopy:
    """The rows of a file that is being written which `flagged.csv` lists.

    They are in a file without a name, so that these rows can be read again without
    decoding all.
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
