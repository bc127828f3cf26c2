"""A table or query of a database as a cohort: read-only, in blocks, with the types that the database gives.

The answer is kept in a private file: asked again, a database may answer with other rows or in another order.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.files import read_bounded
from screening.io.readers import Batches, Part, Source, refuse_header, update_digest

if TYPE_CHECKING:
    import duckdb

# Kept in a file: its name is told, as that of other files is, and not where it lies.
IN_FILES = ("sqlite", "duckdb")
DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
MOST_QUERY_BYTES = 1 << 20
WAIT_SECONDS = 30
# Values in memory at a time while a database is read.
BLOCK_CELLS, MOST_BLOCK_ROWS = 1 << 19, 1 << 14
# What SQLite's own parser may find in a query: no PRAGMA, no ATTACH (VACUUM INTO is one), no change.
SQLITE_READS = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
Settings = dict[str, str | bool | int | float | list[str]]
# Nothing is fetched from elsewhere because a DuckDB file asks for it.
WRITING: Settings = {"autoinstall_known_extensions": "false"}
# Neither a query nor a view of the file reaches beyond it: no files of this host, no network, no variables of
# this program, and nothing that a query could set otherwise.
READING: Settings = WRITING | {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
# What Arrow has a type of its own for, and what else has a text.
TYPED = {
    bool,
    int,
    float,
    decimal.Decimal,
    datetime.date,
    datetime.datetime,
    datetime.time,
}
PLAIN = {str, uuid.UUID, *TYPED} - {datetime.time}


@dataclass(frozen=True)
class Database:
    """A table or query of a database: give it wherever a cohort is read; it is asked once, read-only.

    Parameters
    ----------
    url : str
        Any SQLAlchemy URL, or `duckdb:///file.db`. A password in it is told nowhere.
    table : str, optional
        Table or view; SCHEMA.NAME for one in a schema.
    query : str or Path, optional
        File with a single SELECT. Either this or `table` is given.

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

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.query):
            raise UsageError("a database needs either --table NAME or --query FILE.sql")

    @property
    def name(self) -> str:
        return self.table or Path(self.query or "").name


def read_url(text: str) -> sa.URL:
    """A database's URL; UsageError where it is none, without it: a password may stand anywhere in it."""
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            "the database's URL cannot be read; write dialect://user@host/database"
        ) from None
    if url.get_backend_name() in IN_FILES and url.database in (None, "", ":memory:"):
        raise UsageError(
            f"a database in memory holds nothing; give its file: {url.drivername}:///FILE"
        )
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def described(url: sa.URL) -> str:
    """Dialect, host, port and database: no user, no password, no further settings."""
    backend = url.get_backend_name()
    if backend in IN_FILES:
        return f"{backend}:///{PurePath(url.database or '').name}"
    # A password with an @ in it that was not written %40 runs over into the host.
    host = (url.host or "").rpartition("@")[2]
    port = f":{url.port}" if url.port else ""
    return f"{backend}://{host}{port}/{url.database or ''}"


def redacted_url(text: str) -> str:
    """What may be told of a cohort's place, which may be a path, or a URL with a password."""
    try:
        return described(sa.make_url(text)) if "://" in text else text
    except (sa.exc.ArgumentError, ValueError):
        return text.partition("://")[0] + "://"


def redacted_message(error: Exception, url: sa.URL) -> str:
    """The first line of what a database says at the door, without what its URL keeps secret."""
    # Errors of values are told by their kind alone: they may repeat a patient's.
    original = getattr(error, "orig", None) or error
    kind = type(original).__name__
    if isinstance(error, sa.exc.DataError) or kind.startswith(
        ("Conversion", "OutOfRange", "InvalidInput")
    ):
        return f"a value of the table cannot be read as the query wants it ({kind})"
    line = next(iter(str(original).strip().splitlines()), kind)
    settings = [value for values in url.normalized_query.values() for value in values]
    for secret in filter(None, (url.password, *settings)):
        for form in (str(secret), quote(str(secret)), quote_plus(str(secret))):
            line = line.replace(form, "***")
    return line


def database_errors() -> tuple[type[Exception], ...]:
    try:
        import duckdb
    except ImportError:
        return (sa.exc.SQLAlchemyError,)
    return (sa.exc.SQLAlchemyError, duckdb.Error)


def open_database(database: Database) -> Source:
    """Ask a database once and keep its answer; UsageError where it cannot be reached or refuses the query."""
    url, query = read_url(database.url), None
    if database.query is not None:
        try:
            query = read_bounded(database.query, MOST_QUERY_BYTES, UsageError).decode(
                "utf-8-sig"
            )
        except UnicodeDecodeError:
            raise UsageError(f"{database.name}: a query is kept as UTF-8") from None
    try:
        part = (_of_duckdb if url.drivername == "duckdb" else _of_sql)(
            url, database, query
        )
    except database_errors() as error:
        raise UsageError(
            f"{database.name} of {described(url)}: {redacted_message(error, url)}"
        ) from None
    refuse_header(part)
    what = "table" if query is None else "the answer to"
    return Source(
        [part], [f"{database.name}: {what} {database.name} of {described(url)}"]
    )


class KeptAnswer(Part):
    """The answer of a database to a query, read like a file; `sha256` is that of its values, in their order.

    It lies under `TMPDIR` in a file without a name, block by block: their types may differ, as in SQLite.
    """

    def __init__(
        self,
        name: str,
        url: sa.URL,
        sql: str,
        header: list[str],
        blocks: Iterable[pa.RecordBatch],
    ):
        self.name, self.header = name, header
        sent = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()
        self.origin = {"place": described(url), "query_sha256": sent}
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._starts: list[int] = []
        digest = hashlib.sha256(repr(header).encode("utf-8", "surrogatepass"))
        self.rows: int = 0
        try:
            for block in blocks:
                self.rows += block.num_rows
                self._starts.append(self._file.tell())
                # Columns are found by their place: a name may occur twice until that is refused.
                numbered = block.rename_columns(
                    [str(place) for place in range(block.num_columns)]
                )
                with pa.ipc.new_stream(self._file, numbered.schema) as stream:
                    stream.write_batch(numbered)
                update_digest(digest, numbered)
        except database_errors() as error:
            # Without the database's words, which may hold values.
            kind = type(getattr(error, "orig", None) or error).__name__
            behind = f"stopped answering behind row {self.rows}"
            raise UsageError(f"{name}: the database {behind} ({kind})") from None
        self.bytes, self.sha256 = self._file.tell(), digest.hexdigest()

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        columns = [self.header.index(name) for name in wanted]
        for start in self._starts:
            self._file.seek(start)
            with pa.ipc.open_stream(self._file) as stream:
                yield stream.read_next_batch().select(columns)


def _of_sql(url: sa.URL, database: Database, query: str | None) -> KeptAnswer:
    """The answer in a transaction that may change nothing; it is rolled back at the end."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            quoted = connection.dialect.identifier_preparer.quote_identifier
            whole = partial(
                _whole, database.table, sa.inspect(connection).has_table, quoted
            )
            sql = _read_only(
                connection, whole() if query is None else query, database.name
            )
            streaming = connection.execution_options(
                stream_results=True, no_parameters=True
            )
            with closing(streaming.exec_driver_sql(sql)) as result:
                if result.cursor is None or result.cursor.description is None:
                    raise UsageError(
                        f"{database.name}: the query gives no rows; a query is a single SELECT"
                    )
                header = [str(column[0]) for column in result.cursor.description]
                names = [str(place) for place in range(len(header))]
                blocks = (
                    pa.record_batch(
                        [_arrow_of(cells) for cells in zip(*rows, strict=True)], names
                    )
                    for rows in result.partitions(_block_rows(len(header)))
                )
                return KeptAnswer(database.name, url, sql, header, blocks)
    finally:
        engine.dispose()


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        place = f"sqlite:///file:{quote(str(_there(url).absolute()))}?mode=ro&uri=true"
        return sa.create_engine(place, connect_args={"timeout": WAIT_SECONDS})
    return engine_of(
        url,
        {"connect_timeout": WAIT_SECONDS}
        if url.get_backend_name() == "postgresql"
        else {},
    )


def engine_of(url: sa.URL, settings: dict[str, Any]) -> sa.Engine:
    """What connects with these settings of the driver; UsageError where the driver is not installed."""
    try:
        return sa.create_engine(url, connect_args=settings, hide_parameters=True)
    except ModuleNotFoundError as error:
        remedy = (
            ' (pip install "screening[postgres]")' if error.name == "psycopg" else ""
        )
        raise UsageError(
            f"{url.drivername} needs the Python package {error.name}{remedy}"
        ) from None
    except sa.exc.NoSuchModuleError:
        raise UsageError(
            f"SQLAlchemy knows no database called {url.drivername}"
        ) from None


def _there(url: sa.URL) -> Path:
    """The file that a database is kept in; UsageError where there is none."""
    path = Path(str(url.database))
    if not path.is_file():
        raise UsageError(f"there is no database file {path}")
    return path


def _read_only(connection: sa.Connection, sql: str, name: str) -> str:
    """Let the database refuse what changes anything, and else roll it back; the query as it is sent."""
    # The drivers of PostgreSQL and SQLite take one statement; to others no semicolon is sent.
    backend, driver = connection.dialect.name, connection.connection.driver_connection
    if backend == "postgresql":
        connection.rollback()
        connection.execution_options(postgresql_readonly=True)
        # Large tables would else be read from wherever another reader is just now.
        connection.exec_driver_sql("SET LOCAL synchronize_seqscans = off")
    elif isinstance(driver, sqlite3.Connection):
        driver.set_authorizer(
            lambda action, *_: (
                sqlite3.SQLITE_OK if action in SQLITE_READS else sqlite3.SQLITE_DENY
            )
        )
    else:
        sql = sql.strip().removesuffix(";")
        if ";" in sql or [*sql.lower().split(), ""][0] not in ("select", "with"):
            raise UsageError(
                f"{name}: a query of {backend} begins with SELECT or WITH, without a semicolon"
            )
    return sql


def _whole(
    table: str | None,
    has: Callable[[str, str | None], bool],
    quoted: Callable[[str], str],
) -> str:
    """Return the query for a whole table; what is before a dot is its schema unless a table has that name."""
    schema, _, name = str(table).rpartition(".")
    for within, called in ((None, str(table)), (schema, name)):
        if within != "" and has(called, within):
            return f"SELECT * FROM {'.'.join(quoted(part) for part in (within, called) if part)}"
    raise UsageError(
        f"the database has no table or view {table} that this user may see"
    )


def _block_rows(n_columns: int) -> int:
    return max(1, min(MOST_BLOCK_ROWS, BLOCK_CELLS // max(n_columns, 1)))


def _arrow_of(cells: Sequence[object]) -> pa.Array:
    """Values of one column in the type that they share; those of several kinds, as in SQLite, as texts."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= TYPED):
        try:
            return pa.array(cells)
        except (pa.ArrowInvalid, OverflowError):
            # NaN, infinity, or more digits than Arrow's decimals have; whole numbers too large become texts.
            if kinds == {decimal.Decimal}:
                return pa.array(
                    [None if cell is None else float(str(cell)) for cell in cells]
                )
    # Arrays and bytes are kept without content, which the contract's reader refuses.
    if not kinds & PLAIN:
        return pa.array([None if cell is None else b"" for cell in cells], pa.binary())
    single = {*PLAIN, type(None)}
    texts = (
        str(cell) if type(cell) in single else "(no single value)" for cell in cells
    )
    # Half a character cannot be kept as UTF-8, and is told by its number.
    encodable = (text.encode("utf-8", "backslashreplace").decode() for text in texts)
    return pa.array(
        encodable, pa.string(), mask=np.array([cell is None for cell in cells])
    )


# DuckDB's names of the method that streams an answer: from 1.5, 1.4 and 1.3 on.
_ARROW_READERS = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader")


def _of_duckdb(url: sa.URL, database: Database, query: str | None) -> KeptAnswer:
    """The answer to one SELECT, as DuckDB's own parser reads it."""
    with duckdb_opened(url, read_only=True) as connection:
        whole = partial(
            _whole, database.table, partial(duckdb_has, connection), duckdb_quoted
        )
        sql = whole() if query is None else query
        kinds = [
            statement.type.name for statement in connection.extract_statements(sql)
        ]
        if kinds != ["SELECT"]:
            stated = ", ".join(kinds) or "none"
            raise UsageError(
                f"{database.name}: a query is a single SELECT; its statements are: {stated}"
            )
        relation = connection.sql(sql)
        name = next(name for name in _ARROW_READERS if name in dir(relation))
        reader = getattr(relation, name)(_block_rows(len(relation.columns)))
        return KeptAnswer(database.name, url, sql, list(relation.columns), reader)


@contextmanager
def duckdb_opened(
    url: sa.URL, *, read_only: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the DuckDB file of a URL (extra `duckdb`)."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise UsageError(
            'a DuckDB file needs DuckDB: pip install "screening[duckdb]"'
        ) from None
    path = _there(url) if read_only else Path(str(url.database))
    try:
        connection = duckdb.connect(
            str(path), read_only=read_only, config=READING if read_only else WRITING
        )
    except duckdb.Error as error:
        held = "lock" in str(error).lower()
        why = (
            "another program has it open for writing"
            if held
            else "it is damaged, or no DuckDB file"
        )
        raise UsageError(f"{path.name} cannot be opened: {why}") from None
    with connection:
        yield connection


def duckdb_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def duckdb_has(
    connection: duckdb.DuckDBPyConnection, name: str, schema: str | None
) -> bool:
    """Whether there is such a table or view, in any schema or in that one."""
    query = "SELECT count(*) FROM information_schema.tables WHERE table_name = ? AND ? IN (table_schema, '')"
    return connection.execute(query, [name, schema or ""]).fetchall() != [(0,)]
