"""Blocks of rows of a CSV file without quotes, by Arrow: a ninth of the time that reading row by row takes.

Whatever is not quite regular is left to `csv_text`, which knows what to say of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from screening.cohort.text_files import LONGEST_LINE, READING, opened_bytes

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
    path: Path, delimiter: str, header: Sequence[str], skipped: int, wanted: Sequence[str], batch_rows: int
) -> Iterator[tuple[dict[str, pa.Array], int]]:
    """Yield (columns, n_rows), cells as text; every block but the last has `batch_rows`.

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
            reader = csv.open_csv(
                pa.PythonFile(stream, mode="r"),
                csv.ReadOptions(use_threads=False, block_size=_PIECE, column_names=names),
                csv.ParseOptions(delimiter=delimiter, quote_char=False, newlines_in_values=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=[names[place] for place in dict.fromkeys(places.values())],
                    strings_can_be_null=False,
                ),
            )
            waiting: list[pa.Table] = []
            n_waiting = 0
            for piece in reader:
                table = pa.Table.from_batches([piece])
                _refuse_header(table, first)
                waiting.append(table)
                n_waiting += table.num_rows
                while n_waiting >= batch_rows:
                    together = pa.concat_tables(waiting)
                    yield _columns(together.slice(0, batch_rows), places), batch_rows
                    waiting, n_waiting = [together.slice(batch_rows)], n_waiting - batch_rows
            if n_waiting:
                yield _columns(pa.concat_tables(waiting), places), n_waiting
    except (pa.ArrowException, *READING):
        raise Irregular from None


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
