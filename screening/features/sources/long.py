"""A plain long table of events, CSV or Parquet, with a map of its columns; also MEDS.

MEDS, the Medical Event Data Standard, is such a table with columns of its own.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path

from screening.errors import EventsError, UsageError
from screening.features.events import (
    EVENT_COLUMNS,
    Session,
    Span,
    sql_literal,
    sql_text,
)
from screening.features.sources.sql import timed
from screening.features.spec import Source, ends_in
from screening.io.connections import duckdb_quoted
from screening.spelling import did_you_mean

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET_ENDINGS = (".parquet",)
DELIMITERS = ",;\t|"
REQUIRED = ("subject", "time", "code")
TIMES = ("time", "known_since")
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "long": {column: column for column in EVENT_COLUMNS},
    "meds": {
        "subject": "subject_id",
        "stay": "hadm_id",
        "time": "time",
        "known_since": "known_since",
        "code": "code",
        "value": "numeric_value",
        "unit": "unit",
        "text": "text_value",
    },
}
"""By format, the table's columns by those of `EVENT_COLUMNS`.

All but subject, time and code may be missing in the table, unless the source names
them.
"""

MEDS_CODES: Mapping[str, tuple[str, ...]] = {
    "BIRTH": ("MEDS_BIRTH",),
    "DEATH": ("MEDS_DEATH",),
    "SEX": ("GENDER//*",),
}
"""Codes of MEDS for reserved ones."""

# Label of a file: its path from the first folder with a date on, else its name.
FILE_LABEL = r"[^/]*\d{4}-\d\d-\d\d.*|[^/]+$"
# Folder of the events of a MEDS data set; its neighbour `metadata` has none.
MEDS_FOLDER = "data"


def select_events(
    source: Source,
    name: str,
    session: Session,
    span: Span,
) -> str:
    """Return the SELECT of the events of a table with one event per line.

    Raises
    ------
    UsageError
        No file was found, or a column is missing.
    EventsError
        A file cannot be read.
    """
    of_data = Path(source.path) / MEDS_FOLDER
    if source.format == "meds" and of_data.is_dir():
        source = source.model_copy(update={"path": str(of_data)})
    columns = {**COLUMNS[source.format], **source.columns}
    files = source.files((*CSV_ENDINGS, *PARQUET_ENDINGS), span)
    types = open_files(files, f"{name}_files", session)
    known = columns["known_since"]
    if not _is_time(types.get(known, "VARCHAR")) and _is_empty(known, name, session):
        types = {**types, known: "VARCHAR"}
    _refuse_columns(source, columns, types)
    kinds = {column: types.get(named) for column, named in columns.items()}
    times = {
        column: f"trim({column}::VARCHAR)" if kinds[column] == "VARCHAR" else column
        for column in TIMES
    }
    zone = sql_text(source.zone)
    words = "coalesce(text_of(text), CASE WHEN number IS NULL THEN text_of(value) END)"
    select = f"""SELECT file, line, text_of(subject) AS subject, text_of(stay) AS stay,
  {times["time"]} AS written, NULL::TIMESTAMP AS instant,
  known_at({times["known_since"]}, {zone}) AS entered, text_of(code) AS code,
  number AS value, text_of(unit) AS unit, {words} AS text, false AS is_compared,
  CASE WHEN number IS NULL AND text_of(value) IS NOT NULL
    AND NOT coalesce(has_comparator({words}), false) THEN 'NOT_A_NUMBER' END AS wrong
FROM (SELECT *, number_of(value) AS number
  FROM (SELECT file, line, {renamed(columns, types)} FROM {name}_files))
WHERE span_start IS NULL OR time IS NULL OR {_is_near(types[columns["time"]])}"""
    return timed(select, zone)


def _is_time(kind: str) -> bool:
    """Return True for a type that can be read as times."""
    return kind in ("VARCHAR", "DATE") or kind.startswith("TIMESTAMP")


def _is_empty(column: str, name: str, session: Session) -> bool:
    """Return True for a column that is all missing, which pandas writes as numbers."""
    counted = session.run(f"SELECT count({duckdb_quoted(column)}) FROM {name}_files")
    return counted.fetchall() == [(0,)]


def _refuse_columns(
    source: Source, columns: Mapping[str, str], types: Mapping[str, str]
) -> None:
    """Refuse columns that are not of events, not in the table, or not times."""
    for column, named in columns.items():
        if column not in EVENT_COLUMNS:
            raise UsageError(
                f"source {source.path}: columns.{column} is not a column of events"
                f"{did_you_mean(column, EVENT_COLUMNS)}"
            )
        is_wanted = column in REQUIRED or column in source.columns
        if is_wanted and named not in types:
            raise UsageError(
                f"source {source.path}: column '{named}' for {column} does not "
                f"exist{did_you_mean(named, types)}; name it under `columns`"
            )
        kind = types.get(named, "VARCHAR")
        if column in TIMES and not _is_time(kind):
            raise UsageError(
                f"source {source.path}: column '{named}' has {kind}, not times; write "
                "times such as 2026-03-10T06:00:00+01:00"
            )


def _is_near(kind: str) -> str:
    """Return the condition that a time is not a day outside of a span.

    Times may be in another zone than the span. They are compared in the file's own
    type, so that its statistics say what is not to be read.
    """
    if kind == "VARCHAR":
        return "true"
    since = f"try_cast(span_start::TIMESTAMP - INTERVAL 1 DAY AS {kind})"
    until = f"try_cast(span_end::TIMESTAMP + INTERVAL 1 DAY AS {kind})"
    return (
        f"(({since} IS NULL OR time >= {since}) AND "
        f"({until} IS NULL OR time <= {until}))"
    )


def renamed(columns: Mapping[str, str], types: Mapping[str, str]) -> str:
    """Return the list of a SELECT of columns by other names.

    Parameters
    ----------
    columns : mapping from str to str
        Columns of the table by the name that they get.
    types : mapping from str to str
        The table's columns. One that it does not have is NULL.
    """
    return ", ".join(
        f"{duckdb_quoted(named) if named in types else 'NULL::VARCHAR'} AS {name}"
        for name, named in columns.items()
    )


def open_files(files: Sequence[str], view: str, session: Session) -> dict[str, str]:
    """Make the view of the lines of all files; return the types of its columns.

    Its columns `file` and `line` are the position of a line.

    Raises
    ------
    EventsError
        A file cannot be read.
    """
    import duckdb

    parts = [_csv_select(file) for file in files if ends_in(file, CSV_ENDINGS)]
    tables = [escape(file) for file in files if ends_in(file, PARQUET_ENDINGS)]
    if tables:
        parts.append(
            "SELECT * EXCLUDE (read_from, file_row_number), "
            f"regexp_extract(read_from, {sql_text(FILE_LABEL)}) AS file, "
            f"1 + file_row_number AS line FROM read_parquet({sql_literal(tables)}, "
            "filename='read_from', file_row_number=true, union_by_name=true)"
        )
    union = "\nUNION ALL BY NAME\n".join(parts)
    try:
        session.run(f"CREATE OR REPLACE TEMP VIEW {view} AS {union}")
        return types_of(view, session)
    except duckdb.Error as error:
        raise read_error(error, files) from None


def types_of(view: str, session: Session) -> dict[str, str]:
    """Return the types of a view's columns by their names."""
    described = session.connection.execute(f"DESCRIBE {view}").fetchall()
    types = {str(column): str(kind) for column, kind, *_ in described}
    # A column of Parquet without a value may have no type.
    return {
        name: "VARCHAR" if '"NULL"' in kind else kind for name, kind in types.items()
    }


def _csv_select(file: str) -> str:
    """Return the SELECT of a CSV file's lines, with their numbers.

    The header gives columns and delimiter: DuckDB would guess them from some lines.
    """
    is_gzip = ends_in(file, [".gz"])
    opened = gzip.open if is_gzip else open
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
        f"SELECT *, {sql_text(file_label(file))} AS file, "
        "1 + row_number() OVER () AS line "
        f"FROM read_csv({sql_text(escape(file))}, compression="
        f"{'gzip' if is_gzip else 'none'}, {options}{sql_text(delimiter)}, "
        f"columns={{{columns}}})"
    )


def file_label(path: str) -> str:
    """Return what a file is called where a line of it is named."""
    found = re.search(FILE_LABEL, path)
    return found[0] if found else path


def read_error(error: Exception, files: Sequence[str]) -> EventsError:
    """Return the error of files that DuckDB cannot read, without its values."""
    message = str(error)
    line = re.search(r"Line: (\d+)", message)
    named = [file for file in files if file in message]
    file = Path((named or [*files, "source"])[0]).name
    at = f", line {int(line[1]):,}" if line else ""
    return EventsError(
        f"{file}{at}: the file cannot be read as a table ({type(error).__name__}); "
        "write it again"
    )
