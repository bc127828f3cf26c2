"""Which table or query of which database a cohort is, and its URL: read, and told without what is secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePath
from urllib.parse import quote, quote_plus

import sqlalchemy as sa

from screening.errors import UsageError

# Kept in a file: its name is told, as that of other files is, and not where it lies.
IN_FILES = ("sqlite", "duckdb")
DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


@dataclass(frozen=True)
class Database:
    """A table or query of a database: give it wherever a cohort is read.

    It is asked once, read-only, and its rows come in blocks.

    Parameters
    ----------
    url : str
        Any SQLAlchemy URL, or `duckdb:///file.db`. A password in it is told nowhere.
    table : str, optional
        Table or view, `schema.name` where it lies in a schema.
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
        """The table, or the file of the query."""
        return self.table or Path(self.query or "").name


def read_url(text: str) -> sa.URL:
    """A database's URL.

    Raises UsageError: it is none; it is not repeated, because a password may stand anywhere in it.
    """
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            "the database's URL cannot be read; write dialect://user@host/database, duckdb:///FILE or "
            "sqlite:///FILE"
        ) from None
    if url.get_backend_name() in IN_FILES and url.database in (None, "", ":memory:"):
        raise UsageError(
            f"a database in memory holds nothing; give the path of a file: {url.drivername}:///FILE"
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


def shown(text: str) -> str:
    """What may be told of a cohort's place, which may be a path, or a URL with a password."""
    if "://" not in text:
        return text
    try:
        return described(sa.make_url(text))
    except (sa.exc.ArgumentError, ValueError):
        return text.partition("://")[0] + "://"


def safe_words(error: Exception, url: sa.URL) -> str:
    """The first line of what a database says at the door, without anything that its URL keeps secret.

    Errors of values (a text that is no number) are told by their kind alone: they may repeat a patient's.
    """
    original = getattr(error, "orig", None) or error
    kind = type(original).__name__
    if isinstance(error, sa.exc.DataError) or kind.startswith(("Conversion", "OutOfRange", "InvalidInput")):
        return f"a value of the table cannot be read as the query wants it ({kind})"
    line = next(iter(str(original).strip().splitlines()), kind)
    settings = [
        value for values in url.query.values() for value in ([values] if isinstance(values, str) else values)
    ]
    for secret in filter(None, (url.password, *settings)):
        for form in (str(secret), quote(str(secret)), quote_plus(str(secret))):
            line = line.replace(form, "***")
    return line
