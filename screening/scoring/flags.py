"""The flagged rows of a night by falling score, in memory that does not grow with them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from screening.cohort.cohort import Cohort
from screening.sources.private_file import PrivateFile
from screening.storage.model import Scored

# Rows held before they are sorted and put away, and rows read back at a time of each sorted stretch.
HELD_ROWS = 1 << 16
READ_ROWS = 1 << 10


class Flag(NamedTuple):
    """One flagged row."""

    id: str
    group: str
    row: int
    score: float
    p_value: float
    column: int
    """The watched class that speaks loudest for it."""
    display: tuple[str | None, ...]
    """What the contract wants shown of it."""


class Flags:
    """Takes in the flagged rows of a night's batches; gives them, as often as asked, by falling score.

    Rows of one score come in the order of the table.

    Parameters
    ----------
    display : sequence of str
        Columns that the contract wants shown beside a row.
    """

    def __init__(self, display: Sequence[str]):
        self.display = list(display)
        self.n = self._n_held = 0
        texts = [(name, pa.string()) for name in ("id", "group")]
        figures = [
            ("row", pa.int64()),
            ("score", pa.float64()),
            ("p_value", pa.float64()),
            ("column", pa.int64()),
        ]
        shown = [(f"display {k}", pa.string()) for k in range(len(self.display))]
        self.schema = pa.schema([*texts, *figures, *shown])
        self._held: list[pa.RecordBatch] = []
        self._file: PrivateFile | None = None
        self._stretches: list[list[int]] = []

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Take in the flagged rows of one batch."""
        rows = np.flatnonzero(scored.flagged)
        if not len(rows):
            return
        group = np.full(len(rows), "", dtype=object) if batch.group is None else batch.group[rows]
        shown = [] if batch.display is None else [batch.display[name][rows] for name in self.display]
        figures = [batch.rows[rows], scored.score[rows], scored.p_value[rows], scored.column[rows]]
        self._held.append(pa.record_batch([batch.id[rows], group, *figures, *shown], self.schema))
        self.n += len(rows)
        self._n_held += len(rows)
        if self._n_held >= HELD_ROWS:
            self._put_away()

    def __iter__(self) -> Iterator[Flag]:
        stretches = [self._read(stretch) for stretch in self._stretches]
        # Of equal scores the earlier stretch comes first, and so does the earlier row.
        return heapq.merge(*stretches, _flags(self._sorted()), key=lambda flag: -flag.score)

    def _sorted(self) -> list[pa.RecordBatch]:
        """The rows held, by falling score, in pieces."""
        held = pa.Table.from_batches(self._held, self.schema)
        order = np.argsort(-held["score"].to_numpy(), kind="stable")
        return held.take(order).combine_chunks().to_batches(READ_ROWS)

    def _put_away(self) -> None:
        self._file = self._file or PrivateFile()
        self._stretches.append([self._file.put(piece) for piece in self._sorted()])
        self._held, self._n_held = [], 0

    def _read(self, stretch: Sequence[int]) -> Iterator[Flag]:
        assert self._file is not None
        return _flags(map(self._file.get, stretch))


def _flags(pieces: Iterable[pa.RecordBatch]) -> Iterator[Flag]:
    for piece in pieces:
        rows = zip(*(column.to_pylist() for column in piece.columns), strict=True)
        for name, group, row, score, p_value, column, *display in rows:
            yield Flag(name, group, row, score, p_value, column, tuple(display))
