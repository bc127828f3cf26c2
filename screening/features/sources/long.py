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
    Span,
    instants_of,
    local_time_of,
    sql_list,
    sql_text,
)
from screening.features.spec import Source
from screening.io.connections import duckdb_quoted
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    import duckdb

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv")
PARQUET_ENDINGS = (".parquet",)
DELIMITERS = ",;\t|"
REQUIRED = ("subject", "time", "code")


def select_events(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    span: Span,
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
    return select_lines(source, name, connection, span, columns=columns)


def select_lines(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    span: Span,
    *,
    columns: Mapping[str, str],
) -> str:
    """Return the SELECT of the events of a table with a line an event.

    Parameters
    ----------
    source, name, connection, span
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
    files = source.files((*CSV_ENDINGS, *PARQUET_ENDINGS), span)
    types = open_files(files, f"{name}_files", connection)
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
    time_cell, time_kind = cells["time"]
    has_time = "time IS NOT NULL"
    is_near = "true"
    if time_kind != "VARCHAR":
        # In the file's own type, so that its statistics tell what is not to be read.
        has_time = "raw_time IS NOT NULL"
        is_near = (
            f"raw_time >= CAST({_limit('span_start', '-', time_kind)} AS {time_kind}) "
            f"AND raw_time <= CAST({_limit('span_end', '+', time_kind)} AS {time_kind})"
        )
    connection.execute(
        f"""CREATE OR REPLACE TEMP VIEW {name}_lines AS
SELECT file, line, {time_cell} AS raw_time,
  nullif(trim({texts["subject"]}), '') AS subject,
  {_blank(texts, "stay")} AS stay,
  {times["time"].at} AS time,
  CASE WHEN {over} IS NULL THEN {known}
       ELSE greatest({over}, {known}) END AS known_since,
  nullif(trim({texts["code"]}), '') AS code,
  {_number(cells)} AS value,
  {_blank(texts, "unit")} AS unit,
  {_words(cells, texts)} AS text,
  {local_time_of(time_cell, time_kind)} AS local_time,
  false AS is_compared,
  CASE WHEN {_number(cells)} IS NULL AND {_blank(texts, "value")} IS NOT NULL
    AND NOT coalesce(has_comparator({_words(cells, texts)}), false)
    THEN 'NOT_A_NUMBER' END AS wrong
FROM {name}_files"""
    )
    return f"""SELECT *, {has_time} AS has_time FROM {name}_lines
WHERE span_start IS NULL OR ({is_near})"""


def _limit(end: str, sign: str, kind: str) -> str:
    """Return the SQL of a day before or after an end of a span, in the type's range.

    Times may be in another zone than the span.
    """
    limit = f"{end}::TIMESTAMP {sign} INTERVAL 1 DAY"
    if kind.endswith("_NS"):
        return (
            f"least(greatest({limit}, TIMESTAMP '1678-01-01'), TIMESTAMP '2262-01-01')"
        )
    return limit


def open_files(
    files: Sequence[str], view: str, connection: duckdb.DuckDBPyConnection
) -> dict[str, str]:
    """Make the view of the lines of all files; return the types of its columns.

    Its columns `file` and `line` say where a line stands.

    Raises
    ------
    EventsError
        A file cannot be read.
    """
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
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {union}")
        described = connection.execute(f"DESCRIBE {view}").fetchall()
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
