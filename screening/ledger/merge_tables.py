"""Tables of merged numbers: read, checked by row, and entered all or none."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from screening.contract.parsing import parse_texts
from screening.contract.violations import refuse_absent
from screening.data.stream import BATCH_ROWS
from screening.errors import CohortError
from screening.io.date_formats import read_time
from screening.io.opening import Readable, source_at
from screening.ledger.database import Ledger
from screening.ledger.entries import Merged, append
from screening.ledger.merging import Merge, merges_of
from screening.ledger.trail import Part

COLUMNS = ("old", "new", "since")


def merge_numbers(ledger: Ledger, source: Readable) -> dict[str, int]:
    """Enter the merges of a table, all or none.

    Parameters
    ----------
    ledger : Ledger
    source : path, URL, Database, or a pandas, polars or Arrow table
        Columns `old`, `new` and `since`; a blank `new` undoes the merge of `old`.

    Returns
    -------
    dict
        Numbers of merges that are "new", "changed", "undone" and "unchanged".

    Raises
    ------
    CohortError
        A row has no id or no date, merges a number with itself, or makes a chain or a
        circle; rows are named by their numbers.
    """
    lines = read_merges(source)
    counts = dict.fromkeys(("new", "changed", "undone", "unchanged"), 0)
    with ledger.writing() as connection:
        before = merges_of(connection).by_old
        _refuse_chains(before, lines)
        changed = []
        for line in lines:
            kind = _change(before.get(line.old), line)
            counts[kind] += 1
            if kind != "unchanged":
                changed.append(line)
        if changed:
            names = [name for line in changed for name in (line.old, line.new)]
            since = [line.since for line in changed]
            part = Part("merges", facts=since, names=names)
            append(connection, ledger.clock(), Merged(), part)
    return counts


def _change(before: Merge | None, line: Merge) -> str:
    """Return what a line changes: a key of the answer."""
    if not line.new:
        return "unchanged" if before is None else "undone"
    if before is None:
        return "new"
    is_same = (before.new, before.since) == (line.new, line.since)
    return "unchanged" if is_same else "changed"


def read_merges(source: Readable) -> list[Merge]:
    """Read the lines of a table of merges; CohortError with all faults, by row."""
    table = source_at(source)
    refuse_absent(table, list(COLUMNS))
    lines: list[Merge] = []
    faults: list[str] = []
    seen: dict[str, int] = {}
    for file in table.files:
        for block in file.blocks(list(COLUMNS), BATCH_ROWS):
            texts = [
                parse_texts(block.columns[name], None, strip=True).values
                for name in COLUMNS
            ]
            for cells in zip(*texts, strict=True):
                row = len(lines) + 1
                old, new, since = (cell or "" for cell in cells)
                line = Merge(row, old, new, _day(since))
                faults += _faults(line, seen)
                seen.setdefault(old, row)
                lines.append(line)
    if faults:
        raise CohortError(faults)
    return lines


def _day(text: str) -> str:
    """Return a date as YYYY-MM-DD, "" if it is not one.

    An instant with a zone is not: it is of two days, in two zones.
    """
    time = read_time(text, None)
    if time is None:
        return ""
    if not isinstance(time, datetime.datetime):
        return time.isoformat()
    return "" if time.tzinfo else time.date().isoformat()


def _faults(line: Merge, seen: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong with a line by itself, and with one above it."""
    if not line.old:
        yield f"row {line.row}: no old number; fill column 'old'"
    elif line.old in seen:
        yield (
            f"row {line.row}: the old number is already in row {seen[line.old]}; keep "
            "one of the two"
        )
    if line.old and line.old == line.new:
        yield f"row {line.row}: a number cannot be merged with itself; correct the row"
    if not line.since:
        yield f"row {line.row}: 'since' is not a date such as 2024-01-31; correct it"


def _refuse_chains(before: Mapping[str, Merge], lines: Sequence[Merge]) -> None:
    """Raise CohortError, by row, for merges into a number that is merged itself."""
    after = {old: merge.new for old, merge in before.items()}
    for line in lines:
        after[line.old] = line.new
    merged = {old: new for old, new in after.items() if new}
    faults = list(_chains(merged, lines))
    if faults:
        raise CohortError(faults)


def _chains(merged: Mapping[str, str], lines: Sequence[Merge]) -> Iterator[str]:
    """Yield a fault for each line that merges into a merged number, or out of one.

    `merged`: the new number of each merged one, those of the lines included.
    """
    row_of = {line.old: line.row for line in lines}
    into = {new: old for old, new in merged.items()}
    for line in lines:
        if line.old not in merged:
            continue
        if _is_circle(merged, line.old):
            yield f"row {line.row}: the merges go in a circle; correct them"
        elif line.new in merged:
            where = "the ledger has merged"
            if line.new in row_of:
                where = f"row {row_of[line.new]} merges"
            yield (
                f"row {line.row}: a chain, because {where} the new number into a third "
                "one; merge the old number into the third"
            )
        elif line.old in into and into[line.old] not in row_of:
            yield (
                f"row {line.row}: a chain, because the ledger has merged another "
                "number into the old one; add a row that merges that number into the "
                "new one"
            )


def _is_circle(merged: Mapping[str, str], name: str) -> bool:
    """Return True if merges lead from a number back to it."""
    seen = {name}
    current = merged[name]
    while current in merged and current not in seen:
        seen.add(current)
        current = merged[current]
    return current == name
