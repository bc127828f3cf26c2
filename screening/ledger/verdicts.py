"""What reviewers said of the cases of a night, and which word stands.

Every word is an entry of the trail, with its time and its reviewer. Of one reviewer the latest stands, by
when it was given and not by when it was read in. Two who contradict each other have not judged the case: it
is "disputed", and counts as if they were unsure, until one of them says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.kinds import VerdictGiven, append
from screening.ledger.trail import Part, text_part

HAS_IT = ("confirmed", "known")
"""Verdicts that say the condition is there."""

DISPUTED = "disputed"

OUTCOMES = ("new", "changed", "unchanged", "older")


@dataclass(frozen=True)
class Verdict:
    """One reviewer's word on one case."""

    case_id: str  # Id of the row, or of the group where rows come in groups.
    verdict: str  # One of "confirmed", "not", "unsure", "known".
    site: str = ""
    initials: str = ""
    note: str = ""
    given: str | None = None  # When, ISO 8601 in UTC; None where nobody noted it.


@dataclass(frozen=True)
class Judgement:
    """The word that stands on a case of a run."""

    key: str
    case_id: str
    night: str
    flagged: bool
    verdict: str  # One of `VERDICTS`, or "disputed" where two reviewers contradict each other.

    @property
    def judged(self) -> bool:
        """Whether it says that the condition is there, or that it is not."""
        return self.verdict not in ("unsure", DISPUTED)


def reviewable(ledger: Ledger, key: str) -> dict[str, bool]:
    """Ids of a run on which a verdict may be given, and whether each was flagged or drawn at random.

    Raises UsageError: the ledger has no such run.
    """
    with ledger.reading() as connection:
        _run(connection, key)
        return _flagged(connection, key)


def _flagged(connection: sa.Connection, key: str) -> dict[str, bool]:
    joined = sa.select(CASES.c.case_id, CASES.c.state).join(RUNS, RUNS.c.entry == CASES.c.entry)
    return {row.case_id: row.state is not None for row in connection.execute(joined.where(RUNS.c.key == key))}


def record_verdicts(
    ledger: Ledger, key: str, verdicts: Iterable[Verdict], entered_by: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Enter verdicts on a run; the same one twice is one.

    `entered_by`: the `user` who enters them and the `token` of the reviewer, kept in the trail with each.
    Returns how many were new, changed, unchanged and older than what the same reviewer said later, and on how
    many of these cases two reviewers contradict each other now (`disputed`).
    Raises UsageError: the ledger has no such run.
    """
    outcomes = Counter(dict.fromkeys(OUTCOMES, 0))
    with ledger.writing() as connection:
        run, flagged = _run(connection, key), _flagged(connection, key)
        judged = set()
        for verdict in verdicts:
            outcomes[_enter(connection, ledger.clock(), run, flagged, verdict, entered_by or {})] += 1
            judged.add(verdict.case_id)
        standing = in_order(connection, run.series, REVIEWS.c.key == key)
    return dict(outcomes) | {
        "disputed": sum(one.verdict == DISPUTED and one.case_id in judged for one in standing)
    }


def _enter(
    connection: sa.Connection,
    recorded: str,
    run: Any,
    flagged: Mapping[str, bool],
    verdict: Verdict,
    entered_by: Mapping[str, str],
) -> str:
    mine = (REVIEWS.c.key == run.key) & (REVIEWS.c.case_id == verdict.case_id)
    before = connection.execute(sa.select(REVIEWS).where(mine)).all()
    login, token = entered_by.get("user", ""), entered_by.get("token", "")
    me = _reviewer(verdict.site, verdict.initials, login, token)
    own = [row for row in before if _reviewer(row.site, row.initials, row.login, row.token) == me]
    said = (verdict.verdict, verdict.site, verdict.initials, verdict.note)
    alike = [row for row in own if (row.verdict, row.site, row.initials, row.note) == said]
    # A file without times may be an old one: what it says again is nothing new.
    if any(verdict.given in (None, row.given) for row in alike):
        return "unchanged"
    given = verdict.given or recorded
    facts = VerdictGiven(
        key=run.key,
        series=run.series,
        night=run.night,
        flagged=flagged[verdict.case_id],
        verdict=verdict.verdict,
        given=given,
        reviewer=own[0].reviewer if own else 1 + max((row.reviewer for row in before), default=0),
    )
    append(
        connection,
        recorded,
        facts,
        Part("case", names=[verdict.case_id]),
        Part("by", names=[verdict.site, verdict.initials]),
        Part("entered", names=[login, token]),
        text_part("note", verdict.note),
    )
    if not own:
        return "new"
    last = max(own, key=lambda row: (row.given, row.entry))
    if last.given > given:
        return "older"
    return "unchanged" if (last.verdict, last.site, last.initials, last.note) == said else "changed"


def _reviewer(site: str, initials: str, login: str, token: str) -> tuple[str, ...]:
    """Who speaks, as far as it is known: by a token, by initials, or by who reads the verdicts in."""
    if token:
        return ("token", token)
    return ("initials", site, initials) if initials else ("login", login)


def in_order(
    connection: sa.Connection, series: str | None = None, *which: sa.ColumnElement[bool]
) -> list[Judgement]:
    """The words that stand, in order of their nights; of two tables of a night that recorded later is last.

    `series`: only of this one. `which`: what holds for the verdicts besides.
    """
    entered = sa.select(RUNS.c.key, sa.func.max(RUNS.c.entry).label("run")).group_by(RUNS.c.key)
    chosen = sa.select(REVIEWS).where(*which)
    if series is not None:
        entered = entered.where(RUNS.c.series == series)
        chosen = chosen.where(REVIEWS.c.series == series)
    last = entered.subquery()
    asked = chosen.outerjoin(last, last.c.key == REVIEWS.c.key).order_by(
        REVIEWS.c.night, last.c.run, REVIEWS.c.case_id, REVIEWS.c.given, REVIEWS.c.entry
    )
    return list(_standing(connection.execute(asked)))


def _standing(rows: Iterable[Any]) -> Iterator[Judgement]:
    """Of the words on each case of a run, in order of time, the one that stands."""
    for (key, case_id), words in groupby(rows, key=lambda row: (row.key, row.case_id)):
        latest = {row.reviewer: row for row in words}
        last = max(latest.values(), key=lambda row: (row.given, row.entry))
        said = {row.verdict for row in latest.values()}
        disputed = "not" in said and bool(said & set(HAS_IT))
        yield Judgement(key, case_id, last.night, last.flagged, DISPUTED if disputed else last.verdict)


def _run(connection: sa.Connection, key: str) -> Any:
    run = connection.execute(sa.select(RUNS).where(RUNS.c.key == key).limit(1)).first()
    if run is not None and run.shadow:
        raise UsageError("the run was scored in shadow, so nobody was to review it; review the champion's")
    if run is None:
        raise UsageError("the ledger does not know this run; was it scored with --ledger, and with this one?")
    return run
