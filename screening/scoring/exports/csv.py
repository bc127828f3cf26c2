"""Export the flagged rows as CSV, UTF-8 with a header, as in `flagged.csv`.

No spreadsheet takes a cell for a formula. With the last export of the series (`since`),
each row has its patient's change: new, changed or the same. Patients who are no longer
flagged are last, with the reason.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from screening.errors import UsageError
from screening.ledger.merging import Merges
from screening.scoring.exporting import OF_RUN, FlaggedRows, read_flagged
from screening.scoring.flagged_list import without_marks, write_table
from screening.scoring.last_export import (
    endings,
    is_run,
    refuse_later,
    refuse_unrecognisable,
)
from screening.store.publishing import write_whole

Row = Mapping[str, str]

# Columns of a night; a patient is the same if all other cells are equal.
OF_NIGHT = (*OF_RUN, "rank", "nights", "drawn", "change", "reason")


def write(flagged: FlaggedRows, *, out: Path, since: Path | None = None) -> None:
    """Write one file, whole or not at all.

    `since`: the last CSV of the series, or the run directory that it was made from.

    UsageError if `since` is not an earlier export.
    """
    table = flagged.table()
    if since is not None:
        refuse_unrecognisable(flagged.run)
        earlier = _read_earlier(since)
        refuse_later(since, [row["date"] for row in earlier], flagged.run)
        table = _with_changes(flagged, table, earlier)
    write_whole(out, _encoded(table))


def _encoded(table: pa.Table) -> bytes:
    """Return a table as CSV."""
    content = io.BytesIO()
    write_table(content, [table])
    return content.getvalue()


def _rows_in(content: bytes) -> list[Row]:
    """Return the rows of a CSV as texts, without the marks against formulas."""
    lines = io.StringIO(content.decode("utf-8-sig"), newline="")
    rows: list[Row] = []
    for row in csv.DictReader(lines, strict=True):
        rows.append({name: without_marks(cell) for name, cell in row.items()})
    return rows


def _read_earlier(since: Path) -> list[Row]:
    """Read the flagged rows of an earlier export or run."""
    if is_run(since):
        return _rows_in(_encoded(read_flagged(since).table()))
    try:
        rows = _rows_in(since.read_bytes())
        is_ours = all("run_id" in row and "date" in row for row in rows)
    except (OSError, ValueError, csv.Error, TypeError):
        is_ours = False
    if not is_ours:
        raise UsageError(
            f"`since` {since}: this is neither a CSV of `screen export` nor a run "
            "directory",
            parameters=["since"],
        )
    return [row for row in rows if row.get("change") != "ended"]


def _with_changes(
    flagged: FlaggedRows, table: pa.Table, earlier: Sequence[Row]
) -> pa.Table:
    """Return the rows with `change` and `reason`, and those that have ended."""
    tonight = _rows_in(_encoded(table))
    has_ids = flagged.run.model.contract["cohort"]["id"] is not None
    patient_of = partial(_patient_of, flagged.merges)
    before = _by_patient(earlier, has_ids, patient_of)
    now = _by_patient(tonight, has_ids, patient_of)
    rows = []
    for row in tonight:
        patient = patient_of(row)
        change = "new"
        if patient in before:
            change = "same" if before[patient] == now[patient] else "changed"
        rows.append({**row, "change": change})
    gone = [row for row in earlier if patient_of(row) not in now]
    reasons = endings(flagged, {patient_of(row): row["date"] for row in gone})
    for row in gone:
        reason = reasons[patient_of(row)]
        rows.append({**row, "rank": "", "change": "ended", "reason": reason})
    of_row = table.column_names[len(OF_RUN) :]
    names = [*OF_RUN, "change", "reason", *of_row]
    columns = []
    for name in names:
        columns.append(pa.array([row.get(name, "") for row in rows], pa.string()))
    return pa.table(columns, names=names)


def _patient_of(merges: Merges, row: Row) -> str:
    """Return the patient of a row by the number of now, or the row's id."""
    return merges.patient(row["group"] or row["id"])


def _by_patient(
    rows: Iterable[Row], has_ids: bool, patient_of: Callable[[Row], str]
) -> dict[str, list[Row]]:
    """Return what each patient's rows say that does not belong to the night alone.

    `has_ids`: False where an id is a row number.
    """
    others = OF_NIGHT if has_ids else (*OF_NIGHT, "id")
    by_patient = defaultdict[str, list[Row]](list)
    for row in rows:
        cells = {name: cell for name, cell in row.items() if name not in others}
        by_patient[patient_of(row)].append(cells)
    return dict(by_patient)
