"""The flagged rows as a workbook of typed cells."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from pathlib import Path
from typing import Any

from screening.errors import UsageError
from screening.scoring.rows import FlaggedRows
from screening.store.publishing import write_whole

# Excel's own limit, a line for the header taken off.
MOST_ROWS = (1 << 20) - 1
LONGEST_TEXT = 32_767
# What XML cannot hold, or would change, and what looks like the way Excel writes it.
_NO_XML = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def write(flagged: FlaggedRows, *, out: Path) -> None:
    """A workbook of one sheet, in which a text is never a formula; the same rows, the same bytes."""
    try:
        from openpyxl import Workbook
        from openpyxl.writer.excel import ExcelWriter
    except ModuleNotFoundError:
        raise UsageError(
            'a workbook needs openpyxl: pip install "screening[xlsx]"'
        ) from None
    if flagged.rows.num_rows > MOST_ROWS:
        raise UsageError(
            f"{flagged.rows.num_rows} rows are more than a sheet holds; export them as csv"
        )
    book = Workbook(write_only=True)
    # The clock is no part of the night.
    book.properties.created = book.properties.modified = (
        datetime.datetime.fromisoformat(flagged.run.date)
    )
    sheet = book.create_sheet("flagged")
    sheet.freeze_panes = "A2"
    table = flagged.table()
    sheet.append([_typed(sheet, name) for name in table.column_names])
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        sheet.append([_typed(sheet, cell) for cell in row])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        ExcelWriter(book, archive).save()
    # Again, without the times of its files.
    content = io.BytesIO()
    with zipfile.ZipFile(written) as archive, zipfile.ZipFile(content, "w") as timeless:
        for name in archive.namelist():
            timeless.writestr(
                zipfile.ZipInfo(name), archive.read(name), zipfile.ZIP_DEFLATED
            )
    write_whole(out, content.getvalue())


def _typed(sheet: Any, value: object) -> Any:
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return WriteOnlyCell(sheet, value=value)
    if len(value) > LONGEST_TEXT:
        raise UsageError(
            f"a text has {len(value)} characters, more than a cell holds; export as csv"
        )
    cell = WriteOnlyCell(sheet)
    # Set behind openpyxl's back, which takes what begins with = for a formula.
    cell._value, cell.data_type = (
        _NO_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", value),
        "s",
    )
    return cell
