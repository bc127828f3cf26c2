"""A cohort as a stream of typed batches, read and checked in one pass."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from screening.clock.zone import Clock, clock_of
from screening.contract.contract import Contract
from screening.contract.parsing import (
    TypedColumn,
    are_filled,
    fill_down,
    parse_coordinate,
    parse_feature,
    parse_texts,
    parse_times,
)
from screening.contract.violations import (
    CELLS_OF_NO_NUMBER,
    MAX_SHOWN_ROWS,
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
    refuse_absent,
)
from screening.data.cohort import Cohort, concatenate
from screening.data.ids import stems_of
from screening.data.labels import BLANK_IS
from screening.data.normalising import GroupScales, Medians, Moments
from screening.data.one_per_unit import RowChoice, ScoreOfRows, note_on_units
from screening.data.refused_cells import refused_cells, repeated_ids
from screening.data.score_scale import ScoreScale
from screening.data.unused_rows import UnusedCells
from screening.errors import CohortError
from screening.files import discard, temporary_folder_named
from screening.identity.hashes import HASH_KEY, keyed_hashes
from screening.identity.table import IdCounts, IdReader
from screening.identity.writing import BUT_FOR
from screening.io.columns import Columns, absent, stretches
from screening.io.opening import Readable, source_at
from screening.io.readers import (
    Block,
    FilePlace,
    PartFormat,
    SectionedFile,
    Source,
    SourcePart,
)
from screening.monitoring.drift import GateCounts, Gates
from screening.monitoring.out_of_bounds import (
    Bounds,
    beyond_bounds,
    bounds_of_columns,
    odd_cells_by_row,
)
from screening.registry import optional
from screening.spelling import first_of, names_from
from screening.threads import run_in_threads

BATCH_ROWS = 65536
# Rows whose hashed ids stay in memory; those of more rows go to a file.
UNFILED_ROWS = 1 << 20
# Hashes that a thread sorts at a time; more if there would be too many parts.
HELD_ROWS = 1 << 20
MAX_PARTS = 32
# Hashes that are read at a time.
READ_ROWS = 1 << 17
Value = TypeVar("Value")
SCALES = {"within_group": Moments, "within_group_robust": Medians}


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


@dataclass
class _BlockParser:
    """Types columns of one block, and notes the faults of their cells."""

    part: PartFormat
    block: Block
    faults: list[Fault] = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [
            ("", "ragged", self.block.ragged),
            ("", "repeated_header", self.block.repeated_header),
        ]
        self._broken = self.block.ragged | self.block.repeated_header

    def texts(
        self,
        column: str | None,
        missing_fault: str | None = None,
        strip: bool = True,
        distinct: bool = False,
    ) -> np.ndarray | None:
        """Return a role's texts, shape (n_rows,); None where no column has the role."""
        if column is None:
            return None
        cells = self.block.columns[column]
        return self._noted(column, parse_texts(cells, missing_fault, strip, distinct))

    def text_columns(self, names: Sequence[str]) -> Columns | None:
        """Return several columns of text by name, None for no names."""
        columns = {name: np.asarray(self.texts(name)) for name in names}
        return columns or None

    def coordinates(self, names: Sequence[str]) -> np.ndarray | None:
        """Return coordinates, shape (n_rows, 3), None for no names."""
        if not names:
            return None
        axes = []
        for name in names:
            cells = self.block.columns[name]
            axis = parse_coordinate(cells, self.part.decimal(name))
            axes.append(self._noted(name, axis))
        return np.column_stack(axes)

    def times(self, contract: Contract, clock: Clock) -> np.ndarray | None:
        """Return times as instants, shape (n_rows,), None for no column."""
        if contract.time is None:
            return None
        cells = self.block.columns[contract.time]
        typed = parse_times(cells, contract.date_order, contract.date_numbers, clock)
        return self._noted(contract.time, typed)

    def taken(self, contract: Contract, clock: Clock) -> np.ndarray | None:
        """Return the instants at which the table was taken; None for no column.

        A blank cell is no fault: the newest time of the column counts.
        """
        column = contract.hour_column
        if column is None:
            return None
        cells = self.block.columns[column]
        typed = parse_times(cells, contract.date_order, None, clock)
        if column == contract.time:
            # Its faults are noted as those of the time.
            return typed.values
        is_filled = are_filled(cells)
        typed.faults = [
            (kind, mask & is_filled if kind == "not_time" else mask)
            for kind, mask in typed.faults
        ]
        return self._noted(column, typed)

    def features(self, contract: Contract) -> Columns:
        """Return the values of every feature by name."""
        values = {}
        for name, feature in contract.features.items():
            cells = self.block.columns[name]
            typed = parse_feature(cells, feature, self.part.decimal(name))
            values[name] = self._noted(name, typed)
        return values

    def _noted(self, column: str, typed: TypedColumn) -> np.ndarray:
        for kind, mask in typed.faults:
            # A broken row has no cells to blame.
            self.faults.append((column, kind, mask & ~self._broken))
        return typed.values


@dataclass(frozen=True)
class BlockReader:
    """Types the rows of blocks by a contract, and counts what is wrong with them.

    It holds nothing of the table, and may read its blocks in any order and place.

    Parameters
    ----------
    contract : Contract
    source : Source
        Of the rows that are returned.
    notes : list of str
    refused : mapping from str to int
    label : str, optional
    need_label : bool
    gates : Gates, optional
    to_score : bool
    hash_key : str
        Key of the hashes of ids.
    clock : Clock
        Of times without a zone, in whatever process they are read.
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

    contract: Contract
    source: Source
    notes: list[str]
    refused: dict[str, int]
    label: str | None
    need_label: bool
    gates: Gates | None
    to_score: bool
    hash_key: str
    clock: Clock
    bounds: Mapping[str, Bounds]
    ids: IdReader
    lists_refused: bool = False
    repeated_ids: np.ndarray | None = None
    scales: Sequence[GroupScales] = ()
    taken_rows: np.ndarray | None = None

    @property
    def display(self) -> list[str]:
        """Columns that are read to be shown beside a row."""
        return self.contract.display if self.to_score else []

    def no_counts(self) -> ReadCounts:
        """Return the counts of no rows."""
        return ReadCounts(Violations(self.contract), None)

    def without_source(self) -> BlockReader:
        """Return a reader for another process, which has no use for the table."""
        return replace(self, source=Source([]), notes=[], refused={})

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
        parser = _BlockParser(piece.part, block)
        rows = self._type_rows(parser, numbers)
        said = [fault for fault in parser.faults if fault[1] in READ_ALL_THE_SAME]
        wrong = [fault for fault in parser.faults if fault[1] not in READ_ALL_THE_SAME]
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
            id_hashes = _hash_ids(rows.id, self.hash_key)
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
            parser = _BlockParser(piece.part, block)
            rows = self._type_rows(parser, numbers)
            odd_cells = beyond_bounds(rows.values, self.bounds)
            is_broken = self._breaks_contract(parser.faults)
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

    def _type_rows(self, parser: _BlockParser, numbers: np.ndarray) -> Cohort:
        """Return all rows of a block as a cohort, sound or not."""
        contract = self.contract
        # In the order in which a row's faults are told: it is left out for the first.
        ids = parser.texts(contract.id, "no_id", strip=False, distinct=True)
        group = parser.texts(contract.group, "no_group", strip=False)
        label = self._type_labels(parser)
        coordinates = parser.coordinates(contract.coordinates)
        time = parser.times(contract, self.clock)
        taken = parser.taken(contract, self.clock) if self.to_score else None
        subgroups = parser.text_columns(contract.subgroup)
        display = parser.text_columns(self.display)
        values = parser.features(contract)
        if ids is None:
            ids = numbers.astype(str).astype(object)
        if group is not None and contract.group_stem:
            group = stems_of(group)
        return Cohort(
            id=ids,
            group=group,
            label=label,
            time=time,
            taken=taken,
            coordinates=coordinates,
            subgroups=subgroups,
            display=display,
            values=values,
            raw=None,
            rows=numbers,
            contract=contract,
            source=self.source,
            notes=self.notes,
            refused=self.refused,
        )

    def _type_labels(self, parser: _BlockParser) -> np.ndarray | None:
        """Return the label texts, "" where one is missing and does not mean "no"."""
        blank_is_no = self.contract.unlabelled == "no"
        needs_text = self.need_label and not blank_is_no
        violation = "no_label" if needs_text else None
        label = parser.texts(self.label, violation)
        if label is None:
            return None
        text_of_blank = BLANK_IS if blank_is_no else ""
        return np.where(absent(label), text_of_blank, label)

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


@dataclass(frozen=True)
class RowChecks:
    """How the rows of a table are checked beside its contract.

    Parameters
    ----------
    gates : Gates, optional
        Profile of training that the rows are compared with; it may stop the run.
    bounds : mapping of str to Bounds, optional
        Of columns of numbers in a table to score: a cell beyond is missing, and noted.
    score_of : ScoreOfRows, optional
        Takes one row of each unit where the contract says so; by default all rows.
    ids : IdReader, optional
        Knows patients of earlier nights; by default nobody.
    hash_key : str
        Key of the hashes of ids, 16 characters or more.
    by_group : bool
        Yield one batch a group.
    to_score : bool
        Rows are to be scored: `on_unseen` decides on a category that training has not
        seen, and the contract's columns to display are read.
    """

    gates: Gates | None = None
    bounds: Mapping[str, Bounds] | None = None
    score_of: ScoreOfRows | None = None
    ids: IdReader | None = None
    hash_key: str = HASH_KEY
    by_group: bool = False
    to_score: bool = False


class CohortStream:
    """A cohort read in batches by a complete contract; made by `open_cohort`.

    Iterating reads the table once and yields its sound rows in order. Violations are
    raised together at the end, and from the first one that stops the run no more rows
    are yielded: results made of the rows count only once the iteration has ended.

    Parameters
    ----------
    source : Source
    contract : Contract
        With features.
    batch_rows : int
        Rows read at a time.
    label : str, optional
        Column of the label, where it is read.
    need_label : bool
        A row without a label is a violation.
    notes : sequence of str
        What was inferred before; `notes` has these and what the table shows.
    checks : RowChecks, optional
        How rows are checked beside the contract; by default they are not.

    Attributes
    ----------
    n_rows : int
        Rows of the table, 0 before it was read once.
    refused : dict
        Rows left out, by reason; complete once the table was read.
    unused : UnusedCells
        Cells for which rows were not scored; complete once the table was read.
    on_refused : callable or None
        Called with the lines of `refused_cells` of each block.
    colliding : dict of str to ndarray of int
        By column the numbers of rows whose ids differ but have one reduced form;
        complete once the table was read, as `ids`.
    ids : IdCounts
    """

    def __init__(
        self,
        source: Source,
        contract: Contract,
        batch_rows: int = BATCH_ROWS,
        label: str | None = None,
        need_label: bool = False,
        notes: Sequence[str] = (),
        checks: RowChecks | None = None,
    ):
        checks = checks or RowChecks()
        if contract.neighbourhood is not None:
            optional("neighbourhood").declare_channels(source, contract)
        self.source = source
        self.contract = contract
        self.batch_rows = batch_rows
        self.notes = [*source.notes, *notes]
        self.gates = checks.gates
        self.by_group = checks.by_group
        self._score_of = checks.score_of
        self.refused: dict[str, int] = {}
        self.colliding: dict[str, np.ndarray] = {}
        self.ids = IdCounts()
        self.unused = UnusedCells()
        self.on_refused: Callable[[pa.Table], None] | None = None
        self.n_rows = 0
        self._reader = BlockReader(
            contract,
            source,
            self.notes,
            self.refused,
            label,
            need_label,
            checks.gates,
            checks.to_score,
            checks.hash_key,
            clock_of(contract.time_zone),
            checks.bounds or {},
            checks.ids or id_reader(contract),
        )
        self._is_prepared = False
        hour_column = contract.hour_column if checks.to_score else None
        columns = [*contract.columns(), *self._reader.display, label, hour_column]
        self._columns = list(dict.fromkeys(name for name in columns if name))
        others = {*contract.drop, *contract.display, contract.label or ""}
        refuse_absent(source, self._columns, others)
        self._note_ignored_columns({*self._columns, *others, ""})

    def _note_ignored_columns(self, named: Collection[str]) -> None:
        """Add a note on columns that the contract does not name."""
        ignored: dict[str, None] = {}
        for file in self.source.files:
            ignored |= dict.fromkeys(name for name in file.header if name not in named)
        if ignored:
            self.notes.append(
                f"columns not in the contract were ignored: {', '.join(ignored)}"
            )

    def check(self) -> None:
        """Read the whole table; CohortError with all violations by column and row."""
        for _ in self._sound_rows():
            pass

    def __iter__(self) -> Iterator[Cohort]:
        batches = self._sound_rows()
        return whole_groups(batches) if self.by_group else batches

    def _sound_rows(self) -> Iterator[Cohort]:
        """Yield the sound rows of the table in blocks."""
        reader = self.reader()
        reading = ReadingTotals(self)
        for piece in self.pieces():
            for block in reader.read(piece):
                reading.add(
                    block.counts,
                    listed(block.id_hashes),
                    listed(block.refused),
                    listed(block.reduced_hashes),
                )
                if block.rows is not None and reading.is_sound:
                    yield block.rows
        reading.conclude()

    def reader(self) -> BlockReader:
        """Return the reader of the blocks, which knows of the whole table what it must.

        That may take a reading of the table: which ids are repeated, and the scales of
        features that are normalised within groups.
        """
        if not self._is_prepared:
            self._is_prepared = True
            lists_refused = self.on_refused is not None
            self._reader = replace(self._reader, lists_refused=lists_refused)
            if self.contract.per_unit is not None:
                self._reader = replace(self._reader, taken_rows=self._choose_rows())
            elif self.contract.id and self.contract.on_violation != "stop":
                repeated_ids = self._read_repeated_ids(self.contract.id)
                self._reader = replace(self._reader, repeated_ids=repeated_ids)
            self._reader = replace(self._reader, scales=self._read_scales())
        return self._reader

    def _choose_rows(self) -> np.ndarray | None:
        """Return the rows that are used, one of each unit; None for all."""
        per_unit = self.contract.per_unit
        if per_unit is None or self._score_of is None:
            return None
        choice = RowChoice(per_unit.take, self._score_of)
        for piece in self.pieces():
            self._reader.add_candidates(choice, piece)
        rows = choice.rows()
        n_rows = sum(file.rows or 0 for file in self.source.files)
        self.notes.append(note_on_units(self.contract, len(rows), n_rows))
        return rows

    def _read_repeated_ids(self, column: str) -> np.ndarray:
        """Read the ids of the table; return the hashes of those that repeat."""
        ids = DuplicateIds()
        for piece in self.pieces([column]):
            for block in piece.blocks:
                cells = block.columns[column]
                texts = parse_texts(cells, None, distinct=True).values
                ids.add(_hash_ids(texts, self._reader.hash_key))
        repeated, _ = ids.repeats()
        return repeated

    def _read_scales(self) -> list[GroupScales]:
        """Read centre and spread of the features that the contract normalises."""
        names: dict[str, list[str]] = defaultdict(list)
        for name, feature in self.contract.features.items():
            if feature.normalise:
                names[feature.normalise].append(name)
        all_scales: list[GroupScales] = [
            SCALES[normalise](columns) for normalise, columns in names.items()
        ]
        if not all_scales:
            return []
        for piece in self.pieces():
            for block in self._reader.read(piece):
                # What is wrong with the table is raised when it is read for its rows.
                if block.rows is None:
                    continue
                for scales in all_scales:
                    scales.add(np.asarray(block.rows.group), block.rows.values)
        return all_scales

    def pieces(
        self, columns: Sequence[str] | None = None, place_rows: int | None = None
    ) -> Iterator[Piece]:
        """Yield the rows of all files in order.

        Blanks are filled where the contract says so. A file that cannot be read is a
        fault of the table, and the others are still read, so that all faults come
        together.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, those of the contract by default.
        place_rows : int, optional
            Rows that are left to be read by whoever iterates the blocks of a piece,
            where a file can be read at any place; else a piece is a block that was
            read.
        """
        if columns is None:
            columns = self._columns
        n_above = 0
        for file in self.source.files:
            places: Sequence[FilePlace] = []
            # A blank is filled from the rows above it.
            if place_rows is not None and not self.contract.fill_down:
                places = file.places(columns, self.batch_rows, place_rows)
            for place in places:
                yield Piece(file.format, n_above, place)
            if not places:
                yield from self._read_pieces(file, n_above, columns)
            n_above += file.rows or 0

    def paths_of_places(self) -> list[Path]:
        """Return the files of the table, if all can be read at any place; else none."""
        files = [file for file in self.source.files if isinstance(file, SectionedFile)]
        is_placed = len(files) == len(self.source.files)
        if not is_placed or self.by_group or self.contract.fill_down:
            return []
        return [file.path for file in files]

    def _read_pieces(
        self, file: SourcePart, n_above: int, columns: Sequence[str]
    ) -> Iterator[Piece]:
        """Yield a file block by block, and last the fault of one that is damaged."""
        try:
            for block in self._filled_blocks(file, columns):
                yield Piece(file.format, n_above, [block])
        except CohortError as error:
            yield Piece(file.format, n_above, unreadable=error.violations)

    def _filled_blocks(
        self, file: SourcePart, columns: Sequence[str]
    ) -> Iterator[Block]:
        """Yield the blocks of a file with blanks filled by the cell above them."""
        filled_columns = [name for name in self.contract.fill_down if name in columns]
        above: dict[str, str | None] = dict.fromkeys(filled_columns)
        for block in file.blocks(columns, self.batch_rows):
            filled = {
                name: fill_down(block.columns[name], above[name])
                for name in filled_columns
            }
            if block.n_rows:
                above = {name: cells[-1].as_py() for name, cells in filled.items()}
            yield replace(block, columns={**block.columns, **filled})


class ReadingTotals:
    """Adds up what the blocks of a stream count, and concludes what is wrong with them.

    Parameters
    ----------
    stream : CohortStream
        Whose notes and counts are complete after `conclude`.
    """

    def __init__(self, stream: CohortStream):
        self.stream = stream
        self._counts = stream.reader().no_counts()
        self._ids = DuplicateIds()
        self._reduced_ids = DuplicateIds()

    @property
    def n_rows(self) -> int:
        """Rows that were read."""
        return self._counts.violations.n_rows

    @property
    def is_sound(self) -> bool:
        """False from the first violation that stops the run."""
        return not self._counts.violations.stopped

    def add(
        self,
        counts: ReadCounts,
        id_hashes: Iterable[np.ndarray] = (),
        refused: Iterable[pa.Table] = (),
        reduced_hashes: Iterable[np.ndarray] = (),
    ) -> None:
        """Add the counts of the next rows, hashes of their ids, and refused cells.

        `reduced_hashes`: of the reduced forms of the ids.
        """
        self._counts += counts
        if self.stream.on_refused is not None:
            for lines in refused:
                self.stream.on_refused(lines)
        # Where rows with repeated ids are left out, these are known by now; where one
        # row of each unit is taken, ids are repeated.
        is_id_unique = self.stream.contract.per_unit is None
        if is_id_unique and self.stream.reader().repeated_ids is None:
            for hashes in id_hashes:
                self._ids.add(hashes)
        for hashes in reduced_hashes:
            self._reduced_ids.add(hashes)

    def conclude(self) -> None:
        """Raise CohortError with all violations, or complete the stream's notes."""
        stream = self.stream
        violations = self._counts.violations
        self._add_repeated_ids(violations)
        self._add_exponents(violations)
        # A table that is read again was counted before.
        is_first_reading = not stream.n_rows
        gates = stream.gates if is_first_reading else None
        if gates:
            if self._counts.gates:
                gates.add(self._counts.gates)
            violations.table_faults += [
                f"column {stop.words} {stop.remedy}" for stop in gates.stops()
            ]
            scale = self._counts.score_scale
            fault = scale.fault(stream.contract, gates.past)
            if fault is not None:
                violations.table_faults.append(fault)
        notes = violations.conclude(len(stream.source.files) > 1)
        if is_first_reading:
            stream.notes += notes
            stream.notes += gates.notes() if gates else []
            stream.refused.update(violations.refused)
            stream.unused = self._counts.unused
            stream.n_rows = violations.n_rows
            stream.ids = self._counts.ids
            stream.colliding = self._colliding_rows()
            if not stream.reader().to_score:
                stream.notes += self._notes_on_collisions()

    def _add_repeated_ids(self, violations: Violations) -> None:
        """Add the rows with an id of another row to the violations of their file."""
        _, positions = self._ids.repeats()
        column = str(self.stream.contract.id)
        for file, rows in rows_by_file(self.stream.source, 1 + positions):
            violations.add(file, column, "repeated_id", rows)
            if self.stream.on_refused is not None:
                self.stream.on_refused(repeated_ids(file, column, rows))

    def _add_exponents(self, violations: Violations) -> None:
        """Add the rows whose ids were written as numbers to the violations."""
        for column, exponents in self._counts.ids.exponents.items():
            rows = np.array(exponents.rows(), np.int64)
            if rows.size:
                violations.table_faults.append(
                    f"column '{column}', {rows_in_words(self.stream.source, rows)}: "
                    "digits with an exponent, as a spreadsheet writes long numbers "
                    "(1.2E+05); export the column as text"
                )

    def _notes_on_collisions(self) -> list[str]:
        """Return a note on each column whose ids collide, for a table to train on."""
        source = self.stream.source
        return [
            f"column '{column}', {rows_in_words(source, rows)}: ids that are the same "
            f"{BUT_FOR}; they count as different, see whether they are"
            for column, rows in self.stream.colliding.items()
        ]

    def _colliding_rows(self) -> dict[str, np.ndarray]:
        """Return by column the rows whose ids differ, and have one reduced form."""
        reader = self.stream.reader().ids
        colliding = {}
        if reader.id is not None:
            _, positions = self._reduced_ids.repeats()
            colliding[reader.id] = 1 + positions
        if reader.patient is not None and self._counts.ids.names:
            colliding[reader.patient] = self._counts.ids.colliding_rows()
        return {name: rows for name, rows in colliding.items() if rows.size}


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


def id_reader(contract: Contract) -> IdReader:
    """Return the reader of the ids that a contract names; voxels have none."""
    return IdReader(
        id=None if contract.coordinates else contract.id,
        group=contract.group,
        may_repeat=contract.per_unit is not None,
    )


def listed(value: Value | None) -> list[Value]:
    """Return a list of a value, empty for None."""
    return [] if value is None else [value]


def open_cohort(
    source: Readable,
    contract: Contract | str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    label: str | None = None,
    checks: RowChecks | None = None,
) -> CohortStream:
    """Open a cohort for scoring, in batches of `batch_rows` rows or of one group.

    A cell beyond `plausible` of the contract is missing; bounds of `checks` take its
    place.

    Raises
    ------
    CohortError
        The contract names no features, or a column that the table has not.
    """
    complete = resolve_contract(contract)
    if not complete.features:
        raise CohortError(
            "the contract has no features; add [features.NAME], as `screen init` "
            "writes them"
        )
    opened, complete = open_source(source, complete)
    checks = replace(checks or RowChecks(), to_score=True)
    if checks.bounds is None:
        checks = replace(checks, bounds=bounds_of_columns(complete, None))
    return CohortStream(opened, complete, batch_rows, label, checks=checks)


def open_source(source: Readable, contract: Contract) -> tuple[Source, Contract]:
    """Open a cohort's source, and add to the contract what such a source brings.

    A folder of images brings the group, a neighbourhood its features.
    """
    opened = source_at(source)
    if not contract.features and not contract.group:
        contract = contract.with_roles(group=opened.group)
    if contract.neighbourhood is None:
        return opened, contract
    with_neighbourhood = optional("neighbourhood").with_neighbourhood
    return with_neighbourhood(opened, contract)


def resolve_contract(
    contract: Contract | str | Path | None,
    neighbourhood: int | None = None,
    drop: str | Sequence[str] | None = None,
    **roles: str | Sequence[str] | None,
) -> Contract:
    """Return a contract, of a file or an empty one, with roles put in its place.

    Columns to drop, which may be one text with commas, are added to the contract's.
    """
    if contract is None:
        contract = Contract()
    elif not isinstance(contract, Contract):
        contract = Contract.load(contract)
    if isinstance(drop, str):
        drop = names_from(drop)
    dropped = [*contract.drop, *drop] if drop else None
    return contract.with_roles(neighbourhood=neighbourhood, drop=dropped, **roles)


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """Yield the same rows, one group a batch.

    Raises
    ------
    CohortError
        Rows of a group come after those of another one.
    """
    seen: set[str] = set()
    for name, pieces in groupby(_pieces_of_groups(batches), key=itemgetter(0)):
        if name in seen:
            raise CohortError(
                "the rows of a group are not next to each other; sort the table by "
                "group"
            )
        seen.add(name)
        yield concatenate([piece for _, piece in pieces])


def _pieces_of_groups(batches: Iterable[Cohort]) -> Iterator[tuple[str, Cohort]]:
    """Yield runs of rows of one group, none across two batches."""
    for batch in batches:
        for name, rows in stretches(np.asarray(batch.group)):
            yield name, batch.take(np.arange(rows.start, rows.stop))


class DuplicateIds:
    """Finds repeated ids of a table of any length, in bounded memory.

    Holds 64 bits of each, of many rows in a file without a name.
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
        # Equal hashes have equal low bits: a part is the hashes with the same ones.
        n_parts = 1
        while n_parts * HELD_ROWS < self.n_rows and n_parts < MAX_PARTS:
            n_parts *= 2
        repeated = [np.zeros(0, np.uint64)]

        def find_repeats(part: int) -> None:
            hashes = np.concatenate([*self._part(part, n_parts)])
            hashes.sort()
            repeated.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))

        run_in_threads(find_repeats, range(n_parts))
        hashes = np.sort(np.concatenate(repeated))
        rows = [np.zeros(0, np.int64)]
        n_above = 0
        for block in self._read() if hashes.size else ():
            nearest = np.searchsorted(hashes, block).clip(max=len(hashes) - 1)
            rows.append(n_above + np.flatnonzero(hashes[nearest] == block))
            n_above += len(block)
        return hashes, np.concatenate(rows)

    def _part(self, part: int, n_parts: int) -> Iterator[np.ndarray]:
        """Yield the hashes whose low bits are the number of a part."""
        for block in self._read():
            # 0 stands for no id.
            yield block[(block & (n_parts - 1) == part) & (block != 0)]

    def _read(self) -> Iterator[np.ndarray]:
        """Yield the hashes in the order of rows; threads take turns to read."""
        for start in range(0, max(1, self.n_rows), READ_ROWS):
            with self._lock, temporary_folder_named():
                self._file.seek(8 * start)
                content = self._file.read(8 * READ_ROWS)
            yield np.frombuffer(content, np.uint64)


def _hash_ids(ids: np.ndarray, key: str) -> np.ndarray:
    """Return 64 bits an id, shape (n_rows,); 0 where there is none."""
    hashes = keyed_hashes(ids, key)
    hashes[absent(ids)] = 0
    return hashes
