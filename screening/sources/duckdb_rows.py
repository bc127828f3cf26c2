"""Rows of a DuckDB file, as the Arrow blocks that it gives by itself (extra `duckdb`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.sources.database import Database

if TYPE_CHECKING:
    import duckdb

Settings = dict[str, str | bool | int | float | list[str]]
# Nothing is fetched from elsewhere because a file asks for it.
SETTINGS: Settings = {"autoinstall_known_extensions": "false"}
# Neither a query nor a view of the file reaches beyond it: no files of this host, no network, no variables of
# this program, and nothing that a query could set otherwise.
READING: Settings = SETTINGS | {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
# Values in memory at a time while a database is read.
BLOCK_CELLS = 1 << 19
MOST_BLOCK_ROWS = 1 << 14


def block_rows(n_columns: int) -> int:
    """Rows to take from a database at a time."""
    return max(1, min(MOST_BLOCK_ROWS, BLOCK_CELLS // max(n_columns, 1)))


@dataclass(frozen=True)
class Answer:
    """What a database gives: the query as it was sent, the columns' names, and the rows as they come."""

    query: str
    header: list[str]
    blocks: Iterator[pa.RecordBatch]
    how: str


def errors() -> tuple[type[Exception], ...]:
    """What DuckDB raises, if it is installed."""
    try:
        import duckdb
    except ImportError:
        return ()
    return (duckdb.Error,)


@contextmanager
def answer(url: sa.URL, database: Database, query: str | None) -> Iterator[Answer]:
    """Ask for a table or a query; the file is opened read-only.

    Raises UsageError: the query is not one SELECT, as DuckDB's own parser reads it.
    """
    with opened(url, read_only=True) as connection:
        sql = query or f"SELECT * FROM {quoted_table(connection, str(database.table))}"
        kinds = [statement.type.name for statement in connection.extract_statements(sql)]
        if kinds != ["SELECT"]:
            stated = ", ".join(kinds) or "none"
            raise UsageError(f"{database.name}: a query is a single SELECT; its statements are: {stated}")
        relation = connection.sql(sql)
        reader = relation.to_arrow_reader(block_rows(len(relation.columns)))
        yield Answer(sql, list(relation.columns), iter(reader), "read-only")


@contextmanager
def opened(url: sa.URL, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the file of a URL."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise UsageError('a DuckDB file needs DuckDB: pip install "screening[duckdb]"') from None
    path = Path(str(url.database))
    if read_only and not path.is_file():
        raise UsageError(f"there is no database file {path}")
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=READING if read_only else SETTINGS)
    except duckdb.Error as error:
        held = "lock" in str(error).lower()
        why = "another program has it open for writing" if held else "it is damaged, or no DuckDB file"
        raise UsageError(f"{path.name} cannot be opened: {why}") from None
    try:
        yield connection
    finally:
        connection.close()


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """The table as SQL writes it; `schema.name` where no table has the whole name."""
    schema, _, name = table.rpartition(".")
    for place, called in (("", table), (schema, name)):
        if there(connection, called, place):
            return ".".join(quoted(part) for part in (place, called) if part)
    raise UsageError(f"the database has no table or view {table}")


def there(connection: duckdb.DuckDBPyConnection, name: str, schema: str = "") -> bool:
    """Whether there is such a table or view, in any schema or in that one."""
    asked = "SELECT count(*) FROM information_schema.tables WHERE table_name = ? AND ? IN (table_schema, '')"
    return connection.execute(asked, [name, schema]).fetchall() != [(0,)]
