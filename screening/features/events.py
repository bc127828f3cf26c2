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
from screening.features.sources.sql import MACROS

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
"""Codes of presence and of what does not change.

The text of ADMISSION and TRANSFER is the ward, that of DISCHARGE the disposition, that
of MERGED the remaining subject. The time of SEX and MERGED may be missing.
"""

WITHDRAWN = "entered-in-error"
"""Text of a version that withdraws its result, as FHIR writes it."""


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
        """Both as literals of SQL, separated by a comma."""
        return ", ".join(map(sql_literal, self))


# Hours that are longer than any stay, and than any history.
A_LIFE = 2e6
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
        return f"to_microseconds({round(min(value, A_LIFE) * 3_600_000_000)})"
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
