"""The blocks of a table: their sound rows, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from screening.contract.contract import Contract
from screening.contract.violations import (
    CELLS_OF_NO_NUMBER,
    NEEDED,
    NEEDED_OUT_OF_BOUNDS,
    NEEDED_UNREADABLE,
    NOT_TAKEN,
    OUT_OF_BOUNDS,
    READ_ALL_THE_SAME,
    UNREADABLE,
    UNSEEN,
    Fault,
    Violations,
)
from screening.data.cohort import Cohort
from screening.data.duplicate_ids import hash_ids
from screening.data.normalising import GroupScales
from screening.data.one_per_unit import RowChoice
from screening.data.refused_cells import refused_cells
from screening.data.score_scale import ScoreScale
from screening.data.typed_rows import RowTyper
from screening.data.unused_rows import UnusedCells
from screening.errors import CohortError
from screening.identity.table import IdCounts, IdReader
from screening.io.columns import absent
from screening.io.readers import Block, PartFormat
from screening.monitoring.drift import GateCounts, Gates
from screening.monitoring.out_of_bounds import Bounds, beyond_bounds, odd_cells_by_row

Value = TypeVar("Value")


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a table, to be typed together.

    Parameters
    ----------
    part : PartFormat
    n_above : int
        Rows of the table above the part.
    blocks : iterable of Block
        Read already, or read where they are typed.
    unreadable : sequence of str
        What is wrong with a part that cannot be read, or not to its end.
    """

    part: PartFormat
    n_above: int
    blocks: Iterable[Block] = ()
    unreadable: Sequence[str] = ()


@dataclass(frozen=True)
class ReadCounts:
    """Counts of rows that were read; those of consecutive rows add up.

    Parameters
    ----------
    violations : Violations
    gates : GateCounts, optional
        Also of rows that break the contract: other units may break it in each.
    ids : IdCounts
    unused : UnusedCells
        Cells for which rows are not scored.
    score_scale : ScoreScale
        Of the values of a score made elsewhere.
    """

    violations: Violations
    gates: GateCounts | None
    ids: IdCounts = field(default_factory=IdCounts)
    unused: UnusedCells = field(default_factory=UnusedCells)
    score_scale: ScoreScale = field(default_factory=ScoreScale)

    def __add__(self, other: ReadCounts) -> ReadCounts:
        gates = other.gates if self.gates is None else self.gates
        if self.gates is not None and other.gates is not None:
            gates = self.gates + other.gates
        violations = self.violations + other.violations
        return ReadCounts(
            violations,
            gates,
            self.ids + other.ids,
            self.unused + other.unused,
            self.score_scale + other.score_scale,
        )


@dataclass(frozen=True)
class TypedBlock:
    """The sound rows of one block, and what was counted of all its rows.

    Parameters
    ----------
    first_row : int
        Number of the first row in the table, counted from 1.
    rows : Cohort or None
        Normalised where the contract says so; None if no row is sound.
    id_hashes : ndarray of uint64, shape (n_rows,), optional
        Hashes of the ids of all rows, 0 where there is none; None without a column of
        ids.
    is_sound : ndarray of bool, shape (n_rows,)
    counts : ReadCounts
    refused : pyarrow.Table or None
        Lines of `refused_cells`; None where nobody wants them.
    reduced_hashes : ndarray of uint64, shape (n_rows,), optional
        Of the reduced forms of the ids, where each row has its own.
    """

    first_row: int
    rows: Cohort | None
    id_hashes: np.ndarray | None
    is_sound: np.ndarray
    counts: ReadCounts
    refused: pa.Table | None = None
    reduced_hashes: np.ndarray | None = None


@dataclass(frozen=True)
class BlockReader:
    """Types the rows of blocks by a contract, and counts what is wrong with them.

    It holds nothing of the table, and may read its blocks in any order and place.

    Parameters
    ----------
    typer : RowTyper
    gates : Gates, optional
    hash_key : str
        Key of the hashes of ids.
    bounds : mapping of str to Bounds
        Of columns of numbers; a cell beyond is missing where rows are scored.
    ids : IdReader
    lists_refused : bool
        List the cells that are refused or out of bounds.
    repeated_ids : ndarray of uint64, optional
        Hashes of repeated ids, where such rows are left out.
    scales : sequence of GroupScales
        Centres and spreads within groups.
    taken_rows : ndarray of int, optional
        Numbers of the rows that are used, in ascending order, where one is taken of
        each unit.
    """

    typer: RowTyper
    gates: Gates | None
    hash_key: str
    bounds: Mapping[str, Bounds]
    ids: IdReader
    lists_refused: bool = False
    repeated_ids: np.ndarray | None = None
    scales: Sequence[GroupScales] = ()
    taken_rows: np.ndarray | None = None

    @property
    def contract(self) -> Contract:
        """The contract of the table."""
        return self.typer.contract

    @property
    def to_score(self) -> bool:
        """True if the rows are to be scored."""
        return self.typer.to_score

    def no_counts(self) -> ReadCounts:
        """Return the counts of no rows."""
        return ReadCounts(Violations(self.contract), None)

    def without_source(self) -> BlockReader:
        """Return a reader for another process, which has no use for the table."""
        return replace(self, typer=self.typer.without_source())

    def read(self, piece: Piece) -> Iterator[TypedBlock]:
        """Yield the typed blocks of a piece; one without rows where it is damaged."""
        unreadable = [*piece.unreadable]
        try:
            for block in piece.blocks:
                yield self._type_block(piece, block)
        except CohortError as error:
            unreadable += error.violations
        if unreadable:
            violations = Violations(self.contract, table_faults=unreadable)
            counts = ReadCounts(violations, None)
            yield TypedBlock(0, None, None, np.zeros(0, dtype=bool), counts)

    def _type_block(self, piece: Piece, block: Block) -> TypedBlock:
        """Type the rows of a block, and count what is wrong with them."""
        first_row = piece.n_above + block.first_row
        numbers = first_row + np.arange(block.n_rows)
        rows, found = self.typer.type_rows(piece.part, block, numbers)
        said = [fault for fault in found if fault[1] in READ_ALL_THE_SAME]
        wrong = [fault for fault in found if fault[1] not in READ_ALL_THE_SAME]
        faults, unlisted, unreadable = self._sort_faults(wrong)
        faults += self._unseen_faults(rows, unlisted)
        odd_cells = beyond_bounds(rows.values, self.bounds)
        needed, unused = self._split_needed(odd_cells, unreadable)
        faults += needed
        is_taken = None
        if self.taken_rows is not None:
            is_taken = np.isin(numbers, self.taken_rows)
            faults = [_of_taken_rows(fault, is_taken) for fault in faults]
        id_hashes = None
        reduced_hashes, ids = self.ids.read(rows.id, rows.group, numbers)
        if self.contract.id:
            id_hashes = hash_ids(rows.id, self.hash_key)
            if self.repeated_ids is not None:
                is_repeated = np.isin(id_hashes, self.repeated_ids)
                faults.append((str(self.contract.id), "repeated_id", is_repeated))
                if reduced_hashes is not None:
                    reduced_hashes[is_repeated] = 0
        gates = self._count_gates(rows, unlisted, is_taken)
        violations = Violations(self.contract)
        is_sound = violations.add_block(piece.part.name, block, faults)
        if is_taken is not None:
            is_sound &= is_taken
        scale = self._score_scale(rows)
        not_taken = _of_other_rows(needed, is_taken)
        unused_cells = self._unused_cells(rows, faults)
        unused_cells += UnusedCells.of(rows, not_taken, "not_taken")
        noted = [*unused, *said]
        of_used = [(column, kind, mask & is_sound) for column, kind, mask in noted]
        for column, kind, mask in of_used + not_taken:
            noted_rows = block.first_row + np.flatnonzero(mask)
            violations.add(piece.part.name, column, kind, noted_rows)
        faults += unused
        if self.to_score:
            rows = _without_cells(rows, unused)
        sound = self._normalised(rows.take(is_sound)) if is_sound.any() else None
        refused = None
        if self.lists_refused:
            file = piece.part.name
            refused = refused_cells(file, block, rows.id, faults, self.bounds)
        counts = ReadCounts(violations, gates, ids, unused_cells, scale)
        return TypedBlock(
            first_row, sound, id_hashes, is_sound, counts, refused, reduced_hashes
        )

    def _split_needed(
        self,
        odd_cells: Mapping[str, np.ndarray],
        unreadable: Mapping[str, np.ndarray],
    ) -> tuple[list[Fault], list[Fault]]:
        """Return faults of cells that a score needs, and of those it can do without."""
        needed: list[Fault] = []
        unused: list[Fault] = []
        for masks, kind_if_needed, kind in (
            (odd_cells, NEEDED_OUT_OF_BOUNDS, OUT_OF_BOUNDS),
            (unreadable, NEEDED_UNREADABLE, UNREADABLE),
        ):
            for column, mask in masks.items():
                if self.contract.features[column].is_needed:
                    needed.append((column, kind_if_needed, mask))
                else:
                    unused.append((column, kind, mask))
        return needed, unused

    def _score_scale(self, rows: Cohort) -> ScoreScale:
        """Count the values of a score made elsewhere, as they were read."""
        score = self.contract.score
        if score is None or score not in rows.values:
            return ScoreScale()
        return ScoreScale.of(rows.values[score])

    def _unused_cells(self, rows: Cohort, faults: Sequence[Fault]) -> UnusedCells:
        """Return the cells for which rows that are to be scored are left out."""
        if not self.to_score:
            return UnusedCells()
        features = self.contract.features
        causes = [
            (column, kind, mask)
            for column, kind, mask in faults
            if kind in NEEDED and features[column].missing == "leave_out"
        ]
        return UnusedCells.of(rows, causes, "left_out")

    def _count_gates(
        self,
        rows: Cohort,
        unlisted: Mapping[str, np.ndarray],
        is_taken: np.ndarray | None,
    ) -> GateCounts | None:
        """Count rows as training's profile does: those that are taken."""
        if self.gates is None:
            return None
        if is_taken is not None:
            rows = rows.take(is_taken)
            unlisted = {name: mask[is_taken] for name, mask in unlisted.items()}
        return self.gates.count(rows.values, rows.rows - 1, rows.group, unlisted)

    def add_candidates(self, choice: RowChoice, piece: Piece) -> None:
        """Add the rows of a piece to those of which one a unit is taken.

        A value out of bounds is no score, and a row that breaks the contract is none to
        be taken.
        """
        for block in piece.blocks:
            first_row = piece.n_above + block.first_row
            numbers = first_row + np.arange(block.n_rows)
            rows, found = self.typer.type_rows(piece.part, block, numbers)
            odd_cells = beyond_bounds(rows.values, self.bounds)
            is_broken = self._breaks_contract(found)
            rows = _without_cells(rows, _faults(OUT_OF_BOUNDS, odd_cells))
            choice.add(rows.take(~absent(rows.id) & ~is_broken))

    def _breaks_contract(self, found: Sequence[Fault]) -> np.ndarray:
        """Return a mask of the rows that are left out, whichever row of a unit counts.

        A row that lacks a value may still stand for a unit of which all rows do.
        """
        faults, _, _ = self._sort_faults(found)
        exempt = (*READ_ALL_THE_SAME, *NEEDED)
        masks = [mask for _, kind, mask in faults if kind not in exempt]
        is_broken: np.ndarray = np.logical_or.reduce(masks)
        return is_broken

    def _sort_faults(
        self, found: Sequence[Fault]
    ) -> tuple[list[Fault], dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return faults of rows, and masks of cells for which rows are scored.

        When rows are scored, `on_unseen` decides on a category that is not listed, an
        implausible value is out of bounds, and a text that is no number is missing.

        Returns
        -------
        faults : list of Fault
        unlisted, unreadable : dict of str to ndarray
            Masks of categories that are not listed, and of texts that are no numbers.
        """
        if not self.to_score:
            return [*found], {}, {}
        faults: list[Fault] = []
        unlisted: dict[str, np.ndarray] = {}
        unreadable: dict[str, np.ndarray] = {}
        for column, kind, mask in found:
            if kind == "unknown_category" and self._needs_rank(column):
                # Without a rank the value would be imputed.
                unreadable[column] = unreadable.get(column, False) | mask
            elif kind == "unknown_category":
                unlisted[column] = mask
            elif self._is_missing_cell(column, kind):
                unreadable[column] = unreadable.get(column, False) | mask
            elif kind != "implausible":
                faults.append((column, kind, mask))
        return faults, unlisted, unreadable

    def _is_missing_cell(self, column: str, kind: str) -> bool:
        """Return True if cells of this fault are missing, and their rows are scored."""
        feature = self.contract.features.get(column)
        if feature is None or feature.type != "number":
            return False
        if feature.missing == "refuse":
            return False
        stops = self.contract.on_violation == "stop"
        return stops and kind in CELLS_OF_NO_NUMBER

    def _needs_rank(self, column: str) -> bool:
        """Return True for an ordinal without whose value no row is scored."""
        feature = self.contract.features[column]
        return feature.type == "ordinal" and feature.is_needed

    def _normalised(self, rows: Cohort) -> Cohort:
        """Return rows scaled within their groups, with the values as they were read."""
        values = rows.values
        raw: dict[str, np.ndarray] = {}
        for scales in self.scales:
            values = scales.applied(np.asarray(rows.group), values)
            raw |= {name: rows.values[name] for name in scales.columns}
        return replace(rows, values=values, raw=raw or None)

    def _unseen_faults(
        self, rows: Cohort, unlisted: dict[str, np.ndarray]
    ) -> list[Fault]:
        """Return faults for categories that training has not seen and nobody allows."""
        unseen = self.gates.unseen_rows(rows.values) if self.gates else {}
        faults: list[Fault] = []
        for name in dict.fromkeys([*unseen, *unlisted]):
            if self.contract.policy("on_unseen", name) == "unknown":
                continue
            masks = [by_name[name] for by_name in (unseen, unlisted) if name in by_name]
            faults.append((name, UNSEEN, np.any(masks, axis=0)))
        return faults


def _of_taken_rows(fault: Fault, is_taken: np.ndarray) -> Fault:
    """Return a fault for which rows are left out, of rows that would be used.

    What breaks the contract does so in any row.
    """
    column, kind, mask = fault
    if kind in (*NEEDED, UNSEEN):
        mask = mask & is_taken
    return column, kind, mask


def _of_other_rows(faults: Sequence[Fault], is_taken: np.ndarray | None) -> list[Fault]:
    """Return cells out of bounds of the rows of which another one of a unit is used."""
    if is_taken is None:
        return []
    return [
        (column, NOT_TAKEN, mask & ~is_taken)
        for column, kind, mask in faults
        if kind == NEEDED_OUT_OF_BOUNDS
    ]


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


def listed(value: Value | None) -> list[Value]:
    """Return a list of a value, empty for None."""
    return [] if value is None else [value]
