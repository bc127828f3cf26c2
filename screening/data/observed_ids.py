"""Ids of a whole table: repeated, written otherwise, or spoilt by a spreadsheet."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from screening.contract.contract import Contract
from screening.contract.violations import MAX_SHOWN_ROWS
from screening.data.observers import CheckedBlock, Observer
from screening.files import discard, temporary_folder_named
from screening.identity.table import IdCounts, IdReader
from screening.identity.writing import BUT_FOR
from screening.io.readers import Source
from screening.spelling import first_of
from screening.threads import run_in_threads

# Number of hashed ids that stay in memory; those of more rows go to a file.
UNFILED_ROWS = 1 << 20
# Hashes that a thread sorts at a time; more if there would be too many buckets.
HELD_ROWS = 1 << 20
MAX_BUCKETS = 32
# Hashes that are read at a time.
READ_ROWS = 1 << 17


class DuplicateIds:
    """Finds repeated ids of a table of any length, in bounded memory.

    Keeps 64 bits of each; for many rows in a file without a name.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._file = tempfile.SpooledTemporaryFile(8 * UNFILED_ROWS)  # noqa: SIM115
        self._lock = threading.Lock()
        weakref.finalize(self, discard, self._file)

    def add(self, hashes: np.ndarray) -> None:
        """Take in the hashes of the ids of further rows, 0 where a row has none."""
        with temporary_folder_named():
            self._file.write(np.ascontiguousarray(hashes).data)
        self.n_rows += len(hashes)

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of repeated ids, and the rows that have one.

        Both are sorted ascending; rows count from 0.
        """
        # Equal hashes have equal low bits: a bucket has the hashes with the same ones.
        n_buckets = 1
        while n_buckets * HELD_ROWS < self.n_rows and n_buckets < MAX_BUCKETS:
            n_buckets *= 2
        repeated = [np.zeros(0, np.uint64)]

        def find_repeats(bucket: int) -> None:
            hashes = np.concatenate([*self._bucket(bucket, n_buckets)])
            hashes.sort()
            repeated.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))

        run_in_threads(find_repeats, range(n_buckets))
        hashes = np.sort(np.concatenate(repeated))
        rows = [np.zeros(0, np.int64)]
        n_above = 0
        for block in self._read() if hashes.size else ():
            nearest = np.searchsorted(hashes, block).clip(max=len(hashes) - 1)
            rows.append(n_above + np.flatnonzero(hashes[nearest] == block))
            n_above += len(block)
        return hashes, np.concatenate(rows)

    def _bucket(self, bucket: int, n_buckets: int) -> Iterator[np.ndarray]:
        """Yield the hashes with the number of a bucket as low bits."""
        for block in self._read():
            # 0 means no id.
            yield block[(block & (n_buckets - 1) == bucket) & (block != 0)]

    def _read(self) -> Iterator[np.ndarray]:
        """Yield the hashes in the order of rows; threads take turns to read."""
        for start in range(0, max(1, self.n_rows), READ_ROWS):
            with self._lock, temporary_folder_named():
                self._file.seek(8 * start)
                content = self._file.read(8 * READ_ROWS)
            yield np.frombuffer(content, np.uint64)


class ObservedIds(Observer):
    """Finds ids of a table that are the same but for their writing.

    Parameters
    ----------
    reader : IdReader
    source : Source

    Attributes
    ----------
    counts : IdCounts
        Of the rows read so far.
    """

    def __init__(self, reader: IdReader, source: Source) -> None:
        self.reader = reader
        self.source = source
        self.counts = IdCounts()
        self._reduced = DuplicateIds()

    @property
    def counter(self) -> Callable[[CheckedBlock], IdCounts]:
        """Reads the ids of a block."""
        return partial(_count_ids, self.reader)

    def add(self, counts: IdCounts) -> None:
        """Take in the ids of the next rows."""
        for hashes in counts.reduced:
            self._reduced.add(hashes)
        self.counts += replace(counts, reduced=())

    def faults(self) -> list[str]:
        """Return the columns with ids that a spreadsheet wrote as numbers."""
        faults = []
        for column, exponents in self.counts.exponents.items():
            rows = np.array(exponents.rows(), np.int64)
            if rows.size:
                faults.append(
                    f"column '{column}', {rows_in_words(self.source, rows)}: "
                    "digits with an exponent, as a spreadsheet writes long numbers "
                    "(1.2E+05); export the column as text"
                )
        return faults

    def colliding(self) -> dict[str, np.ndarray]:
        """Return, by column, rows with different ids of one reduced form."""
        colliding = {}
        if self.reader.id is not None:
            _, positions = self._reduced.repeats()
            colliding[self.reader.id] = 1 + positions
        if self.reader.patient is not None and self.counts.names:
            colliding[self.reader.patient] = self.counts.colliding_rows()
        return {name: rows for name, rows in colliding.items() if rows.size}

    def notes_on_collisions(self) -> list[str]:
        """Return a note on each column with colliding ids; on a night, a reason."""
        return [
            f"column '{column}', {rows_in_words(self.source, rows)}: ids that are the "
            f"same {BUT_FOR}; they count as different; check whether they are"
            for column, rows in self.colliding().items()
        ]


def _count_ids(reader: IdReader, block: CheckedBlock) -> IdCounts:
    """Count the ids of a block, without those of repeated rows."""
    rows = block.rows
    counts = reader.read(rows.id, rows.group, rows.rows)
    if block.is_repeated is not None:
        for hashes in counts.reduced:
            hashes[block.is_repeated] = 0
    return counts


def id_reader(contract: Contract) -> IdReader:
    """Return the reader of the ids that a contract names; voxels have none."""
    return IdReader(
        id=None if contract.coordinates else contract.id,
        group=contract.group,
        may_repeat=contract.per_unit is not None,
    )


def rows_by_file(source: Source, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each file that has some of these rows, and their numbers in it.

    `rows`: numbers in the table, counted from 1, in ascending order.
    """
    start = 0
    for file in source.files:
        end = start + (file.rows or 0)
        in_file = rows[(rows > start) & (rows <= end)]
        if in_file.size:
            yield file.name, in_file - start
        start = end


def rows_in_words(source: Source, rows: np.ndarray) -> str:
    """Return the first of some rows of a table, with their files if it has several."""
    texts = []
    for file, numbers in rows_by_file(source, rows):
        noun = "row" if numbers.size == 1 else "rows"
        text = f"{noun} {first_of(numbers.tolist(), MAX_SHOWN_ROWS, numbers.size)}"
        if len(source.files) > 1:
            text = f"{file} {text}"
        texts.append(text)
    return first_of(texts, MAX_SHOWN_ROWS)
