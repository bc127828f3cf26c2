"""Read the first sheet of an Excel workbook as text, by calamine (extra `xlsx`)."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.io.csv_files import SAMPLE_ROWS
from screening.io.number_formats import decimal_marks
from screening.io.readers import Batches, TableFile


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
        sheet, n_sheets, rows = self._sheet()
        self.header = [text.strip() for text in next(rows, [])]
        while self.header and not self.header[-1]:
            self.header.pop()
        if not self.header:
            raise CohortError(
                f"{self.name}: the first sheet is empty; move the table there"
            )
        sample = [cells[: len(self.header)] for cells in islice(rows, SAMPLE_ROWS)]
        self.decimal_mark, self.other_marks = decimal_marks(sample, self.header, "")
        self.note = f"Excel workbook, sheet '{sheet}'"
        if n_sheets == 2:
            self.note += " (1 other sheet not read)"
        elif n_sheets > 2:
            self.note += f" ({n_sheets - 1} other sheets not read)"

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order, as text."""
        places = [self.header.index(name) for name in wanted]
        width = len(self.header)
        _, _, rows = self._sheet()
        # The first is the header.
        next(rows)
        while block := list(islice(rows, batch_rows)):
            # Cells that are missing at a row's end are empty.
            cells = [(row + [""] * width)[:width] for row in block]
            columns = {
                name: pa.array([row[place] for row in cells], pa.string())
                for name, place in zip(wanted, places, strict=True)
            }
            columns["ragged"] = pa.array([any(row[width:]) for row in block])
            columns["repeated"] = pa.array([row == self.header for row in cells])
            yield pa.RecordBatch.from_pydict(columns)

    def _sheet(self) -> tuple[str, int, Iterator[list[str]]]:
        """Return name and filled rows of the first sheet, and the number of sheets."""
        try:
            from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum
        except ImportError:
            raise UsageError(
                f"{self.name} is an Excel workbook: install python-calamine "
                "(`pip install 'screening[xlsx]'`), or save the sheet as CSV"
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
                rows = workbook.get_sheet_by_name(sheets[0]).iter_rows()
        except (OSError, IndexError, zipfile.BadZipFile, CalamineError):
            raise CohortError(
                f"{self.name}: the Excel workbook is damaged; save it again"
            ) from None
        texts = ([_text(value) for value in values] for values in rows)
        return sheets[0], len(sheets), (cells for cells in texts if any(cells))


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
