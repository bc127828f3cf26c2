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
    sql_literal,
    sql_text,
)
from screening.features.faults import Faults
from screening.features.sources import fhir, long, omop
from screening.features.spec import DATE_OF_FILE, Source

if TYPE_CHECKING:
    import duckdb

# By the format of a source, the function that reads it.
SOURCES = {
    "fhir": fhir.select_events,
    "long": long.select_events,
    "meds": long.select_events,
    "omop": omop.select_events,
}
# Codes whose time may be missing.
WITHOUT_TIME = "('SEX', 'MERGED')"
# The source says so, or the text is a number with a comparator.
IS_COMPARED = (
    "(is_compared OR (value IS NULL AND coalesce(has_comparator(text), false)))"
)
# Neither the event nor what is known of it is of the day of its file, as far as zones
# allow.
_DAY = f"""try_cast(regexp_extract(file, '.*({DATE_OF_FILE.pattern})', 1) AS DATE)"""
OTHER_DAY = f"""$by_day AND least(abs(date_diff('day', time, {_DAY})),
      abs(date_diff('day', known_since, {_DAY}))) > 1"""
# Of each line what is wrong with it, the name of a `FaultKind`.
FAULTS = f"""SELECT file, line, unnest(list_filter([wrong,
    CASE WHEN subject IS NULL THEN 'NO_SUBJECT' END,
    CASE WHEN code IS NULL THEN 'NO_CODE' END,
    CASE WHEN {IS_COMPARED} THEN 'COMPARATOR' END,
    CASE WHEN {OTHER_DAY} THEN 'OTHER_DAY' END,
    CASE WHEN timezone($zone, timezone($zone, local_time)) <> local_time
         THEN 'LOST_TIME' END,
    CASE WHEN timezone($zone, timezone($zone, local_time) - INTERVAL 1 HOUR)
           = local_time THEN 'TWICE_TIME' END],
  lambda kind: kind IS NOT NULL)) AS kind
FROM $lines"""
NO_TIME = f"""SELECT 'NO_TIME' AS kind, file, line
FROM (SELECT file, line, $code AS code FROM $lines WHERE NOT has_time)
WHERE code IS NULL OR code NOT IN {WITHOUT_TIME}"""
# A discharge before the first admission of its stay.
EARLY = """SELECT 'NEGATIVE_DURATION' AS kind, file, line FROM (
  SELECT file, line, code, time, min(time) FILTER (code = 'ADMISSION')
    OVER (PARTITION BY subject, stay) AS begins
  FROM $lines WHERE code IN ('ADMISSION', 'DISCHARGE') AND stay IS NOT NULL
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
    codes = long.MEDS_CODES if source.format == "meds" else {}
    code, behind = reserved_code({**codes, **source.codes})
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
    zone = sql_text(source.zone)
    for query in (
        FAULTS.replace("$lines", f"{written}({span.sql})")
        .replace("$zone", zone)
        .replace("$by_day", sql_literal(source.by_day)),
        NO_TIME.replace("$lines", f"{written}(NULL, NULL)").replace("$code", code),
        EARLY.replace("$lines", f"{name}(NULL, NULL)"),
    ):
        faults.add(connection, query)
    return statement


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
