"""The rows of a night in `scores.parquet`: appended as they are scored, and read in batches or by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from screening.cohort.cohort import Cohort
from screening.contract.contract import Contract
from screening.ledger.nights import Known
from screening.sources.parquet_rows import parquet_file
from screening.storage.model import Model, ScoreColumns, Scored

READ_ROWS = 1 << 14
# Before the name of a column that the contract wants shown: it may be called as one of ours.
DISPLAY = "display_"
# What the ledger knows of a flagged row's case.
HISTORY = {"state": pa.string(), "nights": pa.int64(), "drawn": pa.bool_()}
# What a voxel run's pictures are drawn over.
TISSUE = "tissue"
# Texts of few values; a dictionary of any other column only takes time.
FEW_VALUES = ("group", "class", "predicted", "state")


def tissue_of(contract: Contract) -> str | None:
    """The first numeric feature of voxels, which their flags are drawn over."""
    numbers = (name for name, feature in contract.features.items() if feature.type == "number")
    return next(numbers, None) if contract.coordinates else None


class RowColumns:
    """The columns of a night's rows: those of `ScoreColumns`, and what is said of a row besides.

    `row` is the number of the row in the table that was read, `class` the watched class that speaks loudest
    for it. Of a row that is not flagged nothing is kept of what the contract wants shown beside one.
    """

    def __init__(self, model: Model):
        self.scores, self.watched = ScoreColumns(model), pa.array(model.watched)
        self.display, self.tissue = list(model.contract.display), tissue_of(model.contract)
        more = [("row", pa.int64()), ("class", pa.string())]
        more += [(DISPLAY + name, pa.string()) for name in self.display]
        more += [(TISSUE, pa.float64())] if self.tissue else []
        self.schema = pa.schema([*self.scores.schema, *pa.schema(more)])

    def table(self, batch: Cohort, scored: Scored) -> pa.Table:
        """One batch of rows."""
        more: list[object] = [batch.rows, self.watched.take(pa.array(scored.column))]
        if batch.display is not None:
            unseen = ~scored.flagged
            more += [pa.array(batch.display[name], pa.string(), mask=unseen) for name in self.display]
        more += [batch.measured[self.tissue]] if self.tissue else []
        return pa.table([*self.scores.table(batch, scored).columns, *more], schema=self.schema)


class Rows:
    """A night's rows in a Parquet file, read in batches: memory grows with the flagged ones alone."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def appending(self, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Give the function that appends rows."""
        with pq.ParquetWriter(self.path, schema, use_dictionary=_few(schema)) as table:
            yield table.write_table

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
        fields, ranks, start = [*self.schema], np.zeros(0, np.int64), 0
        numbered = "flagged" in self.schema.names and "rank" not in self.schema.names
        if numbered:
            fields.append(pa.field("rank", pa.int64()))
            ranks = np.zeros(pq.read_metadata(self.path).num_rows, np.int64)
            ranks[self.ranked] = np.arange(1, 1 + len(self.ranked))
        with Rows(target).appending(pa.schema(fields)) as append:
            for batch in self.batches():
                mine = ranks[start : start + batch.num_rows]
                start += batch.num_rows
                more = [pa.array(mine, mask=mine == 0)] if numbered else []
                append(pa.table([*batch.columns, *more], pa.schema(fields)).filter(pa.array(~gone(batch))))

    def add_history(self, known: Callable[[Sequence[str]], Mapping[str, Known]]) -> None:
        """Write the rows anew with what the ledger knows of the cases of those that are flagged.

        `known`: gives the cases of some names, of groups where rows come in groups, otherwise ids.
        """
        unit = "group" if "group" in self.schema.names else "id"
        schema, new = pa.schema([*self.schema, *pa.schema(HISTORY)]), self.path.with_suffix(".new")
        with Rows(new).appending(schema) as append:
            for batch in self.batches():
                cases = known(batch[unit].filter(batch["flagged"]).unique().to_pylist())
                at = pc.index_in(batch[unit], pa.array([*cases], pa.string()))
                at = pc.if_else(batch["flagged"], at, None)
                facts = [[getattr(case, name) for case in cases.values()] for name in HISTORY]
                columns = [pa.array(fact, kind) for fact, kind in zip(facts, HISTORY.values(), strict=True)]
                append(pa.table([*batch.columns, *(column.take(at) for column in columns)], schema=schema))
        new.replace(self.path)
        del self.schema


def _few(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name in FEW_VALUES]
