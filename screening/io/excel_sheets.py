"""Facts of an Excel sheet that its values do not show: hidden rows, formulas."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from posixpath import join, normpath
from xml.etree import ElementTree

CHUNK_BYTES = 1 << 20
# An element may lie across two chunks; longer ones are not looked for.
OVERLAP_BYTES = 1 << 12
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
HIDDEN_ROW = re.compile(rb"<(?:\w+:)?row\b[^>]*\shidden=\"(?:1|true)\"")
# A formula whose cell ends without a value, or with an empty one.
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
        Cells with a formula that nobody has calculated; they have no value.
    """

    hidden_rows: int = 0
    uncalculated: int = 0


def marks_of_sheet(path: Path, sheet: str) -> SheetMarks:
    """Return the marks of a sheet by its name; none where its XML is not found."""
    with zipfile.ZipFile(path) as archive:
        name = _part_of_sheet(archive, sheet)
        if name not in archive.namelist():
            return SheetMarks()
        return _marks_of_part(archive, name)


def _part_of_sheet(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the part of a workbook that holds a sheet, "" for none."""
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
