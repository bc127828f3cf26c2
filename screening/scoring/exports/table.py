"""The flagged rows into a table of a database, whole or not at all."""

from __future__ import annotations

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import UsageError
from screening.io.database import (
    database_errors,
    described,
    duckdb_has,
    duckdb_opened,
    duckdb_quoted,
    engine_of,
    read_url,
    redacted_message,
)
from screening.scoring.rows import FlaggedRows

ROWS_AT_A_TIME = 5_000
SQL_TYPES = {
    pa.string(): sa.Text,
    pa.int64(): sa.BigInteger,
    pa.float64(): sa.Double,
    pa.bool_(): sa.Boolean,
}


def write(flagged: FlaggedRows, *, url: str, table: str, force: bool = False) -> str:
    """Make a table of the flagged rows in one transaction; return the place without its secrets."""
    place = read_url(url)
    into = _into_duckdb if place.drivername == "duckdb" else _into_sql
    try:
        into(flagged.table(), place, table, force)
    except database_errors() as error:
        raise UsageError(
            f"{described(place)}: {redacted_message(error, place)}; nothing was written"
        ) from None
    return f"{described(place)} table {table}"


def _into_sql(rows: pa.Table, url: sa.URL, name: str, force: bool) -> None:
    schema, _, bare = name.rpartition(".")
    columns: list[sa.Column[object]] = [
        sa.Column(field.name, SQL_TYPES[field.type]) for field in rows.schema
    ]
    table = sa.Table(bare, sa.MetaData(), *columns, schema=schema or None)
    sqlite = url.get_backend_name() == "sqlite"
    # The driver begins late by itself, and a table dropped before would stay dropped.
    engine = engine_of(url, {"isolation_level": None} if sqlite else {})
    if sqlite:
        sa.event.listen(
            engine, "begin", lambda opened: opened.exec_driver_sql("BEGIN IMMEDIATE")
        )
    try:
        with engine.begin() as connection:
            if sa.inspect(connection).has_table(bare, schema=schema or None):
                _refuse(name, force)
                table.drop(connection)
            table.create(connection)
            for piece in rows.to_batches(ROWS_AT_A_TIME):
                connection.execute(table.insert(), piece.to_pylist())
    finally:
        engine.dispose()


def _into_duckdb(rows: pa.Table, url: sa.URL, name: str, force: bool) -> None:
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
    if not force:
        raise UsageError(
            f"there is a table {name} already; give another --table, or --force to replace it"
        )
