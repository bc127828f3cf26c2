"""What reviewers said of the cases of a night, and who changed a threshold and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.audit import Head
from screening.ledger.book import Ledger
from screening.ledger.tables import AUDIT, CASES, REVIEWS, RUNS

HAS_IT = ("confirmed", "known")
"""Verdicts that say the condition is there."""


@dataclass(frozen=True)
class Verdict:
    """One reviewer's word on one case.

    Parameters
    ----------
    case_id : str
        Id of the row, or of the group where rows come in groups.
    verdict : {"confirmed", "not", "unsure", "known"}
    site, initials, note : str
    """

    case_id: str
    verdict: str
    site: str = ""
    initials: str = ""
    note: str = ""


def reviewable(ledger: Ledger, key: str) -> dict[str, bool]:
    """Ids of a run on which a verdict may be given, and whether each was flagged or drawn at random.

    Raises
    ------
    UsageError
        The ledger has no such run.
    """
    with ledger.reading() as connection:
        _series_and_night(connection, key)
        found = connection.execute(sa.select(CASES.c.case_id, CASES.c.state).where(CASES.c.key == key))
        return {row.case_id: row.state is not None for row in found}


def record_verdicts(ledger: Ledger, key: str, verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Enter verdicts on a run; the same one twice is one, and a later word replaces an earlier.

    Returns
    -------
    dict
        How many were new, changed and unchanged.

    Raises
    ------
    UsageError
        The ledger has no such run.
    """
    told = {"new": 0, "changed": 0, "unchanged": 0}
    with ledger.writing() as connection:
        series, night = _series_and_night(connection, key)
        flagged = {
            row.case_id: row.state is not None
            for row in connection.execute(sa.select(CASES).where(CASES.c.key == key))
        }
        for verdict in verdicts:
            said = {"key": key, "series": series, "night": night, "flagged": flagged[verdict.case_id]}
            told[_enter(connection, ledger.clock(), said | asdict(verdict))] += 1
    return told


def _enter(connection: sa.Connection, recorded: str, said: Mapping[str, Any]) -> str:
    mine = (REVIEWS.c.key == said["key"]) & (REVIEWS.c.case_id == said["case_id"])
    before = connection.execute(sa.select(REVIEWS).where(mine)).mappings().first()
    if before is not None and dict(before) == dict(said):
        return "unchanged"
    audit.append(connection, recorded, "verdict", said)
    connection.execute(REVIEWS.delete().where(mine))
    connection.execute(REVIEWS.insert().values(**said))
    return "new" if before is None else "changed"


def in_order(connection: sa.Connection, series: str | None = None, before: str | None = None) -> list[Any]:
    """Verdicts in order of their nights; of two tables of a night the one recorded later speaks last."""
    entered = sa.select(RUNS.c.key, sa.func.max(RUNS.c.entry).label("entry")).group_by(RUNS.c.key).subquery()
    joined = sa.select(REVIEWS).outerjoin(entered, entered.c.key == REVIEWS.c.key)
    if series is not None:
        joined = joined.where(REVIEWS.c.series == series)
    if before is not None:
        joined = joined.where(REVIEWS.c.night < before)
    return list(connection.execute(joined.order_by(REVIEWS.c.night, entered.c.entry, REVIEWS.c.case_id)))


def _series_and_night(connection: sa.Connection, key: str) -> tuple[str, str]:
    run = connection.execute(sa.select(RUNS.c.series, RUNS.c.night).where(RUNS.c.key == key).limit(1)).first()
    if run is None:
        raise UsageError("the ledger does not know this run; was it scored with --ledger, and with this one?")
    return run.series, run.night


def record_threshold(ledger: Ledger, change: Mapping[str, Any]) -> Head:
    """Enter a change of operating points; the same change twice in a row is one, and no change is none.

    Parameters
    ----------
    change : mapping
        Digests of the model before and after, classes with their thresholds and rules, and the reason.
    """
    with ledger.writing() as connection:
        if change["model_before"] == change["model_after"]:
            return audit.head(connection)
        body = audit.plain(change)
        last = connection.execute(
            sa.select(AUDIT).where(AUDIT.c.action == "threshold").order_by(AUDIT.c.number.desc()).limit(1)
        ).first()
        if last is not None and last.body == body:
            return Head(last.number, last.digest)
        return audit.append(connection, ledger.clock(), "threshold", change)
