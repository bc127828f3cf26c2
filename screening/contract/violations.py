"""What a table can do wrong, in words: place and remedy, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from screening.contract.contract import Contract
from screening.errors import CohortError
from screening.io.readers import Block, Source
from screening.spelling import did_you_mean, first_of

SHOWN_ROWS = 5
UNSEEN = "unseen_category"
NO_ROWS = "the cohort has no data rows, only column names; was the export empty?"
Fault: TypeAlias = tuple[str, str, np.ndarray]
"""Column, kind and mask of the rows."""

# fault -> (what is wrong, what to do); the texts name no cell's content.
FAULTS = {
    "not_number": (
        "not a number",
        'correct it, list it in `missing_values`, or set type = "category"',
    ),
    "missing_code": (
        "a text that often means missing",
        "list it in `missing_values`, or leave the cell empty",
    ),
    "censored": (
        "censored (a number behind < or >)",
        'set censored = "limit" or "half" in the contract',
    ),
    "decimal_mark": (
        "a decimal comma, or a mark of thousands",
        "write a decimal point and no other mark",
    ),
    "infinite": ("an infinite number", "correct the cells, or leave them empty"),
    "implausible": (
        "outside the plausible range of the contract",
        "correct the cells, or widen `plausible`",
    ),
    "not_boolean": (
        "not yes/no, true/false, 1/0 or the like",
        'correct the cells, or set type = "category"',
    ),
    "unknown_category": (
        "not among the contract's categories",
        "correct the cells, or add to `categories`",
    ),
    UNSEEN: (
        "a category that training never saw",
        'correct the cells, or set on_unseen = "unknown"',
    ),
    "missing": (
        "missing where the contract refuses it",
        "fill the cells, or set `missing` to impute",
    ),
    "unreadable": (
        "nested, binary, a duration, or a date where none is read",
        "write the column as text or numbers",
    ),
    "nul": ("a text with a NUL character", "export the column again as plain text"),
    "no_id": ("no id", "fill the id column, or name another one"),
    "repeated_id": (
        "an id that occurs more than once",
        "remove the repeats, or name the column as group",
    ),
    "no_group": ("no group", "fill the group column, or leave these rows out"),
    "no_label": ("no label", "fill the label column, or leave these rows out"),
    "not_time": (
        "not a date such as 2024-01-31",
        "write YYYY-MM-DD, or set date_order in the contract",
    ),
    "no_coordinate": ("not a coordinate", "fill the coordinate columns with numbers"),
    "ragged": (
        "more or fewer cells than the header has names",
        "quote cells that hold the delimiter",
    ),
    "repeated_header": (
        "the header once more",
        "remove the row; files may have been joined with headers",
    ),
}


@dataclass
class Violations:
    """Faults of a table by file, column and kind, and how many of its rows are left out."""

    contract: Contract
    whole: list[str] = field(default_factory=list)  # faults of the table as such
    refused: dict[str, int] = field(default_factory=dict)  # rows left out, by reason
    n_rows: int = 0
    # The first few row numbers: memory does not grow with the table.
    _rows: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    _counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @property
    def stopped(self) -> bool:
        faults = self.contract.on_violation == "stop" and not all(
            map(self._left_out, self._rows)
        )
        return bool(self.whole) or faults

    def _left_out(self, key: tuple[str, str, str]) -> bool:
        """Whether the contract wants such rows left out, whatever it does at other violations."""
        _, column, kind = key
        return (
            kind == UNSEEN and self.contract.policy("on_unseen", column) == "refuse_row"
        )

    def add(self, file: str, column: str, kind: str, rows: np.ndarray) -> None:
        """Note `rows` (row numbers in their file, first data row 1) under one column and fault."""
        if rows.size:
            kept = self._rows.setdefault((file, column, kind), [])
            kept.extend(rows[: SHOWN_ROWS - len(kept)].tolist())
            self._counts[file, column, kind] += rows.size

    def add_block(self, file: str, block: Block, faults: Sequence[Fault]) -> np.ndarray:
        """Count in rows with their faults; returns the sound ones as a mask."""
        sound = np.ones(block.n_rows, dtype=bool)
        for column, kind, mask in faults:
            self.add(file, column, kind, block.first_row + np.flatnonzero(mask))
            # A row is left out for the first of its reasons.
            if n_rows := int(np.count_nonzero(mask & sound)):
                reason = f"{column}: {FAULTS[kind][0]}" if column else FAULTS[kind][0]
                self.refused[reason] = self.refused.get(reason, 0) + n_rows
            sound &= ~mask
        self.n_rows += block.n_rows
        return sound

    def concluded(self, several_files: bool) -> list[str]:
        """What is left out, a line a column and kind; CohortError where the table is refused as a whole."""
        if not self.n_rows and not self.whole and not self._rows:
            self.whole.append(NO_ROWS)
        elif (
            self._rows and not self.whole and self.n_rows == sum(self.refused.values())
        ):
            self.whole.append(
                "every row breaks the contract; was it written for another table?"
            )
        lines = [*self.whole]
        for file, column, kind in sorted(self._rows, key=self._left_out):
            (what, remedy), count = FAULTS[kind], self._counts[file, column, kind]
            where = f"column '{column}'" if column else "whole row"
            rows = f"row{'s' * (count > 1)} {first_of(self._rows[file, column, kind], SHOWN_ROWS, count)}"
            lines.append(
                f"{file + ', ' if several_files else ''}{where}, {rows}: {what}; {remedy}"
            )
        if self.stopped:
            raise CohortError(lines)
        return lines


def refuse_absent(source: Source, columns: Sequence[str]) -> None:
    """Refuse a table that lacks columns, naming all of them (CohortError)."""
    faults = []
    for file in source.files:
        present = {*file.header}
        absent = [name for name in dict.fromkeys(columns) if name not in present]
        if absent:
            missing = f"missing column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent))}"
            hint = did_you_mean(absent[0], file.header)
            faults.append(
                f"{file.name}: {missing}; rename it there or correct the name given{hint}"
            )
    if faults:
        raise CohortError(faults)
