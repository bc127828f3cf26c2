"""Enter the outcomes of past nights' patients, and evaluate the nights by them.

An entry states outcomes that are new or corrected since the entries before, up to when
outcomes are complete, and the figures of all nights in force by everything known then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import NamedTuple, Unpack

import numpy as np
import pandas as pd
import sqlalchemy as sa

from screening.clock.conversion import local_times, next_instants_of, text_of
from screening.clock.instants import ONE_DAY, read_moment, times_of_texts
from screening.clock.reach import Reach, reach_of_events, reach_of_table
from screening.clock.windows import HOUR, Known, with_truth
from screening.clock.zone import Clock
from screening.data.outcome_table import OutcomeTable, fault_of_rows, read_outcomes
from screening.errors import CohortError, UsageError
from screening.io.opening import Readable
from screening.ledger.current import ordered_verdicts
from screening.ledger.database import REVIEWS, Ledger
from screening.ledger.entries import Outcomes, append
from screening.ledger.merging import Merges, merges_of
from screening.ledger.model_registry import find_series
from screening.ledger.outcome_entries import last_figures
from screening.ledger.outcome_facts import (
    facts_of_units,
    known_by_facts,
    outcome_parts,
    recorded_outcomes,
    states_event,
)
from screening.ledger.outcome_ids import TableIds, earlier_tables
from screening.ledger.scored_nights import (
    GivenOutcome,
    OutcomesAsked,
    ScoredNights,
    read_scored_nights,
)
from screening.ledger.trail import Part
from screening.metrics.outcomes import (
    figures_of_class,
    missed_cases,
    outcome_figures,
    texts_of_class,
    undefined_areas,
)
from screening.schemas.history import OutcomeFigures

# A table may take so many cases away, however few there are.
FEWEST_WITHDRAWN = 2


class Entered(NamedTuple):
    """Result of an entry of outcomes.

    Parameters
    ----------
    figures : OutcomeFigures
    new, corrected : int
        Patients, or stays, whose outcomes were not stated before or were different.
    withdrawn : int
        Corrected ones that were cases before and no longer are.
    unknown : int
        Patients, or stays, of the table that no night scored; they are not entered.
    other : int
        Events other than those asked for; they are not entered.
    missed : DataFrame
        One row per event whose patient was not flagged on the last night before:
        `night`, `patient`, `score`, `event`.
    rows : DataFrame
        One row per row of the nights: `night`, `taken_at`, `patient`, `stay`, `score`,
        `flagged`, `truth`, `event` and `reason`, times as texts with their offset.
    """

    figures: OutcomeFigures
    new: int
    corrected: int
    withdrawn: int
    unknown: int
    other: int
    missed: pd.DataFrame
    rows: pd.DataFrame


def enter_outcomes(
    ledger: Ledger,
    series: str,
    source: Readable,
    *,
    as_of: str | None = None,
    time_zone: str | None = None,
    date_order: str | None = None,
    reach: str | None = None,
    accept_delivery: str | None = None,
    **given: Unpack[GivenOutcome],
) -> Entered:
    """Enter a series' table of outcomes, and judge its nights by all that are known.

    For a patient already recorded, later lines replace earlier ones.

    Parameters
    ----------
    ledger : Ledger
    series : str
        Its name, or the first digits of its key.
    source : path, URL, Database, or a pandas, polars or Arrow table
        One row per event.
    as_of : str, optional
        Time or date (its beginning) up to which the outcomes are said to be complete;
        now by default. No event may be later.
    time_zone : str, optional
        Zone of times that state none; by default the contract's, else the host's.
    date_order : {"dmy", "mdy"}, optional
        Order of dates that do not begin with the year; by default the contract's.
    reach : str, optional
        Time up to which the table is complete, if the contract states no `as_of`; by
        default judged by the rate of its events (see `clock.reach`).
    accept_delivery : str, optional
        Why the table is right although it takes most cases away, or its ids do not
        look like those of the nights; the trail keeps it.
    **given
        Before what the contract states under `[outcome]` (see
        `contract.OutcomeDefinition`).

    Returns
    -------
    Entered

    Raises
    ------
    UsageError
        The series has no night, or window or columns are not stated.
    CohortError
        The table cannot be read, has events after `as_of`, or takes most cases away;
        its ids differ from those of the nights only in spelling, or none was scored.
    """
    with ledger.reading() as connection:
        key = find_series(connection, series)
        merges = merges_of(connection)
        nights = read_scored_nights(connection, key, merges)
        recorded = recorded_outcomes(connection, key, merges)
        verdicts, actions = _words_of_reviewers(connection, key, merges)
        last = last_figures(connection, key)
        tables = earlier_tables(connection, key)
    asked = nights.asked(given, time_zone, date_order)
    clock = asked.clock
    until = read_moment("as_of", as_of, clock)
    table = read_outcomes(source, asked.columns, clock, asked.date_order)
    _refuse_later_events(table, asked.columns.time, as_of, until, clock)
    is_other = _is_other_event(table.lines, nights, asked)
    # A patient of other events alone had none of those asked for.
    lines = table.lines.assign(
        unit=table.lines["unit"].map(merges.patient),
        time=table.lines["time"].mask(is_other),
        is_known=table.lines["is_known"] & ~is_other,
    )
    rows = nights.rows_by(asked.by, clock)
    _refuse_before_nights(rows, until)
    stated_now = facts_of_units(lines, clock)
    units = set(rows["unit"])
    ids = TableIds(
        asked.columns.unit, lines["unit"].tolist(), nights.compared_whole[asked.by]
    )
    rewritten = tables.checked(ids, units, key, accept_delivery)
    of_scored = {name: events for name, events in stated_now.items() if name in units}
    changed = {
        name: events
        for name, events in of_scored.items()
        if recorded.get(name) != events
    }
    n_withdrawn = _count_withdrawn(recorded, changed, accept_delivery)
    known = known_by_facts(recorded | changed, clock, asked.by)
    before = None if last is None else last.complete
    table_reach = _reach_of(table, rows, known, asked, before, until, reach)
    complete = pd.Timestamp(table_reach.until)
    truths = with_truth(rows, known, asked.window, complete)
    figures = outcome_figures(
        truths,
        asked.window,
        text_of(until, clock),
        nights.promised,
        verdicts,
        nights.subgroups,
        nights.stated.suppress,
        actions,
    )
    figures = _with_classes(figures, nights, truths, known, asked, complete)
    n_unknown = len(stated_now) - len(of_scored)
    figures = figures.replace(
        table=tables.compared(len(stated_now), n_unknown, accept_delivery),
        unread=nights.n_unread,
        by=asked.by,
        time_zone=clock.name,
        is_zone_of_host=clock.is_of_host,
        hours=nights.hours,
        complete=text_of(table_reach.until, clock) or None,
        reach=table_reach.reason,
        at_noon=int(known.events["is_day"].sum()),
        twice=table.n_twice,
    )
    facts = Outcomes(
        series=key,
        night=text_of(until, clock)[:10],
        figures=figures,
        accepted=accept_delivery,
    )
    accepted_ids = []
    if accept_delivery is not None:
        accepted_ids.append(Part("patients", names=rewritten))
    with ledger.writing() as connection:
        append(
            connection,
            ledger.clock(),
            facts,
            outcome_parts(changed),
            accepted_ids,
        )
    n_new = sum(name not in recorded for name in changed)
    return Entered(
        figures=figures,
        new=n_new,
        corrected=len(changed) - n_new,
        withdrawn=n_withdrawn,
        unknown=n_unknown,
        other=int(is_other.sum()),
        missed=_missed_lines(truths, clock),
        rows=_lines_of_rows(truths, clock),
    )


def _refuse_before_nights(rows: pd.DataFrame, until: np.datetime64) -> None:
    """Raise UsageError if outcomes are known up to a time before every night."""
    if pd.Timestamp(until) < rows["at"].min():
        raise UsageError(
            "`as_of` is before the first night of the series; correct the date",
            parameters=["as_of"],
        )


def _refuse_later_events(
    table: OutcomeTable,
    column: str,
    as_of: str | None,
    until: np.datetime64,
    clock: Clock,
) -> None:
    """Raise CohortError, naming the rows, for events after the time they are known.

    A date of `as_of` is meant to its end, and so is today.
    """
    end = local_times(np.array([until]), clock).astype("datetime64[D]") + ONE_DAY
    is_day = as_of is None or times_of_texts([as_of], None, clock).is_day[0]
    latest = next_instants_of(end, clock)[0] if is_day else until
    lines = table.lines
    rows = lines.loc[lines["time"] > latest, "row"]
    if len(rows):
        raise CohortError(
            fault_of_rows(
                column,
                rows.tolist(),
                f"an event after {text_of(until, clock)[:10]}, the date up to which "
                "outcomes are known; correct the cells, their `date_order`, or `as_of`",
            ),
            parameters=["date_order", "as_of"],
        )


def _count_withdrawn(
    recorded: Mapping[str, tuple[str, ...]],
    changed: Mapping[str, tuple[str, ...]],
    accepted: str | None,
) -> int:
    """Count patients, or stays, that were cases before and no longer are.

    CohortError if these are more than half of all cases, unless that was accepted.
    """
    cases = {name for name, events in recorded.items() if states_event(events)}
    withdrawn = [
        name for name in cases & set(changed) if not states_event(changed[name])
    ]
    n_withdrawn = len(withdrawn)
    is_most = n_withdrawn >= FEWEST_WITHDRAWN and 2 * n_withdrawn > len(cases)
    if is_most and accepted is None:
        raise CohortError(
            f"the table removes {n_withdrawn} of {len(cases)} cases of earlier "
            "tables; correct it, or give the reason with `accept_delivery`",
            parameters=["accept_delivery"],
        )
    return n_withdrawn


def _reach_of(
    table: OutcomeTable,
    rows: pd.DataFrame,
    known: Known,
    asked: OutcomesAsked,
    before: str | None,
    until: np.datetime64,
    reach: str | None,
) -> Reach:
    """Return up to when outcomes are complete.

    `before`: up to when they were, by the tables entered earlier.
    """
    # Events of people who were never scored also show how far a table reaches.
    events = pd.concat([table.lines, known.events])[["unit", "time"]]
    times = events.dropna().drop_duplicates()["time"].to_numpy()
    first_night = rows["at"].min().to_datetime64()
    last_window = (rows["at"].max() + asked.window.within * HOUR).to_datetime64()
    judged = reach_of_events(times, first_night, last_window, until)
    stated = table.complete
    if reach is not None:
        stated = read_moment("reach", reach, asked.clock)
    earlier = None
    if before is not None:
        earlier = read_moment("complete", before, asked.clock)
    return reach_of_table(len(table.lines), judged, stated, earlier, until)


def _missed_lines(rows: pd.DataFrame, clock: Clock) -> pd.DataFrame:
    """Return the events whose patients were not flagged on the night before."""
    missed = missed_cases(rows)[["night", "patient", "score", "event"]]
    night = missed["night"].dt.strftime("%Y-%m-%d")
    return missed.assign(
        night=night, event=missed["event"].map(partial(text_of, clock=clock))
    )


def _lines_of_rows(rows: pd.DataFrame, clock: Clock) -> pd.DataFrame:
    """Return every row with its truth, the event that decides it, and the reason."""
    event = rows["event"].where(rows["truth"] == "case")
    event = event.mask(rows["truth"] == "past", rows["earlier"])
    return pd.DataFrame(
        {
            "night": rows["night"].dt.strftime("%Y-%m-%d"),
            "taken_at": rows["at"].map(partial(text_of, clock=clock)),
            "patient": rows["patient"],
            "stay": rows["id"],
            "score": rows["score"],
            "flagged": rows["flagged"].map({True: "yes", False: "no"}),
            "truth": rows["truth"],
            "event": event.map(partial(text_of, clock=clock)),
            "reason": rows["reason"],
        }
    )


def _with_classes(
    figures: OutcomeFigures,
    nights: ScoredNights,
    rows: pd.DataFrame,
    known: Known,
    asked: OutcomesAsked,
    complete: pd.Timestamp,
) -> OutcomeFigures:
    """Return the figures with those of each class, of a model of several."""
    if not nights.classes:
        return figures
    by_class = [
        figures_of_class(rows, known, name, asked.window, complete)
        for name in nights.classes
    ]
    of_all = {**figures.figures, **undefined_areas()}
    return figures.replace(by_class=by_class, figures=of_all)


def _is_other_event(
    lines: pd.DataFrame, nights: ScoredNights, asked: OutcomesAsked
) -> pd.Series[bool]:
    """Return a mask of the lines whose event was not asked for."""
    of_classes = chain.from_iterable(map(texts_of_class, nights.classes))
    events = set(asked.cases or of_classes)
    if not events:
        return pd.Series(False, index=lines.index)
    is_event = lines["time"].notna() | lines["is_known"]
    return is_event & ~lines["name"].isin(events)


def _words_of_reviewers(
    connection: sa.Connection, series: str, merges: Merges
) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]]:
    """Return by night and patient the current verdict, and the action if stated."""
    verdicts = {}
    actions = {}
    for row in ordered_verdicts(connection, REVIEWS.c.series == series):
        place = (row.night, merges.patient(row.case_id))
        verdicts[place] = row.verdict
        if row.action:
            actions[place] = row.action
    return verdicts, actions
