"""The one long table that every source gives, and the words that it reserves.

A result is one subject's (and stay's) code at one time. Several lines of one result
with different `known_since` are its versions.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from screening.errors import UsageError

if TYPE_CHECKING:
    import duckdb

# Of DuckDB; Python and the table itself take up to 1 GB more.
MEMORY_BYTES = 3 * 10**9

# Times are instants in UTC, to the microsecond.
EVENT_COLUMNS = {
    "subject": "VARCHAR",
    "stay": "VARCHAR",
    "time": "TIMESTAMP",
    "known_since": "TIMESTAMP",
    "code": "VARCHAR",
    "value": "DOUBLE",
    "unit": "VARCHAR",
    "text": "VARCHAR",
}
"""Columns of the events and their types in DuckDB.

`stay` may be missing; `known_since` is missing where the source does not have it.
"""

RESERVED_CODES = tuple("ADMISSION TRANSFER DISCHARGE BIRTH SEX DEATH MERGED".split())
"""Codes of who is in and of what does not change.

The text of ADMISSION and TRANSFER is the ward, that of DISCHARGE the disposition, that
of MERGED the subject who remains. The time of SEX and MERGED may be missing.
"""

WITHDRAWN = "entered-in-error"
"""Text of a version that withdraws its result, as FHIR writes it."""

# A time of day that exists twice is the first of both, as `clock.conversion` takes it.
# `typeof` is known before a query runs, so that nothing of another type is computed.
MACROS = """
CREATE OR REPLACE TEMP MACRO utc_of_local(t, zone) AS
  CASE WHEN zone = 'UTC' THEN t
       WHEN timezone(zone, timezone(zone, t) - INTERVAL 1 HOUR) = t
       THEN timezone('UTC', timezone(zone, t) - INTERVAL 1 HOUR)
       ELSE timezone('UTC', timezone(zone, t)) END;
CREATE OR REPLACE TEMP MACRO has_zone(written) AS
  CASE WHEN starts_with(typeof(written), 'TIMESTAMP')
       THEN regexp_matches(typeof(written), 'TIMESTAMPTZ|WITH TIME ZONE')
       ELSE regexp_matches(CAST(written AS VARCHAR),
         '\\d[T ]\\d.*(Z|[+-]\\d\\d(:?\\d\\d)?)$') END;
CREATE OR REPLACE TEMP MACRO utc_of(written, zone) AS
  CASE WHEN has_zone(written)
       THEN timezone('UTC', try_cast(written AS TIMESTAMPTZ))
       ELSE utc_of_local(try_cast(written AS TIMESTAMP), zone) END;
CREATE OR REPLACE TEMP MACRO day_of(written) AS
  CASE WHEN starts_with(typeof(written), 'TIMESTAMP') THEN NULL::DATE
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}')
         THEN try_cast(CAST(written AS VARCHAR) || '-12-31' AS DATE)
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}-\\d\\d')
         THEN last_day(try_cast(CAST(written AS VARCHAR) || '-01' AS DATE))
       WHEN regexp_full_match(CAST(written AS VARCHAR), '\\d{4}-\\d\\d-\\d\\d')
         THEN try_cast(written AS DATE) END;
CREATE OR REPLACE TEMP MACRO event_time(written, zone) AS
  coalesce(utc_of_local(day_of(written) + INTERVAL 12 HOUR, zone),
           utc_of(written, zone));
CREATE OR REPLACE TEMP MACRO day_over(written, zone) AS
  utc_of_local(day_of(written) + INTERVAL 24 HOUR, zone);
-- An end that is a day alone, that of the beginning, is not before it.
CREATE OR REPLACE TEMP MACRO end_time(ends, starts, zone) AS
  greatest(event_time(ends, zone), CASE
    WHEN day_over(ends, zone) >= event_time(starts, zone)
    THEN event_time(starts, zone) END);
CREATE OR REPLACE TEMP MACRO known_at(written, zone) AS
  coalesce(day_over(written, zone), utc_of(written, zone));
CREATE OR REPLACE TEMP MACRO text_of(cell) AS nullif(trim(CAST(cell AS VARCHAR)), '');
CREATE OR REPLACE TEMP MACRO finite(number) AS
  CASE WHEN isfinite(number) THEN number END;
-- Of a FLOAT the decimal that was written, and not the binary number next to it.
CREATE OR REPLACE TEMP MACRO number_of(cell) AS
  CASE WHEN typeof(cell) = 'FLOAT'
       THEN finite(try_cast(CAST(cell AS VARCHAR) AS DOUBLE))
       ELSE finite(try_cast(cell AS DOUBLE)) END;
CREATE OR REPLACE TEMP MACRO has_comparator(written) AS
  regexp_matches(written, '^\\s*[<>≤≥~]=?\\s*[0-9.,]+\\s*$');
"""
"""Macros of the engine's connection, in whose SQL every source writes its times.

`utc_of(written, zone)` is the instant of a text, a date or a timestamp; a date alone
is the beginning of its day. A text that is not a time gives NULL.

`event_time` is the same for events: one known by its date alone is at 12:00 of that
day, of a month or year at that of its last day. It is known once the day is over, at
`day_over(written, zone)`, which is NULL for what has a time. `known_at` is the instant
from which on something is known that was entered then; `end_time` that of the end of
what begins at another time.

`text_of` and `number_of` are a cell's text and finite number, NULL if it has none.
"""


@dataclass
class Session:
    """A connection in memory, and the statements that a table is made by.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    statements : list of str
        What was run, to be printed.
    """

    connection: duckdb.DuckDBPyConnection
    statements: list[str] = field(default_factory=list)

    def run(self, sql: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run a statement, and keep it with its values written out."""
        return self.connection.execute(self.written(sql, values))

    def written(self, sql: str, values: Mapping[str, object]) -> str:
        """Return a statement with its values written out, and keep it."""
        self.statements.append(with_values(sql, values).strip().removesuffix(";"))
        return self.statements[-1]


def with_values(sql: str, values: Mapping[str, object]) -> str:
    """Return a statement with its values written out, `$name` by `name`."""

    def literal(found: re.Match[str]) -> str:
        return sql_literal(values[found[1]]) if found[1] in values else found[0]

    return re.sub(r"\$(\w+)", literal, sql)


@contextmanager
def open_session(threads: int | None = None) -> Iterator[Session]:
    """Open a connection of its own, in memory, with the macros of the sources.

    What does not fit into memory goes to a temporary folder, which is deleted.

    Raises
    ------
    UsageError
        DuckDB is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise UsageError(
            'features need DuckDB: pip install "screening[duckdb]"'
        ) from None
    with (
        TemporaryDirectory(prefix="screening-features-") as folder,
        duckdb.connect(":memory:") as connection,
    ):
        connection.execute(f"SET temp_directory = {sql_text(folder)}")
        connection.execute(f"SET memory_limit = '{_memory()}B'")
        connection.execute("SET enable_progress_bar = false")
        if threads is not None:
            connection.execute(f"SET threads = {threads:d}")
        session = Session(connection)
        session.run("SET TimeZone = 'UTC'")
        session.run(MACROS)
        yield session


def _memory() -> int:
    """Return the bytes that an engine may take: half of the machine's, 3 GB at most."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MEMORY_BYTES, pages // 2)


class Span(NamedTuple):
    """Instants in UTC, without a zone, between which events are read."""

    since: datetime.datetime
    until: datetime.datetime

    @property
    def sql(self) -> str:
        """Return both as literals of SQL, with a comma."""
        return ", ".join(map(sql_literal, self))


ALWAYS = datetime.datetime(1, 1, 1)
FOREVER = datetime.datetime(9999, 1, 1)
ALL_TIMES = Span(ALWAYS, FOREVER)


def sql_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Hours(float):
    """Hours that are written as an interval."""


class Sql(str):
    """A part of a statement, which is written as it is."""


def sql_literal(value: object) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, Sql):
        return value
    if isinstance(value, Hours):
        return f"to_microseconds({round(value * 3_600_000_000)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(sql_literal, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        # A literal of SQL is a decimal, which older versions convert inexactly.
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, int):
        return repr(value)
    return sql_text(str(value))


def has_code(patterns: Iterable[str]) -> str:
    """Return the condition that `code` is one of some codes, or begins as `X*` does."""
    whole = sorted({code for code in patterns if not code.endswith("*")})
    conditions = [
        f"starts_with(code, {sql_text(code[:-1])})"
        for code in sorted(set(patterns) - set(whole))
    ]
    if whole:
        conditions.append(f"code IN ({', '.join(map(sql_text, whole))})")
    return f"({' OR '.join(conditions)})" if conditions else "false"


OF_PEOPLE = (
    """SELECT subject, 'BIRTH' AS code, birth AS instant, file, line
FROM {name}_born WHERE birth IS NOT NULL""",
    """SELECT subject, 'SEX' AS code, birth AS instant, sex AS text, file, line
FROM {name}_born WHERE sex IS NOT NULL""",
)
"""Births and sexes of the people of a view `{name}_born`."""

UNION = "\nUNION ALL BY NAME\n"
"""What joins events of several kinds; each names the columns that it has."""


def timed(select: str, zone: str) -> str:
    """Return the SELECT of events with their times, of events as they are written.

    Parameters
    ----------
    select : str
        SELECT, or several between `UNION`, of the columns `file`, `line`, `subject`,
        `stay`, `code`, `value`, `unit`, `text`, `is_compared` and `wrong`, and of

        - `written`: the time, as a text, date or timestamp;
        - `instant`: the time in UTC, where it is not what is written;
        - `entered`: since when it is known, in UTC, if that is stated.

        `file` and `line` are the place of the event; `is_compared` is true for a
        number with a comparator, and `wrong` is the name of a `FaultKind`.
    zone : str
        Literal of the zone of times that state none.
    """
    # Step by step: a macro writes out what it is given wherever it names it. If the
    # column has times and not texts, `has_time` is by the column itself, so that the
    # file's statistics say what is not to be read.
    return f"""SELECT file, line, subject, stay, time,
  greatest(utc_of_local(day + INTERVAL 24 HOUR, {zone}), entered) AS known_since, code,
  value, unit, text, CASE WHEN day IS NULL THEN local END AS local_time,
  CASE WHEN typeof(written) = 'VARCHAR' THEN time IS NOT NULL
       ELSE written IS NOT NULL END AS has_time,
  coalesce(is_compared, false) AS is_compared, wrong
FROM (SELECT *, coalesce(instant, zoned, utc_of_local(local, {zone})) AS time
FROM (SELECT *, CASE WHEN is_zoned
    THEN timezone('UTC', try_cast(written AS TIMESTAMPTZ)) END AS zoned,
  CASE WHEN day IS NOT NULL THEN day + INTERVAL 12 HOUR
       WHEN NOT is_zoned THEN try_cast(written AS TIMESTAMP) END AS local
FROM (SELECT *, day_of(written) AS day, has_zone(written) AS is_zoned
FROM ({select}))))"""
