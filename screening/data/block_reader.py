"""The blocks of a table: their sound rows, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from screening.contract.contract import Contract
from screening.contract.violations import (
    NEEDED,
    OUT_OF_BOUNDS,
    Fault,
    Violations,
)
from screening.data.cohort import Cohort
from screening.data.duplicate_ids import hash_ids
from screening.data.normalising import GroupScales
from screening.data.one_per_unit import RowChoice
from screening.data.refused_cells import refused_cells
from screening.data.row_faults import FaultJudge
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

    @property
    def judge(self) -> FaultJudge:
        """Decides which rows are left out."""
        return FaultJudge(self.contract, self.to_score)

    def _type_block(self, piece: Piece, block: Block) -> TypedBlock:
        """Type the rows of a block, and count what is wrong with them."""
        first_row = piece.n_above + block.first_row
        numbers = first_row + np.arange(block.n_rows)
        rows, found = self.typer.type_rows(piece.part, block, numbers)
        odd_cells = beyond_bounds(rows.values, self.bounds)
        unseen = self.gates.unseen_rows(rows.values) if self.gates else {}
        judged = self.judge.judge(found, odd_cells, unseen)
        is_taken = None
        if self.taken_rows is not None:
            is_taken = np.isin(numbers, self.taken_rows)
        faults = judged.of_taken_rows(is_taken)
        id_hashes = None
        reduced_hashes, ids = self.ids.read(rows.id, rows.group, numbers)
        if self.contract.id:
            id_hashes = hash_ids(rows.id, self.hash_key)
            if self.repeated_ids is not None:
                is_repeated = np.isin(id_hashes, self.repeated_ids)
                faults.append((str(self.contract.id), "repeated_id", is_repeated))
                if reduced_hashes is not None:
                    reduced_hashes[is_repeated] = 0
        violations = Violations(self.contract)
        is_sound = violations.add_block(piece.part.name, block, faults, is_taken)
        not_taken = judged.of_other_rows(is_taken)
        for column, kind, mask in [*judged.read_all_the_same(is_sound), *not_taken]:
            noted_rows = block.first_row + np.flatnonzero(mask)
            violations.add(piece.part.name, column, kind, noted_rows)
        unused = self._unused_cells(rows, faults)
        unused += UnusedCells.of(rows, not_taken, "not_taken")
        counts = ReadCounts(
            violations,
            self._count_gates(rows, judged.unlisted, is_taken),
            ids,
            unused,
            self._score_scale(rows),
        )
        if self.to_score:
            rows = _without_cells(rows, judged.unused)
        refused = None
        if self.lists_refused:
            listed_faults = [*faults, *judged.unused]
            refused = refused_cells(
                piece.part.name, block, rows.id, listed_faults, self.bounds
            )
        return TypedBlock(
            first_row,
            self._normalised(rows.take(is_sound)) if is_sound.any() else None,
            id_hashes,
            is_sound,
            counts,
            refused,
            reduced_hashes,
        )

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
            is_broken = self.judge.breaks_contract(found)
            rows = _without_cells(rows, _faults(OUT_OF_BOUNDS, odd_cells))
            choice.add(rows.take(~absent(rows.id) & ~is_broken))

    def _normalised(self, rows: Cohort) -> Cohort:
        """Return rows scaled within their groups, with the values as they were read."""
        values = rows.values
        raw: dict[str, np.ndarray] = {}
        for scales in self.scales:
            values = scales.applied(np.asarray(rows.group), values)
            raw |= {name: rows.values[name] for name in scales.columns}
        return replace(rows, values=values, raw=raw or None)


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
