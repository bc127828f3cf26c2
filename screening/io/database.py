"""Read a table or query of a database, with the types that the database gives.

The answer is kept in a private file: asked again, a database may answer with other rows
or in another order.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import re
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.files import discard, temporary_folder_named
from screening.io.connections import (
    database_errors,
    described,
    duckdb_has,
    duckdb_opened,
    duckdb_quoted,
    read_only_engine,
    read_url,
    redacted_message,
)
from screening.io.queries import NIGHT, Database, read_query
from screening.io.readers import (
    RecordBatches,
    Source,
    SourceFile,
    refuse_header,
    update_digest,
)

# Statements that begin a transaction which may change nothing.
READ_ONLY_TRANSACTIONS = {
    "oracle": "SET TRANSACTION READ ONLY",
    "mysql": "START TRANSACTION READ ONLY",
    "mariadb": "START TRANSACTION READ ONLY",
}
# Words of statements that change something, and of two statements without a semicolon,
# which SQL Server takes.
WRITING_WORDS = frozenset(
    "alter begin call create delete drop exec execute grant insert into merge revoke "
    "set truncate update use".split()
)
# Texts, names in quotes, and comments: no words of a statement.
QUOTED_SQL = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|\[[^\]]*\]|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
# Cells and rows in memory at a time while a database is read.
MAX_BLOCK_CELLS = 1 << 19
MAX_BLOCK_ROWS = 1 << 14
# Actions that SQLite may find in a query: no PRAGMA, no ATTACH (VACUUM INTO is one), no
# change.
SQLITE_READS = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
# Types with an Arrow type of their own, and types that are kept as text otherwise.
ARROW_TYPES = {
    bool,
    int,
    float,
    decimal.Decimal,
    datetime.date,
    datetime.datetime,
    datetime.time,
}
TEXT_TYPES = {str, uuid.UUID, *ARROW_TYPES} - {datetime.time}
NO_SINGLE_VALUE = "(no single value)"


def ask_database(database: Database) -> Source:
    """Ask a database once and keep its answer.

    Raises
    ------
    UsageError
        It cannot be reached, or refuses the query.
    """
    url = read_url(database.url)
    if database.night is None and database.has_nights():
        raise UsageError(
            f"{database.name} uses `:night`, which is only available when scoring; "
            "write the query or table without it"
        )
    query = None
    if database.query is not None:
        query = read_query(database.query, database.name)
    ask = _ask_duckdb if url.drivername == "duckdb" else _ask_sql
    try:
        answer = ask(url, database, query)
    except database_errors() as error:
        raise UsageError(
            f"{database.name} of {described(url)}: {redacted_message(error, url)}"
        ) from None
    refuse_header(answer)
    what = "table" if query is None else "the answer to"
    note = f"{database.name}: {what} {database.name} of {described(url)}"
    return Source([answer], [note])


class KeptAnswer(SourceFile):
    """The answer of a database to a query, read like a file.

    It lies under `TMPDIR` in a file without a name, block by block: their types may
    differ, as in SQLite. `sha256` is that of its values in their order.

    Parameters
    ----------
    name : str
        Name of the table or query.
    url : URL
    sql : str
        The query as it was sent.
    header : list of str
    blocks : iterable of RecordBatch
        The rows.
    """

    def __init__(
        self,
        name: str,
        url: sa.URL,
        sql: str,
        header: list[str],
        blocks: Iterable[pa.RecordBatch],
    ):
        self.name = name
        self.header = header
        query_sha256 = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, discard, self._file)
        self._starts: list[int] = []
        digest = hashlib.sha256(repr(header).encode("utf-8", "surrogatepass"))
        of_columns = [hashlib.sha256() for _ in header]
        self.rows: int = 0
        try:
            for block in blocks:
                self.rows += block.num_rows
                # A name may occur twice until that is refused, so columns have numbers.
                numbers = [str(place) for place in range(block.num_columns)]
                numbered = block.rename_columns(numbers)
                self._starts.append(self._file.tell())
                with (
                    temporary_folder_named(),
                    pa.ipc.new_stream(self._file, numbered.schema) as stream,
                ):
                    stream.write_batch(numbered)
                with temporary_folder_named():
                    self._file.flush()
                update_digest(digest, numbered)
                for number, of_column in zip(numbers, of_columns, strict=True):
                    update_digest(of_column, numbered.select([number]))
        except database_errors() as error:
            # Not with the database's message, which may contain values.
            kind = type(getattr(error, "orig", None) or error).__name__
            raise UsageError(
                f"{name}: the database stopped answering after row {self.rows} ({kind})"
            ) from None
        self.bytes = self._file.tell()
        self.sha256 = digest.hexdigest()
        self.origin = {
            "place": described(url),
            "query_sha256": query_sha256,
            "columns": {
                name: of_column.hexdigest()
                for name, of_column in zip(header, of_columns, strict=True)
            },
        }

    def record_batches(self, wanted: list[str], batch_rows: int) -> RecordBatches:
        """Yield the rows in blocks as they were kept, whatever `batch_rows`."""
        columns = [self.header.index(name) for name in wanted]
        for start in self._starts:
            self._file.seek(start)
            with pa.ipc.open_stream(self._file) as stream:
                yield stream.read_next_batch().select(columns)


def _ask_sql(url: sa.URL, database: Database, query: str | None) -> KeptAnswer:
    """Ask in a transaction that may change nothing, and is rolled back at its end."""
    engine = read_only_engine(url)
    try:
        with engine.connect() as connection:
            if query is None:
                query = _select_all(
                    database.name,
                    sa.inspect(connection).has_table,
                    _quoter(connection.dialect),
                )
            sql = _make_read_only(connection, query, database.name)
            with closing(_execute(connection, sql, database.night)) as result:
                return _keep_result(url, database, sql, result)
    finally:
        engine.dispose()


def _quoter(dialect: sa.Dialect) -> Callable[[str], str]:
    """Return the function that writes a table's name in SQL.

    Oracle's names are in capitals unless they are quoted, SQLAlchemy's in small
    letters.
    """
    preparer = dialect.identifier_preparer
    if dialect.requires_name_normalize:
        return preparer.quote
    return preparer.quote_identifier


def _execute(
    connection: sa.Connection, sql: str, night: str | None
) -> sa.CursorResult[Any]:
    """Send a query whose rows are streamed, with the night where it asks for one."""
    streaming = connection.execution_options(stream_results=True)
    if night is None or not NIGHT.search(sql):
        return streaming.execution_options(no_parameters=True).exec_driver_sql(sql)
    return streaming.execute(bind_night(sql, night))


def bind_night(sql: str, night: str) -> sa.TextClause:
    """Return a query with a night as its only parameter; every other colon is text."""
    parts = [part.replace(":", "\\:") for part in NIGHT.split(sql)]
    date = datetime.date.fromisoformat(night)
    return sa.text(":night".join(parts)).bindparams(
        sa.bindparam("night", date, sa.Date())
    )


def _keep_result(
    url: sa.URL, database: Database, sql: str, result: sa.CursorResult[Any]
) -> KeptAnswer:
    """Read the rows of a result in blocks, and keep them."""
    if result.cursor is None or result.cursor.description is None:
        raise UsageError(
            f"{database.name}: the query returns no rows; write a single SELECT"
        )
    header = [str(column[0]) for column in result.cursor.description]
    names = [str(place) for place in range(len(header))]
    partitions = result.partitions(_rows_of_block(len(header)))
    blocks = (
        pa.record_batch(list(map(_column_to_arrow, zip(*rows, strict=True))), names)
        for rows in partitions
    )
    return KeptAnswer(database.name, url, sql, header, blocks)


def _make_read_only(connection: sa.Connection, sql: str, name: str) -> str:
    """Have the database refuse changes as far as it can; return the query to send.

    PostgreSQL, Oracle and MySQL get a read-only transaction, SQLite an authorizer.
    From others than PostgreSQL and SQLite only a single SELECT is taken. Whatever is
    changed all the same is rolled back.
    """
    backend = connection.dialect.name
    driver = connection.connection.driver_connection
    if backend == "postgresql":
        connection.rollback()
        connection.execution_options(postgresql_readonly=True)
        # Else a large table is read from where another reader is at that moment.
        connection.exec_driver_sql("SET LOCAL synchronize_seqscans = off")
        return sql
    if isinstance(driver, sqlite3.Connection):
        driver.set_authorizer(_authorize_reads)
        return sql
    # The drivers above take one statement; others may take several.
    sql = sql.strip().removesuffix(";")
    refuse_writing(sql, name, backend)
    if backend in READ_ONLY_TRANSACTIONS:
        connection.rollback()
        connection.exec_driver_sql(READ_ONLY_TRANSACTIONS[backend])
    return sql


def refuse_writing(sql: str, name: str, backend: str) -> None:
    """Raise UsageError if a query has words of statements that change something.

    A function in a query may still change something: only a user with read access alone
    is a protection.
    """
    words = re.findall(r"\w+|;", QUOTED_SQL.sub(" ", sql).lower())
    if not words or words[0] not in ("select", "with") or ";" in words:
        raise UsageError(
            f"{name}: write a query of {backend} that begins with SELECT or WITH, "
            "without a semicolon"
        )
    writing = sorted(WRITING_WORDS.intersection(words))
    if writing:
        raise UsageError(
            f"{name}: a query of {backend} may only read; remove "
            f"{writing[0].upper()}, or put a column of that name in quotes"
        )


def _authorize_reads(action: int, *_: object) -> int:
    """Answer SQLite whether an action of a query is allowed."""
    return sqlite3.SQLITE_OK if action in SQLITE_READS else sqlite3.SQLITE_DENY


def _select_all(
    table: str,
    has_table: Callable[[str, str | None], bool],
    quote_name: Callable[[str], str],
) -> str:
    """Return the query for a whole table.

    Text before the last dot is its schema, unless a table has the whole name.
    """
    if has_table(table, None):
        return f"SELECT * FROM {quote_name(table)}"
    schema, _, name = table.rpartition(".")
    if schema and has_table(name, schema):
        return f"SELECT * FROM {quote_name(schema)}.{quote_name(name)}"
    raise UsageError(
        f"the database has no table or view {table} that this user can read"
    )


def _rows_of_block(n_columns: int) -> int:
    """Return the number of rows to read at a time."""
    rows = MAX_BLOCK_CELLS // max(n_columns, 1)
    return max(1, min(MAX_BLOCK_ROWS, rows))


def _column_to_arrow(cells: Sequence[object]) -> pa.Array:
    """Return a column in the type that its values share.

    Values of several types, which SQLite allows, become texts. Arrays and bytes become
    empty bytes, which the contract's reader refuses.
    """
    types = {type(cell) for cell in cells if cell is not None}
    has_arrow_type = len(types) == 1 and types <= ARROW_TYPES
    if has_arrow_type or types <= {int, float}:
        try:
            return pa.array(cells)
        except (pa.ArrowInvalid, OverflowError):
            # NaN, infinity, or more digits than Arrow's decimals have. Whole numbers
            # that are too large become texts below.
            if types == {decimal.Decimal}:
                return pa.array(map(_float_of, cells))
    if not types & TEXT_TYPES:
        empty = [None if cell is None else b"" for cell in cells]
        return pa.array(empty, pa.binary())
    return pa.array(map(_text_of, cells), pa.string())


def _float_of(cell: object) -> float | None:
    """Return a decimal number as a float."""
    return None if cell is None else float(str(cell))


def _text_of(cell: object) -> str | None:
    """Return a value as text; a lone surrogate, which UTF-8 has not, as its number."""
    if cell is None:
        return None
    text = str(cell) if type(cell) in TEXT_TYPES else NO_SINGLE_VALUE
    return text.encode("utf-8", "backslashreplace").decode()


# DuckDB's names of the method that streams an answer: from 1.5, 1.4 and 1.3 on.
ARROW_READERS = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")


def _ask_duckdb(url: sa.URL, database: Database, query: str | None) -> KeptAnswer:
    """Run one SELECT in DuckDB, checked by its own parser."""
    with duckdb_opened(url, read_only=True) as connection:
        if query is None:
            has_table = partial(duckdb_has, connection)
            query = _select_all(database.name, has_table, duckdb_quoted)
        sql = query
        parameters = None
        if database.night is not None and NIGHT.search(query):
            sql = NIGHT.sub("$night", query)
            parameters = {"night": datetime.date.fromisoformat(database.night)}
        statements = connection.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
        if kinds != ["SELECT"]:
            raise UsageError(
                f"{database.name}: write a single SELECT; the statements are: "
                f"{', '.join(kinds) or 'none'}"
            )
        relation = connection.sql(sql, params=parameters)
        name = next(name for name in ARROW_READERS if name in dir(relation))
        reader = getattr(relation, name)(_rows_of_block(len(relation.columns)))
        return KeptAnswer(database.name, url, query, list(relation.columns), reader)
