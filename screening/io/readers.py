"""What a cohort is made of: tables of any origin, read in blocks of columns: files, or tables in memory."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from screening.errors import CohortError, UsageError, of_system
from screening.files import digest_of
from screening.schemas.run import Geometry

T = TypeVar("T")
P = TypeVar("P")
# Values in memory at a time, however wide the table, and rows whose values are put into a digest.
MOST_CELLS, BLOCK_ROWS = 1 << 23, 1 << 16


@dataclass(frozen=True)
class Block:
    """Some rows of one part: `columns` maps names to Arrow arrays; `first_row` counts from 1 in the part."""

    columns: Mapping[str, pa.Array]
    first_row: int
    ragged: np.ndarray
    repeated_header: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.ragged)


Batches = Iterator[pa.RecordBatch]
"""Rows in order, in the columns asked for.

Where rows may be broken two masks stand behind them: rows of more or fewer cells than the header, and rows
that are the header once more.
"""


class Part:
    """One table of a cohort."""

    name: str
    sha256: str
    bytes: int
    header: list[str]  # names of the columns, "" of one without
    note = ""  # how it is written, in words
    decimal_mark = "."  # of numbers kept as text
    other_marks: Mapping[str, str] = {}  # those of columns with another one
    rows: int | None = None  # known perhaps only once it was read
    origin: Mapping[str, str] = {}  # stands beside its digest
    stamps: Mapping[
        Path, tuple[int, int]
    ] = {}  # of the files that must stay as they are

    def decimal(self, column: str) -> str:
        return self.other_marks.get(column, self.decimal_mark)

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order, in batches of any size."""
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """CohortError where the part is no longer what it was when it was opened."""
        if any(stamp_of(path) != stamp for path, stamp in self.stamps.items()):
            raise CohortError(
                f"{self.name}: changed while it was being read; run again when it is complete"
            )

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, `columns` or all that have a name, at most `batch_rows` at a time."""
        self.refuse_changed()
        wanted = list(
            dict.fromkeys(filter(None, self.header) if columns is None else columns)
        )
        # By powers of two: what is cut at a multiple of the rows asked for is then read in the same batches.
        batch_rows = min(
            batch_rows, 1 << (MOST_CELLS // max(len(wanted), 1)).bit_length() - 1
        )
        first = 1
        for batch in _of_rows(self.batches(wanted, batch_rows), batch_rows):
            none = np.zeros(batch.num_rows, dtype=bool)
            masks = [
                mask.to_numpy(zero_copy_only=False)
                for mask in batch.columns[len(wanted) :]
            ]
            yield Block(
                dict(zip(wanted, batch.columns, strict=False)),
                first,
                *(masks or (none, none)),
            )
            first += batch.num_rows
        self.refuse_changed()
        self.rows = first - 1


def _of_rows(batches: Batches, n_rows: int) -> Batches:
    """The same rows so many at a time; fewer at the end, and where a column's type changes."""
    waiting: list[pa.RecordBatch] = []

    def joined() -> list[pa.RecordBatch]:
        return (
            pa.Table.from_batches(waiting).combine_chunks().to_batches(n_rows)
            if waiting
            else []
        )

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


class TableFile(Part):
    """One file of a cohort; a kind of file is a subclass in a module of its own, and its line in `READERS`.

    Files of a directory are tables by their `suffixes`; of which kind one is says its content.
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    magic: ClassVar[bytes]  # what it begins with

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self.stamps = {path: stamp_of(path)}
        self.bytes, self.sha256 = self.stamps[path][0], digest_of(path)
        with self._damage_named():
            self.read_header()
        refuse_header(self)

    @classmethod
    def knows(cls, path: Path, head: bytes) -> bool:
        """Whether a file is of this kind, by its path and first bytes."""
        return head.startswith(cls.magic)

    def read_header(self) -> None:
        """Set `header`, and `note`, `decimal_mark` and `other_marks` where there is something to say."""
        raise NotImplementedError

    def read(self, wanted: list[str], batch_rows: int) -> Batches:
        raise NotImplementedError

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order; CohortError where the file is damaged."""
        with self._damage_named():
            yield from self.read(wanted, batch_rows)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        """Say what is raised while the file is read; that memory has ended is no fault of it."""
        try:
            yield
        except MemoryError:
            raise
        except (
            pa.ArrowException,
            OSError,
            EOFError,
            UnicodeError,
            zlib.error,
        ) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise of_system(error, self.path) from error
            damage = f"the {self.kind} file is damaged or cut short; export it again"
            raise CohortError(f"{self.name}: {damage}") from None


@dataclass
class Source:
    """The parts of a cohort, in reading order; of images also the patient's column and where voxels lie."""

    files: Sequence[Part]
    notes: list[str] = field(default_factory=list)
    group: str | None = None
    geometries: Sequence[Geometry] = ()

    @property
    def n_rows(self) -> int | None:
        """Data rows of all files, None before all were read."""
        counts = [file.rows for file in self.files if file.rows is not None]
        return sum(counts) if len(counts) == len(self.files) else None

    def to_dict(self) -> dict[str, object]:
        stated = ("name", "sha256", "bytes", "rows")
        files = [
            {key: getattr(file, key) for key in stated} | dict(file.origin)
            for file in self.files
        ]
        facts: dict[str, object] = {"files": files, "rows": self.n_rows}
        for key in (
            "delimiter",
            "encoding",
        ):  # of the CSV files; several are joined by spaces
            own = dict.fromkeys(
                getattr(file, key) for file in self.files if hasattr(file, key)
            )
            facts[key] = " ".join(own) or None
        return facts


class ArrowStream(Protocol):
    """A table of any library that streams as Arrow does, such as polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table: TypeAlias = pd.DataFrame | pa.Table | pa.RecordBatch | ArrowStream


class TableInMemory(Part):
    """One table, read like a file; `sha256` is that of its Arrow stream."""

    name = "table"

    def __init__(self, table: pa.Table):
        self.table = table
        self.header = list(table.column_names)
        self.rows: int | None = table.num_rows
        self.bytes = table.nbytes
        # Over names and values, whatever the pieces the table came in.
        digest = hashlib.sha256(
            repr(table.column_names).encode("utf-8", "surrogatepass")
        )
        for block in table.to_batches(BLOCK_ROWS):
            update_digest(digest, block)
        self.sha256 = digest.hexdigest()

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        yield from self.table.select(wanted).to_batches(max_chunksize=batch_rows)


def source_of(frame: Table) -> Source:
    """A source over a table in memory; UsageError where the object is none."""
    try:
        if isinstance(frame, pd.DataFrame):
            table = _of_pandas(frame)
        elif hasattr(frame, "__arrow_c_stream__"):
            table = pa.RecordBatchReader.from_stream(frame).read_all()
        else:
            kind = f"{type(frame).__module__}.{type(frame).__name__}"
            raise UsageError(
                f"a cohort is a path, or a pandas, polars or Arrow table, not {kind}"
            )
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise CohortError(
            f"table: it cannot be read as Arrow ({type(error).__name__})"
        ) from None
    part = TableInMemory(table.combine_chunks())
    refuse_header(part)
    return Source([part], ["a table in memory"])


def _of_pandas(frame: pd.DataFrame) -> pa.Table:
    # A named index is a column, as it is in the Parquet file that pandas writes of the frame.
    named = [
        name
        for name in frame.index.names
        if name is not None and name not in frame.columns
    ]
    frame = frame.reset_index(named) if named else frame
    # Frames may give two columns one name, which the header's faults then tell.
    columns = []
    for position, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise CohortError("table: a column's name is no text; rename the columns")
        try:
            columns.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except (pa.ArrowException, UnicodeEncodeError):
            # UTF-8 has no half of a surrogate pair, which Python's texts may hold.
            fault = "holds values of several kinds, of one that Arrow has not, or text that is not UTF-8"
            raise CohortError(
                f"table: column '{name}' {fault}; give it one plain type"
            ) from None
    return pa.table(columns, names=list(frame.columns))


def all_of(make: Callable[[T], P], items: Iterable[T]) -> list[P]:
    """What is made of every item; CohortError with the faults of all where some cannot be read."""
    parts: list[P] = []
    faults: list[str] = []
    for item in items:
        try:
            parts.append(make(item))
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
    faults = []
    for name, count in counts.items():
        if count > 1:
            places = ", ".join(
                str(place)
                for place, other in enumerate(part.header, 1)
                if other == name
            )
            occurs = f"column name '{name}' occurs {count} times (columns {places})"
            faults.append(f"{part.name}: {occurs}; rename or remove all but one")
    if faults:
        raise CohortError(faults)


def update_digest(digest: hashlib._Hash, batch: pa.RecordBatch) -> None:
    """Add a batch's values to a digest: what lies in memory where a value is missing must not count."""
    for cells in batch.columns:
        digest.update(cells.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))
        present = cells.drop_null()
        # The bits behind the last one of a boolean column are nobody's.
        present = (
            present.cast(pa.uint8()) if pa.types.is_boolean(cells.type) else present
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", present.type)])) as stream:
            stream.write_batch(pa.record_batch([present], [""]))
        digest.update(sink.getvalue())


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file, by which a change is seen; of one that is gone, those of none."""
    if not path.exists():
        return -1, -1
    return path.stat().st_size, path.stat().st_mtime_ns
