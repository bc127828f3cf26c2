"""CSV files: their encoding, delimiter and decimal mark, and their rows as text, read by Arrow in blocks.

Arrow says nothing of a quote that is never closed: a file that has quotes is gone through once by Python's
strict reader, which tells the row that cannot be read.
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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from screening.errors import CohortError
from screening.io.number_formats import NUMBER, decimal_marks
from screening.io.readers import Batches, TableFile

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}
# What is read of a file to see how it is written: characters, and rows of them.
SAMPLE, SAMPLE_ROWS = 1 << 20, 2000
# What Arrow reads at a time, at least and at most; a row may reach over two.
BLOCK_BYTES, LONGEST_LINE = 1 << 16, 16 << 20
GZIPPED = b"\x1f\x8b"
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# First bytes of files that are no table but are often handed over as one.
STRANGERS = {
    b"PK\x03\x04": "a zip archive and no Excel workbook; unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV (UTF-8)",
    b"<": "a web page, XML or a Stata file; export the table as CSV (UTF-8)",
    b"{": "JSON; export the table as CSV (UTF-8) or Parquet",
    b"[": "JSON; export the table as CSV (UTF-8) or Parquet",
}


class CsvFile(TableFile):
    """A CSV file: `head` is the text above the first row, `broken` the first row that cannot be read."""

    kind, suffixes = "CSV", (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

    @classmethod
    def knows(cls, path: Path, head: bytes) -> bool:
        """Any text; CohortError where it is a file of another kind."""
        for magic, kind in STRANGERS.items():
            if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(magic):
                raise CohortError(f"{path.name}: this is {kind}")
        if path.name.lower().endswith((".parquet", ".pq")):
            raise CohortError(
                f"{path.name}: not a Parquet file; name it .csv, or export it again"
            )
        return True

    def read_header(self) -> None:
        """Find the encoding by the whole of the file, delimiter and decimal marks by its first rows."""
        self.encoding, self.quoted = _encoding(self.path)
        with self._text() as stream:
            text = stream.read(SAMPLE)
        # An Excel `sep=` line is no row of the table.
        stated = re.match(r"sep=(.)\r?\n", text)
        body = text[stated.end() :] if stated else text
        self.delimiter = (
            stated[1] if stated and stated[1] in DELIMITERS else _delimiter(body)
        )
        rows = _parsed(body, self.delimiter)
        if not rows:
            raise CohortError(f"{self.name}: the file is empty; export it again")
        self.header = [name.strip() for name in rows[0]]
        _refuse_header(self.name, self.header, body)
        lines = io.StringIO(body, newline="")
        next(
            cells
            for cells in csv.reader(lines, delimiter=self.delimiter)
            if any(map(str.strip, cells))
        )
        self.head = text[: len(text) - len(body) + lines.tell()]
        self.decimal_mark, self.other_marks = decimal_marks(
            rows[1:], self.header, self.delimiter
        )
        self.note = (
            f"CSV, delimiter {DELIMITERS[self.delimiter]}, encoding {self.encoding}"
        )
        if self.decimal_mark == "," or self.other_marks:
            also = (
                f" (not in {', '.join(self.other_marks)})" if self.other_marks else ""
            )
            self.note += (
                f", decimal {'comma' if self.decimal_mark == ',' else 'point'}{also}"
            )
        self.broken = self._broken_row() if self.quoted else None

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order, as text; CohortError at one that cannot be read."""
        if not self.head.endswith(("\n", "\r")):
            return
        first, broken = 1, self.broken
        try:
            with _opened(self.path) as stream:
                for batch in self._arrow_batches(
                    stream, [self.header.index(name) for name in wanted]
                ):
                    yield batch.slice(0, broken - first) if broken else batch
                    first += batch.num_rows
                    if broken and first >= broken:
                        break
        except pa.ArrowInvalid:
            # Arrow refuses a file without rows, and a line that is longer than its blocks.
            broken = broken or self._broken_row()
            with self._text() as text:
                empty = not text.read(len(self.head) + BLOCK_BYTES)[
                    len(self.head) :
                ].strip()
            if broken is None and not empty:
                line = f"a line behind row {first - 1} is far longer than the header"
                raise CohortError(
                    f"{self.name}: {line}; is a line end missing?"
                ) from None
        if broken:
            fault = "a quote is not closed or stands inside a cell, or a cell has over 131072 characters"
            raise CohortError(
                f"{self.name}, row {broken}: {fault}; double the quotes inside cells"
            )

    def _arrow_batches(self, stream: BinaryIO, columns: list[int]) -> Batches:
        """Rows as Arrow reads them, some columns, and two masks: rows of other widths, repeated headers."""
        names = [str(number) for number in range(len(self.header))]
        above = len(re.findall(r"\r\n|\r|\n", self.head))
        invalid: deque[int] = deque()

        def skip(row: arrow_csv.InvalidRow) -> str:
            invalid.append(row.number - above)
            return "skip"

        reader = arrow_csv.open_csv(
            stream,
            # Rows have numbers only where one thread reads them.
            arrow_csv.ReadOptions(
                use_threads=False,
                block_size=min(
                    max(BLOCK_BYTES, 256 * len(self.head.encode())), LONGEST_LINE
                ),
                skip_rows=above,
                column_names=names,
                encoding=self.encoding,
            ),
            arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char='"' if self.quoted else False,
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
        first = 1
        for batch in itertools.chain(
            reader, [pa.RecordBatch.from_pylist([], reader.schema)]
        ):
            skipped: list[int] = []
            while invalid and invalid[0] <= first + batch.num_rows + len(skipped):
                skipped.append(invalid.popleft() - first)
            ragged = np.zeros(batch.num_rows + len(skipped), dtype=bool)
            ragged[skipped] = True
            first += len(ragged)
            cells, repeated = (
                batch.columns,
                pa.array(np.ones(batch.num_rows, dtype=bool)),
            )
            for name, column in zip(batch.schema.names, cells, strict=True):
                if pc.any(repeated).as_py():
                    same = pc.equal(
                        pc.utf8_trim_whitespace(column), self.header[int(name)]
                    )
                    repeated = pc.and_(repeated, same)
            if skipped:
                # Such a row keeps its place, its cells being empty.
                whole = pa.array(np.cumsum(~ragged) - 1, mask=ragged)
                cells = [pc.fill_null(column.take(whole), "") for column in cells]
                repeated = pc.fill_null(repeated.take(whole), False)
            yield pa.record_batch(
                [*cells[: len(columns)], pa.array(ragged), repeated],
                [*map(str, columns), "ragged", "repeated"],
            )

    def _broken_row(self) -> int | None:
        """The first row that Python's strict reader refuses."""
        row = 0
        try:
            with self._text() as stream:
                stream.read(len(self.head))
                for cells in csv.reader(stream, delimiter=self.delimiter, strict=True):
                    row += bool(cells)
        except csv.Error:
            return row + 1
        return None

    def _text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(_opened(self.path), encoding=self.encoding, newline="")


def _parsed(text: str, delimiter: str) -> list[list[str]]:
    """The first rows of a text that have a filled cell."""
    reader, rows = (
        csv.reader(io.StringIO(text, newline=""), delimiter=delimiter),
        list[list[str]](),
    )
    with contextlib.suppress(csv.Error):
        rows.extend(
            itertools.islice(
                (row for row in reader if any(map(str.strip, row))), 1 + SAMPLE_ROWS
            )
        )
    # The last row may be cut by the end of the sample.
    return rows[:-1] if len(text) >= SAMPLE and 1 < len(rows) <= SAMPLE_ROWS else rows


def _delimiter(text: str) -> str:
    """The delimiter under which most rows have as many cells as the header, then the one with most cells."""

    def fit(delimiter: str) -> tuple[float, int]:
        widths = [len(cells) for cells in _parsed(text, delimiter)[:200]] or [0]
        return (
            (widths.count(widths[0]) / len(widths), widths[0])
            if widths[0] > 1
            else (0.0, 0)
        )

    # Spaces part words too: they are the delimiter only where no other is, and all rows have as many.
    *usual, space = DELIMITERS
    best = max(usual, key=fit)
    return (
        space
        if fit(best)[1] == 0 and fit(space)[0] == 1 and fit(space)[1] > 2
        else best
    )


def _refuse_header(name: str, header: Sequence[str], text: str) -> None:
    """CohortError where the first row holds no names, or a title, or names of columns in another form."""
    named = [cell for cell in header if cell]
    numbers = [float(cell) for cell in named if NUMBER.fullmatch(cell)]
    # Columns may be called 0, 1, 2 or by wavelength: numbers that only rise are names.
    rising = len(numbers) > 2 and all(
        low < high for low, high in itertools.pairwise(numbers)
    )
    if not rising and len(numbers) * 2 > len(named):
        # The names are not shown: here they are a patient's values.
        raise CohortError(
            f"{name}, first row: it looks like a patient's row; add a header row above it"
        )
    if len(header) > 1:
        return
    *usual, _ = DELIMITERS
    for delimiter in usual:
        widths = Counter(len(cells) for cells in _parsed(text, delimiter)[1:])
        for width, often in widths.most_common(1):
            if width > 2 and often > widths.total() / 2:
                title = f"one cell above rows of {width}; is it a title?"
                raise CohortError(
                    f"{name}, first row: {title} Remove what stands above the column names"
                )
    first, *rows = (
        len(line.split()) for line in text.splitlines()[:200] if line.strip()
    )
    # R writes the names of rows without one of their column.
    if (
        first > 2
        and rows
        and sum(width in (first, first + 1) for width in rows) > 0.9 * len(rows)
    ):
        raise CohortError(
            f"{name}: its columns are parted by spaces; write it with commas (R: write.csv)"
        )


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIPPED
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _encoding(path: Path) -> tuple[str, bool]:
    """Encoding of the whole file: a byte-order mark, UTF-8, cp1252, else latin-1; and if it has quotes."""
    with _opened(path) as stream:
        head = stream.read(1 << 16)
    for mark, encoding in BOMS.items():
        if head.startswith(mark):
            return encoding, True
    for encoding in ("utf-8", "cp1252", "latin-1"):
        with contextlib.suppress(UnicodeDecodeError):
            quoted = _has_quotes(path, encoding)
            break
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if encoding != "utf-8" and control > len(head) / 50:
        raise CohortError(
            f"{path.name}: binary content, not a table; export it as CSV in UTF-8"
        )
    return encoding, quoted


def _has_quotes(path: Path, encoding: str) -> bool:
    """Whether there are quotes somewhere; UnicodeDecodeError where the file is written otherwise."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines, quoted, foreign = 1, False, False
    with _opened(path) as stream:
        for chunk in iter(partial(stream.read, SAMPLE), b""):
            text = decoder.decode(chunk)
            if "\0" in text:
                line = lines + text[: text.index("\0")].count("\n")
                raise CohortError(
                    f"{path.name}, line {line}: a NUL byte; export the file again as UTF-8"
                )
            lines += text.count("\n")
            quoted, foreign = quoted or '"' in text, foreign or not text.isascii()
    if decoder.getstate()[0] and foreign:
        # A last character cut in two after others that were whole: UTF-8, but not all of it.
        raise CohortError(f"{path.name}: cut short within a character; export it again")
    decoder.decode(b"", final=True)
    return quoted
