"""The rows of a night in `scores.parquet`: appended as they are scored, and read in batches or by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.ledger.nights import Known
from screening.sources.parquet_rows import parquet_file

READ_ROWS = 1 << 14
# What the ledger knows of a flagged row's case.
HISTORY = {"state": pa.string(), "nights": pa.int64(), "drawn": pa.bool_()}
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")


class Rows:
    """A night's rows in a Parquet file, read in batches: memory grows with the flagged ones alone."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def appending(self) -> Iterator[Callable[[pa.Table], None]]:
        """Give the function that appends rows; the first have the columns of all."""
        with ExitStack() as stack:

            def append(rows: pa.Table) -> None:
                if not writers:
                    few = [name for name in rows.column_names if name in FEW_VALUES]
                    writer = pq.ParquetWriter(self.path, rows.schema, use_dictionary=few)
                    writers.append(stack.enter_context(writer))
                writers[0].write_table(rows)

            writers: list[pq.ParquetWriter] = []
            yield append

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the table, all columns or some."""
        with parquet_file(self.path) as table:
            # Threads would read ahead of who takes his time, and hold what they have read.
            yield from table.iter_batches(READ_ROWS, columns=columns, use_threads=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pq.read_schema(self.path)

    @cached_property
    def ranked(self) -> np.ndarray:
        """Places of the flagged rows by falling score, equal ones in the order of the table."""
        n_flagged = sum(batch["flagged"].true_count for batch in self.batches(["flagged"]))
        # Of millions each copy counts.
        places, falling = np.empty(n_flagged, np.uint32), np.empty(n_flagged)
        n_ranked = start = 0
        for batch in self.batches(["score", "flagged"]):
            mine = np.flatnonzero(batch["flagged"].to_numpy(zero_copy_only=False))
            here = slice(n_ranked, n_ranked + len(mine))
            places[here], falling[here] = start + mine, -batch["score"].to_numpy()[mine]
            start, n_ranked = start + batch.num_rows, here.stop
        return places[np.argsort(falling, kind="stable")]

    def listed(self, columns: Sequence[str], first: int = 0, last: int | None = None) -> pa.Table:
        """Some columns of the flagged rows from one place in the ranking, 0 being the first, to another."""
        places = self.ranked[first:last].astype(np.int64)
        order, start, parts = np.argsort(places), 0, []
        ascending = places[order]
        for batch in self.batches(columns):
            at, end = np.searchsorted(ascending, [start, start + batch.num_rows])
            parts.append(batch.take(pa.array(ascending[at:end] - start)))
            start += batch.num_rows
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema).take(np.argsort(order))

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Those of some ids, of groups where rows come in groups, that have no row."""
        unit, there = "group" if "group" in self.schema.names else "id", set[str]()
        wanted = pa.array(names, pa.string())
        for batch in self.batches([unit]) if names else ():
            there.update(batch[unit].filter(pc.is_in(batch[unit], wanted)).to_pylist())
        return [name for name in names if name not in there]

    def write_without(self, target: Path, gone: Callable[[pa.RecordBatch], np.ndarray]) -> None:
        """Write those rows to another file that are not gone; of a night's with the `rank` that they had."""
        ranks, start = None, 0
        if "flagged" in self.schema.names and "rank" not in self.schema.names:
            ranks = np.zeros(pq.read_metadata(self.path).num_rows, np.int64)
            ranks[self.ranked] = np.arange(1, 1 + len(self.ranked))
        with Rows(target).appending() as append:
            for batch in self.batches():
                rows = pa.Table.from_batches([batch])
                if ranks is not None:
                    mine = ranks[start : start + batch.num_rows]
                    rows = rows.append_column("rank", pa.array(mine, mask=mine == 0))
                start += batch.num_rows
                append(rows.filter(pa.array(~gone(batch))))

    def add_history(self, known: Callable[[Sequence[str]], Mapping[str, Known]]) -> None:
        """Write the rows anew with what the ledger knows of the cases of those that are flagged.

        `known`: gives the cases of some names, of groups where rows come in groups, otherwise ids.
        """
        unit = "group" if "group" in self.schema.names else "id"
        new = self.path.with_suffix(".new")
        with Rows(new).appending() as append:
            for batch in self.batches():
                cases = known(batch[unit].filter(batch["flagged"]).unique().to_pylist())
                at = pc.index_in(batch[unit], pa.array([*cases], pa.string()))
                at, rows = pc.if_else(batch["flagged"], at, None), pa.Table.from_batches([batch])
                for name, kind in HISTORY.items():
                    facts = pa.array([getattr(case, name) for case in cases.values()], kind)
                    rows = rows.append_column(name, facts.take(at))
                append(rows)
        new.replace(self.path)
        del self.schema
