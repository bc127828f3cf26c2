"""What reviewers said of the cases of a night."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.audit import portions
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger

HAS_IT = ("confirmed", "known")
"""Verdicts that say the condition is there."""

OPEN = ("key", "series", "night", "flagged", "verdict")
"""What of a verdict names no patient."""


@dataclass(frozen=True)
class Verdict:
    """One reviewer's word on one case."""

    case_id: str  # Id of the row, or of the group where rows come in groups.
    verdict: str  # One of "confirmed", "not", "unsure", "known".
    site: str = ""
    initials: str = ""
    note: str = ""


def reviewable(ledger: Ledger, key: str) -> dict[str, bool]:
    """Ids of a run on which a verdict may be given, and whether each was flagged or drawn at random.

    Raises UsageError: the ledger has no such run.
    """
    with ledger.reading() as connection:
        _series_and_night(connection, key)
        return _flagged(connection, key)


def _flagged(connection: sa.Connection, key: str) -> dict[str, bool]:
    joined = sa.select(CASES.c.case_id, CASES.c.state).join(RUNS, RUNS.c.entry == CASES.c.entry)
    return {row.case_id: row.state is not None for row in connection.execute(joined.where(RUNS.c.key == key))}


def record_verdicts(
    ledger: Ledger, key: str, verdicts: Iterable[Verdict], entered_by: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Enter verdicts on a run; the same one twice is one, and a later word replaces an earlier.

    `entered_by`: who enters them, kept in the trail with each.
    Returns how many were new, changed and unchanged.
    Raises UsageError: the ledger has no such run.
    """
    told = {"new": 0, "changed": 0, "unchanged": 0}
    with ledger.writing() as connection:
        series, night = _series_and_night(connection, key)
        flagged = _flagged(connection, key)
        for verdict in verdicts:
            said = {"key": key, "series": series, "night": night, "flagged": flagged[verdict.case_id]}
            told[_enter(connection, ledger.clock(), said | asdict(verdict), entered_by)] += 1
    return told


def _enter(
    connection: sa.Connection, recorded: str, said: Mapping[str, object], entered_by: Mapping[str, str] | None
) -> str:
    mine = (REVIEWS.c.key == said["key"]) & (REVIEWS.c.case_id == said["case_id"])
    before = connection.execute(sa.select(REVIEWS).where(mine)).mappings().first()
    if before is not None and dict(before) == dict(said) | {"entry": before["entry"]}:
        return "unchanged"
    parts = [*divided(said), *([entered_by] if entered_by else [])]
    entry = audit.append(connection, recorded, "verdict", *parts).number
    connection.execute(REVIEWS.delete().where(mine))
    connection.execute(REVIEWS.insert().values(**said, entry=entry))
    return "new" if before is None else "changed"


def divided(said: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """A verdict without the patient, and who it was of, given where and by whom, and noted."""
    told = {name: said[name] for name in OPEN if name in said}
    return told, {name: value for name, value in said.items() if name not in OPEN}


def in_order(
    connection: sa.Connection,
    series: str | None = None,
    before: str | None = None,
    names: Sequence[str] | None = None,
) -> list[Any]:
    """Verdicts in order of their nights; of two tables of a night the one recorded later speaks last.

    `series`, `before`: only of this series, only of nights before this one. `names`: only on these patients.
    """
    entered = sa.select(RUNS.c.key, sa.func.max(RUNS.c.entry).label("run")).group_by(RUNS.c.key)
    chosen = sa.select(REVIEWS)
    if series is not None:
        entered = entered.where(RUNS.c.series == series)
        chosen = chosen.where(REVIEWS.c.series == series)
    if before is not None:
        chosen = chosen.where(REVIEWS.c.night < before)
    last = entered.subquery()
    asked = chosen.outerjoin(last, last.c.key == REVIEWS.c.key).order_by(
        REVIEWS.c.night, last.c.run, REVIEWS.c.case_id
    )
    if names is None:
        return list(connection.execute(asked))
    parts = (asked.where(REVIEWS.c.case_id.in_(some)) for some in portions(names))
    return [row for part in parts for row in connection.execute(part)]


def _series_and_night(connection: sa.Connection, key: str) -> tuple[str, str]:
    run = connection.execute(sa.select(RUNS).where(RUNS.c.key == key).limit(1)).first()
    if run is not None and run.shadow:
        raise UsageError("the run was scored in shadow, so nobody was to review it; review the champion's")
    if run is None:
        raise UsageError("the ledger does not know this run; was it scored with --ledger, and with this one?")
    return run.series, run.night
