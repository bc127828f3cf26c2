"""Read Parquet, Arrow and Feather files batch by batch; store small tables."""

from __future__ import annotations

import io
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from screening.files import refuse_other_bytes
from screening.io.arrow_types import refuse_other_texts
from screening.io.columns import Columns
from screening.io.readers import RecordBatches, SectionedFile

# A missing value as the name of a folder, by Hive and Spark.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def parquet_file(source: Path | io.BytesIO) -> pq.ParquetFile:
    """Open a Parquet file."""
    return pq.ParquetFile(
        source,
        # Else a whole row group would be held, which may be the whole file.
        pre_buffer=False,
        buffer_size=1 << 16,
        # In nanoseconds the year 9999 is read as 1816.
        coerce_int96_timestamp_unit="us",
    )


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders of a file name, such as day=2026-03-01.

    The folders directly above the file count, the outermost first.
    """
    columns = {}
    for folder in path.absolute().parents:
        name, equals, value = folder.name.partition("=")
        if not (name and equals):
            break
        columns[unquote(name)] = None if value == NO_VALUE else unquote(value)
    return dict(reversed(columns.items()))


class ParquetFile(SectionedFile):
    """A Parquet file, whose sections are its row groups."""

    kind = "Parquet"
    suffixes = (".parquet", ".pq")
    magic = b"PAR1"

    def read_header(self) -> None:
        """Read the names of the columns; those of its folders come last."""
        refuse_other_bytes(self.path)
        with parquet_file(self.path) as file:
            names = list(file.schema_arrow.names)
            self.partition = {
                name: value
                for name, value in partition_of(self.path).items()
                if name not in names
            }
            self.header = [*names, *self.partition]
            self.note = self.kind
            groups = range(file.num_row_groups)
            self.section_rows = [file.metadata.row_group(k).num_rows for k in groups]
            self.rows = file.metadata.num_rows

    def read_sections(
        self, numbers: range, wanted: list[str], batch_rows: int
    ) -> RecordBatches:
        """Yield the rows of consecutive row groups."""
        first_row = 1 + sum(self.section_rows[: numbers.start])
        stored = [name for name in wanted if name not in self.partition]
        with parquet_file(self.path) as file:
            for batch in file.iter_batches(
                batch_size=batch_rows,
                row_groups=[*numbers],
                columns=stored or self.header[:1],
                use_threads=False,
            ):
                refuse_other_texts(batch, self.name, first_row)
                first_row += batch.num_rows
                yield self._with_partition(batch).select(wanted)

    def _with_partition(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with a column for each folder that names one."""
        for name, value in self.partition.items():
            cells = pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)
            batch = batch.append_column(name, cells)
        return batch


class ArrowFile(SectionedFile):
    """An Arrow IPC file, also called Feather, whose sections are its record batches."""

    kind = "Arrow"
    suffixes = (".arrow", ".feather")
    magic = b"ARROW1"

    def read_header(self) -> None:
        """Read the names of the columns."""
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
            self.header = list(file.schema.names)
            self.note = self.kind
        # One column is enough to count the rows.
        one_column = pa.ipc.IpcReadOptions(included_fields=[0])
        with (
            pa.memory_map(str(self.path)) as source,
            pa.ipc.open_file(source, options=one_column) as file,
        ):
            numbers = range(file.num_record_batches)
            self.section_rows = [file.get_batch(k).num_rows for k in numbers]
            self.rows = sum(self.section_rows)

    def read_sections(
        self, numbers: range, wanted: list[str], batch_rows: int
    ) -> RecordBatches:
        """Yield the rows of consecutive record batches."""
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
            for number in numbers:
                batch = file.get_batch(number)
                batch.validate(full=True)
                yield batch.select(wanted)


def small_table(columns: Columns) -> bytes:
    """Return a Parquet table in memory, the same whichever pandas is installed."""
    stream = io.BytesIO()
    arrays = {
        name: pa.array(values, from_pandas=True) for name, values in columns.items()
    }
    pq.write_table(pa.table(arrays), stream)
    return stream.getvalue()


def read_small_table(content: bytes) -> Columns:
    """Read a Parquet table from memory."""
    table = pq.read_table(io.BytesIO(content), use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}
