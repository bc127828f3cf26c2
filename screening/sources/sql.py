"""A table or query of a database as a cohort: read-only, in blocks, with the types that the database gives.

Rows come through SQLAlchemy's server-side cursor (`stream_results`), the one way that streams for every
database it knows; DuckDB streams Arrow by itself. What the database answers is kept in a private file: asked
again, it may answer with other rows, or in another order, unless one transaction is kept open on it all the
while, which hospitals' databases suffer from.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import os
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import CohortError, UsageError
from screening.files import read_bounded
from screening.sources import duckdb_rows
from screening.sources.csv_files import MOST_COLUMNS
from screening.sources.database import Database, described, read_url, safe_words
from screening.sources.duckdb_rows import Answer, block_rows
from screening.sources.readers import Batches, Part, Source, header_faults

MOST_QUERY_BYTES = 1 << 20
WAIT_SECONDS = 30
# Whose transactions are told to change nothing by a statement; SQLAlchemy tells PostgreSQL.
READ_ONLY = ("mysql", "mariadb", "oracle")
# What SQLite's own parser may find in a query: no PRAGMA, no ATTACH (VACUUM INTO is one), no change.
SQLITE_READS = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)
INT64 = range(-(1 << 63), 1 << 63)
PLAIN = {str, int, float, bool, decimal.Decimal, uuid.UUID, datetime.date, datetime.datetime}
DATES = {datetime.date}, {datetime.datetime}, {datetime.time}


def open_database(database: Database) -> Source:
    """Ask a database once, and keep its answer.

    Raises UsageError: it cannot be reached or went away, has no such table, or refuses the query because that
    does not only read; CohortError: columns without or with the same names.
    """
    url = read_url(database.url)
    query = None
    if database.query is not None:
        try:
            query = read_bounded(database.query, MOST_QUERY_BYTES, UsageError).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{database.name}: a query is kept as UTF-8") from None
        if not query.strip():
            raise UsageError(f"{database.name}: the file is empty; a query is a single SELECT")
    answers = duckdb_rows.answer if url.drivername == "duckdb" else _answer
    place = described(url)
    with _without_secrets(url, place, database), answers(url, database, query) as answer:
        if len(answer.header) > MOST_COLUMNS:
            raise CohortError(f"{database.name}: {len(answer.header)} columns, more than {MOST_COLUMNS}")
        digest = hashlib.sha256(answer.query.encode("utf-8", "surrogatepass")).hexdigest()
        origin = {"place": place, "query_sha256": digest}
        kept = KeptAnswer(database.name, answer.header, _rows_of(answer, database.name), origin)
    faults = header_faults(kept)
    if faults:
        raise CohortError(faults)
    what = "the answer to" if query else "table"
    return Source([kept], [f"{database.name}: {what} {database.name} of {place}, {answer.how}"])


def database_errors() -> tuple[type[Exception], ...]:
    """What SQLAlchemy and DuckDB raise."""
    return (sa.exc.SQLAlchemyError, *duckdb_rows.errors())


class PrivateFile:
    """Keeps batches of rows in a file under `TMPDIR` that nobody else can open; `bytes` is its size."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self.bytes = 0

    def put(self, rows: pa.RecordBatch) -> int:
        """Put rows away; returns the place that `get` has them from."""
        place = self._file.seek(0, os.SEEK_END)
        with pa.ipc.new_stream(self._file, rows.schema) as stream:
            stream.write_batch(rows)
        self.bytes = self._file.tell()
        return place

    def get(self, place: int) -> pa.RecordBatch:
        """The rows that were put there."""
        self._file.seek(place)
        with pa.ipc.open_stream(self._file) as stream:
            return stream.read_next_batch()


class KeptAnswer(Part):
    """The answer of a database, read like a file; `sha256` is that of its values, in their order.

    `name`: what errors call it; `blocks`: the rows; types may differ from block to block, as those of SQLite
    do; `origin`: what is stated of it beside its digest.
    """

    def __init__(
        self, name: str, header: Sequence[str], blocks: Iterable[pa.RecordBatch], origin: Mapping[str, str]
    ):
        self.name, self.header, self.origin = name, list(header), origin
        self._file = PrivateFile()
        self._places: list[int] = []
        self.rows: int | None = 0
        digest = hashlib.sha256(repr(self.header).encode("utf-8", "surrogatepass"))
        n_rows = 0
        for block in blocks:
            # Columns are found by their place: a name may occur twice until that is refused.
            numbered = block.rename_columns([str(place) for place in range(block.num_columns)])
            self._places.append(self._file.put(numbered))
            _fold(digest, numbered)
            n_rows += block.num_rows
        self.rows, self.bytes, self.sha256 = n_rows, self._file.bytes, digest.hexdigest()

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order."""
        places = [self.header.index(name) for name in wanted]
        for stored in self._places:
            yield self._file.get(stored).select(places)


def _fold(digest: hashlib._Hash, block: pa.RecordBatch) -> None:
    """Add a block's values to a digest: what lies in memory where a value is missing must not count."""
    for cells in block.columns:
        digest.update(cells.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))
        present = cells.drop_null()
        # The bits behind the last one of a boolean column are nobody's.
        present = present.cast(pa.uint8()) if pa.types.is_boolean(cells.type) else present
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("", present.type)])) as stream:
            stream.write_batch(pa.record_batch([present], [""]))
        digest.update(sink.getvalue())


@contextmanager
def _without_secrets(url: sa.URL, place: str, database: Database) -> Iterator[None]:
    """Say what a database refused, without its password."""
    try:
        yield
    except database_errors() as error:
        raise UsageError(f"{database.name} of {place}: {safe_words(error, url)}") from None


def _rows_of(answer: Answer, name: str) -> Iterator[pa.RecordBatch]:
    """The rows; what goes wrong meanwhile is told without the database's words, which may hold values."""
    done = 0
    try:
        for block in answer.blocks:
            done += block.num_rows
            yield block
    except database_errors() as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        raise UsageError(
            f"{name}: the database stopped answering behind row {done} ({kind}); nothing was kept"
        ) from None


@contextmanager
def _answer(url: sa.URL, database: Database, query: str | None) -> Iterator[Answer]:
    """Ask for a table or a query in a transaction that may change nothing; it is rolled back at the end."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            sql = query or f"SELECT * FROM {_quoted(connection, str(database.table))}"
            sql, how = _read_only(connection, sql, database.name)
            asked = connection.execution_options(stream_results=True, no_parameters=True)
            result = asked.exec_driver_sql(sql)
            if result.cursor is None or result.cursor.description is None:
                raise UsageError(f"{database.name}: the query gives no rows; a query is a single SELECT")
            header = [str(column[0]) for column in result.cursor.description]
            try:
                yield Answer(sql, header, _blocks(result, header), how)
            finally:
                result.close()
                connection.rollback()
    finally:
        engine.dispose()


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        if not path.is_file():
            raise UsageError(f"there is no database file {path}")
        place = f"file:{quote(str(path.absolute()))}?mode=ro"
        return sa.create_engine(f"sqlite:///{place}&uri=true", connect_args={"timeout": WAIT_SECONDS})
    try:
        patience = {"connect_timeout": WAIT_SECONDS} if url.get_backend_name() == "postgresql" else {}
        return sa.create_engine(url, connect_args=patience, hide_parameters=True)
    except ModuleNotFoundError as error:
        remedy = ' (pip install "screening[postgres]")' if error.name == "psycopg" else ""
        raise UsageError(
            f"{url.drivername} needs the Python package {error.name}, which is not installed{remedy}"
        ) from None
    except sa.exc.NoSuchModuleError:
        raise UsageError(
            f"SQLAlchemy knows no database called {url.drivername}; is a driver missing?"
        ) from None


def _read_only(connection: sa.Connection, sql: str, name: str) -> tuple[str, str]:
    """Let the database refuse what changes anything; the query as it is sent, and how it is read.

    PostgreSQL's cursor takes one statement, and SQLite's driver too. Where the driver may take several, no
    semicolon is sent.
    """
    backend = connection.dialect.name
    if backend == "postgresql":
        connection.rollback()
        connection.execution_options(postgresql_readonly=True)
        # Large tables would else be read from wherever another reader is just now.
        connection.exec_driver_sql("SET LOCAL synchronize_seqscans = off")
        return sql, "read-only"
    if backend == "sqlite":
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_authorizer(_sqlite_reads)
        return sql, "read-only"
    bare = sql.strip().removesuffix(";")
    if ";" in bare or [*bare.lower().split(), ""][0] not in ("select", "with"):
        raise UsageError(
            f"{name}: a query of {backend} begins with SELECT or WITH, and holds no semicolon but at its end"
        )
    if backend not in READ_ONLY:
        return bare, "in a transaction that was rolled back"
    connection.rollback()
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    return bare, "read-only"


def _sqlite_reads(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in SQLITE_READS else sqlite3.SQLITE_DENY


def _quoted(connection: sa.Connection, table: str) -> str:
    """The table as the database writes it; `schema.name` where no table has the whole name."""
    inspector = sa.inspect(connection)
    schema, _, name = table.rpartition(".")
    quoted = connection.dialect.identifier_preparer.quote_identifier
    if inspector.has_table(table):
        return str(quoted(table))
    if schema and inspector.has_table(name, schema=schema):
        return f"{quoted(schema)}.{quoted(name)}"
    raise UsageError(f"the database has no table or view {table} that this user may see")


def _blocks(result: sa.CursorResult, header: Sequence[str]) -> Iterator[pa.RecordBatch]:
    names = [str(place) for place in range(len(header))]
    for rows in result.partitions(block_rows(len(header))):
        columns = [arrow_of(cells) for cells in zip(*rows, strict=True)]
        yield pa.record_batch(columns, names)


def arrow_of(cells: Sequence[object]) -> pa.Array:
    """Values of one column, as a driver gives them, in the type that they share.

    Values of several kinds, which SQLite may hold in one column, become texts. A column of what is no single
    value (arrays, bytes) is kept as bytes without content, which the contract's reader refuses.
    """
    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds or kinds == {bool}:
        return pa.array(cells, pa.bool_() if kinds else pa.null())
    if kinds == {int} and all(cell is None or cell in INT64 for cell in cells):
        return pa.array(cells, pa.int64())
    if kinds <= {int, float} and float in kinds:
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())  # type: ignore[arg-type]
    if kinds == {decimal.Decimal}:
        return _decimals(cells)
    if kinds in DATES:
        return pa.array(cells)
    if kinds & PLAIN:
        return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
    return pa.array([None if cell is None else b"" for cell in cells], pa.binary())


def _decimals(cells: Sequence[object]) -> pa.Array:
    try:
        return pa.array(cells)
    except pa.ArrowInvalid:
        # NaN, infinity, or more digits than Arrow's decimals have.
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())  # type: ignore[arg-type]


def _text(cell: object) -> str:
    if type(cell) not in PLAIN:
        return "(no single value)"
    # Half a character cannot be kept as UTF-8, and is told by its number.
    return str(cell).encode("utf-8", "backslashreplace").decode()
