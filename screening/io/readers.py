"""What a cohort is made of: parts, all read in blocks of columns; and how a kind of file is read."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from screening.errors import CohortError, UsageError
from screening.schemas.run import Geometry

T = TypeVar("T")
P = TypeVar("P")
MOST_FILES = 10_000
# No table comes near, and memory holds it.
LONGEST_NAME, MOST_COLUMNS = 20_000, 50_000
# Values in memory at a time, however wide the table.
MOST_CELLS = 1 << 23


@dataclass(frozen=True)
class Block:
    """Some rows of one part: `columns` maps names to arrow arrays; `first_row` counts from 1 in the part."""

    columns: Mapping[str, pa.Array]
    n_rows: int
    first_row: int
    ragged: np.ndarray
    repeated_header: np.ndarray


@dataclass(frozen=True)
class Form:
    """How a part is written: its columns, a note on it, and the decimal mark of numbers kept as text."""

    header: list[str]
    note: str = ""
    decimal: str = "."
    others: Mapping[str, str] = field(default_factory=dict)  # columns with another decimal mark


Batches = Iterator[pa.RecordBatch]
"""Rows in order: the columns asked for, in their order.

Where a format lets rows be broken two boolean columns stand behind them: rows with more or fewer cells
than the header has names, and rows that are the header once more.
"""


@dataclass(frozen=True)
class Reader:
    """How one kind of file is read; a new kind is a module with two functions and a line in `READERS`.

    `opened` gives the form of a file by its path and first bytes, None where it is of another kind. `batches`
    gives the rows in bounded memory, of a path, the name that errors call it, that form, the columns to read
    and how many rows to read at a time. What Arrow and the system raise is said by who calls them. Files of a
    directory are tables by their `suffixes`; which kind one is of says its content.
    """

    opened: Callable[[Path, bytes], Form | None]
    batches: Callable[..., Batches]
    suffixes: tuple[str, ...]


class Part:
    """One table of a cohort; `rows` may be known only once it was read, `origin` stands beside its digest."""

    name: str
    sha256: str
    bytes: int
    form: Form
    rows: int | None = None
    origin: Mapping[str, str] = {}

    @property
    def header(self) -> list[str]:
        """The names of the columns, "" of one without."""
        return self.form.header

    def decimal(self, column: str) -> str:
        """The decimal mark of a column's texts."""
        return self.form.others.get(column, self.form.decimal)

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order, in batches of any size."""
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """CohortError where the part is no longer what it was when it was opened."""

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, those columns or all that have a name; memory is bounded by `batch_rows`.

        Raises CohortError: the part is damaged, or was changed since it was opened.
        """
        self.refuse_changed()
        wanted = list(dict.fromkeys(filter(None, self.header) if columns is None else columns))
        # By powers of two: what is cut at a multiple of the rows asked for is then read in the same batches.
        batch_rows = min(batch_rows, 1 << (MOST_CELLS // max(len(wanted), 1)).bit_length() - 1)
        first = 1
        for batch in _of_rows(self.batches(wanted, batch_rows), batch_rows):
            none = np.zeros(batch.num_rows, dtype=bool)
            masks = [mask.to_numpy(zero_copy_only=False) for mask in batch.columns[len(wanted) :]]
            cells = dict(zip(wanted, batch.columns, strict=False))
            yield Block(cells, batch.num_rows, first, *(masks or (none, none)))
            first += batch.num_rows
        self.refuse_changed()
        self.rows = first - 1


def _of_rows(batches: Batches, n_rows: int) -> Batches:
    """The same rows so many at a time; fewer at the end, and where a column's type changes."""
    waiting: list[pa.RecordBatch] = []

    def joined() -> list[pa.RecordBatch]:
        return pa.Table.from_batches(waiting).combine_chunks().to_batches(n_rows) if waiting else []

    try:
        for batch in batches:
            if waiting and waiting[0].schema != batch.schema:
                yield from joined()
                waiting = []
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= n_rows:
                *whole, last = joined()
                yield from whole
                waiting = [last]
    except CohortError:
        yield from joined()
        raise
    yield from joined()


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

    def of_csv(self, key: str) -> str | None:
        """Delimiter or encoding of the CSV files (several: joined by spaces), None where there is none."""
        forms = [file.form for file in self.files if hasattr(file.form, key)]
        return " ".join(dict.fromkeys(getattr(form, key) for form in forms)) or None

    def to_dict(self) -> dict[str, object]:
        """Plain form for model.json and run.json."""
        stated = ("name", "sha256", "bytes", "rows")
        files = [{key: getattr(file, key) for key in stated} | dict(file.origin) for file in self.files]
        return {"files": files, "rows": self.n_rows} | {
            key: self.of_csv(key) for key in ("delimiter", "encoding")
        }


def all_of(make: Callable[[T], P], places: Iterable[T]) -> list[P]:
    """What is made of every place; CohortError with the faults of all where some cannot be read."""
    parts: list[P] = []
    faults: list[str] = []
    for place in places:
        try:
            parts.append(make(place))
        except CohortError as error:
            faults += error.violations
    if faults:
        raise CohortError(faults)
    return parts


def refuse_header(part: Part) -> None:
    """CohortError where the names of a part's columns cannot be meant: all that is wrong with them."""
    counts = Counter(name for name in part.header if name)
    if not counts:
        raise CohortError(f"{part.name}: no column has a name; add a header row")
    if len(part.header) > MOST_COLUMNS or max(map(len, counts)) > LONGEST_NAME:
        raise CohortError(
            f"{part.name}, first row: more than {MOST_COLUMNS} columns, or a name of more than "
            f"{LONGEST_NAME} characters; is it a header?"
        )
    faults = []
    for name in (name for name, count in counts.items() if count > 1):
        places = [str(place) for place, other in enumerate(part.header, start=1) if other == name]
        faults.append(
            f"{part.name}: column name '{name}' occurs {len(places)} times "
            f"(columns {', '.join(places)}); rename or remove all but one"
        )
    if faults:
        raise CohortError(faults)


def refuse_many(count: int, source: object) -> None:
    """Refuse a directory or glob of more files than are read."""
    if count > MOST_FILES:
        raise UsageError(f"{source} stands for {count} files, more than {MOST_FILES}; join them first")


def put_into(digest: hashlib._Hash, block: pa.RecordBatch) -> None:
    """Add a block's values to a digest: what lies in memory where a value is missing must not count."""
    for cells in block.columns:
        digest.update(cells.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))
        present = cells.drop_null()
        # The bits behind the last one of a boolean column are nobody's.
        present = present.cast(pa.uint8()) if pa.types.is_boolean(cells.type) else present
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", present.type)])) as stream:
            stream.write_batch(pa.record_batch([present], [""]))
        digest.update(sink.getvalue())


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file, by which a change is seen; of one that is gone, those of none."""
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns
