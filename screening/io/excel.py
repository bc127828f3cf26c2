"""Read the first sheet of an Excel workbook as text, by calamine (extra `xlsx`)."""

from __future__ import annotations

import datetime
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.io.csv_files import SAMPLE_ROWS
from screening.io.excel_sheets import SheetMarks, marks_of_sheet, size_of_sheet
from screening.io.number_formats import decimal_marks
from screening.io.readers import RecordBatches, TableFile
from screening.spelling import first_of

# Names of sheets in a message.
MAX_SHEETS_NAMED = 3
MIN_WIDTH_BELOW_TITLE = 2
UNREADABLE_PARTS = (
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    ElementTree.ParseError,
)


class ExcelFile(TableFile):
    """The first sheet of a workbook."""

    kind = "Excel"
    suffixes = (".xlsx",)
    magic = b"PK\x03\x04"

    @classmethod
    def knows(cls, path: Path, head: bytes) -> bool:
        """Return True for a workbook, also a damaged one that bears the name of one."""
        if not head.startswith(cls.magic) or not zipfile.is_zipfile(path):
            return False
        try:
            with zipfile.ZipFile(path) as archive:
                return "xl/workbook.xml" in archive.namelist()
        except (zipfile.BadZipFile, NotImplementedError):
            return path.suffix.lower() in cls.suffixes

    def read_header(self) -> None:
        """Read the header and the decimal marks of the first sheet.

        Raises
        ------
        UsageError
            python-calamine is not installed.
        CohortError
            The sheet is empty, or the workbook damaged.
        """
        sheet, other_sheets, rows = self._sheet()
        self.sheet = f"sheet '{sheet}'"
        if other_sheets:
            self.sheet += f" (not read: {first_of(other_sheets, MAX_SHEETS_NAMED)})"
        marks = self._marks(sheet)
        self.header = [text.strip() for text in next(rows, [])]
        while self.header and not self.header[-1]:
            self.header.pop()
        if not self.header:
            raise CohortError(
                f"{self.name}: the first sheet is empty; move the table there"
            )
        rows_below = list(islice(rows, SAMPLE_ROWS))
        self._refuse_title(sheet, rows_below)
        sample = [cells[: len(self.header)] for cells in rows_below]
        self.decimal_mark, self.other_marks = decimal_marks(sample, self.header, "")
        self.note = f"Excel workbook, sheet '{sheet}'"
        if other_sheets:
            noun = "sheet" if len(other_sheets) == 1 else "sheets"
            self.note += f" ({len(other_sheets)} other {noun} not read)"
        if marks.hidden_rows:
            self.note += f", {marks.hidden_rows:,} hidden rows are read too"

    def _marks(self, sheet: str) -> SheetMarks:
        """Return the marks of the sheet.

        Raises
        ------
        CohortError
            Formulas were never calculated: their cells would be read as blank.
        """
        try:
            marks = marks_of_sheet(self.path, sheet)
        except (OSError, KeyError, zipfile.BadZipFile, ElementTree.ParseError):
            # Calamine reads more workbooks than this does.
            return SheetMarks()
        if marks.uncalculated:
            raise CohortError(
                f"{self.name}, sheet '{sheet}': {marks.uncalculated:,} formulas have "
                "no value, because they were never calculated; open the workbook in "
                "Excel and save it"
            )
        return marks

    def _refuse_far_cell(self, sheet: str) -> None:
        """Raise CohortError if a cell far from the others makes the sheet too large.

        The library makes every cell up to the last one, and ends the process where
        memory does not suffice.
        """
        try:
            size = size_of_sheet(self.path, sheet)
        except UNREADABLE_PARTS:
            # Calamine reads more workbooks than this does, or says that it is damaged.
            return
        if size.is_mostly_blank:
            raise CohortError(
                f"{self.name}, sheet '{sheet}': its last cell is {size.last_cell}, and "
                f"only {size.n_cells:,} of {size.n_rows * size.n_columns:,} cells have "
                "content; delete the rows and columns beyond the table, and save it"
            )

    def _refuse_title(self, sheet: str, rows_below: list[list[str]]) -> None:
        """Raise CohortError if the first row is a title: one cell above wide rows."""
        widths = [sum(map(bool, cells)) for cells in rows_below]
        n_wide = sum(width > MIN_WIDTH_BELOW_TITLE for width in widths)
        if len(self.header) == 1 and 2 * n_wide > len(widths):
            raise CohortError(
                f"{self.name}, sheet '{sheet}', first row: it has one cell, but "
                f"rows below it have up to {max(widths)} cells; if it is a title, "
                "remove everything above the column names"
            )

    def read(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order, as text."""
        places = [self.header.index(name) for name in wanted]
        width = len(self.header)
        _, _, rows = self._sheet()
        # The first is the header.
        next(rows)
        while block := list(islice(rows, batch_rows)):
            # Cells that are missing at a row's end are empty.
            cells = [(row + [""] * width)[:width] for row in block]
            columns = {}
            for name, place in zip(wanted, places, strict=True):
                columns[name] = pa.array([row[place] for row in cells], pa.string())
            columns["ragged"] = pa.array([any(row[width:]) for row in block])
            columns["repeated"] = pa.array([row == self.header for row in cells])
            yield pa.RecordBatch.from_pydict(columns)

    def _sheet(self) -> tuple[str, list[str], Iterator[list[str]]]:
        """Return the first sheet's name, those of the others, and its filled rows."""
        try:
            from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum
        except ImportError:
            raise UsageError(
                f"{self.name} is an Excel workbook; install python-calamine (`pip "
                "install 'screening[xlsx]'`), or save the sheet as CSV"
            ) from None
        try:
            # A stream is judged by its content, a path by its ending.
            with self.path.open("rb") as stream:
                workbook = CalamineWorkbook.from_filelike(stream)
                sheets = [
                    sheet.name
                    for sheet in workbook.sheets_metadata
                    if sheet.typ == SheetTypeEnum.WorkSheet
                ]
                self._refuse_far_cell(sheets[0])
                rows = workbook.get_sheet_by_name(sheets[0]).iter_rows()
        except (OSError, IndexError, zipfile.BadZipFile, CalamineError):
            raise CohortError(
                f"{self.name}: the Excel workbook is damaged; save it again"
            ) from None
        texts = (list(map(_text, values)) for values in rows)
        return sheets[0], sheets[1:], filter(any, texts)


def _text(value: object) -> str:
    """Return a cell as text: whole numbers without a point, dates in ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        if value.time() == datetime.time():
            return value.date().isoformat()
        return value.isoformat(" ")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
