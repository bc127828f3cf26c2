"""CSV as text: what its encoding, delimiter and decimal mark are, and its rows in blocks."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from screening.cohort.notation import NUMBER, decimal_marks
from screening.errors import CohortError

DELIMITERS = (",", ";", "\t", "|")
SAMPLE_ROWS = 2000
CHUNK_ROWS = 1024
# Bytes that mean nothing in cp1252; a file that holds one was written in something else.
CP1252_HOLES = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
NOT_ASCII = bytes(range(128, 256))
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


@dataclass(frozen=True)
class CsvForm:
    """How one CSV file is written; `skipped` leading lines (an Excel `sep=` line) are no table.

    `others` are columns with another decimal mark than the file's.
    """

    encoding: str
    delimiter: str
    decimal: str
    header: list[str]
    skipped: int = 0
    others: dict[str, str] = field(default_factory=dict)

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
    encoding = _encoding(path)
    try:
        with _text(path, encoding) as stream:
            head = stream.read(1 << 20)
    except (UnicodeError, EOFError, OSError, zlib.error):
        raise CohortError(_damaged(path.name, encoding)) from None
    skipped = 0
    named = re.match(r"sep=(.)\r?\n", head)
    if named:
        skipped, head = 1, head[named.end() :]
    delimiter = named[1] if named and named[1] in DELIMITERS else _delimiter(head)
    rows = _parsed(head, delimiter)
    if not rows:
        raise CohortError(f"{path.name}: the file is empty; export it again")
    header = [name.strip() for name in rows[0]]
    _refuse_headless(path.name, header)
    form = CsvForm(encoding, delimiter, ".", header, skipped)
    decimal, others = decimal_marks(rows[1:], header, delimiter)
    return replace(form, decimal=decimal, others=others)


def csv_blocks(
    path: Path, name: str, form: CsvForm, wanted: Sequence[str], batch_rows: int
) -> Iterator[tuple[dict[str, Any], int, int, np.ndarray, np.ndarray]]:
    """Yield (columns, n_rows, first_row, ragged, repeated_header); cells are text, blank lines no rows."""
    places = {column: form.header.index(column) for column in wanted}
    width, first = len(form.header), 1
    block = _Pending(places)
    try:
        with _text(path, form.encoding) as stream:
            for _ in range(form.skipped):
                stream.readline()
            reader = csv.reader(stream, delimiter=form.delimiter, strict=True)
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
    except csv.Error:
        raise CohortError(
            f"{name}, row {first + block.n_rows}: a quote is not closed or stands inside a cell, "
            "or a cell has over 131072 characters; double the quotes inside cells, or export the file again"
        ) from None
    except (UnicodeError, EOFError, OSError, zlib.error):
        raise CohortError(_damaged(name, form.encoding)) from None
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

    def taken(self, first: int) -> tuple[dict[str, Any], int, int, np.ndarray, np.ndarray]:
        if self._rows:
            self._move()
        columns = {name: pa.concat_arrays(parts) for name, parts in self._parts.items()}
        return columns, self.n_rows, first, _mask(self.n_rows, self.ragged), _mask(self.n_rows, self.repeated)


def _mask(n_rows: int, places: list[int]) -> np.ndarray:
    mask = np.zeros(n_rows, dtype=bool)
    mask[places] = True
    return mask


def _first_filled(reader: Any) -> list[str]:
    return next((cells for cells in reader if any(cell.strip() for cell in cells)), [])


def _bytes(path: Path) -> BinaryIO:
    stream = path.open("rb")
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    if not zipped:
        return stream
    stream.close()
    return gzip.open(path, "rb")  # type: ignore[return-value]


def _text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_bytes(path), encoding=encoding, newline="")


def _damaged(name: str, encoding: str) -> str:
    return f"{name}: damaged or cut short (read as {encoding}); export it again as UTF-8"


def _encoding(path: Path) -> str:
    """Encoding that the whole file agrees with: a byte-order mark, UTF-8, cp1252, else latin-1."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, holes, lines, foreign = True, False, 1, 0
    try:
        with _bytes(path) as stream:
            head = stream.read(1 << 16)
            for mark, encoding in BOMS:
                if head.startswith(mark):
                    return encoding
            wide = _utf16_without_mark(head)
            if wide:
                return wide
            chunk = head
            while chunk:
                if b"\0" in chunk:
                    line = lines + chunk[: chunk.index(b"\0")].count(b"\n")
                    raise CohortError(
                        f"{path.name}, line {line}: a NUL byte; the file is binary or was damaged, "
                        "export it again as UTF-8"
                    )
                lines += chunk.count(b"\n")
                foreign += len(chunk) - len(chunk.translate(None, NOT_ASCII))
                holes = holes or any(hole in chunk for hole in CP1252_HOLES)
                if utf8:
                    try:
                        decoder.decode(chunk)
                    except UnicodeDecodeError:
                        utf8 = False
                chunk = stream.read(1 << 20)
            if utf8:
                left = len(decoder.getstate()[0])
                # A last character cut in two after others that were whole: UTF-8, but not all of it.
                if left and foreign > left:
                    raise CohortError(_damaged(path.name, "utf-8"))
                utf8 = not left
    except (EOFError, OSError, zlib.error):
        raise CohortError(_damaged(path.name, "bytes")) from None
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if not utf8 and control > len(head) / 50:
        raise CohortError(
            f"{path.name}: binary content, not a table; export it as CSV in UTF-8 or as Parquet"
        )
    return "utf-8" if utf8 else "latin-1" if holes else "cp1252"


def _utf16_without_mark(head: bytes) -> str | None:
    even, odd = head[0::2], head[1::2]
    # ASCII digits and delimiters have a zero in the high byte only.
    if len(head) < 4 or len(head) % 2:
        return None
    if odd.count(0) > 0.6 * len(odd) and even.count(0) == 0:
        return "utf-16-le"
    if even.count(0) > 0.6 * len(even) and odd.count(0) == 0:
        return "utf-16-be"
    return None


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
