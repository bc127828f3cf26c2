"""The rows of a Parquet file, all of them or some that stand together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from screening.errors import CohortError, of_system
from screening.sources.blocks import Block, whole_block
from screening.sources.plain_text import in_batches


def parquet_blocks(path: Path, name: str, wanted: list[str], batch_rows: int) -> Iterator[Block]:
    """Yield the wanted columns of all rows, in order."""
    first = 1
    for batch in _parquet_batches(path, name, wanted, batch_rows):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield whole_block(columns, batch.num_rows, first)
        first += batch.num_rows


def parquet_tables(
    path: Path, name: str, wanted: list[str], batch_rows: int, first: int, n_rows: int
) -> Iterator[pa.Table]:
    """So many rows of a Parquet file behind the `first` ones, in tables of `batch_rows`.

    Only the row groups that hold them are read.
    """
    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    ends = np.cumsum(sizes)
    groups = [i for i, end in enumerate(ends) if end > first and end - sizes[i] < first + n_rows]
    before = int(ends[groups[0]] - sizes[groups[0]])

    def mine() -> Iterator[pa.Table]:
        at = before
        for batch in _parquet_batches(path, name, wanted, batch_rows, groups):
            start, stop = max(first - at, 0), min(first + n_rows - at, batch.num_rows)
            at += batch.num_rows
            if start < stop:
                yield pa.Table.from_batches([batch.slice(start, stop - start)])
            if at >= first + n_rows:
                return

    yield from in_batches(mine(), batch_rows)


def _parquet_batches(
    path: Path, name: str, wanted: list[str], batch_rows: int, groups: list[int] | None = None
) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        # pre_buffer would hold a whole row group, which may be the whole file.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
            if not wanted:
                return
            for batch in file.iter_batches(
                batch_size=batch_rows, columns=wanted, use_threads=False, row_groups=groups
            ):
                yield batch
                done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise of_system(error, path) from error
        raise CohortError(f"{name}: the Parquet file is damaged behind row {done}; export it again") from None
