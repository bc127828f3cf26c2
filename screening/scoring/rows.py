"""The rows of a night in `scores.parquet`: written as they come, read in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.errors import ModelError
from screening.files import digest_of, discard
from screening.io.arrow_files import parquet_file
from screening.store.model import OUT_OF_BOUNDS

# Rows of a row group, so that the file is the same however the table was cut.
GROUP_ROWS = 1 << 16
# Most listed rows that are read back, and sorted, at a time.
LISTED_ROWS = 1 << 14
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")
READ_ROWS = 1 << 16
# Rows in memory at a time.
PIECE_ROWS = 50_000
# What the ledger knows of a flagged row's case.
HISTORY = {"state": pa.string(), "nights": pa.int64(), "drawn": pa.bool_()}


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


@dataclass
class Rows:
    """A night's rows in a Parquet file, read in batches.

    Memory grows with the flagged rows alone.
    """

    path: Path
    _copy: ListedCopy | None = field(default=None, init=False, repr=False)

    @contextmanager
    def appending(self) -> Iterator[RowFile]:
        """Open the file to replace it."""
        file = RowFile(self.path)
        with closing(file):
            yield file
            file.finish()
        self._copy = file.copy

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the table, all columns or some."""
        with parquet_file(self.path) as table:
            # Threads would read ahead of a slow caller, and keep what they have read.
            yield from table.iter_batches(READ_ROWS, columns=columns, use_threads=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        with parquet_file(self.path) as table:
            return table.schema_arrow

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of the flagged rows, from 1 on, in the order of the table.

        Rows of equal scores rank in that order.
        """
        column = "rank" if "rank" in self.schema.names else "score"
        batches = (batch[column].to_numpy() for batch in self._flagged([column]))
        values = np.concatenate([np.zeros(0), *batches])
        if column == "rank":
            return values.astype(np.uint32)
        order = np.argsort(np.negative(values, out=values), kind="stable")
        del values
        ranks = np.empty(len(order), np.uint32)
        ranks[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
        return ranks

    def _flagged(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the flagged rows in the order of the table."""
        for batch in self._listed([*columns, "flagged"]):
            yield batch.filter(batch["flagged"]).select(columns)

    def _listed(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield at least the rows that `flagged.csv` lists, in the table's order."""
        source = self if self._copy is None else self._copy
        return source.batches(list(dict.fromkeys(columns)))

    def to_check(self, columns: Sequence[str]) -> pa.Table:
        """Return the rows that are not flagged and have a cell out of bounds.

        In the order of the table, with some columns and a `rank` of nulls.
        """
        names = [name for name in columns if name != "rank"]
        fields = [self.schema.field(name) for name in names]
        parts = []
        for batch in self._listed([*names, "flagged", OUT_OF_BOUNDS]):
            is_odd = pc.is_valid(batch[OUT_OF_BOUNDS])
            is_unflagged = pc.invert(batch["flagged"])
            parts.append(batch.filter(pc.and_(is_odd, is_unflagged)).select(names))
        rows = pa.Table.from_batches(parts, pa.schema(fields))
        return rows.append_column("rank", pa.nulls(rows.num_rows, pa.int64()))

    def flagged(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the flagged rows, and their `rank`, in batches."""
        # Read before the loop: both go through the same file.
        all_ranks = self.ranks
        start = 0
        names = [name for name in columns if name != "rank"]
        for rows in self._flagged(names):
            ranks = pa.array(all_ranks[start : start + rows.num_rows], pa.int64())
            yield rows.append_column("rank", ranks)
            start += rows.num_rows

    def first(self, columns: Sequence[str], most: int | None = None) -> pa.Table:
        """Return some columns of the flagged rows, and their `rank`, sorted by rank.

        `most`: only rows of rank 1 to `most`; fewer if patients were erased.
        """
        # The rows of a patient who was erased are missing among the ranks.
        last = self.ranks.max(initial=0) if most is None else most
        parts = [
            rows.filter(pc.less_equal(rows["rank"], last))
            for rows in self.flagged(columns)
        ]
        schema = self._ranked_schema(columns)
        return pa.Table.from_batches(parts, schema).sort_by("rank")

    def _ranked_schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return some columns, and `rank` as the last."""
        fields = [self.schema.field(name) for name in columns if name != "rank"]
        return pa.schema([*fields, pa.field("rank", pa.int64())])

    @contextmanager
    def by_rank(self, columns: Sequence[str]) -> Iterator[list[Path]]:
        """Write the flagged rows into files of `PIECE_ROWS` ranks, the highest first.

        `ranked_rows` reads them. They lie beside this file, for as long as the context.
        """
        ends = np.arange(PIECE_ROWS, len(self.ranks), PIECE_ROWS)
        with TemporaryDirectory(dir=self.path.parent) as folder:
            pieces = [Path(folder) / str(number) for number in range(len(ends) + 1)]
            self._write_pieces(pieces, ends, columns)
            yield pieces

    def _write_pieces(
        self, pieces: Sequence[Path], ends: np.ndarray, columns: Sequence[str]
    ) -> None:
        """Write the flagged rows into files, each of the ranks up to one of `ends`."""
        schema = self._ranked_schema(columns)
        with ExitStack() as stack:
            writers = []
            for piece in pieces:
                writer = pa.ipc.new_file(str(piece), schema)
                writers.append(stack.enter_context(writer))
            for rows in self.flagged(columns):
                rows = rows.sort_by("rank")
                inner = np.searchsorted(rows["rank"].to_numpy(), ends, side="right")
                cuts = pairwise([0, *inner, rows.num_rows])
                for writer, (start, end) in zip(writers, cuts, strict=True):
                    writer.write_batch(rows.slice(start, end - start))

    def named(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some columns of the rows with an id, or else of the group so named."""
        for unit in ("id", "group"):
            if unit in self.schema.names:
                is_named = pc.field(unit) == name
                rows = pq.read_table(self.path, columns=columns, filters=is_named)
                if rows.num_rows:
                    return rows.to_pylist()
        return []

    def without_row(self, names: Sequence[str]) -> list[str]:
        """Return those ids without a row; ids of groups, if rows come in groups."""
        if not names:
            return []
        unit = self.unit
        is_named = pc.field(unit).isin(pa.array(names, pa.string()))
        named_rows = pq.read_table(self.path, columns=[unit], filters=is_named)
        present = set(named_rows[unit].to_pylist())
        return [name for name in names if name not in present]

    @property
    def unit(self) -> str:
        """Name of the column of what is reviewed as one."""
        return "group" if "group" in self.schema.names else "id"

    def write_without(
        self, target: Path, gone: Callable[[pa.RecordBatch], np.ndarray]
    ) -> None:
        """Copy the rows that are not gone to another file.

        Flagged rows keep their rank in a new column `rank`: it cannot be computed from
        the remaining scores.

        Parameters
        ----------
        target : Path
        gone : callable
            Takes a batch and returns a mask of shape (n_rows,).
        """
        names = self.schema.names
        is_numbered = "flagged" in names and "rank" not in names
        start = 0
        with Rows(target).appending() as file:
            for batch in self.batches():
                rows = pa.Table.from_batches([batch])
                if is_numbered:
                    is_flagged = batch["flagged"].to_numpy(zero_copy_only=False)
                    end = start + int(np.count_nonzero(is_flagged))
                    rank = np.zeros(len(is_flagged), np.int64)
                    rank[is_flagged] = self.ranks[start:end]
                    rows = rows.append_column("rank", pa.array(rank, mask=~is_flagged))
                    start = end
                file.append(rows.filter(pa.array(~gone(batch))))

    def add_history(self, known: Callable[[Sequence[str]], Mapping[str, Any]]) -> None:
        """Add what the ledger knows of the flagged rows' cases.

        Parameters
        ----------
        known : callable
            Returns the cases of some ids, or of groups if rows come in groups.
        """
        unit = self.unit
        new = Rows(self.path.with_suffix(".new"))
        with new.appending() as file:
            for batch in self.batches():
                cases = known(batch[unit].filter(batch["flagged"]).unique().to_pylist())
                number = pc.index_in(batch[unit], pa.array([*cases], pa.string()))
                number = pc.if_else(batch["flagged"], number, None)
                rows = pa.Table.from_batches([batch])
                for name, kind in HISTORY.items():
                    facts = [getattr(case, name) for case in cases.values()]
                    rows = rows.append_column(name, pa.array(facts, kind).take(number))
                file.append(rows)
        new.path.replace(self.path)
        self._copy = new._copy
        del self.schema


def ranked_rows(piece: Path) -> pa.Table:
    """Return the rows of a file that `Rows.by_rank` wrote, sorted by rank."""
    with pa.OSFile(str(piece)) as file:
        return pa.ipc.open_file(file).read_all().sort_by("rank")


def refuse_altered(path: Path, digest: str) -> None:
    """Raise ModelError if a run's file is missing, or not as it was written."""
    if not path.is_file() or digest_of(path) != digest:
        raise ModelError(
            f"{path} is missing or damaged: its digest does not match; score the night "
            "again"
        )
