"""A plain long table of events, CSV or Parquet, with a map of its columns."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from screening.errors import EventsError, UsageError
from screening.features.events import (
    EVENT_COLUMNS,
    RESERVED_CODES,
    WITHDRAWN,
    instants_of,
    local_time_of,
    sql_list,
    sql_text,
)
from screening.features.faults import FaultKind, Faults
from screening.features.spec import Source
from screening.io.connections import duckdb_quoted
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    import duckdb

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv")
PARQUET_ENDINGS = (".parquet",)
DELIMITERS = ",;\t|"
REQUIRED = ("subject", "time", "code")
# A line with such a text has no value that can be counted.
# A number with a comparator is no value, and takes the place of the version before.
IS_COMPARED = "(value IS NULL AND coalesce(has_comparator(text), false))"
# Codes whose time may be missing.
WITHOUT_TIME = "('SEX', 'MERGED')"


def select_events(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    faults: Faults,
) -> str:
    """Return the SELECT of the events of a long table.

    Its columns have the names of `EVENT_COLUMNS`, or those that `source.columns` gives.

    Raises
    ------
    UsageError
        There is no file, or a column is missing.
    EventsError
        A file cannot be read.
    """
    columns = {column: column for column in EVENT_COLUMNS} | source.columns
    return select_lines(source, name, connection, faults, columns=columns)


def select_lines(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    faults: Faults,
    *,
    columns: Mapping[str, str],
) -> str:
    """Return the SELECT of the events of a table with a line an event.

    Parameters
    ----------
    source, name, connection, faults
        See `SelectEvents`.
    columns : mapping from str to str
        The table's columns by those of `EVENT_COLUMNS`. Of these all but subject, time
        and code may be missing in the table, unless the source names them.
    """
    unknown = [column for column in source.columns if column not in EVENT_COLUMNS]
    if unknown:
        raise UsageError(
            f"source {source.path}: columns.{unknown[0]} is not a column of events"
            f"{did_you_mean(unknown[0], EVENT_COLUMNS)}"
        )
    files = source.files((*CSV_ENDINGS, *PARQUET_ENDINGS))
    types = _open_files(files, name, connection)
    cells = {}
    for column, named in columns.items():
        if named in types:
            cells[column] = (duckdb_quoted(named), types[named])
        elif column in REQUIRED or column in source.columns:
            raise UsageError(
                f"source {source.path}: column '{named}' for {column} does not "
                f"exist{did_you_mean(named, types)}; name it under `columns`"
            )
    texts = {column: f"CAST({cell} AS VARCHAR)" for column, (cell, _) in cells.items()}
    times = {}
    for column in ("time", "known_since"):
        cell, kind = cells.get(column, ("NULL", "TIMESTAMP"))
        instants = instants_of(cell, kind, source.zone)
        if instants is None:
            raise UsageError(
                f"source {source.path}: column '{columns[column]}' has {kind}, not "
                "times; write times such as 2026-03-10T06:00:00+01:00"
            )
        times[column] = instants
    # Of what is known by its day alone one knows once the day is over.
    known = f"coalesce({times['known_since'].over}, {times['known_since'].at})"
    over = times["time"].over
    columns_of_lines = f"""SELECT file, line,
  nullif(trim({texts["subject"]}), '') AS subject,
  {_blank(texts, "stay")} AS stay,
  {times["time"].at} AS time,
  CASE WHEN {over} IS NULL THEN {known}
       ELSE greatest({over}, {known}) END AS known_since,
  nullif(trim({texts["code"]}), '') AS written,
  {_blank(texts, "value")} AS written_value,
  {_number(cells)} AS value,
  {_blank(texts, "unit")} AS unit,
  {_words(cells, texts)} AS text,
  {local_time_of(*cells["time"])} AS local_time
FROM {name}_files"""
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name}_lines AS\n{columns_of_lines}"
    )
    code, behind = reserved_code(source.codes)
    _count_faults(f"{name}_lines", connection, faults, code, sql_text(source.zone))
    return f"""SELECT subject, stay, time, known_since, {code} AS code, value, unit,
  CASE WHEN {IS_COMPARED} THEN '{WITHDRAWN}'
       ELSE coalesce(text, {behind}) END AS text
FROM {name}_lines
WHERE subject IS NOT NULL AND written IS NOT NULL
  AND (time IS NOT NULL OR {code} IN {WITHOUT_TIME})"""


def _open_files(
    files: Sequence[str], name: str, connection: duckdb.DuckDBPyConnection
) -> dict[str, str]:
    """Make the view of the lines of all files; return the types of their columns."""
    import duckdb

    parts: list[str] = []
    for files_of_kind, is_csv in (
        ([file for file in files if file.endswith(CSV_ENDINGS)], True),
        ([file for file in files if file.endswith(PARQUET_ENDINGS)], False),
    ):
        if not files_of_kind:
            continue
        listed = sql_list(files_of_kind)
        if is_csv:
            parts += map(_csv_select, files_of_kind)
        else:
            parts.append(
                "SELECT * EXCLUDE (filename, file_row_number), "
                "parse_filename(filename) AS file, 1 + file_row_number AS line FROM "
                f"read_parquet({listed}, filename=true, file_row_number=true, "
                "union_by_name=true)"
            )
    union = "\nUNION ALL BY NAME\n".join(parts)
    try:
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name}_files AS {union}")
        described = connection.execute(f"DESCRIBE {name}_files").fetchall()
    except duckdb.Error as error:
        raise read_error(error, files) from None
    return {str(column): str(kind) for column, kind, *_ in described}


def _csv_select(file: str) -> str:
    """Return the SELECT of a CSV file's lines, with their numbers.

    The header gives columns and delimiter: DuckDB would guess them from some lines.
    """
    opened = gzip.open if file.endswith(".gz") else open
    try:
        with opened(file, "rt", encoding="utf-8-sig", newline="") as lines:
            header = lines.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise read_error(error, [file]) from None
    delimiter = max(DELIMITERS, key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    columns = ", ".join(f"{sql_text(name.strip())}: 'VARCHAR'" for name in names)
    options = "header=true, auto_detect=false, quote='\"', escape='\"', delim="
    # Of a file that is read alone the order of lines is kept.
    return (
        f"SELECT *, {sql_text(Path(file).name)} AS file, "
        "1 + row_number() OVER () AS line "
        f"FROM read_csv({sql_text(file)}, {options}{sql_text(delimiter)}, "
        f"columns={{{columns}}})"
    )


def read_error(error: Exception, files: Sequence[str]) -> EventsError:
    """Return the error of files that DuckDB cannot read, without its values."""
    told = str(error)
    line = re.search(r"Line: (\d+)", told)
    named = [file for file in files if file in told]
    file = Path((named or [*files, "source"])[0]).name
    at = f", line {int(line[1]):,}" if line else ""
    return EventsError(
        f"{file}{at}: the file cannot be read as a table ({type(error).__name__}); "
        "write it again"
    )


def _blank(texts: Mapping[str, str], column: str) -> str:
    """Return the expression of a text that may be blank or have no column."""
    if column not in texts:
        return "CAST(NULL AS VARCHAR)"
    return f"nullif(trim({texts[column]}), '')"


def _number(cells: Mapping[str, tuple[str, str]]) -> str:
    """Return the expression of a value: a finite number, or NULL."""
    if "value" not in cells:
        return "CAST(NULL AS DOUBLE)"
    cell, kind = cells["value"]
    if kind == "FLOAT":
        # The decimal that was written, and not the binary number next to it.
        cell = f"CAST({cell} AS VARCHAR)"
    number = f"try_cast({cell} AS DOUBLE)"
    return f"CASE WHEN isfinite({number}) THEN {number} END"


def _words(cells: Mapping[str, tuple[str, str]], texts: Mapping[str, str]) -> str:
    """Return the expression of the text, or of a value that is not a number."""
    text = _blank(texts, "text")
    if "value" not in cells:
        return text
    value = _blank(texts, "value")
    return f"coalesce({text}, CASE WHEN {_number(cells)} IS NULL THEN {value} END)"


def reserved_code(codes: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the expressions of a line's code, and of the text behind its prefix."""
    unknown = [code for code in codes if code not in RESERVED_CODES]
    if unknown:
        raise UsageError(
            f"source.codes.{unknown[0]}: write one of {', '.join(RESERVED_CODES)}"
        )
    code = []
    behind = []
    for reserved, patterns in codes.items():
        for pattern in patterns:
            matches = matched("written", pattern)
            code.append(f"WHEN {matches} THEN '{reserved}'")
            if pattern.endswith("*"):
                rest = f"written[{len(pattern)}:]"
                behind.append(
                    f"WHEN {matches} THEN nullif(ltrim({rest}, '/'), '')",
                )
    mapped = f"CASE {' '.join(code)} ELSE written END" if code else "written"
    return mapped, f"CASE {' '.join(behind)} END" if behind else "NULL"


def matched(column: str, pattern: str) -> str:
    """Return the condition that a column has a code, or begins as `X*` does."""
    if pattern.endswith("*"):
        return f"starts_with({column}, {sql_text(pattern[:-1])})"
    return f"{column} = {sql_text(pattern)}"


def _count_faults(
    lines: str,
    connection: duckdb.DuckDBPyConnection,
    faults: Faults,
    code: str,
    zone: str,
) -> None:
    """Count the lines that are wrong; find the places of those kinds that occur."""
    is_wrong = "value IS NULL AND written_value IS NOT NULL"
    first = f"timezone({zone}, local_time)"
    conditions = {
        FaultKind.NO_SUBJECT: "subject IS NULL",
        FaultKind.NO_CODE: "written IS NULL",
        FaultKind.NO_TIME: f"time IS NULL AND {code} NOT IN {WITHOUT_TIME}",
        FaultKind.LOST_TIME: f"timezone({zone}, {first}) <> local_time",
        FaultKind.TWICE_TIME: (
            f"timezone({zone}, {first} - INTERVAL 1 HOUR) = local_time"
        ),
        FaultKind.COMPARATOR: IS_COMPARED,
        FaultKind.NOT_A_NUMBER: f"{is_wrong} AND NOT {IS_COMPARED}",
    }
    counts = ", ".join(f"count_if({condition})" for condition in conditions.values())
    (counted,) = connection.execute(f"SELECT {counts} FROM {lines}").fetchall()
    for (kind, condition), count in zip(conditions.items(), counted, strict=True):
        if count:
            query = f"SELECT file, line FROM {lines} WHERE {condition}"
            faults.add_lines(kind, connection, query)
    early = f"""SELECT d.file, d.line FROM {lines} d JOIN (
  SELECT subject, stay, min(time) AS time FROM {lines}
  WHERE {code} = 'ADMISSION' GROUP BY subject, stay
) a ON d.subject = a.subject AND d.stay = a.stay
WHERE {code} = 'DISCHARGE' AND d.time < a.time"""
    faults.add_lines(FaultKind.NEGATIVE_DURATION, connection, early)
