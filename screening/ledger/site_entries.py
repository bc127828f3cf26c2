"""What a run of a site found on a night: entries of the trail."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from screening.ledger.database import TRAIL, Ledger
from screening.ledger.entries import SiteNight, append, facts_at

# Last entries of a site's nights that are read: some nights are run more than once.
MAX_ENTRIES = 40


def enter_site_night(ledger: Ledger, facts: SiteNight) -> None:
    """Enter what a run of a site found, unless its last entry says the same."""
    with ledger.writing() as connection:
        earlier = _last_entries(connection).get(facts.night)
        is_new = earlier is None or _without_time(earlier) != _without_time(facts)
        if is_new:
            append(connection, ledger.clock(), facts)


def _without_time(facts: SiteNight) -> dict[str, Any]:
    """Return what a run found, for comparison: how long it took differs each time."""
    return facts.to_dict() | {"seconds": None}


def last_site_night(connection: sa.Connection) -> SiteNight | None:
    """Return what was found on the site's latest night, or None."""
    entries = _last_entries(connection)
    return entries[max(entries)] if entries else None


def recent_site_nights(
    connection: sa.Connection, night: str, n_nights: int
) -> list[SiteNight]:
    """Return what was found on the last nights before this one, in order."""
    entries = _last_entries(connection)
    nights = sorted(earlier for earlier in entries if earlier < night)
    return [entries[earlier] for earlier in nights[-n_nights:]]


def _last_entries(connection: sa.Connection) -> dict[str, SiteNight]:
    """Return the last entry of each night, of the last `MAX_ENTRIES`."""
    is_night = TRAIL.c.kind == SiteNight.KIND
    number = TRAIL.c.number
    newest = sa.select(number).where(is_night).order_by(number.desc())
    numbers = sorted(connection.scalars(newest.limit(MAX_ENTRIES)))
    entries = facts_at(connection, SiteNight, numbers)
    return {facts.night: facts for facts in entries.values()}
