"""What a cohort is made of: files, tables in memory, answers of databases, all read in blocks of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from screening.sources.blocks import Block
from screening.sources.csv_files import CsvForm
from screening.sources.excel import SheetForm

Form = CsvForm | SheetForm | None
"""How texts of a part are written; None where its values have types of their own."""


class Part(Protocol):
    """One table of a cohort; `rows` may be known only once it was read, `origin` stands beside its digest.

    `paths` are the files it is read from, none where only this process can read it.
    """

    name: str
    sha256: str
    bytes: int
    header: list[str]
    rows: int | None
    origin: Mapping[str, str]

    @property
    def paths(self) -> Sequence[Path]:
        """Its files, for others who see them."""
        ...

    @property
    def form(self) -> Form:
        """How its texts are written."""
        ...

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        ...

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, all columns or some; memory is bounded by `batch_rows`."""
        ...


class TypedPart:
    """What a part has whose values have types of their own; its files are none unless it names them."""

    form: Form = None
    paths: Sequence[Path] = ()
    origin: Mapping[str, str] = MappingProxyType({})

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        return "."


class DerivedPart:
    """What a part that is made of another has from it; its rows are known once they were read.

    Parameters
    ----------
    part : Part
    """

    def __init__(self, part: Part):
        self.part = part
        self.name, self.sha256, self.bytes = part.name, part.sha256, part.bytes
        self.header, self.form = part.header, part.form
        self.origin: Mapping[str, str] = part.origin
        self.rows: int | None = None

    @property
    def paths(self) -> Sequence[Path]:
        """The files of the part."""
        return self.part.paths

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        return self.part.decimal(column)


def header_faults(part: Part) -> list[str]:
    """What is wrong with the names of a part's columns."""
    named = [name for name in part.header if name]
    if not named:
        return [f"{part.name}: no column has a name; add a header row"]
    faults = []
    for name in dict.fromkeys(named):
        places = [str(place) for place, other in enumerate(part.header, start=1) if other == name]
        if len(places) > 1:
            faults.append(
                f"{part.name}: column name '{name}' occurs {len(places)} times "
                f"(columns {', '.join(places)}); rename or remove all but one"
            )
    return faults
