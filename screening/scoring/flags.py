"""The flagged rows of a night by falling score, in memory that does not grow with them, and `flagged.csv`."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.cohort.cohort import Cohort
from screening.ledger import Known
from screening.sources.private_file import PrivateFile
from screening.storage.model import CHANCES, Chances, Model, Scored

# Rows held before they are sorted and put away, and rows read back at a time of each sorted stretch.
HELD_ROWS = 1 << 16
READ_ROWS = 1 << 10


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

    def tables(self) -> Iterator[pa.Table]:
        """The rows by falling score, some thousand at a time."""
        stretches = [map(self._file.get, places) for places in self._stretches] if self._file else []
        rest = [*stretches, iter(self._sorted())]
        pieces = {number: piece for number, these in enumerate(rest) if (piece := next(these, None))}
        while pieces:
            # Of equal scores the earlier stretch comes first. All rows up to the end of the piece that ends
            # first are at hand.
            ends = {number: piece["score"][-1].as_py() for number, piece in pieces.items()}
            soonest = max(ends, key=lambda number: ends[number])
            ready = []
            for number, piece in list(pieces.items()):
                side: Literal["left", "right"] = "right" if number <= soonest else "left"
                n = np.searchsorted(-piece["score"].to_numpy(), -ends[soonest], side=side)
                ready.append(piece.slice(0, n))
                left = piece.slice(n) if n < piece.num_rows else next(rest[number], None)
                if left is None:
                    del pieces[number]
                else:
                    pieces[number] = left
            yield _by_score(pa.Table.from_batches(ready))

    def first(self, n: int) -> pa.Table:
        """The `n` rows of the highest scores, or all."""
        tables, count = [self.schema.empty_table()], 0
        for table in self.tables():
            tables.append(table)
            count += table.num_rows
            if count >= n:
                break
        return pa.concat_tables(tables).slice(0, n)

    def _sorted(self) -> list[pa.RecordBatch]:
        """The rows held, by falling score, in pieces."""
        held = _by_score(pa.Table.from_batches(self._held, self.schema))
        return held.combine_chunks().to_batches(READ_ROWS)

    def _put_away(self) -> None:
        self._file = self._file or PrivateFile()
        self._stretches.append([self._file.put(piece) for piece in self._sorted()])
        self._held, self._n_held = [], 0


def _by_score(table: pa.Table) -> pa.Table:
    return table.take(np.argsort(-table["score"].to_numpy(), kind="stable"))


COLUMNS = ("rank", "id", "group", "class", "score", "p_value")
# Behind the others, so that what reads a night without a ledger reads one with it; last, what the contract
# wants displayed.
REMEMBERED = ("state", "nights", "drawn")
# Where a cell may begin: at its start and, where lists are split by another sign, behind a separator.
# There a spreadsheet runs what starts like a formula, full-width forms too; some skip spaces and quotes.
# An apostrophe is marked as well: removing one at every such place gives back what was written.
_BEGINS = "(^|[;,|\t\r\n\v\f\x1c-\x1f\x85\u2028\u2029])"
FORMULA = re.compile(
    _BEGINS + "(?='|[\\s\"\x00-\x20\x7f-\xa0\u200b-\u200f\ufeff]*[-=+@\t\r\n＝＋－＠﹦﹢﹣﹫−])"
)
# What Arrow can look for: a sign of a formula behind nothing but signs, which holds of every such cell.
MAY_BEGIN = _BEGINS + "[^0-9A-Za-z]*['=+@\t\r\n＝＋－＠﹦﹢﹣﹫−-]"
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
        ranks = count(1)
        watched = pa.array(map(as_text, model.watched))
        for rows in flags.tables():
            score, column = rows["score"].to_numpy(), rows["column"].to_numpy()
            cells = [as_texts(rows["id"]), as_texts(rows["group"]), watched.take(rows["column"])]
            cells += [rows["score"], rows["p_value"]]
            if chances.earned:
                cells += [pa.array(v, from_pandas=True) for v in chances.of(score, column).values()]
            lists = [each.to_pylist() for each in cells]
            if known is not None:
                names = rows["group" if grouped else "id"].to_pylist()
                lists += zip(*(_history(known.get(name), name in drawn) for name in names), strict=True)
            lists += [as_texts(rows[f"display {k}"]).to_pylist() for k in range(len(flags.display))]
            table.writerows(zip(islice(ranks, rows.num_rows), *lists, strict=True))


def _history(case: Known | None, drawn: bool) -> tuple[object, ...]:
    return (case.state, case.nights, "yes" if drawn else "no") if case else (None, None, None)


def as_text(value: str) -> str:
    """Text that a spreadsheet shows and does not run as a formula."""
    return FORMULA.sub(r"\1'", value)


def as_texts(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells that a spreadsheet shows: those alone are gone through one by one that may begin a formula."""
    if not pc.any(pc.match_substring_regex(cells, MAY_BEGIN)).as_py():
        return cells
    texts = [text if text is None else as_text(text) for text in cells.to_pylist()]
    return pa.chunked_array([texts], pa.string())


def as_written(text: str) -> str:
    """What `as_text` was given."""
    return _MARK.sub(r"\1", text)
