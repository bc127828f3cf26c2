"""What a database is asked for: a table or a query, of a night."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from screening.errors import UsageError
from screening.files import read_bounded

# The night in a query. It is bound as a date and never written into the text.
NIGHT = re.compile(r"(?<![:\w\\]):night\b|'\{date\}'|\{date\}")
MAX_QUERY_BYTES = 1 << 20


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
        """Name of the table, or of the query's file."""
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
        return NIGHT.search(read_query(self.query, self.name)) is not None


def read_query(file: str | Path, name: str) -> str:
    """Read the text of a file with a query."""
    try:
        return read_bounded(file, MAX_QUERY_BYTES, UsageError).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: the query is not UTF-8; save it as UTF-8") from None
