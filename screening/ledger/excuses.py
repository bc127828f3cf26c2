"""What is no longer waited for: nights given up, and reasons for attention acknowledged until a day."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from screening.documents.base import Reason
from screening.errors import UsageError
from screening.ledger import trail
from screening.ledger.database import RUNS, Ledger
from screening.ledger.kinds import Acknowledged, GivenUp, append, nights_in
from screening.ledger.model_registry import every_series, find_series
from screening.ledger.trail import Head, facts_of
from screening.spelling import shown_series


@dataclass(frozen=True)
class Excuses:
    """Of one series: by night why it was given up, and by code and column the last day of a reason's rest."""

    given_up: Mapping[str, str]
    until: Mapping[tuple[str, str | None], str]

    def acknowledged(self, reason: Reason, night: str) -> str | None:
        """The day until which this reason of a night is acknowledged; None where it is to be heard."""
        last = self.until.get((reason.code, reason.column), "")
        return last if night <= last else None

    def heard(self, reasons: Iterable[Reason], night: str) -> tuple[Reason, ...]:
        """The reasons of a night that nobody acknowledged."""
        return tuple(reason for reason in reasons if self.acknowledged(reason, night) is None)


def excuses(connection: sa.Connection, series: str) -> Excuses:
    """What was given up and acknowledged of a series, one that the ledger has no night of too."""
    nights: dict[str, str] = {}
    until: dict[tuple[str, str | None], str] = {}
    for said in facts_of(connection, GivenUp.KIND, Acknowledged.KIND):
        if said["series"] != series:
            continue
        if "night" in said:
            nights[said["night"]] = said["reason"]
        else:
            until |= {(code, column): said["until"] for code, column in said["causes"]}
    return Excuses(nights, until)


def excused(ledger: Ledger, series: str) -> Excuses:
    """The same, of a ledger."""
    with ledger.reading() as connection:
        return excuses(connection, series)


def give_up(ledger: Ledger, series: str, night: str, reason: str, due: Iterable[str] = ()) -> Head:
    """Enter that a night will not come: nobody waits for it any more.

    `due`: series that may be unknown to the ledger, because a site's file has them.
    Raises UsageError: no reason is given, there is no such series, or the night is there.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        if series not in due or series in every_series(connection):
            series = find_series(connection, series)
        mine = (RUNS.c.series == series) & (RUNS.c.night == night) & ~RUNS.c.shadow
        if connection.scalar(sa.select(RUNS.c.entry).where(mine).limit(1)) is not None:
            raise UsageError(f"series {shown_series(series)} has the night of {night}: there is no need")
        return append(connection, ledger.clock(), GivenUp(series=series, night=night), why)


def acknowledge(ledger: Ledger, series: str, code: str, until: datetime.date, reason: str) -> Head:
    """Enter that a reason of the series' last night is known: it rests until after a day.

    It is acknowledged for the columns that it names now; another column, or another reason, is heard.
    Raises UsageError: no reason is given, there is no such series, or its last night has no such reason.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        series = find_series(connection, series)
        mine = sa.select(RUNS.c.entry).where(RUNS.c.series == series, ~RUNS.c.shadow)
        last = connection.scalar(mine.order_by(RUNS.c.night.desc(), RUNS.c.entry.desc()).limit(1))
        stated = trail.stated(connection, [] if last is None else [last])
        reasons = [reason for facts in stated.values() for reason in nights_in(facts).attention]
        causes = sorted({(one.code, one.column) for one in reasons if one.code == code}, key=str)
        if not causes:
            codes = ", ".join(sorted({one.code for one in reasons})) or "none"
            raise UsageError(
                f"the last night of series {shown_series(series)} has no reason '{code}'; it has {codes}"
            )
        facts = Acknowledged(series=series, causes=causes, until=until.isoformat())
        return append(connection, ledger.clock(), facts, why)
