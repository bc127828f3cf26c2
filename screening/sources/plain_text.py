"""Blocks of rows of a CSV file without quotes, by Arrow: a ninth of the time that reading row by row takes.

Whatever is not quite regular is left to `csv_text`, which knows what to say of it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from screening.sources.text_files import GZIPPED, LONGEST_LINE, READING, opened_bytes

# A row may reach over two pieces, so that no cell has more characters than the other reader takes.
_PIECE = 1 << 16


class Irregular(Exception):
    """Something in the file is for the other reader."""


def is_plain(path: Path, encoding: str) -> bool:
    """Whether a file is UTF-8 without quotes and with one kind of line end at a time."""
    if encoding != "utf-8":
        return False
    with opened_bytes(path) as stream:
        while chunk := stream.read(1 << 20):
            if b'"' in chunk or chunk.count(b"\r") != chunk.count(b"\r\n"):
                return False
    return True


def plain_blocks(
    path: Path, delimiter: str, header: Sequence[str], skipped: int, wanted: Sequence[str], batch_rows: int,
    span: tuple[int, int] | None = None,
) -> Iterator[tuple[dict[str, pa.Array], int]]:  # fmt: skip
    """Yield (columns, n_rows), cells as text; every block but the last has `batch_rows`.

    Of the rows that lie in a `span` of bytes where one is given, else of all.

    Raises
    ------
    Irregular
        Rows of other widths, a header that is repeated, a line too long; blocks before it were whole.
    """
    names = [str(place) for place in range(len(header))]
    places = {column: header.index(column) for column in wanted}
    if not places:
        raise Irregular
    try:
        with opened_bytes(path) as stream:
            first = _header_of(stream, delimiter, skipped)
            if span is not None:
                stream.seek(span[0])
            rows = stream if span is None else io.BytesIO(stream.read(span[1] - span[0]))
            reader = csv.open_csv(
                pa.PythonFile(rows, mode="r"),
                csv.ReadOptions(use_threads=False, block_size=_PIECE, column_names=names),
                csv.ParseOptions(delimiter=delimiter, quote_char=False, newlines_in_values=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=[names[place] for place in dict.fromkeys(places.values())],
                    strings_can_be_null=False,
                ),
            )
            for table in in_batches(_regular(reader, first), batch_rows):
                yield _columns(table, places), table.num_rows
    except (pa.ArrowException, *READING):
        raise Irregular from None


def in_batches(tables: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `batch_rows`, and a last one of what is left."""
    waiting: list[pa.Table] = []
    n_waiting = 0
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        while n_waiting >= batch_rows:
            together = pa.concat_tables(waiting)
            yield together.slice(0, batch_rows)
            waiting, n_waiting = [together.slice(batch_rows)], n_waiting - batch_rows
    if n_waiting:
        yield pa.concat_tables(waiting)


@dataclass(frozen=True)
class Places:
    """Where every so many rows of a file begin, in bytes, the end being last; and how many rows there are."""

    starts: list[int]
    n_rows: int


def line_places(path: Path, delimiter: str, skipped: int, rows: int) -> Places | None:
    """Where each piece of so many rows begins in a plain file.

    None where that takes reading the cells: the file is packed, or has blank lines, which are no rows.
    """
    with path.open("rb") as stream:
        if stream.peek(2)[:2] == GZIPPED:
            return None
        try:
            _header_of(stream, delimiter, skipped)
        except Irregular:
            return None
        at = last = stream.tell()
        starts, n_rows = [at], 0
        while chunk := stream.read(1 << 20):
            signs = np.frombuffer(chunk, np.uint8)
            ends = at + 1 + np.flatnonzero(signs == ord("\n"))
            # One sign a line is a line end alone; two may be.
            if np.any(np.diff(ends, prepend=last) < 3):
                return None
            at += len(chunk)
            starts += ends[(rows - 1 - n_rows) % rows :: rows].tolist()
            n_rows += len(ends)
            last = int(ends[-1]) if len(ends) else last
    if at > last:
        n_rows += 1
    return Places([each for each in starts if each < at] + [at], n_rows)


def _regular(pieces: Iterable[pa.RecordBatch], first: Sequence[str]) -> Iterator[pa.Table]:
    for piece in pieces:
        table = pa.Table.from_batches([piece])
        _refuse_header(table, first)
        yield table


def _header_of(stream: BinaryIO, delimiter: str, skipped: int) -> list[str]:
    """Read up to the end of the header row, and return its cells."""
    for _ in range(skipped):
        stream.readline(LONGEST_LINE)
    while line := stream.readline(LONGEST_LINE):
        cells: list[str] = line.decode().rstrip("\r\n").split(delimiter)
        if any(cell.strip() for cell in cells):
            return cells
    raise Irregular


def _refuse_header(table: pa.Table, first: Sequence[str]) -> None:
    same = [pc.equal(table[name], first[int(name)]) for name in table.column_names]
    while len(same) > 1:
        same.append(pc.and_(same.pop(), same.pop()))
    if pc.any(same[0]).as_py():
        raise Irregular


def _columns(table: pa.Table, places: dict[str, int]) -> dict[str, pa.Array]:
    return {name: pa.concat_arrays(table[str(place)].chunks) for name, place in places.items()}
