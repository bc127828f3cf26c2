"""The first sheet of an Excel workbook, row by row as text; calamine reads it (extra `xlsx`)."""

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

    kind, suffixes, magic = "Excel", (".xlsx",), b"PK\x03\x04"

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
        """Read how the sheet is written; UsageError where python-calamine is not installed."""
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
        others = (
            f" ({n_sheets - 1} other sheet{'s' * (n_sheets > 2)} not read)"
            if n_sheets > 1
            else ""
        )
        self.note = f"Excel workbook, sheet '{sheet}'{others}"

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        columns, width = [self.header.index(name) for name in wanted], len(self.header)
        rows = islice(self._sheet()[-1], 1, None)
        while block := list(islice(rows, batch_rows)):
            # Cells that are missing at a row's end, or stand beside the header, are none.
            cells = [(row + [""] * width)[:width] for row in block]
            texts = [
                pa.array([row[column] for row in cells], pa.string())
                for column in columns
            ]
            ragged = pa.array([any(row[width:]) for row in block])
            repeated = pa.array([row == self.header for row in cells])
            yield pa.record_batch(
                [*texts, ragged, repeated], [*wanted, "ragged", "repeated"]
            )

    def _sheet(self) -> tuple[str, int, Iterator[list[str]]]:
        """Name of the first sheet, number of sheets, and the filled rows of the first as text."""
        try:
            from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum
        except ImportError:
            install = "install python-calamine (`pip install 'screening[xlsx]'`), or save the sheet as CSV"
            raise UsageError(f"{self.name} is an Excel workbook: {install}") from None
        try:
            # By its content: a path would be judged by its ending.
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
    """A cell as the table would be written: whole numbers without a point, dates from the year down."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return (
            value.date().isoformat()
            if value.time() == datetime.time()
            else value.isoformat(" ")
        )
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
