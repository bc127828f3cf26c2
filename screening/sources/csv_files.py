"""CSV files: their encoding, delimiter and decimal mark, and their rows as text, read by Arrow in blocks.

Arrow is lenient with quotes and says nothing of one that is never closed: a file that has quotes is gone
through once by Python's strict reader, which tells the row that cannot be read.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from screening.errors import CohortError
from screening.sources.number_formats import NUMBER, decimal_marks
from screening.sources.readers import Batches

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
# What is read of a file to see how it is written: characters, and rows of them.
SAMPLE, SAMPLE_ROWS = 1 << 20, 2000
# What Arrow reads at a time, at least and at most; a row may reach over two.
BLOCK_BYTES, LONGEST_LINE = 1 << 16, 16 << 20
GZIPPED = b"\x1f\x8b"
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip


@dataclass(frozen=True)
class CsvForm:
    """How one CSV file is written."""

    encoding: str
    delimiter: str
    decimal: str
    header: list[str]
    start: int  # bytes before the first row, the file being UTF-8
    names: list[str]  # the header's cells as they stand there
    others: dict[str, str] = field(default_factory=dict)  # columns with another decimal mark
    quoted: bool = True  # there are quotes somewhere
    broken: tuple[int, str] | None = None  # the first row that cannot be read, and why

    def note(self) -> str:
        """The form in words."""
        comma = ", decimal comma" if self.decimal == "," else ""
        mark = "point" if comma else "comma"
        but = f"{', but' if comma else ','} decimal {mark} in {', '.join(self.others)}" if self.others else ""
        return f"CSV, delimiter {DELIMITERS[self.delimiter]}, encoding {self.encoding}{comma}{but}"


def opened(path: Path, head: bytes) -> tuple[list[str], CsvForm]:
    """The names of the columns, and how the file is written.

    The encoding is detected from the whole file, delimiter and decimal mark from its first rows.
    Raises CohortError: not text, no header, a header that looks like a data row.
    """
    encoding, quoted = _examined(path)
    with _opened_text(path, encoding) as stream:
        text = stream.read(SAMPLE)
    # An Excel `sep=` line is no row of the table.
    named = re.match(r"sep=(.)\r?\n", text)
    skipped = named.end() if named else 0
    body = text[skipped:]
    delimiter = named[1] if named and named[1] in DELIMITERS else _delimiter(body)
    rows = _parsed(body, delimiter)
    if not rows:
        raise CohortError(f"{path.name}: the file is empty; export it again")
    header = [name.strip() for name in rows[0]]
    _refuse_headless(path.name, header)
    if len(header) == 1:
        _refuse_title(path.name, body)
    start = len(text[: skipped + _header_end(body, delimiter)].encode())
    decimal, others = decimal_marks(rows[1:], header, delimiter)
    form = CsvForm(encoding, delimiter, decimal, header, start, rows[0], others, quoted)
    return header, replace(form, broken=_broken_row(path, form)) if quoted else form


def batches(path: Path, name: str, form: CsvForm, wanted: Sequence[str], batch_rows: int) -> Batches:
    """Yield the rows in order; cells are text, blank lines no rows.

    Raises CohortError: a row cannot be read; those before it were given.
    """
    at = {column: str(place) for place, column in enumerate(form.header)}
    places = [at[column] for column in wanted]
    first, broken = 1, form.broken
    try:
        with _opened_rows(path, form) as stream:
            for table in in_batches(_tables(stream, form, places), batch_rows):
                table = table.slice(0, broken[0] - first) if broken else table
                if table.num_rows:
                    names = [*places, "ragged", "repeated"]
                    yield pa.record_batch([table[name].combine_chunks() for name in names], names)
                    first += table.num_rows
    except pa.ArrowInvalid:
        # Arrow refuses a file without rows, and a line that is longer than its blocks.
        broken = broken or _broken_row(path, form)
        with _opened_rows(path, form) as stream:
            filled = bool(stream.read(BLOCK_BYTES).strip())
        if broken is None and filled:
            raise CohortError(
                f"{name}: a line behind row {first - 1} is far longer than the header; is a line end missing?"
            ) from None
    if broken:
        raise CohortError(f"{name}, row {broken[0]}: {broken[1]}")


def _opened_rows(path: Path, form: CsvForm) -> pa.NativeFile:
    """The file behind its header, as UTF-8."""
    stream = pa.PythonFile(_opened_bytes(path), mode="r")
    if form.encoding != "utf-8":
        stream = pa.transcoding_input_stream(stream, form.encoding, "utf-8")
    stream.read(form.start)
    return stream


def _tables(stream: pa.NativeFile, form: CsvForm, wanted: list[str]) -> Iterator[pa.Table]:
    """Rows as Arrow reads them, with columns `ragged` and `repeated`; columns are called by their places."""
    names = [str(place) for place in range(len(form.header))]
    # Rows of other widths, by their numbers; such a row keeps its place, its cells being empty.
    invalid: deque[int] = deque()

    def skipped(row: arrow_csv.InvalidRow) -> str:
        invalid.append(row.number)
        return "skip"

    reader = arrow_csv.open_csv(
        stream,
        # Rows have numbers only where one thread reads them.
        arrow_csv.ReadOptions(
            use_threads=False,
            block_size=min(max(BLOCK_BYTES, 256 * form.start), LONGEST_LINE),
            column_names=names,
        ),
        arrow_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char='"' if form.quoted else False,
            newlines_in_values=form.quoted,
            invalid_row_handler=skipped,
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=wanted or names[:1],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    at = 1
    nothing = pa.RecordBatch.from_pylist([], reader.schema)
    for batch in itertools.chain(reader, [nothing]):
        mine: list[int] = []
        while invalid and invalid[0] <= at + batch.num_rows + len(mine):
            mine.append(invalid.popleft() - at)
        table = pa.Table.from_batches([batch])
        repeated = _repeats(table, form.names)
        ragged = np.zeros(table.num_rows + len(mine), dtype=bool)
        if mine:
            ragged[mine] = True
            own = pa.array(np.cumsum(~ragged) - 1, mask=ragged)
            table = pa.table({name: pc.fill_null(table[name].take(own), "") for name in table.column_names})
            repeated = pc.fill_null(repeated.take(own), False)
        at += len(ragged)
        yield table.append_column("ragged", pa.array(ragged)).append_column("repeated", repeated)


def _repeats(table: pa.Table, header: Sequence[str]) -> pa.ChunkedArray:
    """Which rows are the header once more, as far as their columns are read."""
    first, *others = table.column_names
    same = pc.equal(table[first], header[int(first)])
    for name in others:
        if not pc.any(same).as_py():
            break
        same = pc.and_(same, pc.equal(table[name], header[int(name)]))
    return same


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


def _broken_row(path: Path, form: CsvForm) -> tuple[int, str] | None:
    """The first row that Python's strict reader refuses, and why."""
    row = 0
    try:
        with _opened_text(path, form.encoding) as stream:
            # The header is read once more: where it ends is known in bytes.
            rows = csv.reader(stream, delimiter=form.delimiter, strict=True)
            next((cells for cells in rows if cells == form.names), None)
            for cells in rows:
                row += bool(cells)
    except csv.Error:
        return row + 1, (
            "a quote is not closed or stands inside a cell, or a cell has over 131072 characters; "
            "double the quotes inside cells, or export the file again"
        )
    return None


def _header_end(body: str, delimiter: str) -> int:
    """Characters up to the end of the first row that has a filled cell."""
    lines = io.StringIO(body, newline="")
    next(cells for cells in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, cells)))
    return lines.tell()


def _parsed(text: str, delimiter: str) -> list[list[str]]:
    """The first rows of a text that have a filled cell."""
    rows: list[list[str]] = []
    try:
        for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if any(map(str.strip, cells)):
                rows.append(cells)
            if len(rows) > SAMPLE_ROWS:
                return rows
    except csv.Error:
        return rows
    # The last row may be cut by the end of the sample.
    return rows[:-1] if len(text) >= SAMPLE and len(rows) > 1 else rows


def _delimiter(text: str) -> str:
    """The delimiter under which most rows have as many cells as the header, then the one with most cells."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = [len(cells) for cells in _parsed(text, delimiter)[:200]] or [0]
        return (widths.count(widths[0]) / len(widths), widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(DELIMITERS, key=fit)


def _refuse_title(name: str, text: str) -> None:
    for delimiter in DELIMITERS:
        widths = Counter(len(cells) for cells in _parsed(text, delimiter)[1:])
        for width, often in widths.most_common(1):
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


def _opened_bytes(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIPPED
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _opened_text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened_bytes(path), encoding=encoding, newline="")


def _examined(path: Path) -> tuple[str, bool]:
    """Encoding that the whole file agrees with: a byte-order mark, UTF-8, cp1252, else latin-1.

    And whether it has quotes.
    """
    with _opened_bytes(path) as stream:
        head = stream.read(1 << 16)
    marked = next((encoding for mark, encoding in BOMS.items() if head.startswith(mark)), None)
    if wide := marked or _utf16_without_mark(head):
        return wide, True
    for encoding in ("utf-8", "cp1252", "latin-1"):
        with contextlib.suppress(UnicodeDecodeError):
            quoted = _gone_through(path, encoding)
            break
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if encoding != "utf-8" and control > len(head) / 50:
        raise CohortError(
            f"{path.name}: binary content, not a table; export it as CSV in UTF-8 or as Parquet"
        )
    return encoding, quoted


def _gone_through(path: Path, encoding: str) -> bool:
    """Whether a file has quotes.

    Raises UnicodeDecodeError: it is written otherwise; CohortError: it holds what no text does.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    lines, quoted, foreign = 1, False, False
    with _opened_bytes(path) as stream:
        for chunk in iter(partial(stream.read, 1 << 20), b""):
            text = decoder.decode(chunk)
            if "\0" in text:
                line = lines + text[: text.index("\0")].count("\n")
                raise CohortError(
                    f"{path.name}, line {line}: a NUL byte; the file is binary or was damaged, "
                    "export it again as UTF-8"
                )
            lines += text.count("\n")
            quoted = quoted or '"' in text
            foreign = foreign or not text.isascii()
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        # A last character cut in two after others that were whole: UTF-8, but not all of it.
        if foreign:
            raise CohortError(f"{path.name}: cut short within a character; export it again") from None
        raise
    return quoted


def _utf16_without_mark(head: bytes) -> str | None:
    """ASCII digits and delimiters have a zero in the high byte only."""
    if len(head) < 4 or len(head) % 2:
        return None
    for encoding, high, low in (("utf-16-le", head[1::2], head[0::2]), ("utf-16-be", head[0::2], head[1::2])):
        if high.count(0) > 0.6 * len(high) and low.count(0) == 0:
            return encoding
    return None
