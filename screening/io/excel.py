"""The first sheet of an Excel workbook, row by row as text; calamine reads it (extra `xlsx`)."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.io.number_formats import decimal_marks
from screening.io.readers import Batches, Form

SAMPLE_ROWS = 2000
# Whole numbers up to here are exact, and written without a point.
EXACT = 2.0**53


def opened(path: Path, head: bytes) -> Form | None:
    """How the first sheet of a workbook is written.

    Raises UsageError: python-calamine is not installed; CohortError: the sheet is empty or damaged.
    """
    if not head.startswith(b"PK\x03\x04"):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if "xl/workbook.xml" not in archive.namelist():
                return None
    except zipfile.BadZipFile:
        return None
    sheet, n_sheets, rows = _sheet_of(path)
    header = [text.strip() for text in next(rows, [])]
    while header and not header[-1]:
        header.pop()
    if not header:
        raise CohortError(f"{path.name}: the first sheet is empty; move the table there")
    sample = [_fitted(cells, len(header))[0] for cells in islice(rows, SAMPLE_ROWS)]
    decimal, others = decimal_marks(sample, header, "")
    left = n_sheets - 1
    unread = f" ({left} other sheet{'s' * (left > 1)} not read)" if left else ""
    return Form(header, f"Excel workbook, sheet '{sheet}'{unread}", decimal, others)


def batches(path: Path, name: str, form: Form, wanted: list[str], batch_rows: int) -> Batches:
    """Yield the rows as text, in order."""
    places = [form.header.index(column) for column in wanted]
    _, _, rows = _sheet_of(path)
    next(rows, None)
    while block := [_fitted(cells, len(form.header)) for cells in islice(rows, batch_rows)]:
        columns = [pa.array([cells[place] for cells, _ in block], pa.string()) for place in places]
        ragged = pa.array([more for _, more in block])
        repeated = pa.array([cells == form.header for cells, _ in block])
        yield pa.record_batch([*columns, ragged, repeated], [*wanted, "ragged", "repeated"])


def _sheet_of(path: Path) -> tuple[str, int, Iterator[list[str]]]:
    """Name of the first sheet, number of sheets, and the filled rows of the first as text."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum
    except ImportError:
        raise UsageError(
            f"{path.name} is an Excel workbook: install python-calamine (`pip install 'screening[xlsx]'`), "
            "or save the sheet as CSV (UTF-8)"
        ) from None
    damaged = CohortError(f"{path.name}: the Excel workbook is damaged; save it again, or as CSV (UTF-8)")
    try:
        # By its content: a path would be judged by its ending.
        with path.open("rb") as stream:
            workbook = CalamineWorkbook.from_filelike(stream)
            sheets = [one.name for one in workbook.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet]
            rows = workbook.get_sheet_by_name(sheets[0]).iter_rows()
    except (OSError, IndexError, zipfile.BadZipFile, CalamineError):
        raise damaged from None
    texts = ([_text(value) for value in values] for values in rows)
    return sheets[0], len(sheets), (cells for cells in texts if any(cells))


def _fitted(cells: list[str], width: int) -> tuple[list[str], bool]:
    """The cells under the header, and whether others stand beside it."""
    return (cells + [""] * width)[:width], any(cells[width:])


def _text(value: object) -> str:
    """A cell as the table would be written: whole numbers without a point, dates from the year down."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ")
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return str(int(value))
    return str(value)
