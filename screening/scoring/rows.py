"""The rows of a night in a file: appended as they are scored, ranked, and kept as `scores.parquet`.

The pass appends every row to a table in the unpublished directory, and whatever is said of the night is a
summary of that table. Published is the same table, with the rank of each flagged row, and with what the
ledger knows of its case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
    for it.
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
        more += [batch.display[name] for name in self.display] if batch.display is not None else []
        more += [batch.measured[self.tissue]] if self.tissue else []
        return pa.table([*self.scores.table(batch, scored).columns, *more], schema=self.schema)


class Rows:
    """A night's rows in a Parquet file, read in batches: memory does not grow with them."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def appending(self, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Give the function that appends rows."""
        # Read again in a moment, and gone then: shrinking it would only take time.
        with pq.ParquetWriter(self.path, schema, compression="none", use_dictionary=_few(schema)) as table:
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
    def flagged(self) -> np.ndarray:
        """Places of the flagged rows in the table, ascending."""
        masks = (batch["flagged"].to_numpy(zero_copy_only=False) for batch in self.batches(["flagged"]))
        return np.flatnonzero(np.concatenate([np.zeros(0, bool), *masks])).astype(np.uint32)

    @cached_property
    def ranking(self) -> np.ndarray:
        """The flagged rows by falling score, equal ones in the order of the table: numbers in `flagged`."""
        falling, start = np.empty(len(self.flagged)), 0
        for batch in self.batches(["score", "flagged"]):
            scores = batch["score"].filter(batch["flagged"]).to_numpy()
            falling[start : start + len(scores)] = -scores
            start += len(scores)
        return np.argsort(falling, kind="stable").astype(np.uint32)

    def listed(self, first: int, last: int | None, columns: Sequence[str] | None = None) -> pa.Table:
        """The flagged rows from one place in the ranking, 0 being the first, up to another."""
        return self.taken(self.flagged[self.ranking[first:last]].astype(np.int64), columns)

    def taken(self, places: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at some places, in the order of the places."""
        order, start = np.argsort(places), 0
        ascending, parts = places[order], []
        for batch in self.batches(columns):
            first, last = np.searchsorted(ascending, [start, start + batch.num_rows])
            parts.append(pa.Table.from_batches([batch]).take(ascending[first:last] - start))
            start += batch.num_rows
        rows = pa.concat_tables(parts or [pq.read_table(self.path, columns=columns)])
        return rows.take(np.argsort(order))


def write_scores(
    rows: Rows, path: Path, known: Mapping[str, Known] | None = None, drawn: Collection[str] = ()
) -> None:
    """Write `scores.parquet`: the rows with the rank of the flagged, and what the ledger knows of them.

    Of a row that is not flagged nothing is kept of what the contract wants shown beside one.

    `known`: cases by group where rows come in groups, otherwise by id. `drawn`: cases marked by lot.
    """
    unit = "group" if "group" in rows.schema.names else "id"
    kept = [field for field in rows.schema if field.name != TISSUE]
    added = {"rank": pa.int64()} | (HISTORY if known is not None else {})
    schema = pa.schema([*kept, *pa.schema(added)])
    # Of the flagged rows as they stand in the table.
    ranks, n_ranked = np.empty(len(rows.ranking), np.uint32), 0
    ranks[rows.ranking] = np.arange(1, 1 + len(ranks), dtype=np.uint32)
    with pq.ParquetWriter(path, schema, use_dictionary=_few(schema)) as table:
        for batch in rows.batches([field.name for field in kept]):
            flagged = batch["flagged"].to_numpy(zero_copy_only=False)
            facts: list[Sequence[object] | np.ndarray]
            facts = [ranks[n_ranked : n_ranked + np.count_nonzero(flagged)]]
            n_ranked += len(facts[0])
            if known is not None:
                names = batch[unit].filter(batch["flagged"]).to_pylist()
                cases = [known.get(name) for name in names]
                facts += [
                    [case and case.state for case in cases],
                    [case and case.nights for case in cases],
                    [case and name in drawn for name, case in zip(names, cases, strict=True)],
                ]
            columns = [
                pc.if_else(batch["flagged"], batch[name], None) if name.startswith(DISPLAY) else batch[name]
                for name in batch.schema.names
            ]
            columns += [
                _among(flagged, values, kind) for values, kind in zip(facts, added.values(), strict=True)
            ]
            table.write_table(pa.table(columns, schema=schema))


def _among(flagged: np.ndarray, values: Sequence[object] | np.ndarray, kind: pa.DataType) -> pa.Array:
    """A column that has values in the flagged rows alone."""
    column = np.full(len(flagged), None, dtype=object)
    column[flagged] = values
    return pa.array(column, kind)


def _few(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name in FEW_VALUES]
