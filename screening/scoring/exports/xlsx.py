"""Export the flagged rows as a workbook of typed cells."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from pathlib import Path
from typing import Any

from screening.errors import UsageError
from screening.scoring.exporting import FlaggedRows
from screening.store.publishing import write_whole

# Excel's limits; one line is the header.
MAX_ROWS = (1 << 20) - 1
MAX_CHARACTERS = 32_767
# Characters that XML cannot contain or would change, and texts that look like the
# escapes that Excel writes for them.
_NO_XML = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """Write a workbook of one sheet without formulas.

    The same rows give the same bytes.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.writer.excel import ExcelWriter
    except ModuleNotFoundError:
        raise UsageError(
            'a workbook needs openpyxl: pip install "screening[xlsx]"'
        ) from None
    if flagged.rows.num_rows > MAX_ROWS:
        raise UsageError(
            f"{flagged.rows.num_rows} rows are more than a sheet can contain; export "
            "them as csv"
        )
    book = Workbook(write_only=True)
    # The time of writing is not part of the night.
    date = datetime.datetime.fromisoformat(flagged.run.date)
    book.properties.created = date
    book.properties.modified = date
    sheet = book.create_sheet("flagged")
    sheet.freeze_panes = "A2"
    table = flagged.table()
    sheet.append([_typed(sheet, name) for name in table.column_names])
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        sheet.append([_typed(sheet, cell) for cell in row])
    workbook = io.BytesIO()
    with zipfile.ZipFile(workbook, "w", zipfile.ZIP_DEFLATED) as archive:
        ExcelWriter(book, archive).save()
    write_whole(out, _without_times(workbook))


def _without_times(workbook: io.BytesIO) -> bytes:
    """Return a ZIP file without the times of the files in it."""
    content = io.BytesIO()
    with (
        zipfile.ZipFile(workbook) as archive,
        zipfile.ZipFile(content, "w") as timeless,
    ):
        for name in archive.namelist():
            file = zipfile.ZipInfo(name)
            timeless.writestr(file, archive.read(name), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _typed(sheet: Any, value: object) -> Any:
    """Return a cell of a value; a text stays a text."""
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return WriteOnlyCell(sheet, value=value)
    if len(value) > MAX_CHARACTERS:
        raise UsageError(
            f"a text has {len(value)} characters, more than a cell can contain; "
            "export as csv"
        )
    cell = WriteOnlyCell(sheet)
    # Set past openpyxl, which takes what begins with = for a formula.
    cell._value = _NO_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", value)
    cell.data_type = "s"
    return cell
