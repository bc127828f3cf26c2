"""Export the flagged rows into a table of a database, whole or not at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.io.connections import (
    database_errors,
    described,
    duckdb_has,
    duckdb_opened,
    duckdb_quoted,
    engine_of,
    read_url,
    redacted_message,
)
from screening.scoring.exporting import FlaggedRows

BATCH_ROWS = 5_000
SQL_TYPES = {
    pa.string(): sa.Text,
    pa.int64(): sa.BigInteger,
    pa.float64(): sa.Double,
    pa.bool_(): sa.Boolean,
}


def write(flagged: FlaggedRows, *, url: str, table: str, force: bool = False) -> str:
    """Create a table of the flagged rows in one transaction.

    Returns the place without its password. UsageError if the database refuses, or if
    the table exists and `force` is False.
    """
    address = read_url(url)
    write_into = _into_duckdb if address.drivername == "duckdb" else _into_sql
    try:
        write_into(flagged.table(), address, table, force)
    except database_errors() as error:
        raise UsageError(
            f"{described(address)}: {redacted_message(error, address)}; nothing was"
            " written"
        ) from None
    return f"{described(address)} table {table}"


def _into_sql(rows: pa.Table, url: sa.URL, name: str, force: bool) -> None:
    """Create the table by SQLAlchemy."""
    schema, _, bare = name.rpartition(".")
    columns: list[sa.Column[object]] = [
        sa.Column(field.name, SQL_TYPES[field.type]) for field in rows.schema
    ]
    table = sa.Table(bare, sa.MetaData(), *columns, schema=schema or None)
    arguments: dict[str, Any] = {}
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite:
        # By default the driver begins a transaction late: after an error, a table that
        # was dropped would stay dropped.
        arguments["isolation_level"] = None
    engine = engine_of(url, arguments)
    if is_sqlite:
        sa.event.listen(engine, "begin", _begin_immediate)
    try:
        with engine.begin() as connection:
            if sa.inspect(connection).has_table(bare, schema=schema or None):
                _refuse(name, force)
                table.drop(connection)
            table.create(connection)
            for batch in rows.to_batches(BATCH_ROWS):
                connection.execute(table.insert(), batch.to_pylist())
    finally:
        engine.dispose()


def _begin_immediate(connection: sa.Connection) -> None:
    """Begin a transaction that writes."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _into_duckdb(rows: pa.Table, url: sa.URL, name: str, force: bool) -> None:
    """Create the table by DuckDB."""
    schema, _, bare = name.rpartition(".")
    table = ".".join(duckdb_quoted(part) for part in (schema, bare) if part)
    with duckdb_opened(url, read_only=False) as connection:
        connection.begin()
        if duckdb_has(connection, bare, schema):
            _refuse(name, force)
            connection.execute(f"DROP TABLE {table}")
        connection.register("rows_to_export", rows)
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM rows_to_export")
        connection.commit()


def _refuse(name: str, force: bool) -> None:
    """Raise UsageError for a table that exists, unless it may be replaced."""
    if not force:
        raise UsageError(
            f"table {name} already exists; give another `table`, or `force` to "
            "replace it",
            parameters=["table", "force"],
        )
