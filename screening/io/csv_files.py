"""Read CSV files: encoding, delimiter, decimal mark, and rows as text.

Arrow reads the rows in blocks. It does not report a quote that is never closed, so a
file with quotes is first read by Python's strict reader, which finds the row.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from screening.errors import CohortError
from screening.io.arrow_types import refuse_other_texts
from screening.io.number_formats import NUMBER, decimal_marks
from screening.io.readers import RecordBatches, TableFile

DELIMITERS = {
    ",": "comma",
    ";": "semicolon",
    "\t": "tab",
    "|": "bar",
    "^": "caret",
    "~": "tilde",
    "\x01": "control character 1",
    # Spaces are tried last: they separate words too.
    " ": "space",
}
QUOTES = ('"', "'")
# Characters and rows of a file that are read to find its format.
SAMPLE_CHARACTERS = 1 << 20
SAMPLE_ROWS = 2000
# Rows that are parsed to find the delimiter.
DELIMITER_ROWS = 200
# Bytes that Arrow reads at a time, at least and at most; a row may lie in two blocks.
MIN_BLOCK_BYTES = 1 << 16
MAX_BLOCK_BYTES = 64 << 20
MAX_BYTES_A_CHARACTER = 4
# A row with more cells for each name of the header is several, without line ends.
MAX_TIMES_WIDER = 100
ESCAPED_BYTE = re.compile(r"[\udc80-\udcff]")
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
LINE_END = re.compile(r"\r\n|\r|\n")
GZIPPED = b"\x1f\x8b"
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# First bytes of files that are not CSV but are often given as such.
OTHER_FILES = {
    b"PK\x03\x04": "a zip archive, but not an Excel workbook; unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV (UTF-8)",
    b"<": "a web page, XML or a Stata file; export the table as CSV (UTF-8)",
    b"{": "JSON; export the table as CSV (UTF-8) or Parquet",
    b"[": "JSON; export the table as CSV (UTF-8) or Parquet",
}


class CsvFile(TableFile):
    """A CSV file.

    Attributes
    ----------
    encoding, delimiter : str
    is_damaged : bool
        Some bytes are not of the encoding; they are refused in columns that are read.
    quoted : bool
        The file contains quotes.
    quote : {'"', "'"}
    longest_row : int
        Number of characters of the longest row.
    head : str
        The text above the first row.
    broken : int or None
        The first row that cannot be read.
    joined_row : int or None
        The first row with the cells of many, found while rows are read.
    """

    kind = "CSV"
    suffixes = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

    @classmethod
    def knows(cls, path: Path, head: bytes) -> bool:
        """Return True for any text; raise CohortError for a file of another kind."""
        text = head.removeprefix(codecs.BOM_UTF8).lstrip()
        for magic, kind in OTHER_FILES.items():
            if text.startswith(magic):
                raise CohortError(f"{path.name}: this is {kind}")
        if path.name.lower().endswith((".parquet", ".pq")):
            raise CohortError(
                f"{path.name}: this is not a Parquet file; name it .csv, or export it "
                "again"
            )
        return True

    def read_header(self) -> None:
        """Find the encoding in the whole file, everything else in its first rows.

        Raises
        ------
        CohortError
            The file is empty, binary or damaged, or its first row is not a header.
        """
        text_facts = _scan(self.path)
        self.encoding = text_facts.encoding
        self.is_damaged = text_facts.is_damaged
        self.quoted = text_facts.has_quotes
        self.longest_row = text_facts.longest_line
        self.quote = QUOTES[0]
        self.joined_row: int | None = None
        with self._text() as stream:
            text = stream.read(SAMPLE_CHARACTERS)
        # A line `sep=;` of Excel is not a row of the table.
        stated = re.match(r"sep=(.)\r?\n", text)
        table = text[stated.end() :] if stated else text
        if stated and stated[1] in DELIMITERS:
            self.delimiter = stated[1]
        else:
            self.delimiter = _delimiter(table)
        if _has_apostrophes(table, self.delimiter):
            self.quote = QUOTES[1]
            self.quoted = True
        rows = _first_rows(table, self.delimiter, self.quote)
        if not rows:
            raise CohortError(f"{self.name}: the file is empty; export it again")
        self.header = [name.strip() for name in rows[0]]
        _refuse_header(self.name, self.header, table)
        length = len(text) - len(table) + self._header_length(table)
        self.head = text[:length]
        self.decimal_mark, self.other_marks = decimal_marks(
            rows[1:], self.header, self.delimiter
        )
        self.last_line = text_facts.last_line
        # The end of a damaged file is not known.
        if not self.is_damaged:
            self.ends_in_newline = not self.last_line
        self.note = self._format_note()
        if self.quoted:
            self.broken = self._broken_row()
        else:
            self.broken = None
            self._refuse_cut_row(next(self._parse([self.last_line]), []))

    def _parse(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the cells of each row of these lines."""
        return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote)

    def _refuse_cut_row(self, cells: Sequence[str]) -> None:
        """Raise CohortError if the last row has too few cells and no line end.

        Parameters
        ----------
        cells : sequence of str
            Those of the last row.
        """
        is_short = _is_filled(cells) and len(cells) < len(self.header)
        if is_short and 0 < len(self.last_line) < SAMPLE_CHARACTERS:
            raise CohortError(self._cut_words())

    def _cut_words(self) -> str:
        return (
            f"{self.name}: the file is cut short within its last row, and rows after "
            "it may be missing; export it again"
        )

    def _header_length(self, table: str) -> int:
        """Return the number of characters up to the end of the first filled row."""
        lines = io.StringIO(table, newline="")
        next(filter(_is_filled, self._parse(lines)))
        return lines.tell()

    def _format_note(self) -> str:
        """Describe the format of the file, with the decimal mark if it is unusual."""
        delimiter = DELIMITERS[self.delimiter]
        note = f"CSV, delimiter {delimiter}, encoding {self.encoding}"
        if self.quote != QUOTES[0]:
            note += ", apostrophes as quotes"
        if self.is_damaged:
            note += " (with bytes of another encoding in columns that are not read)"
        if self.decimal_mark == ",":
            note += ", decimal comma"
        elif self.other_marks:
            note += ", decimal point"
        if self.other_marks:
            note += f" (not in {', '.join(self.other_marks)})"
        if self.ends_in_newline is False:
            note += ", no line end after the last row"
        return note

    def read(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order, as text; raise CohortError at a broken one."""
        if not self.head.endswith(("\n", "\r")):
            return
        n_rows = 0
        broken = self.broken
        try:
            for batch in self._checked_batches(wanted):
                yield batch
                n_rows += batch.num_rows
        except pa.ArrowInvalid:
            # Arrow refuses a file without rows, and a line that is longer than its
            # blocks.
            broken = broken or self._broken_row()
            if broken is None and self._has_rows():
                raise self._long_line(n_rows) from None
        if broken:
            raise CohortError(
                f"{self.name}, row {broken}: a quote is not closed, or is inside a "
                "cell; double the quotes inside cells"
            )

    def _has_rows(self) -> bool:
        """Return True if anything but space follows the header."""
        with self._text() as stream:
            text = stream.read(len(self.head) + MIN_BLOCK_BYTES)
        return bool(text[len(self.head) :].strip())

    def _checked_batches(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, up to the first broken one."""
        columns = [self.header.index(name) for name in wanted]
        n_rows = 0
        with _open(self.path) as stream:
            for batch in self._arrow_batches(stream, columns):
                if self.is_damaged:
                    cells = batch.select(range(len(wanted))).rename_columns(wanted)
                    refuse_other_texts(cells, self.name, n_rows + 1)
                if self.broken:
                    batch = batch.slice(0, self.broken - 1 - n_rows)
                yield batch
                n_rows += batch.num_rows
                if self.joined_row:
                    raise self._long_line(self.joined_row - 1)
                if self.broken and n_rows >= self.broken - 1:
                    return

    def _long_line(self, n_above: int) -> CohortError:
        """Return the error of a line that may be several."""
        return CohortError(
            f"{self.name}: a line after row {n_above} is far longer than the header; "
            "is a line end missing?"
        )

    def _arrow_batches(self, stream: BinaryIO, columns: list[int]) -> RecordBatches:
        """Yield the rows in Arrow's blocks.

        Parameters
        ----------
        stream : BinaryIO
        columns : list of int
            Places of the columns to read, which are the names in the batches. The
            columns `ragged` and `repeated` are True for a row of another width than the
            header, whose cells are empty, and for the header once more.
        """
        # Row numbers of ragged rows, which Arrow skips.
        ragged_rows: deque[int] = deque()
        reader = self._arrow_reader(stream, columns, ragged_rows)
        # Ragged rows at the end of the file come with an empty batch.
        last = pa.RecordBatch.from_pylist([], reader.schema)
        first_row = 1
        for batch in itertools.chain(reader, [last]):
            skipped: list[int] = []
            while ragged_rows and ragged_rows[0] <= (
                first_row + batch.num_rows + len(skipped)
            ):
                skipped.append(ragged_rows.popleft() - first_row)
            is_ragged = np.zeros(batch.num_rows + len(skipped), dtype=bool)
            is_ragged[skipped] = True
            first_row += len(is_ragged)
            cells = batch.columns
            repeated = self._equals_header(batch)
            if skipped:
                # A skipped row gets empty cells at its place.
                places = pa.array(np.cumsum(~is_ragged) - 1, mask=is_ragged)
                cells = [pc.fill_null(column.take(places), "") for column in cells]
                repeated = pc.fill_null(repeated.take(places), False)
            yield pa.record_batch(
                [*cells[: len(columns)], pa.array(is_ragged), repeated],
                [*map(str, columns), "ragged", "repeated"],
            )

    def _arrow_reader(
        self, stream: BinaryIO, columns: list[int], ragged_rows: deque[int]
    ) -> arrow_csv.CSVStreamingReader:
        """Return Arrow's reader, which adds the numbers of ragged rows to a queue."""
        names = [str(number) for number in range(len(self.header))]
        n_lines_of_head = len(LINE_END.findall(self.head))
        block_bytes = max(
            MIN_BLOCK_BYTES,
            256 * len(self.head.encode()),
            2 * MAX_BYTES_A_CHARACTER * self.longest_row,
        )

        def skip(row: arrow_csv.InvalidRow) -> str:
            number = row.number - n_lines_of_head
            if row.actual_columns > MAX_TIMES_WIDER * row.expected_columns:
                self.joined_row = self.joined_row or number
            ragged_rows.append(number)
            return "skip"

        quote_char = self.quote if self.quoted else False
        return arrow_csv.open_csv(
            stream,
            # Invalid rows have numbers only if one thread reads them.
            arrow_csv.ReadOptions(
                use_threads=False,
                block_size=min(block_bytes, MAX_BLOCK_BYTES),
                skip_rows=n_lines_of_head,
                column_names=names,
                encoding=self.encoding,
            ),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=quote_char,
                newlines_in_values=self.quoted,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[names[number] for number in columns] or names[:1],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )

    def _equals_header(self, batch: pa.RecordBatch) -> pa.Array:
        """Return a mask of the rows whose cells are the names of their columns."""
        is_equal = pa.array(np.ones(batch.num_rows, dtype=bool))
        for place, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pc.any(is_equal).as_py():
                break
            trimmed = pc.utf8_trim_whitespace(column)
            is_equal = pc.and_(is_equal, pc.equal(trimmed, self.header[int(place)]))
        return is_equal

    def _broken_row(self) -> int | None:
        """Return the number of the first row that Python's strict reader refuses.

        Notes the longest row as well: of quoted rows no line shows where they end.

        Raises
        ------
        CohortError
            The file ends within its last row.
        """
        n_rows = 0
        n_lines = 0
        cells: list[str] = []
        with self._text() as stream, _any_length():
            stream.read(len(self.head))
            rows = csv.reader(
                stream, delimiter=self.delimiter, quotechar=self.quote, strict=True
            )
            try:
                for cells in rows:
                    n_rows += bool(cells)
                    n_lines = rows.line_num
                    n_characters = sum(map(len, cells)) + 3 * len(cells)
                    self.longest_row = max(self.longest_row, n_characters)
            except csv.Error:
                # A quote that is open in the last line alone is one of a cut file.
                is_last_line = rows.line_num == n_lines + 1 and not next(stream, "")
                if is_last_line and self.last_line:
                    raise CohortError(self._cut_words()) from None
                return n_rows + 1
        self._refuse_cut_row(cells)
        return None

    def _text(self) -> io.TextIOWrapper:
        """Open the file as text."""
        errors = "replace" if self.is_damaged else "strict"
        return io.TextIOWrapper(
            _open(self.path), encoding=self.encoding, errors=errors, newline=""
        )


@contextlib.contextmanager
def _any_length() -> Iterator[None]:
    """Let Python's reader take cells of any length, such as a long note."""
    usual = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def _is_filled(cells: Sequence[str]) -> bool:
    """Return True if any cell of a row is not blank."""
    return any(map(str.strip, cells))


def _has_apostrophes(text: str, delimiter: str) -> bool:
    """Return True if all cells of the first row are between apostrophes."""
    cells = next(iter(text.splitlines()), "").split(delimiter)
    trimmed = [cell.strip() for cell in cells]
    return all(len(cell) > 1 and cell[0] == QUOTES[1] == cell[-1] for cell in trimmed)


def _first_rows(text: str, delimiter: str, quote: str = '"') -> list[list[str]]:
    """Return the header and the first `SAMPLE_ROWS` rows that have a filled cell."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote)
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error), _any_length():
        rows.extend(itertools.islice(filter(_is_filled, reader), 1 + SAMPLE_ROWS))
    # The end of the sample may have cut the last row.
    is_cut = len(text) >= SAMPLE_CHARACTERS and len(rows) <= SAMPLE_ROWS
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def _delimiter(text: str) -> str:
    """Return the delimiter under which most rows are as wide as the header.

    Of several, the one with the most cells.
    """

    def fit(delimiter: str) -> tuple[float, int]:
        rows = _first_rows(text, delimiter)[:DELIMITER_ROWS]
        widths = [len(cells) for cells in rows] or [0]
        width = widths[0]
        if width <= 1:
            return 0.0, 0
        return widths.count(width) / len(widths), width

    *usual, space = DELIMITERS
    best = max(usual, key=fit)
    _, width = fit(best)
    if width > 0:
        return best
    # Spaces also separate words, so all rows must have as many, and more than one.
    share, width = fit(space)
    return space if share == 1 and width > 2 else best


def _refuse_header(name: str, header: Sequence[str], text: str) -> None:
    """Raise CohortError if the first row is data, a title, or written by R.

    Parameters
    ----------
    name : str
        Name of the file.
    header : sequence of str
        Cells of the first row.
    text : str
        The beginning of the file.
    """
    if _looks_like_data(header):
        # The cells are not shown: here they are a patient's values.
        raise CohortError(
            f"{name}, first row: this looks like a patient's row; add a header row "
            "above it"
        )
    if len(header) > 1:
        return
    width = _width_below_title(text)
    if width:
        raise CohortError(
            f"{name}, first row: it has one cell, but most rows below have {width}; if "
            "it is a title, remove everything above the column names"
        )
    if _is_separated_by_spaces(text):
        raise CohortError(
            f"{name}: the columns are separated by spaces; write the file with commas "
            "(R: write.csv)"
        )


def _looks_like_data(header: Sequence[str]) -> bool:
    """Return True if most cells of a first row are numbers.

    Numbers that only rise are names: columns may be called 0, 1, 2 or by wavelength.
    """
    names = [cell for cell in header if cell]
    numbers = [float(cell) for cell in names if NUMBER.fullmatch(cell)]
    pairs = itertools.pairwise(numbers)
    is_rising = len(numbers) > 2 and all(low < high for low, high in pairs)
    return not is_rising and len(numbers) * 2 > len(names)


def _width_below_title(text: str) -> int | None:
    """Return the width of most rows below a first row of one cell, if it exceeds 2."""
    *usual, _ = DELIMITERS
    for delimiter in usual:
        widths = Counter(len(cells) for cells in _first_rows(text, delimiter)[1:])
        for width, n_rows in widths.most_common(1):
            if width > 2 and n_rows > widths.total() / 2:
                return width
    return None


def _is_separated_by_spaces(text: str) -> bool:
    """Return True if nearly all lines have as many words as the first, or one more.

    R writes the names of rows without a name of their column.
    """
    lines = text.splitlines()[:DELIMITER_ROWS]
    widths = [len(line.split()) for line in lines if line.strip()]
    width = widths.pop(0)
    n_alike = sum(other in (width, width + 1) for other in widths)
    return width > 2 and n_alike > 0.9 * len(widths)


def _open(path: Path) -> BinaryIO:
    """Open a file, decompressed if it is compressed by gzip."""
    with path.open("rb") as stream:
        is_gzipped = stream.read(2) == GZIPPED
    return cast(BinaryIO, gzip.open(path)) if is_gzipped else path.open("rb")


@dataclass(frozen=True)
class _TextFacts:
    """Facts of a whole text file.

    Parameters
    ----------
    encoding : str
    has_quotes : bool
    longest_line : int
        Number of characters of the longest line.
    is_damaged : bool
        Some bytes are not of the encoding.
    last_line : str
        What follows the last line end, `SAMPLE_CHARACTERS` at most.
    """

    encoding: str
    has_quotes: bool = True
    longest_line: int = 0
    is_damaged: bool = False
    last_line: str = ""


def _scan(path: Path) -> _TextFacts:
    """Return the encoding of a whole file, and what else all of it shows.

    The encoding is that of a byte-order mark; otherwise it is the first of UTF-8,
    cp1252 and latin-1 that fits. A file with more characters of UTF-8 than other bytes
    is UTF-8 with damaged cells: read as another one, every name in it would be garbled.

    Raises
    ------
    CohortError
        The file is binary, or cut within a character.
    """
    with _open(path) as stream:
        head = stream.read(1 << 16)
    for mark, encoding in BOMS.items():
        if head.startswith(mark):
            return _scan_as(path, encoding)
    for encoding in ("utf-8", "cp1252", "latin-1"):
        with contextlib.suppress(UnicodeDecodeError):
            facts = _scan_as(path, encoding)
            break
        if encoding == "utf-8" and _is_mostly_utf8(path):
            return _TextFacts(encoding, is_damaged=True)
    n_control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if facts.encoding != "utf-8" and n_control > len(head) / 50:
        raise CohortError(
            f"{path.name}: the content is binary, not a table; export it as CSV in "
            "UTF-8"
        )
    return facts


def _is_mostly_utf8(path: Path) -> bool:
    """Return True if more characters than bytes of no character are beyond ASCII."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    n_characters = 0
    n_bytes = 0
    with _open(path) as stream:
        for chunk in iter(partial(stream.read, SAMPLE_CHARACTERS), b""):
            text = decoder.decode(chunk)
            escaped = len(ESCAPED_BYTE.findall(text))
            n_bytes += escaped
            n_characters += len(BEYOND_ASCII.findall(text)) - escaped
    return n_characters > n_bytes


def _scan_as(path: Path, encoding: str) -> _TextFacts:
    """Return the facts of a file in an encoding.

    Raises
    ------
    UnicodeDecodeError
        The file has another encoding.
    CohortError
        It contains a NUL byte, or is cut within a character.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    n_lines = 1
    has_quotes = False
    is_ascii = True
    longest = 0
    unfinished = 0
    last_line = ""
    with _open(path) as stream:
        for chunk in iter(partial(stream.read, SAMPLE_CHARACTERS), b""):
            text = decoder.decode(chunk)
            if "\0" in text:
                line = n_lines + text[: text.index("\0")].count("\n")
                raise CohortError(
                    f"{path.name}, line {line}: the line has a NUL byte; export the "
                    "file again as UTF-8"
                )
            first, *others = text.split("\n")
            n_lines += len(others)
            unfinished += len(first)
            longest = max(longest, unfinished, *map(len, others))
            last_line += first
            if others:
                unfinished = len(others[-1])
                last_line = others[-1]
            last_line = last_line[-SAMPLE_CHARACTERS:]
            has_quotes = has_quotes or '"' in text
            is_ascii = is_ascii and text.isascii()
    undecoded, _ = decoder.getstate()
    if undecoded and not is_ascii:
        # The last character is cut, after others that were whole: it is UTF-8.
        raise CohortError(
            f"{path.name}: the file is cut short within a character; export it again"
        )
    decoder.decode(b"", final=True)
    # Files of old Macs have no other line end.
    last_line = last_line.rpartition("\r")[2]
    return _TextFacts(encoding, has_quotes, longest, last_line=last_line)
