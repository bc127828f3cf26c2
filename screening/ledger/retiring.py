"""Closing a series: its nights stay, and nobody waits for another one."""

from __future__ import annotations

import sqlalchemy as sa

from screening.documents.series import shown_series
from screening.documents.tables import word
from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.asking import said
from screening.ledger.audit import Head
from screening.ledger.book import Ledger
from screening.ledger.champions import find_series
from screening.ledger.tables import RUNS


def retire(ledger: Ledger, series: str, reason: str) -> Head:
    """Enter that no further night of a series is to be waited for; a later night takes it back.

    Raises
    ------
    UsageError
        No reason is given, there is no such series, or it is closed already.
    """
    why = audit.reason_of(reason)
    with ledger.writing() as connection:
        found = find_series(connection, series)
        if found in retired(connection):
            raise UsageError(f"series {shown_series(found)} is closed already")
        closed = {"series": found, "reason": why, "last": _last(connection, found)}
        return audit.append(connection, ledger.clock(), "retire", closed)


def retired(connection: sa.Connection) -> dict[str, dict[str, object]]:
    """The series that are closed: what was said of each when it was, and when that was `recorded`."""
    told = {word(each, "series"): each for each in said(connection, "retire")}
    # A night after the one that was the last takes it back; a back-fill is none.
    return {name: each for name, each in told.items() if _last(connection, name) <= word(each, "last")}


def _last(connection: sa.Connection, series: str) -> str:
    mine = (RUNS.c.series == series) & RUNS.c.published & ~RUNS.c.shadow
    return connection.scalar(sa.select(sa.func.max(RUNS.c.night)).where(mine)) or ""
