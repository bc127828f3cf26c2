"""Which table or query of which database a cohort is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from screening.errors import UsageError


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
