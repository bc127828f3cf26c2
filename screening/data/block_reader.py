"""The pieces of a table: their valid rows, and the faults of the others.

A row gets its faults in four steps, all in `BlockReader._type_block`: `RowTyper` finds
those of its cells, `FaultSorter` decides by the contract what follows from them,
repeated ids are added, and `Violations.add_block` leaves out rows and counts why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from screening.contract.violations import OUT_OF_BOUNDS, Fault, Violations
from screening.data.cohort import Cohort
from screening.data.normalising import GroupScales
from screening.data.observers import CheckedBlock
from screening.data.one_per_unit import RowChoice
from screening.data.out_of_bounds import Bounds, beyond_bounds, odd_cells_by_row
from screening.data.row_faults import FaultSorter, SortedFaults
from screening.data.typed_rows import RowTyper
from screening.errors import CohortError
from screening.identity.hashes import hash_ids
from screening.io.readers import Block, FileFormat


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a file, to be typed together.

    Parameters
    ----------
    format : FileFormat
    n_above : int
        Rows of the table above the file.
    blocks : iterable of Block
        One that was read, or a range, which is read where it is iterated.
    file_faults : sequence of str
        What is wrong with a file that cannot be read, or not to its end.
    """

    format: FileFormat
    n_above: int
    blocks: Iterable[Block] = ()
    file_faults: Sequence[str] = ()


@dataclass(frozen=True)
class ReadCounts:
    """Counts of rows that were read; those of consecutive rows add up.

    Parameters
    ----------
    violations : Violations
    id_hashes : tuple of ndarray of uint64
        Hashes of the ids of all rows, 0 for a missing id; empty without a column of
        ids.
    observed : tuple
        Counts of each observer, also of rows that are left out; empty without rows.
    """

    violations: Violations
    id_hashes: tuple[np.ndarray, ...] = ()
    observed: tuple[Any, ...] = ()

    def __add__(self, other: ReadCounts) -> ReadCounts:
        observed = self.observed or other.observed
        if self.observed and other.observed:
            observed = tuple(map(add, self.observed, other.observed))
        return ReadCounts(
            self.violations + other.violations,
            self.id_hashes + other.id_hashes,
            observed,
        )


@dataclass(frozen=True)
class TypedBlock:
    """The valid rows of one block, and counts of all its rows.

    Parameters
    ----------
    counts : ReadCounts
    rows : Cohort, optional
        Normalised if the contract says so; None if no row is valid.
    id_hashes : ndarray of uint64, shape (n_valid,), optional
        Hashes of their ids; None without a column of ids.
    """

    counts: ReadCounts
    rows: Cohort | None = None
    id_hashes: np.ndarray | None = None


@dataclass(frozen=True)
class BlockReader:
    """Types the rows of pieces by a contract, and counts what is wrong with them.

    Pieces may be read in any order and by any process. The last three parameters are
    what `CohortStream.read_ahead` finds.

    Parameters
    ----------
    row_typer : RowTyper
    hash_key : str
        Key of the hashes of ids.
    bounds : mapping of str to Bounds
        Of columns of numbers; a cell beyond is missing where rows are scored.
    categories : mapping of str to set of str
        Categories of training by feature, where they are compared with it.
    counters : sequence of callable
        Of the observers of the rows.
    repeated_ids : ndarray of uint64, optional
        Hashes of repeated ids, where such rows are left out.
    scales : sequence of GroupScales
        Centres and spreads within groups.
    taken_rows : ndarray of int, optional
        Numbers of the rows that are used, in ascending order, where one is taken of
        each unit.
    """

    row_typer: RowTyper
    hash_key: str
    bounds: Mapping[str, Bounds]
    categories: Mapping[str, Set[str | None]]
    counters: Sequence[Callable[[CheckedBlock], Any]]
    repeated_ids: np.ndarray | None = None
    scales: Sequence[GroupScales] = ()
    taken_rows: np.ndarray | None = None

    def no_counts(self) -> ReadCounts:
        """Return the counts of no rows."""
        return ReadCounts(Violations(self.row_typer.contract))

    def read(self, piece: Piece) -> Iterator[TypedBlock]:
        """Yield the typed blocks of a piece; one without rows where it is damaged."""
        file_faults = [*piece.file_faults]
        try:
            for block in piece.blocks:
                yield self._type_block(piece, block)
        except CohortError as error:
            file_faults += error.violations
        if file_faults:
            violations = Violations(self.row_typer.contract, table_faults=file_faults)
            yield TypedBlock(ReadCounts(violations))

    def _type_block(self, piece: Piece, block: Block) -> TypedBlock:
        """Type the rows of a block, and count what is wrong with them.

        A row with a fault is left out, and with `on_violation = "stop"` the table is
        refused at the end.
        """
        contract = self.row_typer.contract
        rows, found = self.row_typer.type_rows(piece.format, block, piece.n_above)
        is_taken = None
        if self.taken_rows is not None:
            is_taken = np.isin(rows.rows, self.taken_rows)
        beyond = beyond_bounds(rows.values, self.bounds)
        unseen = _unseen_categories(rows, self.categories)
        sorter = FaultSorter(contract, self.row_typer.to_score)
        faults = sorter.sort(found, beyond, unseen, is_taken)
        id_hashes = hash_ids(rows.id, self.hash_key) if contract.id else None
        is_repeated = None
        if id_hashes is not None and self.repeated_ids is not None:
            is_repeated = np.isin(id_hashes, self.repeated_ids)
            faults.left_out.append((str(contract.id), "repeated_id", is_repeated))
        violations, is_used = self._violations(piece, block, faults, is_taken)
        observed = CheckedBlock(
            piece.format.name,
            block.first_row,
            rows,
            faults,
            self.bounds,
            is_taken,
            is_repeated,
        )
        counts = ReadCounts(
            violations,
            () if id_hashes is None else (id_hashes,),
            tuple([count(observed) for count in self.counters]),
        )
        if not is_used.any():
            return TypedBlock(counts)
        if self.row_typer.to_score:
            rows = _without_cells(rows, faults.unused)
        valid_rows = self._normalised(rows.take(is_used))
        valid_hashes = None if id_hashes is None else id_hashes[is_used]
        return TypedBlock(counts, valid_rows, valid_hashes)

    def _violations(
        self,
        piece: Piece,
        block: Block,
        faults: SortedFaults,
        is_taken: np.ndarray | None,
    ) -> tuple[Violations, np.ndarray]:
        """Return the violations of a block, and the mask of the rows that are used."""
        file = piece.format.name
        violations = Violations(self.row_typer.contract)
        is_used = violations.add_block(file, block, faults.left_out, is_taken)
        noted = [
            (column, kind, mask & is_used)
            for column, kind, mask in [*faults.unused, *faults.noted]
        ]
        for column, kind, mask in [*noted, *faults.not_taken]:
            violations.add(file, column, kind, block.first_row + np.flatnonzero(mask))
        return violations, is_used

    def add_candidates(self, choice: RowChoice, piece: Piece) -> None:
        """Add the rows of a piece to the candidates; one per unit is taken.

        A value out of bounds is not a score, and a row that breaks the contract is not
        taken.
        """
        for block in piece.blocks:
            rows, found = self.row_typer.type_rows(piece.format, block, piece.n_above)
            beyond = beyond_bounds(rows.values, self.bounds)
            sorter = FaultSorter(self.row_typer.contract, self.row_typer.to_score)
            is_broken = sorter.breaks_contract(found)
            rows = _without_cells(rows, _faults(OUT_OF_BOUNDS, beyond))
            choice.add(rows.take(~pd.isna(rows.id) & ~is_broken))

    def _normalised(self, rows: Cohort) -> Cohort:
        """Return rows scaled within their groups, with the values as they were read."""
        values = rows.values
        raw: dict[str, np.ndarray] = {}
        for scales in self.scales:
            values = scales.applied(np.asarray(rows.group), values)
            raw |= {name: rows.values[name] for name in scales.columns}
        return replace(rows, values=values, raw=raw or None)


def _unseen_categories(
    rows: Cohort, categories: Mapping[str, Set[str | None]]
) -> dict[str, np.ndarray]:
    """Return masks of rows with a text that no training row had, by feature."""
    unseen = {}
    for name, seen in categories.items():
        is_unseen = [text not in seen for text in rows.values[name].tolist()]
        unseen[name] = np.array(is_unseen, dtype=bool)
    return unseen


def _faults(kind: str, masks: Mapping[str, np.ndarray]) -> list[Fault]:
    """Return the faults of one kind, from masks of rows by column."""
    return [(column, kind, mask) for column, mask in masks.items()]


def _without_cells(rows: Cohort, unused: Sequence[Fault]) -> Cohort:
    """Return rows in which cells that cannot be used are missing."""
    masks: dict[str, np.ndarray] = {}
    for name, _, mask in unused:
        masks[name] = masks.get(name, False) | mask
    cells = odd_cells_by_row(rows.values, masks, rows.n_rows)
    missing = {
        name: np.where(mask, np.nan, rows.values[name]) for name, mask in masks.items()
    }
    return replace(rows, values={**rows.values, **missing}, out_of_bounds=cells)
