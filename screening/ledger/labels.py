"""Last verdicts and outcomes of a series' cases as labels, for a training on them."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import sqlalchemy as sa

from screening.clock.instants import read_moment
from screening.clock.windows import Window, with_truth
from screening.clock.zone import clock_of
from screening.ledger.current import last_verdicts
from screening.ledger.database import REVIEWS, Ledger
from screening.ledger.entries import Night, facts_at
from screening.ledger.merging import NO_MERGES, Merges, merges_of
from screening.ledger.model_registry import GIVE_CHAMPION, find_series, refuse_other
from screening.ledger.outcome_entries import last_figures
from screening.ledger.outcome_facts import known_by_facts, recorded_outcomes
from screening.ledger.scored_nights import read_scored_nights
from screening.metrics.outcomes import with_known_truth


class LastWord(NamedTuple):
    """The last verdict or outcome of a case, and its table.

    Parameters
    ----------
    case_id : str
        Id of the row, or of the group if rows come in groups.
    night : str
    verdict : str
        "confirmed", "ruled out", "unsure", "known" or "disputed".
    table : str
        Digests of that night's files; empty for nights from before these were kept.
    by_outcome : bool
        "confirmed" is an event within the window of that night, and "ruled out" none.
    was_flagged : bool
        On that night; stated of outcomes alone.
    is_contradicted : bool
        The last verdict on the case says otherwise than the outcome.
    """

    case_id: str
    night: str
    verdict: str
    table: str
    by_outcome: bool = False
    was_flagged: bool = False
    is_contradicted: bool = False


class Judged(NamedTuple):
    """The judged cases of a series, to train a model on.

    Parameters
    ----------
    series : str
        Its key in the ledger.
    words : tuple of LastWord
        One per case, in order of nights.
    merges : Merges
        In force now.
    """

    series: str
    words: tuple[LastWord, ...]
    merges: Merges = NO_MERGES


def judged(ledger: Ledger, series: str, model: str) -> Judged:
    """Return the last verdict on every case of a series, flagged or drawn.

    UsageError unless `model` is the digest of its champion.
    """
    with ledger.reading() as connection:
        key = find_series(connection, series)
        refuse_other(connection, key, model, GIVE_CHAMPION)
        last = last_verdicts(REVIEWS.c.series == key)
        in_order = sa.select(last).order_by(last.c.night, last.c.case_id)
        rows = connection.execute(in_order).all()
        nights = facts_at(connection, Night, sorted({row.run for row in rows}))
        merges = merges_of(connection)
    # If a patient's numbers were merged, the last verdict counts. Its case has the
    # number that is in that night's table.
    words: dict[str, LastWord] = {}
    for row in rows:
        table = nights[row.run].table or ""
        patient = merges.patient(row.case_id)
        words.pop(patient, None)
        words[patient] = LastWord(row.case_id, row.night, row.verdict, table)
    return Judged(key, tuple(words.values()), merges)


def judged_by_outcomes(ledger: Ledger, series: str, model: str) -> Judged:
    """Return the outcome of every case or, if that is unknown, its last verdict.

    For a patient, the last night with a completed window counts, flagged or not.
    Without outcomes the result is that of `judged`. UsageError unless
    `model` is the digest of the champion.
    """
    by_verdict = judged(ledger, series, model)
    key = by_verdict.series
    with ledger.reading() as connection:
        figures = last_figures(connection, key)
        if figures is None:
            return by_verdict
        merges = merges_of(connection)
        nights = read_scored_nights(connection, key, merges)
        recorded = recorded_outcomes(connection, key, merges)
    window = Window(
        figures.within_hours,
        figures.after_hours,
        again=figures.again_hours,
        case_without_time=figures.known_without_time == "case",
        only_first=figures.events == "first",
    )
    clock = clock_of(figures.time_zone or nights.stated.time_zone)
    complete = read_moment("complete", figures.complete or figures.as_of, clock)
    rows = with_truth(
        nights.rows_by(figures.by, clock),
        known_by_facts(recorded, clock, figures.by),
        window,
        pd.Timestamp(complete),
    )
    last = with_known_truth(rows).groupby("patient").tail(1)
    verdicts = {merges.patient(word.case_id): word for word in by_verdict.words}
    last_words = []
    for row in last.itertuples():
        word = "confirmed" if row.truth == "case" else "ruled out"
        verdict = verdicts.pop(str(row.patient), None)
        is_contradicted = (
            verdict is not None
            and verdict.verdict in ("confirmed", "ruled out")
            and verdict.verdict != word
        )
        last_words.append(
            LastWord(
                str(row.case_id),
                f"{row.night:%Y-%m-%d}",
                word,
                str(row.table),
                by_outcome=True,
                was_flagged=bool(row.flagged),
                is_contradicted=is_contradicted,
            )
        )
    last_words += verdicts.values()
    in_order = sorted(last_words, key=lambda word: (word.night, word.case_id))
    return Judged(key, tuple(in_order), merges)
