"""Closing a series: its nights stay, and nobody waits for another one."""

from __future__ import annotations

import json

import sqlalchemy as sa

from screening.documents.series import shown_series
from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.audit import Head
from screening.ledger.book import Ledger
from screening.ledger.champions import find_series
from screening.ledger.tables import AUDIT, CONTENTS, RUNS


def retire(ledger: Ledger, series: str, reason: str) -> Head:
    """Enter that no further night of a series is to be waited for; a later night takes it back.

    Raises
    ------
    UsageError
        No reason is given, there is no such series, or it is closed already.
    """
    if not reason.strip():
        raise UsageError("--reason: say why in a few words; the trail keeps them")
    with ledger.writing() as connection:
        found = find_series(connection, series)
        if found in retired(connection):
            raise UsageError(f"series {shown_series(found)} is closed already")
        said = {"series": found, "reason": reason.strip(), "last": _last(connection, found)}
        return audit.append(connection, ledger.clock(), "retire", said)


def retired(connection: sa.Connection) -> dict[str, dict[str, object]]:
    """The series that are closed: what was said of each when it was, and when that was `recorded`."""
    chosen = sa.select(AUDIT.c.number, AUDIT.c.recorded, CONTENTS.c.body)
    chosen = chosen.join(CONTENTS, CONTENTS.c.entry == AUDIT.c.number).order_by(AUDIT.c.number)
    said = {}
    for row in connection.execute(chosen.where(AUDIT.c.action == "retire")):
        told = json.loads(row.body)
        said[told["series"]] = told | {"recorded": row.recorded}
    return {name: told for name, told in said.items() if not _later(connection, name, told["last"])}


def _last(connection: sa.Connection, series: str) -> str:
    mine = (RUNS.c.series == series) & RUNS.c.published & ~RUNS.c.shadow
    return connection.scalar(sa.select(sa.func.max(RUNS.c.night)).where(mine)) or ""


def _later(connection: sa.Connection, series: str, night: str) -> bool:
    """Whether a night came after the one that was the last; a back-fill is none."""
    return _last(connection, series) > night
