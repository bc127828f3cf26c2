"""A cohort as a stream of typed batches, read and checked in one pass."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.contract.parsing import (
    TypedColumn,
    fill_down,
    parse_coordinate,
    parse_feature,
    parse_texts,
    parse_times,
)
from screening.contract.violations import UNSEEN, Fault, Violations, refuse_absent
from screening.data.cohort import Cohort, concatenate
from screening.data.ids import stems_of
from screening.data.normalising import GroupScales, Medians, Moments
from screening.errors import CohortError
from screening.io.columns import Columns, stretches
from screening.io.opening import Readable, source_at
from screening.io.readers import Block, Part, Source
from screening.monitoring.drift import Gates
from screening.registry import optional

BATCH_ROWS = 65536
# Rows whose hashed ids are held in memory at a time.
HELD_ROWS = 1 << 19
SCALES = {"within_group": Moments, "within_group_robust": Medians}


@dataclass(frozen=True)
class TypedBlock:
    """The rows of one block, sound or not.

    Parameters
    ----------
    rows : Cohort
    faults : list of Fault
        What is wrong with some of the rows.
    unlisted : mapping from str to ndarray of bool, shape (n_rows,)
        By feature, the rows whose category the contract does not list. Only where the
        rows are to be scored; elsewhere these are faults.
    """

    rows: Cohort
    faults: list[Fault]
    unlisted: dict[str, np.ndarray]


@dataclass
class _BlockParser:
    """Types columns of one block, and notes the faults of their cells."""

    file: Part
    block: Block
    faults: list[Fault] = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [
            ("", "ragged", self.block.ragged),
            ("", "repeated_header", self.block.repeated_header),
        ]
        self._broken = self.block.ragged | self.block.repeated_header

    def texts(
        self, column: str | None, missing_fault: str | None = None, strip: bool = True
    ) -> np.ndarray | None:
        """Return a role's texts, shape (n_rows,); None where no column has the role."""
        if column is None:
            return None
        cells = self.block.columns[column]
        return self._noted(column, parse_texts(cells, missing_fault, strip))

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
            axis = parse_coordinate(cells, self.file.decimal(name))
            axes.append(self._noted(name, axis))
        return np.column_stack(axes)

    def times(self, column: str | None, order: str | None) -> np.ndarray | None:
        """Return times as datetime64[us], shape (n_rows,), None for no column."""
        if column is None:
            return None
        return self._noted(column, parse_times(self.block.columns[column], order))

    def features(self, contract: Contract) -> Columns:
        """Return the values of every feature by name."""
        values = {}
        for name, feature in contract.features.items():
            cells = self.block.columns[name]
            typed = parse_feature(cells, feature, self.file.decimal(name))
            values[name] = self._noted(name, typed)
        return values

    def _noted(self, column: str, typed: TypedColumn) -> np.ndarray:
        for kind, mask in typed.faults:
            # A broken row has no cells to blame.
            self.faults.append((column, kind, mask & ~self._broken))
        return typed.values


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
    gates : Gates, optional
        Profile of training that the rows are compared with; it may stop the run.
    to_score : bool
        Rows are to be scored: `on_unseen` decides on a category that training has not
        seen, and the contract's columns to display are read.
    by_group : bool
        Yield one batch a group.

    Attributes
    ----------
    n_rows : int
        Rows of the table, 0 before it was read once.
    refused : dict
        Rows left out, by reason; complete once the table was read.
    """

    def __init__(
        self,
        source: Source,
        contract: Contract,
        batch_rows: int = BATCH_ROWS,
        label: str | None = None,
        need_label: bool = False,
        notes: Sequence[str] = (),
        gates: Gates | None = None,
        to_score: bool = False,
        by_group: bool = False,
    ):
        self.source = source
        self.contract = contract
        self.batch_rows = batch_rows
        self.label = label
        self.need_label = need_label
        self.notes = [*source.notes, *notes]
        self.gates = gates
        self.to_score = to_score
        self.by_group = by_group
        self.refused: dict[str, int] = {}
        self.n_rows = 0
        # Hashes of repeated ids, read beforehand where such rows are left out.
        self._repeated_ids: np.ndarray | None = None
        # Centres and spreads within groups, read beforehand where features need them.
        self._scales: list[GroupScales] | None = None
        self._display = contract.display if to_score else []
        columns = [*contract.columns(), *self._display, label]
        self._columns = list(dict.fromkeys(name for name in columns if name))
        refuse_absent(source, self._columns)
        self._note_ignored_columns()

    def _note_ignored_columns(self) -> None:
        contract = self.contract
        named = {*self._columns, *contract.drop, *contract.display, contract.label, ""}
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
        batches = (
            self._normalised(rows.take(is_sound))
            for rows, is_sound in self._sound_rows()
        )
        return whole_groups(batches) if self.by_group else batches

    def _normalised(self, rows: Cohort) -> Cohort:
        values = rows.values
        raw: dict[str, np.ndarray] = {}
        for scales in self._scales or ():
            values = scales.applied(np.asarray(rows.group), values)
            raw |= {name: rows.values[name] for name in scales.columns}
        return replace(rows, values=values, raw=raw or None)

    def _sound_rows(self) -> Iterator[tuple[Cohort, np.ndarray]]:
        """Yield the table in blocks, each with the mask of its sound rows."""
        self._read_beforehand()
        # A table that is read again was counted before.
        is_first_reading = not self.n_rows
        gates = self.gates if is_first_reading else None
        violations = Violations(self.contract)
        ids = DuplicateIds()
        for file, block, numbers in self._blocks(self._columns, violations):
            typed = self._type_block(file, block, numbers)
            if self.contract.id and self._repeated_ids is None:
                ids.add(typed.rows.id)
            if gates:
                # Also rows that break the contract: other units may break it in each.
                gates.add(typed.rows.values, typed.rows.group, typed.unlisted)
            is_sound = violations.add_block(file.name, block, typed.faults)
            if is_sound.any() and not violations.stopped:
                yield typed.rows, is_sound
        self._add_repeated_ids(ids, violations)
        if gates:
            violations.table_faults += [
                f"column {stop.words} {stop.remedy}" for stop in gates.stops()
            ]
        lines = violations.conclude(len(self.source.files) > 1)
        if is_first_reading:
            self.notes += [f"rows left out: {line}" for line in lines]
            self.notes += gates.notes() if gates else []
            self.refused.update(violations.refused)
            self.n_rows = violations.n_rows

    def _add_repeated_ids(self, ids: DuplicateIds, violations: Violations) -> None:
        """Add the rows with an id of another row to the violations of their file."""
        _, positions = ids.repeats()
        if not positions.size:
            return
        start = 0
        for file in self.source.files:
            end = start + (file.rows or 0)
            in_file = positions[(positions >= start) & (positions < end)]
            rows = 1 + in_file - start
            violations.add(file.name, str(self.contract.id), "repeated_id", rows)
            start = end

    def _read_beforehand(self) -> None:
        """Read what must be known of the whole table before its first row is judged."""
        leaves_out = self.contract.on_violation != "stop"
        if self.contract.id and leaves_out and self._repeated_ids is None:
            self._repeated_ids = self._read_repeated_ids(self.contract.id)
        if self._scales is None:
            self._scales = self._read_scales()

    def _read_repeated_ids(self, column: str) -> np.ndarray:
        ids = DuplicateIds()
        for _, block, _ in self._blocks([column], Violations(self.contract)):
            ids.add(parse_texts(block.columns[column], None).values)
        repeated, _ = ids.repeats()
        return repeated

    def _read_scales(self) -> list[GroupScales]:
        """Read centre and spread of the features that the contract normalises."""
        names: dict[str, list[str]] = {}
        for name, feature in self.contract.features.items():
            if feature.normalise:
                names.setdefault(feature.normalise, []).append(name)
        all_scales: list[GroupScales] = [
            SCALES[normalise](columns) for normalise, columns in names.items()
        ]
        if not all_scales:
            return []
        # What is wrong with the table is raised when it is read for its rows.
        violations = Violations(self.contract)
        for file, block, numbers in self._blocks(self._columns, violations):
            typed = self._type_block(file, block, numbers)
            is_sound = violations.add_block(file.name, block, typed.faults)
            sound = typed.rows.take(is_sound)
            for scales in all_scales:
                scales.add(np.asarray(sound.group), sound.values)
        return all_scales

    def _blocks(
        self, columns: Sequence[str], violations: Violations
    ) -> Iterator[tuple[Part, Block, np.ndarray]]:
        """Yield the blocks of all files, and the numbers of their rows in the table.

        Blanks are filled where the contract says so. A file that cannot be read is a
        violation, and the others are still read, so that all faults come together.
        """
        n_rows_before = 0
        filled_columns = [name for name in self.contract.fill_down if name in columns]
        for file in self.source.files:
            above: dict[str, str | None] = dict.fromkeys(filled_columns)
            try:
                for block in file.blocks(columns, self.batch_rows):
                    filled = {
                        name: fill_down(block.columns[name], above[name])
                        for name in filled_columns
                    }
                    if block.n_rows:
                        above = {
                            name: cells[-1].as_py() for name, cells in filled.items()
                        }
                    block = replace(block, columns={**block.columns, **filled})
                    in_file = block.first_row + np.arange(block.n_rows)
                    yield file, block, n_rows_before + in_file
            except CohortError as error:
                violations.table_faults += error.violations
            n_rows_before += file.rows or 0

    def _type_block(self, file: Part, block: Block, numbers: np.ndarray) -> TypedBlock:
        parser = _BlockParser(file, block)
        rows = self._type_rows(parser, numbers)
        # When rows are scored, `on_unseen` decides on a category that is not listed.
        unlisted = {}
        faults = []
        for column, kind, mask in parser.faults:
            if self.to_score and kind == "unknown_category":
                unlisted[column] = mask
            else:
                faults.append((column, kind, mask))
        faults += self._unseen_faults(rows, unlisted)
        if self._repeated_ids is not None and self._repeated_ids.size:
            is_repeated = np.isin(_hash_ids(rows.id), self._repeated_ids)
            faults.append((str(self.contract.id), "repeated_id", is_repeated))
        return TypedBlock(rows, [fault for fault in faults if fault[2].any()], unlisted)

    def _type_rows(self, parser: _BlockParser, numbers: np.ndarray) -> Cohort:
        contract = self.contract
        # In the order in which a row's faults are told: it is left out for the first.
        ids = parser.texts(contract.id, "no_id", strip=False)
        group = parser.texts(contract.group, "no_group", strip=False)
        label = parser.texts(self.label, "no_label" if self.need_label else None)
        coordinates = parser.coordinates(contract.coordinates)
        time = parser.times(contract.time, contract.date_order)
        subgroups = parser.text_columns(contract.subgroup)
        display = parser.text_columns(self._display)
        values = parser.features(contract)
        if ids is None:
            ids = numbers.astype(str).astype(object)
        if group is not None and contract.group_stem:
            group = stems_of(group)
        if label is not None:
            label = np.where(pd.isna(label), "", label)
        return Cohort(
            id=ids,
            group=group,
            label=label,
            time=time,
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


def open_cohort(
    source: Readable,
    contract: Contract | str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    label: str | None = None,
    gates: Gates | None = None,
    whole_groups: bool = False,
) -> CohortStream:
    """Open a cohort for scoring, in batches of `batch_rows` rows or of one group.

    Raises
    ------
    CohortError
        The contract names no features, or a column that the table has not.
    """
    complete = resolve_contract(contract)
    if not complete.features:
        raise CohortError(
            "the contract names no features; add [features.NAME], as `screen init` "
            "writes them"
        )
    opened, complete = open_source(source, complete)
    return CohortStream(
        opened,
        complete,
        batch_rows,
        label,
        gates=gates,
        to_score=True,
        by_group=whole_groups,
    )


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
    return with_neighbourhood(opened, contract)  # type: ignore[no-any-return]


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
        drop = [name.strip() for name in drop.split(",") if name.strip()]
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
                "rows of a group do not stand together; sort the table by its group"
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

    Takes in the ids in row order and holds 64 bits of each, of many rows in a file
    without a name.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._file = tempfile.SpooledTemporaryFile(8 * HELD_ROWS)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def add(self, ids: np.ndarray) -> None:
        """Take in the ids of further rows, None where a row has none."""
        self._file.write(_hash_ids(ids).tobytes())
        self.n_rows += len(ids)

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of repeated ids, and the rows that have one.

        Both are sorted ascending; rows count from 0.
        """
        n_parts = 1 + self.n_rows // HELD_ROWS
        repeated = [pd.Series(dtype=np.uint64)]
        # Equal hashes have one remainder, by which a part of the rows is held at a time.
        for remainder in range(n_parts):
            part = self._hashes_with(remainder, n_parts)
            # 0 stands for no id.
            repeated.append(part[part.duplicated(keep=False) & (part != 0)])
        rows = pd.concat(repeated)
        return np.unique(rows.to_numpy()), np.sort(rows.index.to_numpy())

    def _hashes_with(self, remainder: int, n_parts: int) -> pd.Series:
        """Return the hashes with a remainder modulo `n_parts`, by row."""
        pieces = []
        self._file.seek(0)
        for start in range(0, 1 + self.n_rows, HELD_ROWS):
            hashes = np.frombuffer(self._file.read(8 * HELD_ROWS), np.uint64)
            members = np.flatnonzero(hashes % np.uint64(n_parts) == remainder)
            pieces.append(pd.Series(hashes[members], index=start + members))
        return pd.concat(pieces)


def _hash_ids(ids: np.ndarray) -> np.ndarray:
    """Return 64 bits an id, the same in this process alone; 0 where there is none."""
    hashes = [0 if text is None else hash(text) for text in ids.tolist()]
    return np.array(hashes, dtype=np.int64).view(np.uint64)
