"""Consecutive rows of a cohort's part, read like a part of their own by whoever sees the same files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.parquet as pq

from screening.errors import UsageError
from screening.sources.csv_files import CsvForm, csv_blocks, line_places
from screening.sources.parquet_rows import parquet_tables
from screening.sources.readers import Block, DerivedPart, Part, whole_block
from screening.sources.source_files import SourceFile


class Piece(DerivedPart):
    """Some rows of a part.

    `first`: rows of the part before these; `n_rows`: all that follow where it is not said; `span`: where
    these rows lie in a plain text file, in bytes.
    """

    def __init__(
        self, part: Part, first: int = 0, n_rows: int | None = None, span: tuple[int, int] | None = None
    ):
        super().__init__(part)
        self.first, self.n_rows, self.span = first, n_rows, span

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order; where `first` is whole batches, in the blocks that the whole part has."""
        done = 0
        for block in self._quickly(columns, batch_rows):
            done += block.n_rows
            yield block
        if done != self.n_rows:
            for block in self._by_reading_on(columns, batch_rows, done):
                done += block.n_rows
                yield block
        self.rows = done

    def _quickly(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """The rows without those before; fewer where somebody else must read on."""
        part = self.part
        if not isinstance(part, SourceFile) or self.n_rows is None or not columns:
            return
        part.refuse_changed()
        wanted = list(dict.fromkeys(columns))
        if part.kind == "Parquet":
            at = self.first + 1
            for table in parquet_tables(part.path, part.name, wanted, batch_rows, self.first, self.n_rows):
                cells = {name: table[name].combine_chunks() for name in wanted}
                yield whole_block(cells, table.num_rows, at)
                at += table.num_rows
        elif isinstance(part.form, CsvForm) and self.span is not None:
            for block in csv_blocks(part.path, part.name, part.form, wanted, batch_rows, self.span):
                yield replace(block, first_row=self.first + block.first_row)
        part.refuse_changed()

    def _by_reading_on(self, columns: Sequence[str] | None, batch_rows: int, done: int) -> Iterator[Block]:
        """The rows behind so many, by reading the part from its beginning."""
        start = self.first + done
        stop = None if self.n_rows is None else self.first + self.n_rows
        for block in self.part.blocks(columns, batch_rows):
            if stop is not None and block.first_row > stop:
                return
            if block.first_row > start:
                yield block


def refuse_unseen(part: Part) -> None:
    """UsageError where no other process can read a part: the answer of a database, or a table in memory."""
    if not part.paths:
        raise UsageError(
            f"--cluster: {part.name} is no file that a worker could read; "
            "write it to Parquet first, or leave --cluster away"
        )


def pieces_of(part: Part, rows: int) -> list[Piece]:
    """A part in pieces of so many rows; whole where others could not find their rows without reading all.

    Raises UsageError: no other process can read it.
    """
    refuse_unseen(part)
    if isinstance(part, SourceFile) and part.kind == "Parquet":
        with pq.ParquetFile(part.path) as file:
            total = file.metadata.num_rows
        return [Piece(part, at, min(rows, total - at)) for at in range(0, total, rows)]
    if isinstance(part, SourceFile) and isinstance(part.form, CsvForm) and part.form.plain:
        starts, total = line_places(part.path, part.form, rows) or ([], 0)
        return [
            Piece(part, number * rows, min(rows, total - number * rows), span)
            for number, span in enumerate(itertools.pairwise(starts))
        ] or [Piece(part)]
    return [Piece(part)]
