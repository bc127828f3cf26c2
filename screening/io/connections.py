"""Connections to databases: their URLs, drivers and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import sqlalchemy as sa

from screening.errors import UsageError

if TYPE_CHECKING:
    import duckdb

# Databases in a file; messages show only its name, as for other files.
IN_FILES = ("sqlite", "duckdb")
DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mssql": "mssql+pyodbc",
    "oracle": "oracle+oracledb",
}
# The extra that installs a driver, by the driver's package.
EXTRAS = {"psycopg": "postgres", "pyodbc": "mssql", "oracledb": "oracle"}
WAIT_SECONDS = 30
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


def read_url(text: str) -> sa.URL:
    """Read the URL of a database.

    Raises
    ------
    UsageError
        It is not such a URL. The message does not repeat it: it may contain a password.
    """
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            "the database's URL cannot be read; write dialect://user@host/database"
        ) from None
    if url.get_backend_name() in IN_FILES and url.database in (None, "", ":memory:"):
        raise UsageError(
            f"an in-memory database is empty; give a file: {url.drivername}:///FILE"
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

    Errors of values are shown by kind only: they may repeat a patient's value.
    """
    original = getattr(error, "orig", None) or error
    kind = type(original).__name__
    is_of_value = kind.startswith(("Conversion", "OutOfRange", "InvalidInput"))
    if is_of_value or isinstance(error, sa.exc.DataError):
        return "a value in the table cannot be converted as the query requires "
        f"({kind})"
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


def read_only_engine(url: sa.URL) -> sa.Engine:
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
        raise UsageError(f"SQLAlchemy does not support {url.drivername}") from None


def _existing_file(url: sa.URL) -> Path:
    """Return the file of a database; raise UsageError if it does not exist."""
    path = Path(str(url.database))
    if not path.is_file():
        raise UsageError(f"the database file {path} does not exist")
    return path


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
            why = "it is damaged, or not a DuckDB file"
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
