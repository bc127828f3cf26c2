"""What a cohort is made of: parts, all read in blocks of columns; and how a kind of file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Block:
    """Some rows of one part: `columns` maps names to arrow arrays; `first_row` counts from 1 in the part."""

    columns: Mapping[str, pa.Array]
    n_rows: int
    first_row: int
    ragged: np.ndarray
    repeated_header: np.ndarray


def whole_block(columns: Mapping[str, pa.Array], n_rows: int, first_row: int) -> Block:
    """A block of what has no broken rows: its reader knows rows and columns by itself."""
    none = np.zeros(n_rows, dtype=bool)
    return Block(columns, n_rows, first_row, none, none)


def wanted_of(header: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, each once; all that have a name where none are."""
    return list(dict.fromkeys(filter(None, header) if columns is None else columns))


class Form(Protocol):
    """How texts of a part are written."""

    @property
    def decimal(self) -> str:
        """The usual decimal mark."""
        ...

    @property
    def others(self) -> Mapping[str, str]:
        """Columns with another decimal mark."""
        ...

    def note(self) -> str:
        """The form in words."""
        ...


@dataclass(frozen=True)
class Reader:
    """How one kind of file is read; a new kind is a module with these two functions and a line in `READERS`.

    Parameters
    ----------
    opened : callable
        Of a path and its first bytes: names of the columns, and how texts are written (None where values have
        types of their own); None where it is a file of another kind. CohortError where it is damaged.
    blocks : callable
        Of a path, the name that errors call it, what `opened` gave as form, the columns to read and the rows
        to read at a time: the rows in order, in bounded memory.
    """

    opened: Callable[[Path, bytes], tuple[list[str], Form | None] | None]
    blocks: Callable[[Path, str, Form | None, list[str], int], Iterator[Block]]


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
    def form(self) -> Form | None:
        """How its texts are written; None where its values have types of their own."""
        ...

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        ...

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, all columns or some; memory is bounded by `batch_rows`."""
        ...


class TypedPart:
    """What a part has whose values have types of their own; its files are none unless it names them."""

    form: Form | None = None
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
