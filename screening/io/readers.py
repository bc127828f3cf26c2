"""The files of a source, which are read in blocks.

source
    All that was named as a table: one or several files.
file
    A file on disk (`TableFile`), the images of a patient, the answer of a database, or
    a table in memory: any `SourceFile`.
record batch
    Arrow's: consecutive rows, as many as the file's reader finds convenient.
block
    Consecutive rows of a file that are in memory together, made of record batches.
range
    Consecutive rows of a file that a process can read without the rows above them.
section
    What a file is made of if it has ranges, such as a row group of Parquet.
"""

from __future__ import annotations

import datetime
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from screening.errors import CohortError, ScreenError, of_system
from screening.files import digest_beside, digest_of
from screening.io.arrow_types import to_plain_types
from screening.registry import log_traceback
from screening.schemas.run import Geometry

Item = TypeVar("Item")
Opened = TypeVar("Opened")
# Largest number of cells in a block.
MAX_BLOCK_CELLS = 1 << 23
# Smallest number of rows in a range. One that begins within a row group decodes the
# rows before it for nothing, so smaller ranges do not pay.
RANGE_ROWS = 1 << 18
# Ranges per process above which ranges are doubled.
MANY_RANGES = 8
# Size and time of a file that is not there.
NO_FILE = (-1, -1)


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one file, in the columns asked for.

    Parameters
    ----------
    columns : mapping from str to pa.Array
        The cells by the column's name, in the types that `to_plain_types` leaves.
    first_row : int
        Number of the first row, counted from 1 in the file.
    ragged : ndarray of bool, shape (n_rows,)
        Rows with more or fewer cells than the header has names.
    repeated_header : ndarray of bool, shape (n_rows,)
        Rows that are the header once more.
    """

    columns: Mapping[str, pa.Array]
    first_row: int
    ragged: np.ndarray
    repeated_header: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.ragged)

    def __reduce__(self) -> tuple[Callable[..., Block], tuple[object, ...]]:
        # Arrow pickles all of a column that this block is a slice of, and its stream
        # format the slice alone.
        batch = pa.record_batch(list(self.columns.values()), list(self.columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        masks = (self.ragged, self.repeated_header)
        return _unpickled_block, (sink.getvalue(), self.first_row, *masks)


def _unpickled_block(
    stream: pa.Buffer, first_row: int, ragged: np.ndarray, repeated_header: np.ndarray
) -> Block:
    batch = pa.ipc.open_stream(stream).read_next_batch()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Block(columns, first_row, ragged, repeated_header)


@dataclass(frozen=True)
class FileFormat:
    """Facts of a file that are needed to parse its cells.

    Parameters
    ----------
    name : str
    decimal_mark : str
        Decimal mark of numbers kept as text.
    other_marks : mapping from str to str
        Decimal marks of columns with another one.
    """

    name: str
    decimal_mark: str
    other_marks: Mapping[str, str]

    def decimal(self, column: str) -> str:
        """Return the decimal mark of a column's numbers."""
        return self.other_marks.get(column, self.decimal_mark)


RecordBatches = Iterator[pa.RecordBatch]
"""Rows in order, in the columns asked for.

Two columns of bool may follow these: the masks `ragged` and `repeated_header` of a
block.
"""


class SourceFile:
    """One file of a source; subclasses read it in `record_batches`.

    Attributes
    ----------
    name : str
        Name of the file or table, as messages and documents show it.
    sha256 : str
        Digest of the file, or of the values of other sources.
    bytes : int
        Size of the file, or of the values in memory.
    header : list of str
        Names of the columns, "" for a column without a name.
    note : str
        How the table is written, for a person.
    sheet : str
        Sheet of a workbook, as messages name it; "" for other files.
    decimal_mark, other_marks
        Decimal mark of numbers kept as text, and of columns with another mark.
    rows : int or None
        Number of rows; for most files known once `blocks` was read to its end.
    origin : mapping
        Facts that documents show with the digest.
    stamps : mapping
        Size and time of each file that must not change while it is read.
    ends_in_newline : bool or None
        The last line has a line end; None if the table has no lines.
    """

    name: str
    sha256: str
    bytes: int
    header: list[str]
    note = ""
    sheet = ""
    decimal_mark = "."
    other_marks: Mapping[str, str] = {}
    rows: int | None = None
    origin: Mapping[str, Any] = {}
    stamps: Mapping[Path, tuple[int, int]] = {}
    ends_in_newline: bool | None = None

    @property
    def format(self) -> FileFormat:
        """Facts that are needed to parse the cells of a block."""
        return FileFormat(self.name, self.decimal_mark, self.other_marks)

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order, in batches of any size."""
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """Raise CohortError if a file is not as it was when the source was opened."""
        if any(stamp_of(path) != stamp for path, stamp in self.stamps.items()):
            raise CohortError(
                f"{self.name}: the file changed while it was read; run again when it "
                "is complete"
            )

    def blocks(self, columns: Sequence[str] | None, batch_rows: int) -> Iterator[Block]:
        """Yield the rows in order, at most `batch_rows` at a time.

        Parameters
        ----------
        columns : sequence of str or None
            Names of the columns to read; None for all that have a name.
        batch_rows : int
            Fewer rows are read at a time where the table is wide.

        Raises
        ------
        CohortError
            The table is damaged, or its file changed while it was being read.
        """
        self.refuse_changed()
        if columns is None:
            columns = [name for name in self.header if name]
        wanted = list(dict.fromkeys(columns))
        batch_rows = limit_rows(batch_rows, len(wanted))
        n_rows = 0
        for block in blocks_of(
            self.record_batches(wanted, batch_rows), wanted, batch_rows
        ):
            yield block
            n_rows += block.n_rows
        self.refuse_changed()
        self.rows = n_rows

    def ranges(
        self, columns: Sequence[str], batch_rows: int, range_rows: int
    ) -> Sequence[FileRange]:
        """Return ranges of `range_rows` rows, in order.

        Empty if the file can only be read from its start to its end.
        """
        return []


def limit_rows(batch_rows: int, n_columns: int) -> int:
    """Return the rows of a block, fewer where the table is wide."""
    # A power of two: cuts at a multiple of it leave the blocks the same.
    largest = MAX_BLOCK_CELLS // max(n_columns, 1)
    return min(batch_rows, 1 << (largest.bit_length() - 1))


def blocks_of(
    batches: RecordBatches, wanted: list[str], batch_rows: int, first_row: int = 1
) -> Iterator[Block]:
    """Yield consecutive rows of a file in blocks of `batch_rows` rows.

    Parameters
    ----------
    batches : iterator of pa.RecordBatch
        As `SourceFile.record_batches` yields them.
    wanted : list of str
        Names of the columns.
    batch_rows : int
    first_row : int
        Number of the first row in the file.
    """
    for batch in rebatch(map(to_plain_types, batches), batch_rows):
        columns = dict(zip(wanted, batch.columns, strict=False))
        masks = [
            mask.to_numpy(zero_copy_only=False) for mask in batch.columns[len(wanted) :]
        ]
        if not masks:
            masks = [np.zeros(batch.num_rows, dtype=bool)] * 2
        yield Block(columns, first_row, *masks)
        first_row += batch.num_rows


def rebatch(batches: RecordBatches, n_rows: int) -> RecordBatches:
    """Yield the same rows, `n_rows` a batch.

    A batch is shorter at the end, before a change of a column's type, and before an
    error of the reader, which is raised once all rows read before it were yielded.
    """
    waiting: list[pa.RecordBatch] = []
    try:
        for batch in batches:
            if waiting and waiting[0].schema != batch.schema:
                yield from _joined(waiting, n_rows)
                waiting = []
            waiting.append(batch)
            if sum(batch.num_rows for batch in waiting) >= n_rows:
                *whole, last = _joined(waiting, n_rows)
                # Before a caller works on them: the batches are not held meanwhile.
                waiting = [last]
                yield from whole
    except CohortError:
        yield from _joined(waiting, n_rows)
        raise
    yield from _joined(waiting, n_rows)


def _joined(batches: list[pa.RecordBatch], n_rows: int) -> list[pa.RecordBatch]:
    if not batches:
        return []
    return pa.Table.from_batches(batches).combine_chunks().to_batches(n_rows)


class TableFile(SourceFile):
    """One file on disk.

    A kind of file is a subclass in a module of its own. `io.opening` lists those that
    ship; a plug-in names its own as "reader.NAME", an entry point of group
    `screening`. A kind has the attributes below, `read_header` and `read`. A folder's
    files are tables by their `suffixes`; the kind of a file is determined by its
    content (`knows`).

    Attributes
    ----------
    kind : str
        Name of the kind in messages, such as "Parquet".
    suffixes : tuple of str
        Ends of file names, in small letters.
    magic : bytes
        First bytes of every file of the kind; without them it has a `knows` of its own.
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    magic: ClassVar[bytes]

    def __init__(self, path: Path, name: str):
        self.path = path
        self.name = name
        self.stamps = {path: stamp_of(path)}
        self.bytes, _ = self.stamps[path]
        self._digest = digest_beside(path, digest_of)
        with self._errors_named():
            self.read_header()
        refuse_header(self)

    @cached_property
    def sha256(self) -> str:  # type: ignore[override]
        """Digest of the file, for which the first call may wait."""
        with self._errors_named():
            return self._digest()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to read the file, without the digest."""
        return {name: value for name, value in vars(self).items() if name != "_digest"}

    @classmethod
    def knows(cls, path: Path, head: bytes) -> bool:
        """Return True if a file is of this kind, by its path and first 65,536 bytes."""
        return head.startswith(cls.magic)

    def read_header(self) -> None:
        """Set `header`, and `note`, `decimal_mark`, `other_marks` where they differ."""
        raise NotImplementedError

    def read(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order, in batches of any size, errors as they come."""
        raise NotImplementedError

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order; errors name the file."""
        with self._errors_named():
            yield from self.read(wanted, batch_rows)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Raise what goes wrong in reading as an error that names the file."""
        try:
            yield
        except MemoryError:
            # No fault of the file, though Arrow's is also an ArrowException.
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
            raise CohortError(
                f"{self.name}: the {self.kind} file is damaged or cut short; export "
                "it again"
            ) from None
        except Exception as error:
            module = type(self).__module__
            if isinstance(error, ScreenError) or module.startswith("screening."):
                raise
            # A mistake of a plug-in ends the reading of this table, not the command.
            log_traceback(error)
            raise CohortError(
                f"{self.name}: the reader of plug-in {module} failed "
                f"({type(error).__name__}); report it to its authors"
            ) from error


@dataclass(frozen=True)
class FileRange:
    """Consecutive rows of a file, which are read where the range is iterated.

    Parameters
    ----------
    file : SectionedFile
    start, stop : int
        The rows in the file, counted from 0.
    columns : list of str
    batch_rows : int
        Rows of a block.
    """

    file: SectionedFile
    start: int
    stop: int
    columns: list[str]
    batch_rows: int

    def __iter__(self) -> Iterator[Block]:
        self.file.refuse_changed()
        batches = self.file.rows_between(
            self.start, self.stop, self.columns, self.batch_rows
        )
        yield from blocks_of(batches, self.columns, self.batch_rows, self.start + 1)
        self.file.refuse_changed()


def rows_of_range(n_rows: int | None, n_processes: int) -> int:
    """Return the rows of each range of a table that so many processes read.

    Parameters
    ----------
    n_rows : int or None
        Rows of the table, None if they are not known.
    n_processes : int
    """
    if n_rows is None or n_rows < MANY_RANGES * n_processes * 2 * RANGE_ROWS:
        return RANGE_ROWS
    return 2 * RANGE_ROWS


def _slice_rows(batches: RecordBatches, start: int, stop: int) -> RecordBatches:
    """Yield rows `start` to `stop`, counted from 0."""
    n_before = 0
    for batch in batches:
        first = max(start - n_before, 0)
        last = min(stop - n_before, batch.num_rows)
        if first < last:
            yield batch.slice(first, last - first)
        n_before += batch.num_rows
        if n_before >= stop:
            return


class SectionedFile(TableFile):
    """A file of sections that can be read alone, such as Parquet's row groups.

    Attributes
    ----------
    section_rows : list of int
        Rows of each section; `read_header` sets it, and `rows`.
    """

    section_rows: list[int]

    def read_sections(
        self, numbers: range, wanted: list[str], batch_rows: int
    ) -> RecordBatches:
        """Yield the rows of consecutive sections in order, errors as they come."""
        raise NotImplementedError

    def read(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in order."""
        return self.read_sections(range(len(self.section_rows)), wanted, batch_rows)

    def rows_between(
        self, start: int, stop: int, wanted: list[str], batch_rows: int
    ) -> RecordBatches:
        """Yield rows `start` to `stop`, counted from 0, in batches of any size."""
        ends = np.cumsum(self.section_rows)
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left"))
        n_above = sum(self.section_rows[:first])
        with self._errors_named():
            batches = self.read_sections(range(first, last + 1), wanted, batch_rows)
            yield from _slice_rows(batches, start - n_above, stop - n_above)

    def ranges(
        self, columns: Sequence[str], batch_rows: int, range_rows: int
    ) -> Sequence[FileRange]:
        """Return the ranges of the file.

        The first is small, so that the time of a row is known early.
        """
        wanted = list(dict.fromkeys(columns))
        batch_rows = limit_rows(batch_rows, len(wanted))
        n_rows = sum(self.section_rows)
        starts = range(0, n_rows, range_rows)
        cuts = sorted({min(batch_rows, n_rows), *starts, n_rows})
        return [
            FileRange(self, start, stop, wanted, batch_rows)
            for start, stop in pairwise(cuts)
        ]


@dataclass
class Source:
    """The files of a cohort in reading order.

    Parameters
    ----------
    files : sequence of SourceFile
    notes : list of str
        How the files are written and what was left out, for a person.
    group : str, optional
        Column of the patient, where the kind of source has one: a folder of images.
    geometries : sequence of Geometry
        Where the voxels of each image lie.
    signs : dict
        Signs of dependent rows that ``data.dependence`` found, by the columns it was
        asked about: guessing roles needs them, and training again.
    is_fetched : bool
        The files are copies of remote ones.
    """

    files: Sequence[SourceFile]
    notes: list[str] = field(default_factory=list)
    group: str | None = None
    geometries: Sequence[Geometry] = ()
    signs: dict[tuple[str | None, ...], list[Any]] = field(
        default_factory=dict, repr=False
    )
    is_fetched: bool = False

    @property
    def n_rows(self) -> int | None:
        """Rows of all files; None before each was read."""
        total = 0
        for file in self.files:
            if file.rows is None:
                return None
            total += file.rows
        return total

    @property
    def ends_in_newline(self) -> bool | None:
        """False if a text file's last line has no end; None for other files."""
        ends = [file.ends_in_newline for file in self.files]
        texts = [end for end in ends if end is not None]
        return all(texts) if texts else None

    @property
    def written_at(self) -> datetime.datetime | None:
        """Time at which the newest file was written, in UTC.

        None without files, and for copies of remote files, which are made again.
        """
        if self.is_fetched:
            return None
        times: list[int] = []
        for file in self.files:
            times += [nanoseconds for _, nanoseconds in file.stamps.values()]
        if not times:
            return None
        return datetime.datetime.fromtimestamp(max(times) / 1e9, datetime.UTC)

    def to_dict(self) -> dict[str, object]:
        """Return the facts of the source for model and run documents."""
        files = []
        for file in self.files:
            facts = {
                "name": file.name,
                "sha256": file.sha256,
                "bytes": file.bytes,
                "rows": file.rows,
            }
            files.append(facts | dict(file.origin))
        return {
            "files": files,
            "rows": self.n_rows,
            "delimiter": self._joined_attribute("delimiter"),
            "encoding": self._joined_attribute("encoding"),
        }

    def _joined_attribute(self, name: str) -> str | None:
        """Return an attribute of CSV files, joined by spaces where the files differ."""
        values = [getattr(file, name) for file in self.files if hasattr(file, name)]
        return " ".join(dict.fromkeys(values)) or None


def open_each(
    open_item: Callable[[Item], Opened], items: Iterable[Item]
) -> list[Opened]:
    """Open every item; raise one CohortError with the faults of all."""
    opened: list[Opened] = []
    faults: list[str] = []
    for item in items:
        try:
            opened.append(open_item(item))
        except CohortError as error:
            faults += error.violations
    if faults:
        raise CohortError(faults)
    return opened


def refuse_header(file: SourceFile) -> None:
    """Raise CohortError if no column has a name, or two columns have the same one."""
    counts = Counter(name for name in file.header if name)
    if not counts:
        raise CohortError(f"{file.name}: no column has a name; add a header row")
    faults = []
    for name, count in counts.items():
        if count > 1:
            positions = ", ".join(
                str(position)
                for position, other in enumerate(file.header, 1)
                if other == name
            )
            faults.append(
                f"{file.name}: column name '{name}' occurs {count} times (columns "
                f"{positions}); rename or remove all but one"
            )
    if faults:
        raise CohortError(faults)


def update_digest(digest: hashlib._Hash, batch: pa.RecordBatch) -> None:
    """Add the values of a batch to a digest, column by column.

    Memory behind a missing value or behind the last bit of a column does not count.
    """
    for cells in batch.columns:
        digest.update(cells.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))
        present = cells.drop_null()
        if pa.types.is_boolean(cells.type):
            present = present.cast(pa.uint8())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", present.type)])) as stream:
            stream.write_batch(pa.record_batch([present], [""]))
        digest.update(sink.getvalue())


def stamp_of(path: Path) -> tuple[int, int]:
    """Return size and time (ns) of a file, which a change alters; `NO_FILE` if gone."""
    if not path.exists():
        return NO_FILE
    status = path.stat()
    return status.st_size, status.st_mtime_ns
