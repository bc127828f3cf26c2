"""What a table can do wrong, in words: place and remedy, never a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from screening.errors import CohortError
from screening.io.readers import Source
from screening.spelling import did_you_mean, first_of

SHOWN_ROWS = 5

# fault -> (what is wrong, what to do); the texts name no cell's content.
FAULTS = {
    "not_number": (
        "not a number",
        'correct the cells, or in the contract list such texts in `missing_values` or set type = "category"',
    ),
    "missing_code": (
        "a text that often means missing, which no contract declares",
        'list it in a contract (`screen init` writes one): missing_values = ["NA"]; or leave the cells empty',
    ),
    "censored": (
        "a censored value (a number behind < or >)",
        'set censored = "limit" or "half" in the contract (`screen init` writes one), or write a number',
    ),
    "decimal_comma": (
        "a decimal comma, or commas between thousands",
        "write numbers with a decimal point and without separators",
    ),
    "decimal_point": (
        "a point in a file of decimal commas",
        "write all numbers of the file in one way, without separators",
    ),
    "infinite": ("an infinite number", "correct the cells, or leave them empty"),
    "implausible": ("outside the plausible range of the contract", "correct the cells, or widen `plausible`"),
    "not_boolean": (
        "not yes/no, true/false, 1/0 or the like",
        'correct the cells, or set type = "category" in the contract',
    ),
    "unknown_category": (
        "not among the contract's categories",
        "correct the cells, or add the text to `categories`",
    ),
    "unseen_category": (
        "a category that training never saw",
        'correct the cells, train again with them, or set on_unseen = "unknown" in the contract',
    ),
    "missing": (
        "missing where the contract refuses it",
        "fill the cells, or set `missing` to impute or indicator",
    ),
    "unreadable": (
        "of a kind that cannot be read here (nested, binary or a date)",
        "write the column as text or numbers",
    ),
    "nul": ("a text with a NUL character", "export the column again as plain text"),
    "no_id": ("no id", "fill the id column, or name another one"),
    "repeated_id": (
        "an id that occurs more than once",
        "remove the repeats, or name the column as group instead",
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
        "quote cells that hold the delimiter, or export the file again",
    ),
    "repeated_header": (
        "the header once more",
        "remove the row; files may have been joined with their headers",
    ),
}


def described(fault: str) -> str:
    """The fault in words, without its remedy."""
    return FAULTS[fault][0]


@dataclass
class Violations:
    """Faults gathered over all files and batches, by file, column and kind.

    Only the first few row numbers of a kind are kept, so memory does not grow with the table.
    """

    whole: list[str] = field(default_factory=list)
    _rows: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    _counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def add(self, file: str, column: str, fault: str, rows: np.ndarray) -> None:
        """Count `rows` (row numbers in their file, first data row 1) under one column and fault."""
        if not rows.size:
            return
        key = (file, column, fault)
        kept = self._rows.setdefault(key, [])
        kept.extend(int(row) for row in rows[: SHOWN_ROWS - len(kept)])
        self._counts[key] = self._counts.get(key, 0) + int(rows.size)

    def lines(self, several_files: bool) -> list[str]:
        """One line per column and fault, with row numbers and remedy."""
        return [*self.whole, *(self._line(key, several_files) for key in self._rows)]

    def _line(self, key: tuple[str, str, str], several_files: bool) -> str:
        file, column, fault = key
        what, remedy = FAULTS[fault]
        place = f"{file}, " if several_files else ""
        where = f"{place}column '{column}'" if column else f"{place}whole row"
        return f"{where}, {_listed(self._rows[key], self._counts[key])}: {what}; {remedy}"

    def __bool__(self) -> bool:
        return bool(self.whole or self._rows)


def _listed(rows: Sequence[int], count: int) -> str:
    return f"row{'s' * (count > 1)} {first_of(rows, SHOWN_ROWS, count)}"


def refuse_absent(source: Source, columns: Sequence[str]) -> None:
    """Refuse a table that lacks columns, naming all of them (CohortError)."""
    faults = []
    for file in source.files:
        present = {*file.header}
        absent = [name for name in columns if name not in present]
        if absent:
            shown = ", ".join(f"'{name}'" for name in absent)
            faults.append(
                f"{file.name}: missing column{'s' * (len(absent) > 1)} {shown} "
                f"(the file has {len(file.header)} columns); rename it in the table or correct the contract"
                f"{did_you_mean(absent[0], file.header)}"
            )
    if faults:
        raise CohortError(faults)
