"""The same table in every database that is at hand."""

from pathlib import Path

import pandas as pd
import sqlalchemy as sa


def in_sqlite(table: pd.DataFrame, folder: Path, name: str = "past") -> str:
    """Write a table into `folder`/ward.db; return the URL."""
    url = f"sqlite:///{folder / 'ward.db'}"
    in_database(table, url, name)
    return url


def in_duckdb(table: pd.DataFrame, folder: Path, name: str = "past") -> str:
    """Write a table into `folder`/ward.duckdb; return the URL."""
    import duckdb

    with duckdb.connect(str(folder / "ward.duckdb")) as connection:
        connection.register("rows_to_keep", table)
        connection.sql(f'CREATE TABLE "{name}" AS SELECT * FROM rows_to_keep')
    return f"duckdb:///{folder / 'ward.duckdb'}"


def in_database(table: pd.DataFrame, url: str, name: str = "past") -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        table.to_sql(name, connection, index=False)
    engine.dispose()


def said_to(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)
    engine.dispose()
