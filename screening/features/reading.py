"""The lines of a source: which of them count, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from screening.errors import UsageError
from screening.features.events import (
    ALL_TIMES,
    EVENT_COLUMNS,
    RESERVED_CODES,
    WITHDRAWN,
    Span,
    has_code,
    sql_text,
)
from screening.features.faults import FaultKind, Faults
from screening.features.sources import SOURCES
from screening.features.sources.long import MEDS_CODES
from screening.features.spec import Source

if TYPE_CHECKING:
    import duckdb

# Codes whose time may be missing.
WITHOUT_TIME = "('SEX', 'MERGED')"
# The source says so, or the text is a number with a comparator.
IS_COMPARED = (
    "(is_compared OR (value IS NULL AND coalesce(has_comparator(text), false)))"
)
# Kinds that a source itself finds, and names in its column `wrong`.
OF_SOURCES = (
    FaultKind.NOT_A_NUMBER,
    FaultKind.TWO_SYSTEMS,
    FaultKind.NEGATIVE_DURATION,
    FaultKind.NO_END,
)


# A discharge before the first admission of its stay.
EARLY = """SELECT file, line FROM (
  SELECT file, line, code, time, min(time) FILTER (code = 'ADMISSION')
    OVER (PARTITION BY subject, stay) AS begins
  FROM {name}(NULL, NULL)
  WHERE code IN ('ADMISSION', 'DISCHARGE') AND stay IS NOT NULL
) WHERE code = 'DISCHARGE' AND time < begins"""


def read_source(
    source: Source,
    name: str,
    connection: duckdb.DuckDBPyConnection,
    faults: Faults,
    span: Span = ALL_TIMES,
) -> str:
    """Make the table macro of a source's events; return its statement.

    The macro `name(span_start, span_end)` has the columns of `EVENT_COLUMNS`, `file`
    and `line`, of at least the events between two times; with NULL, of all and of those
    without a time.

    Parameters
    ----------
    source : Source
    name : str
        Such as "source_1".
    connection : duckdb.DuckDBPyConnection
    faults : Faults
        Gets what is wrong with lines of the span.
    span : Span
        Times that the run can need.
    """
    select = SOURCES[source.format](source, name, connection, span)
    written = f"{name}_written"
    connection.execute(
        f"CREATE OR REPLACE TEMP MACRO {written}(span_start, span_end) AS TABLE\n"
        f"{select}"
    )
    codes = MEDS_CODES if source.format == "meds" else {}
    code, behind = reserved_code({**codes, **source.codes})
    _count_faults(f"{written}({span.sql})", connection, faults, sql_text(source.zone))
    without_time = f"SELECT file, line, {code} AS code FROM {written}(NULL, NULL)"
    faults.add_lines(
        FaultKind.NO_TIME,
        connection,
        f"SELECT DISTINCT file, line FROM ({without_time} WHERE NOT has_time) "
        f"WHERE code IS NULL OR code NOT IN {WITHOUT_TIME}",
    )
    statement = f"""CREATE OR REPLACE TEMP MACRO {name}(span_start, span_end) AS TABLE
SELECT {", ".join(EVENT_COLUMNS)}, file, line
FROM (SELECT * REPLACE ({code} AS code,
    CASE WHEN NOT {IS_COMPARED} THEN value END AS value,
    CASE WHEN {IS_COMPARED} THEN '{WITHDRAWN}'
         ELSE coalesce(text, {behind}) END AS text)
  FROM {written}(span_start, span_end))
WHERE subject IS NOT NULL AND code IS NOT NULL
  AND (has_time OR (span_start IS NULL AND code IN {WITHOUT_TIME}))"""
    connection.execute(statement)
    early = EARLY.format(name=name)
    faults.add_lines(FaultKind.NEGATIVE_DURATION, connection, early)
    return statement


def _count_faults(
    lines: str, connection: duckdb.DuckDBPyConnection, faults: Faults, zone: str
) -> None:
    """Count the lines that are wrong; find the places of those kinds that occur."""
    first = f"timezone({zone}, local_time)"
    conditions = {
        FaultKind.NO_SUBJECT: "subject IS NULL",
        FaultKind.NO_CODE: "code IS NULL",
        FaultKind.LOST_TIME: f"timezone({zone}, {first}) <> local_time",
        FaultKind.TWICE_TIME: (
            f"timezone({zone}, {first} - INTERVAL 1 HOUR) = local_time"
        ),
        FaultKind.COMPARATOR: IS_COMPARED,
    }
    conditions |= {kind: f"wrong = '{kind.name}'" for kind in OF_SOURCES}
    counts = ", ".join(f"count_if({condition})" for condition in conditions.values())
    (counted,) = connection.execute(f"SELECT {counts} FROM {lines}").fetchall()
    for (kind, condition), count in zip(conditions.items(), counted, strict=True):
        if count:
            query = f"SELECT DISTINCT file, line FROM {lines} WHERE {condition}"
            faults.add_lines(kind, connection, query)


def reserved_code(codes: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the expressions of a line's code, and of the text behind its prefix."""
    unknown = [code for code in codes if code not in RESERVED_CODES]
    if unknown:
        raise UsageError(
            f"source.codes.{unknown[0]}: write one of {', '.join(RESERVED_CODES)}"
        )
    mapped = [
        f"WHEN {has_code(patterns)} THEN '{reserved}'"
        for reserved, patterns in codes.items()
        if patterns
    ]
    behind = [
        f"WHEN {has_code([pattern])} THEN nullif(ltrim(code[{len(pattern)}:], '/'), '')"
        for patterns in codes.values()
        for pattern in patterns
        if pattern.endswith("*")
    ]
    return (
        f"CASE {' '.join(mapped)} ELSE code END" if mapped else "code",
        f"CASE {' '.join(behind)} END" if behind else "NULL",
    )
