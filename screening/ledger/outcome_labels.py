"""Outcomes of judged patients as labels, for a training on them."""

from __future__ import annotations

import pandas as pd

from screening.clock.instants import read_moment
from screening.clock.windows import Window, with_truth
from screening.clock.zone import clock_of
from screening.ledger.current_runs import current_runs
from screening.ledger.database import Ledger
from screening.ledger.entries import nights_at
from screening.ledger.merging import merges_of
from screening.ledger.model_registry import Judged, LastWord, judged
from screening.ledger.outcome_entries import last_figures
from screening.ledger.outcome_facts import known_by_facts, recorded_outcomes
from screening.ledger.scored_nights import read_scored_nights


def judged_by_outcomes(ledger: Ledger, series: str, model: str) -> Judged:
    """Return the outcome of every case or, if that is unknown, its last verdict.

    For a patient, the last night with a completed window counts, flagged or not.
    Without outcomes the result is that of `model_registry.judged`. UsageError unless
    `model` is the digest of the champion.
    """
    by_verdict = judged(ledger, series, model)
    key = by_verdict.series
    with ledger.reading() as connection:
        figures = last_figures(connection, key)
        if figures is None:
            return by_verdict
        merges = merges_of(connection)
        nights = read_scored_nights(connection, key).merged(merges)
        recorded = recorded_outcomes(connection, key, merges)
        runs = connection.execute(current_runs(key)).all()
        stated_at = nights_at(connection, [run.entry for run in runs])
    table_of = {run.night: stated_at[run.entry].table or "" for run in runs}
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
    is_known = rows["truth"].isin(["case", "none"]) & rows["is_over"]
    last = rows[is_known].groupby("patient").tail(1)
    verdicts = {merges.patient(word.case_id): word for word in by_verdict.words}
    last_words = []
    for patient, case_id, night, truth, was_flagged in zip(
        last["patient"],
        last["case_id"],
        last["night"].dt.strftime("%Y-%m-%d"),
        last["truth"],
        last["flagged"],
        strict=True,
    ):
        word = "confirmed" if truth == "case" else "ruled out"
        verdict = verdicts.pop(patient, None)
        is_contradicted = (
            verdict is not None
            and verdict.verdict in ("confirmed", "ruled out")
            and verdict.verdict != word
        )
        last_words.append(
            LastWord(
                case_id,
                night,
                word,
                table_of[night],
                by_outcome=True,
                was_flagged=bool(was_flagged),
                is_contradicted=is_contradicted,
            )
        )
    last_words += verdicts.values()
    in_order = sorted(last_words, key=lambda word: (word.night, word.case_id))
    return Judged(key, tuple(in_order), merges)
