"""The one long table that every source gives, and the words that it reserves.

A result is one subject's (and stay's) code at one time. Several lines of one result
with different `known_since` are its versions.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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

ADMISSION = "ADMISSION"
TRANSFER = "TRANSFER"
DISCHARGE = "DISCHARGE"
BIRTH = "BIRTH"
SEX = "SEX"
DEATH = "DEATH"
MERGED = "MERGED"
RESERVED_CODES = (ADMISSION, TRANSFER, DISCHARGE, BIRTH, SEX, DEATH, MERGED)
"""Codes of who is in and of what does not change.

The text of ADMISSION and TRANSFER is the ward, that of DISCHARGE the disposition, that
of MERGED the subject who remains. The time of SEX and MERGED may be missing.
"""

WITHDRAWN = "entered-in-error"
"""Text of a version that withdraws its result, as FHIR writes it."""

# A time of day that exists twice is the first of both, as `clock.conversion` takes it.
MACROS = """
CREATE OR REPLACE TEMP MACRO utc_of_local(t, zone) AS
  CASE WHEN zone = 'UTC' THEN t
       WHEN timezone(zone, timezone(zone, t) - INTERVAL 1 HOUR) = t
       THEN timezone('UTC', timezone(zone, t) - INTERVAL 1 HOUR)
       ELSE timezone('UTC', timezone(zone, t)) END;
CREATE OR REPLACE TEMP MACRO has_zone(written) AS
  regexp_matches(written, '\\d[T ]\\d.*(Z|[+-]\\d\\d(:?\\d\\d)?)$');
CREATE OR REPLACE TEMP MACRO utc_of_text(written, zone) AS
  CASE WHEN has_zone(written)
       THEN timezone('UTC', try_cast(written AS TIMESTAMPTZ))
       ELSE utc_of_local(try_cast(written AS TIMESTAMP), zone) END;
CREATE OR REPLACE TEMP MACRO day_of(written) AS
  CASE WHEN regexp_full_match(written, '\\d{4}')
         THEN try_cast(written || '-12-31' AS DATE)
       WHEN regexp_full_match(written, '\\d{4}-\\d\\d')
         THEN last_day(try_cast(written || '-01' AS DATE))
       WHEN regexp_full_match(written, '\\d{4}-\\d\\d-\\d\\d')
         THEN try_cast(written AS DATE) END;
CREATE OR REPLACE TEMP MACRO event_time(written, zone) AS
  coalesce(utc_of_local(day_of(written) + INTERVAL 12 HOUR, zone),
           utc_of_text(written, zone));
CREATE OR REPLACE TEMP MACRO day_over(written, zone) AS
  utc_of_local(day_of(written) + INTERVAL 24 HOUR, zone);
CREATE OR REPLACE TEMP MACRO local_of(written) AS
  CASE WHEN day_of(written) IS NULL AND NOT has_zone(written)
       THEN try_cast(written AS TIMESTAMP) END;
CREATE OR REPLACE TEMP MACRO has_comparator(written) AS
  regexp_matches(written, '^\\s*[<>≤≥~]=?\\s*[0-9.,]+\\s*$');
"""
"""Macros of the engine's connection, in whose SQL every source writes its times.

`utc_of_text(written, zone)` reads a time that a text says; a date alone is the
beginning of its day. A text that is not a time gives NULL.

`event_time` is the same for events: one known by its date alone is at 12:00 of that
day, of a month or year at that of its last day. It is known once the day is over, at
`day_over(written, zone)`, which is NULL for a text with a time.

`local_of(written)` is a time of day that a text says without its zone, else NULL.
"""


@contextmanager
def open_engine(threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
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
        connection.execute("SET TimeZone = 'UTC'")
        if threads is not None:
            connection.execute(f"SET threads = {threads:d}")
        connection.execute(MACROS)
        yield connection


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
        return ", ".join(f"TIMESTAMP '{instant.isoformat(' ')}'" for instant in self)


ALWAYS = datetime.datetime(1, 1, 1)
FOREVER = datetime.datetime(9999, 1, 1)
ALL_TIMES = Span(ALWAYS, FOREVER)


def sql_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def sql_list(texts: list[str]) -> str:
    """Return texts as a list of DuckDB's SQL, such as the files of `read_parquet`."""
    return "[" + ", ".join(map(sql_text, texts)) + "]"


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


def is_zoned(kind: str) -> bool:
    """Return True for a type of DuckDB whose times are instants."""
    return kind.startswith("TIMESTAMPTZ") or kind.endswith("WITH TIME ZONE")


class Instants(NamedTuple):
    """The SQL of a cell's instant in UTC.

    Parameters
    ----------
    at : str
        The instant; noon of a day that is given without a time.
    over : str
        The end of such a day, from which on it is known; NULL for a time.
    """

    at: str
    over: str


def instants_of(cell: str, kind: str, zone: str) -> Instants | None:
    """Return the SQL of a cell's instant; None where its type has no times.

    Parameters
    ----------
    cell : str
        SQL of the cell.
    kind : str
        Its type in DuckDB.
    zone : str
        Zone of times that state none.
    """
    zone = sql_text(zone)
    nothing = "CAST(NULL AS TIMESTAMP)"
    if kind == "DATE":
        cell, kind = f"CAST({cell} AS VARCHAR)", "VARCHAR"
    if kind == "VARCHAR":
        written = f"trim({cell})"
        return Instants(
            f"event_time({written}, {zone})", f"day_over({written}, {zone})"
        )
    if is_zoned(kind):
        return Instants(f"timezone('UTC', CAST({cell} AS TIMESTAMPTZ))", nothing)
    if kind.startswith("TIMESTAMP"):
        local = f"CAST({cell} AS TIMESTAMP)"
        return Instants(f"utc_of_local({local}, {zone})", nothing)
    return None


def local_time_of(cell: str, kind: str) -> str:
    """Return the SQL of a cell's local time, NULL where it is an instant by itself."""
    if kind == "VARCHAR":
        return f"local_of(trim({cell}))"
    if is_zoned(kind):
        return "CAST(NULL AS TIMESTAMP)"
    return f"CAST({cell} AS TIMESTAMP)"
