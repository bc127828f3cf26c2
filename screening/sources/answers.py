"""A table or query of a database as a cohort: read-only, in blocks, with the types that the database gives.

Rows come through SQLAlchemy's server-side cursor (`stream_results`), the one way that streams for every
database it knows; connectorx and pandas hold the whole answer, and ADBC knows three databases. DuckDB streams
Arrow by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from screening.errors import CohortError, UsageError
from screening.files import read_bounded
from screening.sources import duckdb_rows, sql_rows
from screening.sources.csv_text import MOST_COLUMNS
from screening.sources.database import Database
from screening.sources.parts import header_faults
from screening.sources.select import single_select
from screening.sources.source_files import Source
from screening.sources.spool import Answer, Spool
from screening.sources.urls import described, read_url, safe_words

MOST_QUERY_BYTES = 1 << 20


def open_database(database: Database) -> Source:
    """Ask a database once, and keep its answer.

    Raises
    ------
    UsageError
        It cannot be reached or went away, has no such table, or the query is no single SELECT.
    CohortError
        Columns without or with the same names.
    """
    url = read_url(database.url)
    query = None
    if database.query is not None:
        name = Path(database.query).name
        try:
            query = read_bounded(database.query, MOST_QUERY_BYTES, UsageError).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{name}: a query is kept as UTF-8") from None
        query = single_select(query, name)
    rows = duckdb_rows.answer if url.drivername == "duckdb" else sql_rows.answer
    place = described(url)
    with _told(url, place), rows(url, database.table, query) as answer:
        if len(answer.header) > MOST_COLUMNS:
            raise CohortError(f"{database.name}: {len(answer.header)} columns, more than {MOST_COLUMNS}")
        digest = hashlib.sha256(answer.query.encode("utf-8", "surrogatepass")).hexdigest()
        origin = {"place": place, "query_sha256": digest}
        spool = Spool(database.name, answer.header, _rows_told(answer, database.name), origin)
    faults = header_faults(spool)
    if faults:
        raise CohortError(faults)
    what = "the answer to" if query else "table"
    return Source([spool], [f"{database.name}: {what} {database.name} of {place}, {answer.how}"])


def database_errors() -> tuple[type[Exception], ...]:
    """What SQLAlchemy and DuckDB raise."""
    return (sa.exc.SQLAlchemyError, *duckdb_rows.errors())


@contextmanager
def _told(url: sa.URL, place: str) -> Iterator[None]:
    """Say what a database refused, without its password."""
    try:
        yield
    except database_errors() as error:
        raise UsageError(f"{place}: {safe_words(error, url)}") from None


def _rows_told(answer: Answer, name: str) -> Iterator[pa.RecordBatch]:
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
