"""What the overview says of the last month: verdicts that are late, and cases found."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import NamedTuple

import sqlalchemy as sa

from screening.ledger import trail
from screening.ledger.current import ordered_verdicts
from screening.ledger.database import CASES, REVIEWS, RUNS, Ledger
from screening.ledger.merging import merges_of
from screening.schemas.run import HAS_IT, WAITING
from screening.spelling import shown_series

DAYS_OF_MONTH = 30


class ReviewCounts(NamedTuple):
    """Counts of a series up to a night.

    Parameters
    ----------
    late : int
        Cases that waited for a review on the night before and have had no verdict in
        the last 30 days.
    found : int
        Patients flagged in these days whose last verdict says that they have the
        condition.
    """

    late: int
    found: int


def review_counts(ledger: Ledger, night: str) -> dict[str, ReviewCounts]:
    """Return the counts of each series that had a night in the 30 days before `night`.

    Parameters
    ----------
    ledger : Ledger
    night : str
        YYYY-MM-DD. It and later nights do not count as nights before; verdicts on it
        do.
    """
    tonight = datetime.date.fromisoformat(night)
    since = str(tonight - datetime.timedelta(days=DAYS_OF_MONTH))
    with ledger.reading() as connection:
        merges = merges_of(connection)
        before = (
            sa.select(RUNS.c.series, RUNS.c.entry)
            .where(~RUNS.c.shadow, RUNS.c.night >= since, RUNS.c.night < night)
            .order_by(RUNS.c.night, RUNS.c.entry)
        )
        # The last night's table that was recorded last is in force.
        entry_of = {row.series: row.entry for row in connection.execute(before)}
        series_of = {entry: series for series, entry in entry_of.items()}
        is_of_month = REVIEWS.c.night.between(since, night)
        last_words: dict[tuple[str, str], str] = {}
        for verdict in ordered_verdicts(connection, is_of_month, REVIEWS.c.flagged):
            patient = merges.patient(verdict.case_id)
            last_words[verdict.series, patient] = verdict.verdict
        waiting = sa.select(CASES.c.entry, CASES.c.case_id).where(
            CASES.c.state.in_(WAITING)
        )
        late: Counter[str] = Counter()
        for case in trail.rows_in(connection, waiting, CASES.c.entry, [*series_of]):
            series = series_of[case.entry]
            late[series] += (series, merges.patient(case.case_id)) not in last_words
    found = Counter(
        series for (series, _), word in last_words.items() if word in HAS_IT
    )
    return {
        shown_series(series): ReviewCounts(late[series], found[series])
        for series in entry_of
    }
