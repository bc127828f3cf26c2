"""What a cohort is made of: parts, all read in blocks of columns; and how a kind of file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from screening.documents.voxels import Geometry
from screening.errors import UsageError

MOST_FILES = 10_000


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
    """How texts of a part are written: the usual decimal mark, and columns with another one."""

    @property
    def decimal(self) -> str: ...

    @property
    def others(self) -> Mapping[str, str]: ...

    def note(self) -> str:
        """The form in words."""
        ...


@dataclass(frozen=True)
class Reader:
    """How one kind of file is read; a new kind is a module with these two functions and a line in `READERS`.

    `opened` gives, of a path and its first bytes, the names of the columns and how texts are written (None
    where values have types of their own); None where it is a file of another kind. `blocks` gives, of a path,
    the name that errors call it, that form, the columns to read and the rows to read at a time, the rows in
    order, in bounded memory. Both raise CohortError where the file is damaged.
    """

    opened: Callable[[Path, bytes], tuple[list[str], Form | None] | None]
    blocks: Callable[[Path, str, Any, list[str], int], Iterator[Block]]


class Part:
    """One table of a cohort; `rows` may be known only once it was read, `origin` stands beside its digest.

    `paths` are the files it is read from, none where only this process can read it. `form` is None where
    values have types of their own.
    """

    name: str
    sha256: str
    bytes: int
    header: list[str]
    rows: int | None = None
    form: Form | None = None
    paths: Sequence[Path] = ()
    origin: Mapping[str, str] = {}

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        return self.form.others.get(column, self.form.decimal) if self.form else "."

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, all columns or some; memory is bounded by `batch_rows`."""
        raise NotImplementedError


class DerivedPart(Part):
    """What a part that is made of another has from it; its rows are known once they were read."""

    def __init__(self, part: Part):
        self.part = part
        self.name, self.sha256, self.bytes = part.name, part.sha256, part.bytes
        self.header, self.form, self.paths, self.origin = part.header, part.form, part.paths, part.origin


@dataclass
class Source:
    """The parts of a cohort, in reading order, with what was detected about them.

    Where they are patients' images, `group` is the column of the patient, and `geometries` say where voxels
    lie.
    """

    files: Sequence[Part]
    notes: list[str] = field(default_factory=list)
    group: str | None = None
    geometries: Sequence[Geometry] = ()

    @property
    def n_rows(self) -> int | None:
        """Data rows of all files, None before all were read."""
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def delimiter(self) -> str | None:
        """Delimiter of the CSV files (several: joined by spaces), None where there is none."""
        return self._of_csv("delimiter")

    @property
    def encoding(self) -> str | None:
        """Encoding of the CSV files, None where there is none."""
        return self._of_csv("encoding")

    def _of_csv(self, key: str) -> str | None:
        forms = [file.form for file in self.files if hasattr(file.form, key)]
        return " ".join(dict.fromkeys(getattr(form, key) for form in forms)) or None

    def to_dict(self) -> dict[str, object]:
        """Plain form for model.json and run.json."""
        files = [
            {"name": file.name, "sha256": file.sha256, "bytes": file.bytes, "rows": file.rows, **file.origin}
            for file in self.files
        ]
        return {"files": files, "delimiter": self.delimiter, "encoding": self.encoding, "rows": self.n_rows}


def header_faults(part: Part) -> list[str]:
    """What is wrong with the names of a part's columns."""
    named = [name for name in part.header if name]
    if not named:
        return [f"{part.name}: no column has a name; add a header row"]
    places: dict[str, list[str]] = {name: [] for name in named}
    for place, name in enumerate(part.header, start=1):
        places.get(name, []).append(str(place))
    return [
        f"{part.name}: column name '{name}' occurs {len(several)} times "
        f"(columns {', '.join(several)}); rename or remove all but one"
        for name, several in places.items()
        if len(several) > 1
    ]


def refuse_many(count: int, source: object) -> None:
    """Refuse a directory or glob of more files than are read."""
    if count > MOST_FILES:
        raise UsageError(f"{source} stands for {count} files, more than {MOST_FILES}; join them first")


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file, by which a change is seen; of one that is gone, those of none."""
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns
