"""What became of a list since the night before: who is not on it any more."""

from __future__ import annotations

import sqlalchemy as sa

from screening.documents.run import Since
from screening.ledger.book import Ledger
from screening.ledger.night import NightCases
from screening.ledger.recognising import nights_before
from screening.ledger.tables import CASES


def since_last(ledger: Ledger, night: NightCases) -> Since | None:
    """The last night in force before this one, and its cases that are not flagged now; None for the first."""
    if not night.recognisable:
        return None
    with ledger.reading() as connection:
        before = nights_before(connection, night)
        if not before:
            return None
        flagged = (CASES.c.entry == before[-1].entry) & CASES.c.state.is_not(None)
        names = set(connection.scalars(sa.select(CASES.c.case_id).where(flagged)))
        return Since(night=before[-1].night, gone=sorted(names - set(night.flagged)))
