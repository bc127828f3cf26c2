"""Parquet, Arrow and Feather files: their rows batch by batch; and small tables kept as Parquet."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from screening.errors import CohortError
from screening.files import refuse_other_bytes
from screening.io.columns import Columns, is_text
from screening.io.readers import Batches, TableFile

# What a footer may hold, in bytes and entries: 50,000 columns in a thousand row groups have not more.
MOST_FOOTER_BYTES, MOST_FOOTER_ENTRIES = 100_000_000, 1_000_000


def parquet_file(source: Path | io.BytesIO) -> pq.ParquetFile:
    """A Parquet file, opened so that neither its footer nor a row group is held whole without need."""
    return pq.ParquetFile(
        source,
        # Else a whole row group would be held, which may be the whole file.
        pre_buffer=False,
        buffer_size=1 << 16,
        thrift_string_size_limit=MOST_FOOTER_BYTES,
        thrift_container_size_limit=MOST_FOOTER_ENTRIES,
    )


class ParquetFile(TableFile):
    """A Parquet file."""

    kind, suffixes = "Parquet", (".parquet", ".pq")

    @staticmethod
    def knows(path: Path, head: bytes) -> bool:
        return head.startswith(b"PAR1")

    def read_header(self) -> None:
        refuse_other_bytes(self.path)
        with parquet_file(self.path) as file:
            self.header, self.note = list(file.schema_arrow.names), self.kind

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        with parquet_file(self.path) as file:
            row = 1
            for batch in file.iter_batches(batch_size=batch_rows, columns=wanted, use_threads=False):
                _refuse_other_texts(batch, self.name, row)
                row += batch.num_rows
                yield batch.select(wanted)


class ArrowFile(TableFile):
    """An Arrow or Feather file."""

    kind, suffixes = "Arrow", (".arrow", ".feather")

    @staticmethod
    def knows(path: Path, head: bytes) -> bool:
        return head.startswith(b"ARROW1")

    def read_header(self) -> None:
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
            self.header, self.note = list(file.schema.names), self.kind

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                yield batch.select(wanted)


def _refuse_other_texts(batch: pa.RecordBatch, name: str, first: int) -> None:
    """CohortError where a text is not UTF-8, as Parquet says: Arrow reads it, and stumbles over it later."""
    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        if not is_text(cells):
            continue
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid:
            texts = (text or b"" for text in cells.cast(pa.large_binary()).to_pylist())
            position = next(
                i for i, text in enumerate(texts) if text.decode(errors="ignore").encode() != text
            )
            raise CohortError(
                f"{name}, column '{column}', row {first + position}: a text that is not UTF-8; "
                "write the file again with its texts as UTF-8"
            ) from None


def small_table(columns: Columns) -> bytes:
    """A Parquet table in memory, the same whichever pandas is there."""
    stream = io.BytesIO()
    pq.write_table(
        pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()}), stream
    )
    return stream.getvalue()


def read_small_table(content: bytes) -> Columns:
    """Read a Parquet table from memory; ValueError where it is damaged."""
    try:
        table = pq.read_table(io.BytesIO(content), use_threads=False)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the held-out table is damaged ({type(error).__name__})") from None
    return {name: table[name].to_numpy() for name in table.column_names}
