"""The lines of a source: which of them count, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.errors import UsageError
from screening.features.events import (
    ALL_TIMES,
    EVENT_COLUMNS,
    RESERVED_CODES,
    WITHDRAWN,
    Session,
    Span,
    Sql,
    has_code,
    with_values,
)
from screening.features.faults import Faults
from screening.features.sources import fhir, long, omop
from screening.features.spec import DATE_OF_FILE, Source

# Function that reads a source, by its format.
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
FAULTS = f"""SELECT file, line, unnest(list_filter([
    CASE WHEN has_time THEN wrong END,
    CASE WHEN subject IS NULL THEN 'NO_SUBJECT' END,
    CASE WHEN code IS NULL THEN 'NO_CODE' END,
    CASE WHEN NOT has_time AND coalesce($code NOT IN {WITHOUT_TIME}, true)
         THEN 'NO_TIME' END,
    CASE WHEN {IS_COMPARED} THEN 'COMPARATOR' END,
    CASE WHEN {OTHER_DAY} THEN 'OTHER_DAY' END,
    CASE WHEN timezone($zone, timezone('UTC', time)) <> local_time
         THEN 'LOST_TIME' END,
    CASE WHEN timezone('UTC', timezone($zone, local_time)) <> time
         THEN 'TWICE_TIME' END],
  lambda kind: kind IS NOT NULL)) AS kind
FROM $lines"""


def read_source(
    source: Source,
    name: str,
    session: Session,
    faults: Faults,
    span: Span = ALL_TIMES,
) -> None:
    """Make the table macro of a source's events.

    The macro `name(span_start, span_end)` has the columns of `EVENT_COLUMNS`, `file`
    and `line`, of at least the events between two times; with NULL, of all and of those
    without a time.

    Parameters
    ----------
    source : Source
    name : str
        Such as "source_1".
    session : Session
    faults : Faults
        Gets what is wrong with lines of the span.
    span : Span
        Times that the run can need.
    """
    select = SOURCES[source.format](source, name, session, span)
    written = f"{name}_written"
    session.run(
        f"CREATE OR REPLACE TEMP MACRO {written}(span_start, span_end) AS TABLE\n"
        f"{select}"
    )
    codes = long.MEDS_CODES if source.format == "meds" else {}
    code, behind = reserved_code({**codes, **source.codes})
    session.run(f"""CREATE OR REPLACE TEMP MACRO {name}(span_start, span_end) AS TABLE
SELECT {", ".join(EVENT_COLUMNS)}, file, line
FROM (SELECT * REPLACE ({code} AS code,
    CASE WHEN NOT {IS_COMPARED} THEN finite(value) END AS value,
    CASE WHEN {IS_COMPARED} THEN '{WITHDRAWN}'
         ELSE coalesce(text, {behind}) END AS text)
  FROM {written}(span_start, span_end))
WHERE subject IS NOT NULL AND code IS NOT NULL
  AND (has_time OR (span_start IS NULL AND code IN {WITHOUT_TIME}))""")
    values = {
        "lines": Sql(f"{written}({span.sql})"),
        "code": Sql(code),
        "zone": source.zone,
        "by_day": source.by_day,
    }
    faults.add(session.connection, with_values(FAULTS, values))


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
