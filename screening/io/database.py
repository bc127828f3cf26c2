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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.files import discard, read_bounded, temporary_folder_named
from screening.io.readers import (
    Batches,
    Source,
    SourcePart,
    refuse_header,
    update_digest,
)

if TYPE_CHECKING:
    import duckdb

# Databases kept in a file; of it only the name is told, as of other files.
IN_FILES = ("sqlite", "duckdb")
DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mssql": "mssql+pyodbc",
    "oracle": "oracle+oracledb",
}
# The extra that installs a driver, by the driver's package.
EXTRAS = {"psycopg": "postgres", "pyodbc": "mssql", "oracledb": "oracle"}
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
# The night in a query. It is bound as a date and never written into the text.
NIGHT = re.compile(r"(?<![:\w\\]):night\b|'\{date\}'|\{date\}")
MAX_QUERY_BYTES = 1 << 20
WAIT_SECONDS = 30
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
Settings = dict[str, str | bool | int | float | list[str]]
# A DuckDB file cannot make us fetch extensions.
DUCKDB_WRITING: Settings = {"autoinstall_known_extensions": "false"}
# Neither a query nor a view reaches beyond the file: no files of this host, no network,
# no variables of this program, and a query cannot set this otherwise.
DUCKDB_READING: Settings = DUCKDB_WRITING | {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
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


@dataclass(frozen=True)
class Database:
    """A table or query of a database, accepted wherever a cohort is read.

    It is asked once, read-only.

    Parameters
    ----------
    url : str
        Any SQLAlchemy URL, or `duckdb:///file.db`. A password in it is never shown.
    table : str, optional
        Table or view; SCHEMA.NAME for one in a schema.
        `{date}` in it is the night.
    query : str or Path, optional
        File with a single SELECT, in which `:night` or `{date}` is the night as a date.
        Either this or `table` is given.
    night : str, optional
        YYYY-MM-DD; `score` sets it to the night that it scores.

    Raises
    ------
    UsageError
        Neither table nor query is given, or both are.

    Examples
    --------
    >>> from screening import Database
    >>> Database("postgresql://reader:secret@host/ward", table="admissions")
    Database(table='admissions', query=None)
    """

    url: str = field(repr=False)
    table: str | None = None
    query: str | Path | None = None
    night: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.query):
            raise UsageError(
                "a database needs either `table` or `query`",
                parameters=["table", "query"],
            )

    @property
    def name(self) -> str:
        """Return the name of the table, or of the query's file."""
        if self.table is None:
            return Path(self.query or "").name
        return self.table.replace("{date}", self.night or "{date}")

    def of_night(self, night: str) -> Database:
        """Return the database as it is asked for a night, if none is set."""
        return self if self.night else replace(self, night=night)

    def has_nights(self) -> bool:
        """Return True if the night decides which rows are read.

        Raises
        ------
        UsageError
            The file of the query cannot be read.
        """
        if self.query is None:
            return "{date}" in str(self.table)
        return NIGHT.search(_read_query(self.query, self.name)) is not None


def read_url(text: str) -> sa.URL:
    """Return the URL of a database.

    Raises
    ------
    UsageError
        It is no such URL. The message does not repeat it: it may hold a password.
    """
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            "the database's URL cannot be read; write dialect://user@host/database"
        ) from None
    if url.get_backend_name() in IN_FILES and url.database in (None, "", ":memory:"):
        raise UsageError(
            "a database in memory holds nothing; give its file: "
            f"{url.drivername}:///FILE"
        )
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def described(url: sa.URL) -> str:
    """Return dialect, host, port and database, without user, password and settings."""
    backend = url.get_backend_name()
    if backend in IN_FILES:
        return f"{backend}:///{PurePath(url.database or '').name}"
    # A password with an @ that is not written as %40 runs over into the host.
    host = (url.host or "").rpartition("@")[2]
    port = f":{url.port}" if url.port else ""
    return f"{backend}://{host}{port}/{url.database or ''}"


def redacted_url(text: str) -> str:
    """Return a path as it is, and a database's URL without its secrets."""
    if "://" not in text:
        return text
    try:
        return described(sa.make_url(text))
    except (sa.exc.ArgumentError, ValueError):
        return text.partition("://")[0] + "://"


def redacted_message(error: Exception, url: sa.URL) -> str:
    """Return the first line of a database's error, without secrets of its URL.

    Of errors of values only the kind is told: they may repeat a patient's value.
    """
    original = getattr(error, "orig", None) or error
    kind = type(original).__name__
    is_of_value = kind.startswith(("Conversion", "OutOfRange", "InvalidInput"))
    if is_of_value or isinstance(error, sa.exc.DataError):
        return f"a value of the table cannot be read as the query wants it ({kind})"
    line = next(iter(str(original).strip().splitlines()), kind)
    secrets = [url.password, *chain.from_iterable(url.normalized_query.values())]
    for secret in filter(None, secrets):
        for form in (str(secret), quote(str(secret)), quote_plus(str(secret))):
            line = line.replace(form, "***")
    return line


def database_errors() -> tuple[type[Exception], ...]:
    """Return the errors that databases raise."""
    try:
        import duckdb
    except ImportError:
        return (sa.exc.SQLAlchemyError,)
    return (sa.exc.SQLAlchemyError, duckdb.Error)


def open_database(database: Database) -> Source:
    """Ask a database once and keep its answer.

    Raises
    ------
    UsageError
        It cannot be reached, or refuses the query.
    """
    url = read_url(database.url)
    if database.night is None and database.has_nights():
        raise UsageError(
            f"{database.name} asks for a night, which only a night to score has; write "
            "the query or table without it"
        )
    query = None
    if database.query is not None:
        query = _read_query(database.query, database.name)
    ask = _ask_duckdb if url.drivername == "duckdb" else _ask_sql
    try:
        part = ask(url, database, query)
    except database_errors() as error:
        raise UsageError(
            f"{database.name} of {described(url)}: {redacted_message(error, url)}"
        ) from None
    refuse_header(part)
    what = "table" if query is None else "the answer to"
    note = f"{database.name}: {what} {database.name} of {described(url)}"
    return Source([part], [note])


def _read_query(file: str | Path, name: str) -> str:
    """Return the text of a file with a query."""
    try:
        return read_bounded(file, MAX_QUERY_BYTES, UsageError).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: a query is kept as UTF-8") from None


class KeptAnswer(SourcePart):
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
        self.origin = {"place": described(url), "query_sha256": query_sha256}
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, discard, self._file)
        self._starts: list[int] = []
        digest = hashlib.sha256(repr(header).encode("utf-8", "surrogatepass"))
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
        except database_errors() as error:
            # Not with the database's words, which may hold values.
            kind = type(getattr(error, "orig", None) or error).__name__
            raise UsageError(
                f"{name}: the database stopped answering behind row {self.rows} "
                f"({kind})"
            ) from None
        self.bytes = self._file.tell()
        self.sha256 = digest.hexdigest()

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in blocks as they were kept, whatever `batch_rows`."""
        columns = [self.header.index(name) for name in wanted]
        for start in self._starts:
            self._file.seek(start)
            with pa.ipc.open_stream(self._file) as stream:
                yield stream.read_next_batch().select(columns)


def _ask_sql(url: sa.URL, database: Database, query: str | None) -> KeptAnswer:
    """Ask in a transaction that may change nothing, and is rolled back at its end."""
    engine = _read_only_engine(url)
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
            f"{database.name}: the query gives no rows; a query is a single SELECT"
        )
    header = [str(column[0]) for column in result.cursor.description]
    names = [str(place) for place in range(len(header))]
    partitions = result.partitions(_rows_of_block(len(header)))
    blocks = (
        pa.record_batch(list(map(_column_to_arrow, zip(*rows, strict=True))), names)
        for rows in partitions
    )
    return KeptAnswer(database.name, url, sql, header, blocks)


def _read_only_engine(url: sa.URL) -> sa.Engine:
    """Return an engine; of SQLite one that opens the file for reading only."""
    backend = url.get_backend_name()
    if backend == "sqlite":
        file = quote(str(_existing_file(url).absolute()))
        return sa.create_engine(
            f"sqlite:///file:{file}?mode=ro&uri=true",
            connect_args={"timeout": WAIT_SECONDS},
        )
    settings = {"connect_timeout": WAIT_SECONDS} if backend == "postgresql" else {}
    return engine_of(url, settings)


def engine_of(url: sa.URL, settings: dict[str, Any]) -> sa.Engine:
    """Return an engine with these settings of the driver.

    Raises
    ------
    UsageError
        The driver is not installed, or SQLAlchemy does not know the database.
    """
    try:
        return sa.create_engine(url, connect_args=settings, hide_parameters=True)
    except ModuleNotFoundError as error:
        remedy = ""
        if error.name in EXTRAS:
            remedy = f' (pip install "screening[{EXTRAS[error.name]}]")'
        raise UsageError(
            f"{url.drivername} needs the Python package {error.name}{remedy}"
        ) from None
    except sa.exc.NoSuchModuleError:
        raise UsageError(
            f"SQLAlchemy knows no database called {url.drivername}"
        ) from None


def _existing_file(url: sa.URL) -> Path:
    """Return the file of a database; raise UsageError if there is none."""
    path = Path(str(url.database))
    if not path.is_file():
        raise UsageError(f"there is no database file {path}")
    return path


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

    A function that a query calls may change something all the same: only a user who may
    only read is a protection.
    """
    words = re.findall(r"\w+|;", QUOTED_SQL.sub(" ", sql).lower())
    if not words or words[0] not in ("select", "with") or ";" in words:
        raise UsageError(
            f"{name}: a query of {backend} begins with SELECT or WITH, without a "
            "semicolon"
        )
    writing = sorted(WRITING_WORDS.intersection(words))
    if writing:
        raise UsageError(
            f"{name}: a query of {backend} only reads; remove {writing[0].upper()}, or "
            "put a column of that name in quotes"
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
        f"the database has no table or view {table} that this user may see"
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
    """Ask DuckDB for the answer to one SELECT, as its own parser reads it."""
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
                f"{database.name}: a query is a single SELECT; its statements are: "
                f"{', '.join(kinds) or 'none'}"
            )
        relation = connection.sql(sql, params=parameters)
        name = next(name for name in ARROW_READERS if name in dir(relation))
        reader = getattr(relation, name)(_rows_of_block(len(relation.columns)))
        return KeptAnswer(database.name, url, query, list(relation.columns), reader)


@contextmanager
def duckdb_opened(
    url: sa.URL, *, read_only: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the DuckDB file of a URL (extra `duckdb`).

    Raises
    ------
    UsageError
        DuckDB is not installed, or the file cannot be opened.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise UsageError(
            'a DuckDB file needs DuckDB: pip install "screening[duckdb]"'
        ) from None
    path = _existing_file(url) if read_only else Path(str(url.database))
    config = DUCKDB_READING if read_only else DUCKDB_WRITING
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=config)
    except duckdb.Error as error:
        if "lock" in str(error).lower():
            why = "another program has it open for writing"
        else:
            why = "it is damaged, or no DuckDB file"
        raise UsageError(f"{path.name} cannot be opened: {why}") from None
    with connection:
        yield connection


def duckdb_quoted(name: str) -> str:
    """Return a name as DuckDB's SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_has(
    connection: duckdb.DuckDBPyConnection, name: str, schema: str | None
) -> bool:
    """Return True if there is such a table or view, in that schema or in any."""
    query = (
        "SELECT count(*) FROM information_schema.tables "
        "WHERE table_name = ? AND ? IN (table_schema, '')"
    )
    return connection.execute(query, [name, schema or ""]).fetchall() != [(0,)]
