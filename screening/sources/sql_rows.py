"""Rows of any database that SQLAlchemy knows, in Arrow's types."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.sources.spool import Answer, block_rows

WAIT_SECONDS = 30
# Whose transactions are told to change nothing by a statement; SQLAlchemy tells PostgreSQL, SQLite's file is
# opened so.
READ_ONLY = ("mysql", "mariadb", "oracle")
INT64 = range(-(1 << 63), 1 << 63)
PLAIN = {str, int, float, bool, decimal.Decimal, uuid.UUID, datetime.date, datetime.datetime}
DATES = {datetime.date}, {datetime.datetime}, {datetime.time}


@contextmanager
def answer(url: sa.URL, table: str | None, query: str | None) -> Iterator[Answer]:
    """Ask for a table or a query in a transaction that may change nothing; it is rolled back at the end."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            how = _read_only(connection)
            sql = query or f"SELECT * FROM {_quoted(connection, str(table))}"
            asked = connection.execution_options(stream_results=True, no_parameters=True)
            result = asked.exec_driver_sql(sql)
            if result.cursor is None:
                raise UsageError("the query gives no rows; it must be a SELECT")
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


def _read_only(connection: sa.Connection) -> str:
    """Begin a transaction that may change nothing, where the database has such; say which it is."""
    backend = connection.dialect.name
    if backend == "postgresql":
        connection.execution_options(postgresql_readonly=True)
        # Large tables would else be read from wherever another reader is just now.
        connection.exec_driver_sql("SET LOCAL synchronize_seqscans = off")
    elif backend == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    elif backend in READ_ONLY:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    else:
        return "in a transaction that was rolled back"
    return "read-only"


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
