"""Whether the last night came, for a monitor that knows nothing else."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass

import sqlalchemy as sa

from screening.documents import Reason, reasons_in
from screening.ledger.book import Ledger
from screening.ledger.tables import AUDIT, RUNS


@dataclass(frozen=True)
class Pulse:
    """The last recorded run.

    Parameters
    ----------
    fine : bool
    said : str
        One line, no patient in it.
    night : str, optional
    age_hours : float, optional
    attention : tuple of Reason
        Why that night wants a look, though it came.
    """

    fine: bool
    said: str
    night: str | None = None
    age_hours: float | None = None
    attention: tuple[Reason, ...] = ()


def pulse(ledger: Ledger, max_age: datetime.timedelta, now: datetime.datetime) -> Pulse:
    """Say whether a run was published within `max_age` before `now`; a night to come is not believed."""
    # It is the 2nd somewhere while it is the 1st here.
    believed = RUNS.c.night <= (now + datetime.timedelta(days=1)).date().isoformat()
    with ledger.reading() as connection:
        joined = RUNS.join(AUDIT, RUNS.c.entry == AUDIT.c.number)
        chosen = sa.select(RUNS, AUDIT.c.recorded).select_from(joined).order_by(RUNS.c.entry.desc()).limit(1)
        chosen = chosen.where(believed)
        last = connection.execute(chosen).first()
        whole = connection.execute(chosen.where(RUNS.c.published)).first()
    if last is None or whole is None:
        return Pulse(False, "no run has been published yet")
    age = now - datetime.datetime.fromisoformat(whole.recorded)
    hours = age.total_seconds() / 3600
    facts = json.loads(whole.facts)
    rows, reasons = facts["rows"], tuple(reasons_in(facts.get("attention", ())))
    said = f"night {whole.night}, {hours:.1f} h ago: {rows['flagged']} of {rows['scored']} flagged"
    if hours < -1:
        said += "; it was recorded in the future: is the clock right?"
        return Pulse(False, said, whole.night, hours)
    if last.entry != whole.entry:
        said += f"; a run of {last.night} was recorded since, but its page never appeared: run it again"
        return Pulse(False, said, whole.night, hours, reasons)
    return Pulse(age <= max_age, said, whole.night, hours, reasons)
