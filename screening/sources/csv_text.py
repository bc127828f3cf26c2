"""CSV as text: what its encoding, delimiter and decimal mark are, and its rows in blocks."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from screening.errors import CohortError
from screening.sources.blocks import Block, whole_block
from screening.sources.notation import NUMBER, decimal_marks
from screening.sources.plain_text import Irregular, is_plain, plain_blocks
from screening.sources.text_files import (
    LONGEST_LINE,
    READING,
    LongLine,
    encoding_of,
    fault_of,
    lines_of,
    opened_text,
)

DELIMITERS = (",", ";", "\t", "|")
SAMPLE_ROWS = 2000
CHUNK_ROWS = 1024
# No table comes near, and memory holds it.
LONGEST_NAME, MOST_COLUMNS = 20_000, 50_000
NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


@dataclass(frozen=True)
class CsvForm:
    """How one CSV file is written; `skipped` leading lines (an Excel `sep=` line) are no table.

    `others` are columns with another decimal mark than the file's; a `plain` file has no quotes.
    """

    encoding: str
    delimiter: str
    decimal: str
    header: list[str]
    skipped: int = 0
    others: dict[str, str] = field(default_factory=dict)
    plain: bool = False

    def note(self) -> str:
        """The form in words."""
        comma = ", decimal comma" if self.decimal == "," else ""
        mark = "point" if comma else "comma"
        but = f"{', but' if comma else ','} decimal {mark} in {', '.join(self.others)}" if self.others else ""
        return f"CSV, delimiter {NAMES[self.delimiter]}, encoding {self.encoding}{comma}{but}"


def csv_form(path: Path) -> CsvForm:
    """Detect encoding (from the whole file), delimiter and decimal mark (from its first rows).

    Raises
    ------
    CohortError
        Not text, no header, a header that looks like a data row.
    """
    encoding = encoding_of(path)
    try:
        with opened_text(path, encoding) as stream:
            head = stream.read(1 << 20)
        plain = is_plain(path, encoding)
    except READING as error:
        raise fault_of(error, path, encoding) from None
    skipped = 0
    named = re.match(r"sep=(.)\r?\n", head)
    if named:
        skipped, head = 1, head[named.end() :]
    delimiter = named[1] if named and named[1] in DELIMITERS else _delimiter(head)
    rows = _parsed(head, delimiter)
    if not rows:
        raise CohortError(f"{path.name}: the file is empty; export it again")
    header = [name.strip() for name in rows[0]]
    if len(header) > MOST_COLUMNS or max(map(len, header)) > LONGEST_NAME:
        raise CohortError(
            f"{path.name}, first row: more than {MOST_COLUMNS} columns, or a name of more than "
            f"{LONGEST_NAME} characters; is it a header?"
        )
    _refuse_headless(path.name, header)
    if len(header) == 1:
        _refuse_title(path.name, head)
    form = CsvForm(encoding, delimiter, ".", header, skipped, plain=plain)
    decimal, others = decimal_marks(rows[1:], header, delimiter)
    return replace(form, decimal=decimal, others=others)


def csv_blocks(
    path: Path, name: str, form: CsvForm, wanted: Sequence[str], batch_rows: int
) -> Iterator[Block]:
    """Yield the rows in order; cells are text, blank lines no rows."""
    whole = 0
    if form.plain:
        try:
            for columns, n_rows in plain_blocks(
                path, form.delimiter, form.header, form.skipped, wanted, batch_rows
            ):
                yield whole_block(columns, n_rows, 1 + whole * batch_rows)
                whole += 1
            return
        except Irregular:
            pass
    # Both cut the file into the same blocks.
    yield from itertools.islice(_row_by_row(path, name, form, wanted, batch_rows), whole, None)


def _row_by_row(
    path: Path, name: str, form: CsvForm, wanted: Sequence[str], batch_rows: int
) -> Iterator[Block]:
    places = {column: form.header.index(column) for column in wanted}
    width, first = len(form.header), 1
    block = _Pending(places)
    try:
        with opened_text(path, form.encoding) as stream:
            for _ in range(form.skipped):
                stream.readline(LONGEST_LINE)
            reader = csv.reader(lines_of(stream), delimiter=form.delimiter, strict=True)
            raw_header = _first_filled(reader)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != width:
                    # The row keeps its place, so that row numbers behind it stay true.
                    block.ragged.append(block.n_rows)
                    cells = [""] * width
                elif cells == raw_header:
                    block.repeated.append(block.n_rows)
                block.add(cells)
                if block.n_rows == batch_rows:
                    yield block.taken(first)
                    first += block.n_rows
                    block = _Pending(places)
    except LongLine:
        raise CohortError(
            f"{name}, row {first + block.n_rows}: a line of more than {LONGEST_LINE} characters; "
            "is a line end missing?"
        ) from None
    except csv.Error:
        raise CohortError(
            f"{name}, row {first + block.n_rows}: a quote is not closed or stands inside a cell, "
            "or a cell has over 131072 characters; double the quotes inside cells, or export the file again"
        ) from None
    except READING as error:
        raise fault_of(error, path, form.encoding) from None
    if block.n_rows:
        yield block.taken(first)


class _Pending:
    """Rows of the block being read; they are moved to arrow early, which saves memory and time."""

    def __init__(self, places: dict[str, int]):
        self.places = places
        self.n_rows = 0
        self.ragged: list[int] = []
        self.repeated: list[int] = []
        self._rows: list[list[str]] = []
        self._parts: dict[str, list[pa.Array]] = {name: [] for name in places}

    def add(self, cells: list[str]) -> None:
        self._rows.append(cells)
        self.n_rows += 1
        if len(self._rows) == CHUNK_ROWS:
            self._move()

    def _move(self) -> None:
        columns = list(zip(*self._rows, strict=True))
        for name, place in self.places.items():
            self._parts[name].append(pa.array(columns[place], pa.string()))
        self._rows = []

    def taken(self, first: int) -> Block:
        if self._rows:
            self._move()
        columns = {name: pa.concat_arrays(parts) for name, parts in self._parts.items()}
        return Block(
            columns, self.n_rows, first, _mask(self.n_rows, self.ragged), _mask(self.n_rows, self.repeated)
        )


def _mask(n_rows: int, places: list[int]) -> np.ndarray:
    mask = np.zeros(n_rows, dtype=bool)
    mask[places] = True
    return mask


def _first_filled(reader: Iterable[list[str]]) -> list[str]:
    return next((cells for cells in reader if any(cell.strip() for cell in cells)), [])


def _parsed(head: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            if cells and any(cell.strip() for cell in cells):
                rows.append(cells)
            if len(rows) > SAMPLE_ROWS:
                break
        else:
            # The last row may be cut by the end of the sample.
            rows = rows[:-1] if len(head) >= 1 << 20 and len(rows) > 1 else rows
    except csv.Error:
        pass
    return rows


def _delimiter(head: str) -> str:
    """The delimiter under which most rows have as many cells as the header, then the one with most cells."""

    def fit(delimiter: str) -> tuple[float, int]:
        rows = _parsed(head, delimiter)[:200]
        width = len(rows[0]) if rows else 0
        if width < 2:
            return 0.0, 0
        return sum(len(cells) == width for cells in rows) / len(rows), width

    return max(DELIMITERS, key=fit)


def _refuse_title(name: str, head: str) -> None:
    for delimiter in DELIMITERS:
        widths = Counter(len(cells) for cells in _parsed(head, delimiter)[1:])
        width, often = max(widths.items(), key=lambda each: each[1], default=(0, 0))
        if width > 2 and often > widths.total() / 2:
            raise CohortError(
                f"{name}, first row: one cell above rows of {width}; is it a title? "
                "The column names come first: remove what stands above them"
            )


def _refuse_headless(name: str, header: list[str]) -> None:
    named = [text for text in header if text]
    numbers = [float(text) for text in named if NUMBER.fullmatch(text)]
    # Columns may be called 0, 1, 2 or by wavelength: numbers that only rise are names.
    rising = len(numbers) > 2 and all(low < high for low, high in itertools.pairwise(numbers))
    if not rising and len(numbers) * 2 > len(named):
        # The names are not shown: here they are a patient's values.
        raise CohortError(
            f"{name}, first row: it looks like a patient's row, not like column names; add a header row"
        )
