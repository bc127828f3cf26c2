"""A cohort as a stream of typed rows, read and checked.

The rows are read in one pass: `CohortStream.pieces` cuts the table into pieces, in
order; `BlockReader` types and checks the rows of a piece, in any process; and
`ReadingTotals` adds up what was counted, in order, and raises all violations together
at the end.

Some contracts ask what only the whole table shows. `CohortStream.read_ahead` then reads
it before that pass, at most twice:

1. Where one row of each unit is used (`[score]`), for the numbers of these rows; else,
   where rows with repeated ids are left out, for these ids.
2. Where features are normalised within groups, for centre and spread of each group.

Repeated ids that refuse the table are found in the pass over the rows. Opening a file
reads what its format must know first: of a CSV file, all bytes for their encoding.

file, block, range
    As in `screening.io.readers`.
piece
    What a process reads at a time: a range, or a block that was read before.
batch
    The valid rows of a block as a `Cohort`; with `by_group`, those of a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from screening.clock.zone import clock_of
from screening.contract.contract import Contract
from screening.contract.parsing import fill_down, parse_texts
from screening.contract.violations import Violations, refuse_absent
from screening.data.block_reader import BlockReader, Piece, ReadCounts
from screening.data.cohort import Cohort, concatenate
from screening.data.normalising import GroupScales, Medians, Moments
from screening.data.observed_ids import (
    DuplicateIds,
    ObservedIds,
    id_reader,
    rows_by_file,
)
from screening.data.observers import Observer
from screening.data.one_per_unit import RowChoice, ScoreOfRows, note_on_units
from screening.data.out_of_bounds import Bounds, bounds_of_columns
from screening.data.typed_rows import RowTyper
from screening.errors import CohortError
from screening.identity.hashes import HASH_KEY, hash_ids
from screening.identity.table import IdReader
from screening.io.columns import runs_of
from screening.io.opening import Readable, source_at
from screening.io.readers import (
    FileRange,
    SectionedFile,
    Source,
    SourceFile,
)
from screening.registry import optional

BATCH_ROWS = 65536
SCALES = {"within_group": Moments, "within_group_robust": Medians}


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read, apart from its contract.

    Parameters
    ----------
    observers : sequence of Observer
        Count the rows; what they find may stop the run.
    bounds : mapping of str to Bounds, optional
        Of columns of numbers in a table to score: a cell beyond is missing, and noted.
    score_of : ScoreOfRows, optional
        Takes one row of each unit where the contract says so; by default all rows.
    ids : IdReader, optional
        Knows patients of earlier nights; by default none.
    hash_key : str
        Key of the hashes of ids, 16 characters or more.
    by_group : bool
        Yield one batch a group.
    to_score : bool
        Rows are to be scored: `on_unseen` decides on a category that training has not
        seen, and the contract's columns to display are read.
    """

    observers: Sequence[Observer] = ()
    bounds: Mapping[str, Bounds] | None = None
    score_of: ScoreOfRows | None = None
    ids: IdReader | None = None
    hash_key: str = HASH_KEY
    by_group: bool = False
    to_score: bool = False


class CohortStream:
    """A cohort read in batches: for scoring by `open_cohort`, else by `read_cohort`.

    Iterating reads ahead, then yields the valid rows of the table in order. Violations
    are raised together at the end, and from the first one that stops the run no more
    rows are yielded: results made of the rows count only once the iteration has ended.

    Parameters
    ----------
    source : Source
    contract : Contract
        With features.
    batch_rows : int
        Rows of a block.
    label : str, optional
        Column of the label, where it is read.
    need_label : bool
        A row without a label is a violation.
    notes : sequence of str
        What was inferred before; `notes` has these and what the table shows.
    options : ReadOptions, optional
        How rows are checked apart from the contract; by default they are not.

    Attributes
    ----------
    n_rows : int
        Rows of the table, 0 before it was read once.
    refused : dict
        Rows left out, by reason; complete once the table was read.
    ids : ObservedIds
        Complete once the table was read.
    observers : list of Observer
        The ids, and what was registered when the table was opened.
    """

    def __init__(
        self,
        source: Source,
        contract: Contract,
        batch_rows: int = BATCH_ROWS,
        label: str | None = None,
        need_label: bool = False,
        notes: Sequence[str] = (),
        options: ReadOptions | None = None,
    ):
        options = options or ReadOptions()
        if contract.neighbourhood is not None:
            optional("neighbourhood").declare_channels(source, contract)
        self.source = source
        self.contract = contract
        self.batch_rows = batch_rows
        self.notes = [*source.notes, *notes]
        self.by_group = options.by_group
        self.to_score = options.to_score
        self._score_of = options.score_of
        self.refused: dict[str, int] = {}
        self.ids = ObservedIds(options.ids or id_reader(contract), source)
        self.observers = [self.ids, *options.observers]
        self.n_rows = 0
        row_typer = RowTyper(
            contract,
            label,
            need_label,
            options.to_score,
            clock_of(contract.time_zone),
        )
        categories: dict[str, Set[str | None]] = {}
        for observer in self.observers:
            categories |= observer.categories
        self._reader = BlockReader(
            row_typer,
            options.hash_key,
            options.bounds or {},
            categories,
            [observer.counter for observer in self.observers],
        )
        self._has_read_ahead = False
        hour_column = contract.hour_column if options.to_score else None
        columns = [*contract.columns(), *row_typer.display, label, hour_column]
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
        for _ in self._valid_rows():
            pass

    def __iter__(self) -> Iterator[Cohort]:
        batches = self._valid_rows()
        return whole_groups(batches) if self.by_group else batches

    def _valid_rows(self) -> Iterator[Cohort]:
        """Yield the valid rows of the table in blocks."""
        reader = self.read_ahead()
        reading = ReadingTotals(self)
        for piece in self.pieces():
            for block in reader.read(piece):
                reading.add(block.counts)
                if block.rows is not None and not reading.is_refused:
                    yield replace(
                        block.rows,
                        source=self.source,
                        notes=self.notes,
                        refused=self.refused,
                    )
        reading.conclude()

    def read_ahead(self) -> BlockReader:
        """Return the reader of the pieces, which knows what the whole table shows.

        Only the first call reads the table, if anything asks for it (see the module).
        """
        if not self._has_read_ahead:
            self._has_read_ahead = True
            if self.contract.per_unit is not None:
                self._reader = replace(self._reader, taken_rows=self._choose_rows())
            elif self.leaves_out_repeats:
                self._reader = replace(self._reader, repeated_ids=self._repeated_ids())
            self._reader = replace(self._reader, scales=self._read_scales())
        return self._reader

    @property
    def leaves_out_repeats(self) -> bool:
        """True if rows with repeated ids are left out, and do not refuse the table."""
        is_id_unique = self.contract.id is not None and self.contract.per_unit is None
        return is_id_unique and self.contract.on_violation != "stop"

    def _choose_rows(self) -> np.ndarray | None:
        """Choose the rows to use, one of each unit; None for all."""
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

    def _repeated_ids(self) -> np.ndarray:
        """Read the ids of the table; return the hashes of those that repeat."""
        column = str(self.contract.id)
        ids = DuplicateIds()
        for piece in self.pieces([column]):
            for block in piece.blocks:
                cells = block.columns[column]
                texts = parse_texts(cells, None, distinct=True).values
                ids.add(hash_ids(texts, self._reader.hash_key))
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
        self, columns: Sequence[str] | None = None, range_rows: int | None = None
    ) -> Iterator[Piece]:
        """Yield the rows of all files in order.

        Blanks are filled where the contract says so. A file that cannot be read is a
        fault of the table, and the others are still read, so that all faults come
        together.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read, those of the contract by default.
        range_rows : int, optional
            Rows of the ranges that files are cut into, if they can be; they are read
            where a piece is. By default a piece is a block that was read.
        """
        if columns is None:
            columns = self._columns
        n_above = 0
        for file in self.source.files:
            ranges: Sequence[FileRange] = []
            # A blank is filled from the rows above it.
            if range_rows is not None and not self.contract.fill_down:
                ranges = file.ranges(columns, self.batch_rows, range_rows)
            for rows in ranges:
                yield Piece(file.format, n_above, rows)
            if not ranges:
                yield from self._read_pieces(file, n_above, columns)
            # Known by now at the latest: all rows of the file have been read.
            n_above += file.rows or 0

    def paths_read_by_range(self) -> list[Path]:
        """Return the files of the table, if all are read in ranges; else none."""
        files = [file for file in self.source.files if isinstance(file, SectionedFile)]
        have_ranges = len(files) == len(self.source.files)
        if not have_ranges or self.by_group or self.contract.fill_down:
            return []
        return [file.path for file in files]

    def _read_pieces(
        self, file: SourceFile, n_above: int, columns: Sequence[str]
    ) -> Iterator[Piece]:
        """Yield a file block by block, and last the fault of one that is damaged.

        Blanks are filled by the cell above them.
        """
        filled_columns = [name for name in self.contract.fill_down if name in columns]
        above: dict[str, str | None] = dict.fromkeys(filled_columns)
        try:
            for block in file.blocks(columns, self.batch_rows):
                filled = {
                    name: fill_down(block.columns[name], above[name])
                    for name in filled_columns
                }
                if block.n_rows:
                    above = {name: cells[-1].as_py() for name, cells in filled.items()}
                block = replace(block, columns={**block.columns, **filled})
                yield Piece(file.format, n_above, [block])
        except CohortError as error:
            yield Piece(file.format, n_above, file_faults=error.violations)


class ReadingTotals:
    """Adds up what the blocks of a stream count, and concludes what is wrong with them.

    Parameters
    ----------
    stream : CohortStream
        Whose notes and counts are complete after `conclude`.
    """

    def __init__(self, stream: CohortStream):
        self.stream = stream
        self._violations = Violations(stream.contract)
        # Of tables that repeated ids refuse.
        self._ids = DuplicateIds()
        is_id_unique = stream.contract.per_unit is None
        self._counts_ids = is_id_unique and not stream.leaves_out_repeats
        # A table that is read again was counted before.
        self._counts = stream.n_rows == 0
        self._observers = stream.observers if self._counts else []

    @property
    def n_rows(self) -> int:
        """Rows that were read."""
        return self._violations.n_rows

    @property
    def is_refused(self) -> bool:
        """True from the first violation that refuses the table."""
        return self._violations.is_refused

    def add(self, counts: ReadCounts) -> None:
        """Add the counts of the next rows."""
        self._violations += counts.violations
        # Faults of a damaged file come without counts of observers.
        for observer, counted in zip(self._observers, counts.observed, strict=False):
            observer.add(counted)
        if self._counts_ids:
            for hashes in counts.id_hashes:
                self._ids.add(hashes)

    def conclude(self) -> None:
        """Complete the notes and counts of the stream; CohortError with all violations.

        Rows with repeated ids that refuse the table are found here.
        """
        stream = self.stream
        violations = self._violations
        self._add_repeated_ids(violations)
        for observer in self._observers:
            violations.table_faults += observer.faults()
        notes = violations.conclude(len(stream.source.files) > 1)
        if self._counts:
            stream.notes += notes
            for observer in self._observers:
                stream.notes += observer.notes()
            if not stream.to_score:
                stream.notes += stream.ids.notes_on_collisions()
            stream.refused.update(violations.refused)
            stream.n_rows = violations.n_rows

    def _add_repeated_ids(self, violations: Violations) -> None:
        """Add the rows with an id of another row to the violations of their file."""
        _, positions = self._ids.repeats()
        column = str(self.stream.contract.id)
        for file, rows in rows_by_file(self.stream.source, 1 + positions):
            violations.add(file, column, "repeated_id", rows)
            for observer in self._observers:
                observer.add_repeated_ids(file, column, rows)


def open_cohort(
    source: Readable,
    contract: Contract,
    *,
    batch_rows: int = BATCH_ROWS,
    label: str | None = None,
    options: ReadOptions | None = None,
) -> CohortStream:
    """Open a cohort for scoring, in blocks of `batch_rows` rows.

    A cell beyond `plausible` of the contract is missing; bounds of `options` take its
    place.

    Raises
    ------
    CohortError
        The contract names no features, or a column that the table has not.
    """
    if not contract.features:
        raise CohortError(
            "the contract has no features; add [features.NAME] for each "
            "column, as `screen init` does"
        )
    opened = source_at(source)
    if contract.neighbourhood is not None:
        add_neighbourhood = optional("neighbourhood").add_neighbourhood
        add_neighbourhood(opened, contract, contract.neighbourhood)
    options = replace(options or ReadOptions(), to_score=True)
    if options.bounds is None:
        options = replace(options, bounds=bounds_of_columns(contract, None))
    return CohortStream(opened, contract, batch_rows, label, options=options)


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """Yield the same rows, one group a batch.

    Raises
    ------
    CohortError
        Rows of a group come after those of another one.
    """
    seen: set[str] = set()
    for name, runs in groupby(_runs_of_groups(batches), key=itemgetter(0)):
        if name in seen:
            raise CohortError(
                "the rows of a group are not next to each other; sort the table by "
                "group"
            )
        seen.add(name)
        yield concatenate([rows for _, rows in runs])


def _runs_of_groups(batches: Iterable[Cohort]) -> Iterator[tuple[str, Cohort]]:
    """Yield runs of rows of one group, none across two batches."""
    for batch in batches:
        for name, rows in runs_of(np.asarray(batch.group)):
            yield name, batch.take(np.arange(rows.start, rows.stop))
