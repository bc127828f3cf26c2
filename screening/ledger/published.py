"""Which nights of a series are there already, for whoever decides what is still to be scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from screening.ledger.book import Ledger
from screening.ledger.tables import RUNS


@dataclass(frozen=True)
class Published:
    """Runs of a series whose directory stood once.

    Parameters
    ----------
    in_force : mapping of str to str
        By night, the key of the run that is in force.
    shadow : frozenset of str
        Keys of runs in shadow.
    """

    in_force: Mapping[str, str]
    shadow: frozenset[str]


def published(ledger: Ledger, series: str, since: str) -> Published:
    """What the ledger has of a series from the night `since` on."""
    mine = (RUNS.c.series == series) & (RUNS.c.night >= since) & RUNS.c.published
    with ledger.reading() as connection:
        runs = connection.execute(
            sa.select(RUNS.c.night, RUNS.c.key, RUNS.c.shadow).where(mine).order_by(RUNS.c.entry)
        ).all()
    # The later entry of a night comes later here, and stands.
    return Published(
        {run.night: run.key for run in runs if not run.shadow},
        frozenset(run.key for run in runs if run.shadow),
    )
