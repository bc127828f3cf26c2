"""Ids of a whole table: repeated in another writing, or spoilt by a spreadsheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from screening.contract.contract import Contract
from screening.contract.violations import MAX_SHOWN_ROWS
from screening.data.duplicate_ids import DuplicateIds
from screening.data.observers import JudgedBlock, Observer
from screening.identity.table import IdCounts, IdReader
from screening.identity.writing import BUT_FOR
from screening.io.readers import Source
from screening.spelling import first_of


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
    def counter(self) -> Callable[[JudgedBlock], IdCounts]:
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
        """Return by column the rows whose ids differ, and have one reduced form."""
        colliding = {}
        if self.reader.id is not None:
            _, positions = self._reduced.repeats()
            colliding[self.reader.id] = 1 + positions
        if self.reader.patient is not None and self.counts.names:
            colliding[self.reader.patient] = self.counts.colliding_rows()
        return {name: rows for name, rows in colliding.items() if rows.size}

    def notes_on_collisions(self) -> list[str]:
        """Return a note on each column whose ids collide; of a night it is a reason."""
        return [
            f"column '{column}', {rows_in_words(self.source, rows)}: ids that are the "
            f"same {BUT_FOR}; they count as different; check whether they are"
            for column, rows in self.colliding().items()
        ]


def _count_ids(reader: IdReader, block: JudgedBlock) -> IdCounts:
    """Return what is kept of the ids of a block."""
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
    places = []
    for file, numbers in rows_by_file(source, rows):
        noun = "row" if numbers.size == 1 else "rows"
        text = f"{noun} {first_of(numbers.tolist(), MAX_SHOWN_ROWS, numbers.size)}"
        if len(source.files) > 1:
            text = f"{file} {text}"
        places.append(text)
    return first_of(places, MAX_SHOWN_ROWS)
