"""CSV files: their encoding, delimiter and decimal mark, and their rows as text, read by Arrow in blocks.

Arrow is lenient with quotes and says nothing of one that is never closed: a file that has quotes is gone
through once by Python's strict reader, which tells the row that cannot be read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from screening.errors import CohortError, ScreenError, of_system
from screening.sources.number_formats import NUMBER, decimal_marks
from screening.sources.readers import Batches

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DELIMITERS = (",", ";", "\t", "|")
SAMPLE_ROWS = 2000
# No table comes near, and memory holds it.
LONGEST_NAME, MOST_COLUMNS = 20_000, 50_000
NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}
# What Arrow reads at a time, at least; a row may reach over two.
BLOCK_BYTES = 1 << 16
GZIPPED = b"\x1f\x8b"
# Characters; no table comes near, and memory holds it.
LONGEST_LINE = 16 << 20
# What a gzip file may unfold to: text shrinks to a twentieth, zeros to a thousandth.
LEAST_UNPACKED, MOST_FOLDS = 1 << 30, 100
# Bytes that mean nothing in cp1252; a file that holds one was written in something else.
CP1252_HOLES = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
NOT_ASCII = bytes(range(128, 256))
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip


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
        return f"CSV, delimiter {NAMES[self.delimiter]}, encoding {self.encoding}{comma}{but}"


def csv_form(path: Path) -> CsvForm:
    """Detect encoding (from the whole file), delimiter and decimal mark (from its first rows).

    Raises CohortError: not text, no header, a header that looks like a data row.
    """
    encoding, quoted = _examined(path)
    try:
        with opened_text(path, encoding) as stream:
            head = stream.read(1 << 20)
    except READING as error:
        raise fault_of(error, path, encoding) from None
    # An Excel `sep=` line is no row of the table.
    named = re.match(r"sep=(.)\r?\n", head)
    skipped = named.end() if named else 0
    body = head[skipped:]
    delimiter = named[1] if named and named[1] in DELIMITERS else _delimiter(body)
    rows = _parsed(body, delimiter)
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
        _refuse_title(path.name, body)
    start = len(head[: skipped + _header_end(body, delimiter)].encode())
    decimal, others = decimal_marks(rows[1:], header, delimiter)
    form = CsvForm(encoding, delimiter, decimal, header, start, rows[0], others, quoted)
    return replace(form, broken=_broken_row(path, form)) if quoted else form


def csv_batches(path: Path, name: str, form: CsvForm, wanted: Sequence[str], batch_rows: int) -> Batches:
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
    except READING as error:
        raise fault_of(error, path, form.encoding) from None
    if broken:
        raise CohortError(f"{name}, row {broken[0]}: {broken[1]}")


def opened(path: Path, head: bytes) -> tuple[list[str], CsvForm]:
    """The names of the columns, and how the file is written; raises as `csv_form` does."""
    form = csv_form(path)
    return form.header, form


def _opened_rows(path: Path, form: CsvForm) -> pa.NativeFile:
    """The file behind its header, as UTF-8."""
    stream = pa.PythonFile(opened_bytes(path), mode="r")
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
            block_size=min(max(BLOCK_BYTES, 64 * form.start), LONGEST_LINE),
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
        with opened_text(path, form.encoding) as stream:
            # The header is read once more: where it ends is known in bytes.
            rows = csv.reader(_lines_of(stream), delimiter=form.delimiter, strict=True)
            next((cells for cells in rows if cells == form.names), None)
            for cells in rows:
                row += bool(cells)
    except _LongLine:
        return row + 1, f"a line of more than {LONGEST_LINE} characters; is a line end missing?"
    except csv.Error:
        return row + 1, (
            "a quote is not closed or stands inside a cell, or a cell has over 131072 characters; "
            "double the quotes inside cells, or export the file again"
        )
    except READING as error:
        raise fault_of(error, path, form.encoding) from None
    return None


def _lines_of(stream: io.TextIOWrapper) -> Iterator[str]:
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise _LongLine
        yield line


def _header_end(body: str, delimiter: str) -> int:
    """Characters up to the end of the first row that has a filled cell."""
    lines = io.StringIO(body, newline="")
    filled = (cells for cells in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, cells)))
    next(filled)
    return lines.tell()


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


def opened_bytes(path: Path) -> BinaryIO:
    stream = path.open("rb")
    zipped = stream.read(2) == GZIPPED
    stream.seek(0)
    if not zipped:
        return stream
    stream.close()
    return io.BufferedReader(_Unpacked(path))


class _Unpacked(io.RawIOBase):
    """A gzip file that is refused once it unfolds to more than a table would."""

    def __init__(self, path: Path):
        self._stream = gzip.GzipFile(path, "rb")
        self._left = max(LEAST_UNPACKED, MOST_FOLDS * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        into = memoryview(buffer)
        content = self._stream.read1(len(into))
        self._left -= len(content)
        if self._left < 0:
            raise _Bomb
        into[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Bomb(Exception):
    """A compressed file unfolds to more than is read."""


class _LongLine(Exception):
    """A line is longer than is read."""


READING = (UnicodeError, EOFError, OSError, zlib.error, _Bomb)
"""What reading a file as text may raise."""


def fault_of(error: Exception, path: Path, encoding: str) -> ScreenError:
    """The system's refusal, a bomb, or damage."""
    if isinstance(error, OSError) and error.errno is not None:
        return of_system(error, path)
    if isinstance(error, _Bomb):
        return CohortError(f"{path.name}: unfolds to more than {MOST_FOLDS} times its size; unpack it first")
    return CohortError(damaged(path.name, encoding))


def opened_text(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(opened_bytes(path), encoding=encoding, newline="")


def damaged(name: str, encoding: str) -> str:
    return f"{name}: damaged or cut short (read as {encoding}); export it again as UTF-8"


def _examined(path: Path) -> tuple[str, bool]:
    """Encoding that the whole file agrees with, a byte-order mark, UTF-8, cp1252, else latin-1; and whether
    it has quotes.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, holes, lines, foreign, quoted = True, False, 1, 0, False
    try:
        with opened_bytes(path) as stream:
            head = stream.read(1 << 16)
            for mark, encoding in BOMS:
                if head.startswith(mark):
                    return encoding, True
            wide = _utf16_without_mark(head)
            if wide:
                return wide, True
            chunk = head
            while chunk:
                if b"\0" in chunk:
                    line = lines + chunk[: chunk.index(b"\0")].count(b"\n")
                    raise CohortError(
                        f"{path.name}, line {line}: a NUL byte; the file is binary or was damaged, "
                        "export it again as UTF-8"
                    )
                lines += chunk.count(b"\n")
                quoted = quoted or b'"' in chunk
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
                    raise CohortError(damaged(path.name, "utf-8"))
                utf8 = not left
    except READING as error:
        raise fault_of(error, path, "bytes") from None
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if not utf8 and control > len(head) / 50:
        raise CohortError(
            f"{path.name}: binary content, not a table; export it as CSV in UTF-8 or as Parquet"
        )
    encoding = "utf-8" if utf8 else "latin-1" if holes else "cp1252"
    return encoding, quoted


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
