"""Violations of a contract: their locations and remedies, never a cell's value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from screening.contract.contract import Contract
from screening.errors import CohortError
from screening.io.readers import Block, Source
from screening.spelling import did_you_mean, first_of

MAX_SHOWN_ROWS = 5
MAX_SHOWN_NAMES = 5
UNSEEN = "unseen_category"
OUT_OF_BOUNDS = "out_of_bounds"
UNREADABLE = "unreadable_cell"
NEEDED_OUT_OF_BOUNDS = "needed_out_of_bounds"
NEEDED_UNREADABLE = "needed_unreadable"
NOT_TAKEN = "not_taken"
# Kinds of cells that are missing in a table to score, as long as few are.
CELLS_OF_NO_NUMBER = frozenset(("not_number", "missing_code", "censored"))
# A column may have one such cell, or up to this share of the rows if that is more.
MAX_UNREADABLE_SHARE = 0.01
NO_ROWS = "the cohort has no data rows, only column names; was the export empty?"
# How a time is read is said, and leaves no row out.
TIME_TWICE = "time_twice"
OF_HOST = "host_zone"
READ_ALL_THE_SAME = (TIME_TWICE, OF_HOST)
# Faults of cells for which no row is left out, and what their note begins with.
NOTED = {
    OUT_OF_BOUNDS: "scored without the value: ",
    UNREADABLE: "scored without the value: ",
    NOT_TAKEN: "rows not used: ",
    TIME_TWICE: "",
    OF_HOST: "",
}
# Faults of cells that a score cannot do without.
NEEDED = (NEEDED_OUT_OF_BOUNDS, NEEDED_UNREADABLE, "missing")
Fault: TypeAlias = tuple[str, str, np.ndarray]
"""Column, kind and mask of the rows."""

# fault -> (what is wrong, what to do); the texts name no cell's content.
FAULTS = {
    "not_number": (
        "not a number",
        'correct it, list it in `missing_values`, or set type = "category"',
    ),
    "truth_for_number": (
        "true or false, but training had numbers",
        'give the numbers, or train again with type = "boolean"',
    ),
    "missing_code": (
        "a text that usually means missing",
        "list it in `missing_values`, or leave the cell empty",
    ),
    "censored": (
        "censored (a number after < or >)",
        'set censored = "limit" or "half" in the contract',
    ),
    "decimal_mark": (
        "a decimal comma, or a thousands separator",
        "write a decimal point and no separator",
    ),
    "infinite": ("an infinite number", "correct the cells, or leave them empty"),
    "implausible": (
        "outside the plausible range of the contract",
        "correct the cells, or widen `plausible`",
    ),
    OUT_OF_BOUNDS: (
        "out of bounds: outside `plausible` of the contract or, without it, far "
        "outside the training range",
        "check the values at their source",
    ),
    UNREADABLE: (
        "a text that is not a number",
        "correct the cells, or list the text in `missing_values` (the table is refused "
        "where over 1 % of a column's cells are such)",
    ),
    NEEDED_OUT_OF_BOUNDS: (
        "out of bounds, and the row cannot be scored without the value",
        "check the values at their source",
    ),
    NEEDED_UNREADABLE: (
        "a text that is not a number, or not a level of the contract, and the row "
        "cannot be scored without the value",
        "correct the cells, or list the text in `missing_values` (the table is refused "
        "where over 1 % of a column's cells are such)",
    ),
    NOT_TAKEN: (
        "out of bounds, so this row of the patient or stay was not used",
        "check the values at their source",
    ),
    "not_boolean": (
        "not yes/no, true/false, 1/0 or similar",
        'correct the cells, or set type = "category"',
    ),
    "unknown_category": (
        "not among the contract's categories",
        "correct the cells, or add to `categories`",
    ),
    UNSEEN: (
        "a category that training did not see",
        'correct the cells, or set on_unseen = "unknown"',
    ),
    "missing": (
        "missing, but the contract requires a value",
        "fill the cells, or set `missing` to impute",
    ),
    "unreadable": (
        "nested, binary, a duration, or an unexpected date",
        "write the column as text or numbers",
    ),
    "nul": ("a text with a NUL character", "export the column again as plain text"),
    "no_id": ("no id", "fill the id column, or name another one"),
    "repeated_id": (
        "an id that occurs more than once",
        "remove the repeats, or name the column as group",
    ),
    "no_group": ("no group", "fill the group column, or leave these rows out"),
    "no_label": (
        "no label",
        'fill the label column, or set unlabelled = "no" (blank is no) or "leave_out"',
    ),
    "not_time": (
        "not a date such as 2024-01-31",
        "write YYYY-MM-DD, or set date_order or date_numbers in the contract",
    ),
    "lost_hour": (
        "a time that does not exist, in the hour when summer time begins",
        "correct the cells, write them with their zone, or set `time_zone`",
    ),
    TIME_TWICE: (
        "a time that exists twice, in the hour when summer time ends, is read as the "
        "first",
        "write it with its zone",
    ),
    OF_HOST: (
        "a time with a zone is read in the time zone of this host",
        "set `time_zone` in the contract, such as Europe/Berlin",
    ),
    "no_coordinate": ("not a coordinate", "fill the coordinate columns with numbers"),
    "ragged": (
        "more or fewer cells than the header",
        "quote cells that contain the delimiter",
    ),
    "repeated_header": (
        "a repeated header",
        "remove the row; joined files may each have had a header",
    ),
}


@dataclass(frozen=True)
class Location:
    """Place and kind of violations; `column` is empty for whole rows."""

    file: str
    column: str
    kind: str


@dataclass
class Violations:
    """Violations of a table by location, and the number of rows that are left out.

    Attributes
    ----------
    contract : Contract
        The contract that the table is held to.
    table_faults : list of str
        Faults of the table as a whole.
    refused : dict of str to int
        Number of rows left out, by reason.
    n_rows : int
        Number of rows read.
    n_used : int
        Number of them that are scored or learned from.
    """

    contract: Contract
    table_faults: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    n_rows: int = 0
    n_used: int = 0
    # Only the first few row numbers, so that memory does not grow with the table.
    _rows: dict[Location, list[int]] = field(default_factory=dict)
    _counts: Counter[Location] = field(default_factory=Counter)

    def __add__(self, other: Violations) -> Violations:
        """Return the violations of these rows and of those that follow them."""
        faults = [line for line in other.table_faults if line not in self.table_faults]
        total = Violations(
            self.contract,
            table_faults=[*self.table_faults, *faults],
            refused=dict(Counter(self.refused) + Counter(other.refused)),
            n_rows=self.n_rows + other.n_rows,
            n_used=self.n_used + other.n_used,
        )
        total._counts = self._counts + other._counts
        for location in total._counts:
            own = self._rows.get(location, [])
            numbers = [*own, *other._rows.get(location, [])]
            total._rows[location] = numbers[:MAX_SHOWN_ROWS]
        return total

    @property
    def is_refused(self) -> bool:
        """True if the faults so far refuse the table, whatever follows.

        The rest is still read, so that all faults come together. `conclude` also
        refuses what only the whole table shows, such as too many unreadable cells.
        """
        if self.table_faults:
            return True
        if self.contract.on_violation != "stop":
            return False
        return not all(
            self._is_left_out(location) or location.kind in NOTED
            for location in self._rows
        )

    def _order(self, location: Location) -> tuple[bool, bool, str]:
        """Return the sort key: what may stop comes first, what is scored last."""
        if location.kind in NOTED:
            return True, True, location.column
        return self._is_left_out(location), False, ""

    def _is_left_out(self, location: Location) -> bool:
        """Return True if such rows are left out, whatever `on_violation` says."""
        if location.kind == "no_label":
            return self.contract.unlabelled == "leave_out"
        if location.kind in NEEDED:
            return self.contract.features[location.column].missing == "leave_out"
        if location.kind != UNSEEN:
            return False
        return self.contract.policy("on_unseen", location.column) == "refuse_row"

    def add(self, file: str, column: str, kind: str, rows: np.ndarray) -> None:
        """Record row numbers of a file, from 1, at a location."""
        if not rows.size:
            return
        location = Location(file, column, kind)
        first_rows = self._rows.setdefault(location, [])
        first_rows.extend(rows[: MAX_SHOWN_ROWS - len(first_rows)].tolist())
        self._counts[location] += rows.size

    def add_block(
        self,
        file: str,
        block: Block,
        faults: Sequence[Fault],
        is_taken: np.ndarray | None = None,
    ) -> np.ndarray:
        """Record faults that leave rows of a block out; return a mask of those used.

        Kinds of `NOTED` go to `add`. `is_taken`: where one row of a unit is used, the
        mask of these.
        """
        is_kept = np.ones(block.n_rows, dtype=bool)
        for column, kind, mask in faults:
            self.add(file, column, kind, block.first_row + np.flatnonzero(mask))
            # A row with several faults is left out for the first of them.
            n_refused = int(np.count_nonzero(mask & is_kept))
            if n_refused:
                description, _ = FAULTS[kind]
                reason = f"{column}: {description}" if column else description
                self.refused[reason] = self.refused.get(reason, 0) + n_refused
            is_kept &= ~mask
        is_used = is_kept if is_taken is None else is_kept & is_taken
        self.n_rows += block.n_rows
        self.n_used += int(np.count_nonzero(is_used))
        return is_used

    def conclude(self, several_files: bool) -> list[str]:
        """Return a note on each column and kind of fault.

        Parameters
        ----------
        several_files : bool
            Name the file in each note.

        Raises
        ------
        CohortError
            The table is refused as a whole.
        """
        if not self.table_faults:
            self._add_fault_of_table()
        refused_columns = self._mostly_unreadable()
        faults = list(self.table_faults)
        notes = []
        for location in sorted(self._rows, key=self._order):
            line = self._line(location)
            if several_files:
                line = f"{location.file}, {line}"
            is_refused = (
                location.kind == UNREADABLE and location.column in refused_columns
            )
            if location.kind in NOTED and not is_refused:
                notes.append(f"{NOTED[location.kind]}{line}")
                continue
            faults.append(line)
            notes.append(f"rows left out: {line}")
        if self.is_refused or refused_columns:
            raise CohortError(faults)
        return notes

    def _add_fault_of_table(self) -> None:
        """Record that the table is empty, or that no row of it can be used."""
        if not self.n_rows and not self._rows:
            self.table_faults.append(NO_ROWS)
        elif self._rows and not self.n_used:
            self.table_faults.append(
                "every row violates the contract; was it written for another table?"
            )

    def _mostly_unreadable(self) -> set[str]:
        """Return the columns with too many texts that are not numbers."""
        n_cells: Counter[str] = Counter()
        for location, count in self._counts.items():
            if location.kind in (UNREADABLE, NEEDED_UNREADABLE):
                n_cells[location.column] += count
        most = max(1, MAX_UNREADABLE_SHARE * self.n_rows)
        return {column for column, count in n_cells.items() if count > most}

    def _line(self, location: Location) -> str:
        """Describe the rows of one location, with a remedy."""
        description, remedy = FAULTS[location.kind]
        count = self._counts[location]
        column = f"column '{location.column}'" if location.column else "whole row"
        row_word = "rows" if count > 1 else "row"
        rows = first_of(self._rows[location], MAX_SHOWN_ROWS, count)
        return f"{column}, {row_word} {rows}: {description}; {remedy}"


def refuse_absent(
    source: Source, columns: Sequence[str], others: Collection[str] | None = None
) -> None:
    """Raise CohortError if columns are missing in a table, naming all of them.

    Parameters
    ----------
    source : Source
    columns : sequence of str
        Columns that the table must have.
    others : collection of str, optional
        Columns that it may have. The message names those that are in neither.
    """
    faults = []
    for file in source.files:
        present = set(file.header)
        absent = [name for name in dict.fromkeys(columns) if name not in present]
        if absent:
            noun = "columns" if len(absent) > 1 else "column"
            given = "names" if len(absent) > 1 else "name"
            names = ", ".join(map(repr, absent))
            new = ""
            if others is not None:
                new = _new_columns(file.header, {*columns, *others})
            hint = did_you_mean(absent[0], file.header)
            where = f"{file.name}, {file.sheet}" if file.sheet else file.name
            faults.append(
                f"{where}: missing {noun} {names}{new}; rename the {noun} in the "
                f"file, or correct the {given} that you gave{hint}"
            )
    if faults:
        raise CohortError(faults)


def _new_columns(header: Sequence[str], expected: Collection[str]) -> str:
    """Return a clause that names the unexpected columns, "" without any."""
    new = [repr(name) for name in header if name and name not in expected]
    if not new:
        return ""
    verb = "is" if len(new) == 1 else "are"
    return f"; {first_of(new, MAX_SHOWN_NAMES)} {verb} new"
