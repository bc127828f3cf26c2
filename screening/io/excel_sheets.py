"""Facts of an Excel sheet that its values do not show: hidden rows, formulas."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from posixpath import join, normpath
from xml.etree import ElementTree

CHUNK_BYTES = 1 << 20
# Cells of a sheet, blank ones too, that a library may make of it.
MAX_CELLS = 50_000_000
# Times as many cells as have content, beyond which one of them lies far off.
MAX_BLANKS = 20
ROW = re.compile(rb"<(?:\w+:)?row\b[^>]*?\sr=[\"'](\d+)")
CELL = re.compile(rb"<(?:\w+:)?c\b[^>]*?\sr=[\"']([A-Z]{1,3})(\d+)")
# An element may lie across two chunks; longer ones are not looked for.
OVERLAP_BYTES = 1 << 12
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
HIDDEN_ROW = re.compile(rb"<(?:\w+:)?row\b[^>]*\shidden=\"(?:1|true)\"")
# A formula in a cell that ends without a value, or with an empty one.
UNCALCULATED = re.compile(
    rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^>]*/>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)


@dataclass(frozen=True)
class SheetMarks:
    """Counts of a sheet's rows and cells that values alone do not show.

    Parameters
    ----------
    hidden_rows : int
    uncalculated : int
        Cells with a formula that was not calculated; they have no value.
    """

    hidden_rows: int = 0
    uncalculated: int = 0


@dataclass
class SheetSize:
    """Size of a sheet by the places of its cells.

    Parameters
    ----------
    n_rows, n_columns : int
        Those of the last row and column.
    n_cells : int
        Cells in the file.
    """

    n_rows: int = 0
    n_columns: int = 0
    n_cells: int = 0

    @property
    def is_mostly_blank(self) -> bool:
        """True if a table of this size would not fit memory, for few cells."""
        n_all = self.n_rows * self.n_columns
        return n_all > max(MAX_CELLS, MAX_BLANKS * self.n_cells)

    @property
    def last_cell(self) -> str:
        """The place of the last cell, such as XFD1048576."""
        letters = ""
        number = self.n_columns
        while number:
            number, place = divmod(number - 1, 26)
            letters = chr(ord("A") + place) + letters
        return f"{letters}{self.n_rows}"

    def add(self, cells: bytes) -> None:
        """Count the rows and cells of a piece of the sheet's XML."""
        for row in ROW.findall(cells):
            self.n_rows = max(self.n_rows, int(row))
        for letters, row in CELL.findall(cells):
            self.n_cells += 1
            self.n_rows = max(self.n_rows, int(row))
            self.n_columns = max(self.n_columns, _column_number(letters))


def size_of_sheet(path: Path, sheet: str) -> SheetSize:
    """Return the size of a sheet by its name; nothing where its XML is not found."""
    size = SheetSize()
    with zipfile.ZipFile(path) as archive:
        name = _part_of_sheet(archive, sheet)
        if name not in archive.namelist():
            return size
        kept = b""
        with archive.open(name) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                text = kept + chunk
                # Whole elements; the last may go on in the next chunk.
                end = text.rfind(b"<")
                size.add(text[:end])
                kept = text[end:][-OVERLAP_BYTES:]
        size.add(kept)
    return size


def _column_number(letters: bytes) -> int:
    """Return the number of a column from its letters, 1 for A."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def marks_of_sheet(path: Path, sheet: str) -> SheetMarks:
    """Return the marks of a sheet by its name; none where its XML is not found."""
    with zipfile.ZipFile(path) as archive:
        name = _part_of_sheet(archive, sheet)
        if name not in archive.namelist():
            return SheetMarks()
        return _marks_of_part(archive, name)


def _part_of_sheet(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the part of a workbook with a sheet, "" for none."""
    workbook = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    key = None
    for element in workbook.iter():
        if element.tag.endswith("}sheet") and element.get("name") == sheet:
            key = element.get(RELATION)
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    for relation in relations:
        if relation.get("Id") == key:
            return normpath(join("/xl", relation.get("Target", ""))).lstrip("/")
    return ""


def _marks_of_part(archive: zipfile.ZipFile, name: str) -> SheetMarks:
    hidden_rows = 0
    uncalculated = 0
    kept = b""
    with archive.open(name) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            text = kept + chunk
            # What ends in the part that is kept was counted with the chunk before.
            start = len(kept)
            hidden_rows += _count_ending_behind(HIDDEN_ROW, text, start)
            uncalculated += _count_ending_behind(UNCALCULATED, text, start)
            kept = text[-OVERLAP_BYTES:]
    return SheetMarks(hidden_rows, uncalculated)


def _count_ending_behind(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    return sum(match.end() > start for match in pattern.finditer(text))
