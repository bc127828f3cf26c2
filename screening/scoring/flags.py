"""The flagged rows of a night by falling score, in memory that does not grow with them, and `flagged.csv`."""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from screening.cohort.cohort import Cohort
from screening.ledger import Known
from screening.sources.private_file import PrivateFile
from screening.storage.model import CHANCES, Chances, Model, Scored

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

    `display`: columns that the contract wants shown beside a row.
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


COLUMNS = ("rank", "id", "group", "class", "score", "p_value")
# Behind the others, so that what reads a night without a ledger reads one with it; last, what the contract
# wants displayed.
REMEMBERED = ("state", "nights", "drawn")
ASKED_ROWS = 1 << 10
# Where a cell may begin: at its start and, where lists are split by another sign, behind a separator.
# There a spreadsheet runs what starts like a formula, full-width forms too; some skip spaces and quotes.
# An apostrophe is marked as well: removing one at every such place gives back what was written.
_BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    _BEGINS + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
_MARK = re.compile(_BEGINS + "'")


def write_flagged(
    path: Path,
    flags: Flags,
    model: Model,
    grouped: bool,
    known: Mapping[str, Known] | None,
    drawn: Collection[str],
) -> None:
    """Write the flagged rows, the highest score first.

    `grouped`: whether rows come in groups.
    `known`: what the ledger knows of each case: by group where rows come in groups, otherwise by id.
    `drawn`: cases marked by lot for review.
    """
    chances = Chances(model)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        told = CHANCES if chances.earned else ()
        remembered = REMEMBERED if known is not None else ()
        table.writerow([*COLUMNS, *told, *remembered, *map(as_text, flags.display)])
        for rank, (flag, earned) in enumerate(_with_chances(flags, chances), start=1):
            texts = [flag.id, flag.group, model.watched[flag.column]]
            name = flag.group if grouped else flag.id
            case = known.get(name) if known else None
            lot = "yes" if name in drawn else "no"
            history = [case.state, case.nights, lot] if case else []
            figures = [repr(flag.score), repr(flag.p_value)]
            figures += ["" if np.isnan(value) else repr(value) for value in earned]
            place = ["" if text is None else text for text in flag.display]
            table.writerow([rank, *map(as_text, texts), *figures, *history, *map(as_text, place)])


def _with_chances(flags: Iterable[Flag], chances: Chances) -> Iterator[tuple[Flag, tuple[float, ...]]]:
    """Each row with its chance and interval, where they are earned: asked for many at a time."""
    rest = iter(flags)
    while some := list(islice(rest, ASKED_ROWS)):
        score, column = (np.array([getattr(flag, name) for flag in some]) for name in ("score", "column"))
        told = chances.of(score, column).values() if chances.earned else ()
        earned = zip(*(values.tolist() for values in told), strict=True) if told else repeat(())
        yield from zip(some, earned, strict=False)


def as_text(value: str) -> str:
    """Text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def as_written(text: str) -> str:
    """What `as_text` was given."""
    return _MARK.sub(r"\1", text)
