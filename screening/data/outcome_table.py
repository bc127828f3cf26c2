"""Read a table of outcomes: patients with known events, and their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from screening.clock.conversion import NAT, local_times
from screening.clock.instants import TimeCells, times_of_texts
from screening.clock.zone import Clock
from screening.contract.parsing import parse_texts, read_times
from screening.contract.violations import refuse_absent
from screening.data.stream import BATCH_ROWS
from screening.errors import CohortError
from screening.io.arrow_types import to_texts
from screening.io.number_formats import FALSE, TRUE, trim
from screening.io.opening import Readable, source_at
from screening.io.readers import Block, Source
from screening.spelling import first_of

MAX_SHOWN_ROWS = 5
# The time of the table's file, in place of a column of `as_of`.
FILE = "file"
# Fewest times that are all at midnight, by which a column of times has dates alone.
MIN_AT_MIDNIGHT = 5
NO_ORDER = (
    "not a date such as 2024-01-31; correct the cells, or give `date_order` (dmy or "
    "mdy) if the day or month comes first"
)
OTHER_ORDER = (
    "not a date in the order {}; correct the cells, or give another `date_order` (dmy "
    "or mdy)"
)
LOST = (
    "a time that does not exist, in the hour when summer time begins; write it with "
    "its zone, or give another `time_zone`"
)


class OutcomeColumns(NamedTuple):
    """Columns of a table of outcomes.

    Parameters
    ----------
    unit : str
        Column of the ids that the nights have, of patients or stays.
    time : str
        Column of the time of the event. A blank cell states that there was none, which
        takes back what an earlier table said of this id; "yes" states a case without a
        time.
    event : str, optional
        Column that names the event.
    until : str, optional
        Column of the end of the stay.
    as_of : str, optional
        Column of the time up to which the table is complete, or "file".
    """

    unit: str
    time: str
    event: str | None = None
    until: str | None = None
    as_of: str | None = None

    @property
    def names(self) -> list[str]:
        """Columns that the table must have."""
        as_of = None if self.as_of == FILE else self.as_of
        columns = (self.unit, self.time, self.event, self.until, as_of)
        return list(dict.fromkeys(name for name in columns if name))


@dataclass(frozen=True)
class OutcomeTable:
    """What a table of outcomes states.

    Parameters
    ----------
    lines : DataFrame
        A line a row: `row` (its number), `unit`, `time` (datetime64, an instant, dates
        alone at noon; NaT for none), `is_day` (known by its date alone), `is_known` (a
        case without a time), `name` of the event ("" without such a column), and the
        `end` of the stay with `end_is_day`.
    complete : datetime64, optional
        Up to when the table states that it is complete.
    n_twice : int
        Number of times in an hour that exists twice.
    """

    lines: pd.DataFrame
    complete: np.datetime64 | None = None
    n_twice: int = 0


def read_outcomes(
    source: Readable,
    columns: OutcomeColumns,
    clock: Clock,
    date_order: str | None = None,
) -> OutcomeTable:
    """Read a table of outcomes.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
    columns : OutcomeColumns
    clock : Clock
        Of times without a zone. Every cell is read by itself.
    date_order : {"dmy", "mdy"}, optional

    Returns
    -------
    OutcomeTable

    Raises
    ------
    CohortError
        A column is missing, a row has no id, or a time cannot be read; rows are named
        by their numbers.
    """
    table = source_at(source)
    refuse_absent(table, columns.names)
    blocks = [
        _BlockOfOutcomes(block, columns, clock, date_order)
        for block in _blocks(table, columns.names)
    ]
    faults = _Faults()
    n_rows = 0
    for block in blocks:
        block.add_faults(faults, n_rows)
        n_rows += block.n_rows
    faults.conclude()
    are_days = _are_all_at_midnight([block.times for block in blocks], clock)
    lines = pd.concat([block.lines(are_days) for block in blocks], ignore_index=True)
    return OutcomeTable(
        lines.assign(row=1 + np.arange(len(lines))),
        _complete(table, columns, blocks),
        n_twice=sum(int(block.times.is_twice.sum()) for block in blocks),
    )


def _blocks(table: Source, names: list[str]) -> Iterator[Block]:
    """Yield the blocks of all files, and first one without rows."""
    is_none = np.zeros(0, dtype=bool)
    columns = {name: pa.array([], pa.string()) for name in names}
    yield Block(columns, 1, is_none, is_none)
    for file in table.files:
        yield from file.blocks(names, BATCH_ROWS)


class _BlockOfOutcomes:
    """Reads the columns of one block of a table of outcomes."""

    def __init__(
        self,
        block: Block,
        columns: OutcomeColumns,
        clock: Clock,
        date_order: str | None,
    ) -> None:
        self._columns = columns
        self._clock = clock
        self._order = date_order
        self._cells = block.columns
        self.n_rows = block.n_rows
        self.unit = self._texts(columns.unit)
        self.times = self._times(columns.time)
        self.is_known = self._is_one_of(columns.time, TRUE) & np.isnat(self.times.utc)
        self.name = np.full(self.n_rows, "", dtype=object)
        if columns.event is not None:
            self.name = self._texts(columns.event)
        self.end = self._times(columns.until)
        self._as_of = None if columns.as_of == FILE else columns.as_of
        self._stated = self._times(self._as_of)

    def _texts(self, column: str) -> np.ndarray:
        """Return the texts of a column, without spaces at the ends."""
        return parse_texts(self._cells[column], None, strip=True).values

    def _times(self, column: str | None) -> TimeCells:
        """Return the times of a column; none without a column."""
        if column is not None:
            times = read_times(self._cells[column], self._order, None, self._clock)
            if times is not None:
                return times
        return times_of_texts([None] * self.n_rows, None, self._clock)

    def _is_one_of(self, column: str, texts: frozenset[str]) -> np.ndarray:
        """Return a mask of the cells that are one of some texts, in any case."""
        cells = to_texts(self._cells[column])
        if cells is None:
            return np.zeros(self.n_rows, dtype=bool)
        lower = pc.utf8_lower(trim(cells))
        return np.asarray(
            pc.fill_null(pc.is_in(lower, pa.array([*texts], pa.string())), False)
        )

    def _is_blank(self, column: str) -> np.ndarray:
        """Return a mask of the cells that state no time."""
        cells = to_texts(self._cells[column])
        if cells is None:
            return np.zeros(self.n_rows, dtype=bool)
        is_empty = np.asarray(pc.fill_null(pc.equal(trim(cells), ""), True))
        return is_empty | self._is_one_of(column, FALSE)

    def add_faults(self, faults: _Faults, n_above: int) -> None:
        """Add what is wrong with the rows."""
        numbers = n_above + 1 + np.arange(self.n_rows)
        columns = self._columns
        faults.add(columns.unit, "no id; fill the cells", numbers[pd.isna(self.unit)])
        is_event = ~np.isnat(self.times.utc) | self.is_known
        for column, times, is_read in (
            (columns.time, self.times, is_event),
            (columns.until, self.end, ~np.isnat(self.end.utc)),
            (self._as_of, self._stated, ~np.isnat(self._stated.utc)),
        ):
            if column is None:
                continue
            is_unread = ~is_read & ~self._is_blank(column) & ~times.is_lost
            faults.add(column, self._not_a_date(), numbers[is_unread])
            faults.add(column, LOST, numbers[times.is_lost])
        if columns.event is not None:
            is_unnamed = pd.isna(self.name) & is_event
            fault = "the event has no name; fill the cells"
            faults.add(columns.event, fault, numbers[is_unnamed])

    def _not_a_date(self) -> str:
        """Return the fault of a cell that is not a date."""
        return OTHER_ORDER.format(self._order) if self._order else NO_ORDER

    def newest_as_of(self) -> np.datetime64:
        """Return the newest time up to which rows are complete, NaT for none."""
        times = self._stated.utc
        stated = times[~np.isnat(times)]
        return stated.max() if len(stated) else NAT

    def lines(self, are_days: bool) -> pd.DataFrame:
        """Return the lines of the rows; `are_days`: times are dates alone."""
        times = self.times
        is_day = times.is_day | (are_days & ~np.isnat(times.utc))
        at_noon = TimeCells(
            times.utc, is_day, times.is_zoned, times.is_twice, times.is_lost
        ).at_noon(self._clock)
        return pd.DataFrame(
            {
                "unit": self.unit.astype(object),
                "time": at_noon,
                "is_day": is_day,
                "is_known": self.is_known,
                "name": np.where(pd.isna(self.name), "", self.name).astype(object),
                "end": self.end.at_noon(self._clock),
                "end_is_day": self.end.is_day,
            }
        )


def _are_all_at_midnight(columns: list[TimeCells], clock: Clock) -> bool:
    """Return True if times are dates that a program wrote with an empty time of day."""
    n_times = 0
    for times in columns:
        is_time = ~np.isnat(times.utc)
        if times.is_zoned.any():
            return False
        local = local_times(times.utc[is_time], clock)
        if not (local == local.astype("datetime64[D]")).all():
            return False
        n_times += int(is_time.sum())
    return n_times >= MIN_AT_MIDNIGHT


def _complete(
    table: Source, columns: OutcomeColumns, blocks: list[_BlockOfOutcomes]
) -> np.datetime64 | None:
    """Return up to when a table states that it is complete; None if it does not."""
    if columns.as_of is None:
        return None
    if columns.as_of == FILE:
        written = table.written_at
        if written is None:
            raise CohortError(
                'the table is not a file, so as_of = "file" gives no time; name a '
                "column"
            )
        return np.datetime64(written.replace(tzinfo=None), "us")
    newest = [block.newest_as_of() for block in blocks]
    stated = [time for time in newest if not np.isnat(time)]
    if not stated and any(block.n_rows for block in blocks):
        raise CohortError(
            f"column '{columns.as_of}' contains no time, but `as_of` "
            "names it; correct `as_of`"
        )
    return max(stated, default=None)


class _Faults:
    """Faults of rows by column and kind, in the order in which they are found."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[int]] = {}

    def add(self, column: str, description: str, rows: np.ndarray) -> None:
        """Add the rows of a fault."""
        if len(rows):
            self._rows.setdefault((column, description), []).extend(rows.tolist())

    def conclude(self) -> None:
        """Raise CohortError with all faults; nothing without one."""
        faults = [
            fault_of_rows(column, rows, description)
            for (column, description), rows in self._rows.items()
        ]
        if faults:
            raise CohortError(faults, parameters=["date_order", "time_zone"])


def fault_of_rows(column: str, rows: list[int], description: str) -> str:
    """Return a fault that names the first of its rows."""
    shown = first_of(rows, MAX_SHOWN_ROWS, len(rows))
    return f"column '{column}', rows {shown}: {description}"
