"""Write and read the trail's facts about outcomes of patients, or stays.

A fact is a text: the time of an event and its name, that a case is known without a
time, or the end of a stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import pandas as pd
import sqlalchemy as sa

from screening.clock.conversion import text_of
from screening.clock.instants import times_of_texts
from screening.clock.windows import Known
from screening.clock.zone import Clock
from screening.ledger.merging import Merges
from screening.ledger.outcome_entries import outcome_entries
from screening.ledger.trail import Part

# What the trail states for a case without a time, and before the end of a stay.
WITHOUT_TIME = "yes"
UNTIL = "until:"
# Names in a part of an entry.
PORTION = 1000


def facts_of_units(lines: pd.DataFrame, clock: Clock) -> dict[str, tuple[str, ...]]:
    """Return the facts of the trail on each patient, or stay, sorted."""
    facts: dict[str, set[str]] = {str(unit): set() for unit in lines["unit"]}
    events = lines.assign(text=_moment_texts(lines["time"], lines["is_day"], clock))
    events["text"] = events["text"].mask(lines["is_known"], WITHOUT_TIME)
    for unit, text, name in zip(
        events["unit"], events["text"], events["name"], strict=True
    ):
        if text:
            facts[str(unit)].add(f"{text}\t{name}".removesuffix("\t"))
    ends = _moment_texts(lines["end"], lines["end_is_day"], clock)
    for unit, text in zip(lines["unit"], ends, strict=True):
        if text:
            facts[str(unit)].add(UNTIL + text)
    return {name: tuple(sorted(texts)) for name, texts in facts.items()}


def _moment_texts(
    moments: pd.Series, are_days: pd.Series[bool], clock: Clock
) -> pd.Series[str]:
    """Return instants in UTC, or dates alone, as the trail states them; "" for none.

    A date stays the same if another time zone is stated later.
    """
    instants = moments.map(lambda moment: f"{moment.isoformat()}Z", na_action="ignore")
    days = moments.map(lambda moment: text_of(moment, clock)[:10], na_action="ignore")
    return instants.astype(object).mask(are_days, days).fillna("")


def known_by_facts(
    outcomes: Mapping[str, tuple[str, ...]],
    clock: Clock,
    by: Literal["patient", "stay"],
) -> Known:
    """Return what the facts of the trail state; those without a zone are local."""
    events = []
    without_time = []
    ends = []
    for unit, facts in outcomes.items():
        for fact in facts:
            time, _, name = fact.removeprefix(UNTIL).partition("\t")
            if fact.startswith(UNTIL):
                ends.append((unit, time, name))
            elif time == WITHOUT_TIME:
                without_time.append((unit, None, name))
            else:
                events.append((unit, time, name))
    return Known(
        events=_stated(events, clock),
        without_time=_stated(without_time, clock),
        ends=_stated(ends, clock),
        is_of_stays=by == "stay",
    )


def _stated(facts: Sequence[tuple[str, str | None, str]], clock: Clock) -> pd.DataFrame:
    """Return facts as lines: `unit`, `time`, `is_day` (a date alone), and `name`."""
    lines = pd.DataFrame(facts, columns=["unit", "text", "name"], dtype=object)
    times = times_of_texts(lines["text"].to_list(), None, clock)
    return lines.assign(time=times.at_noon(clock), is_day=times.is_day)


def states_event(events: Sequence[str]) -> bool:
    """Return True if facts of the trail state an event, and not an end alone."""
    return any(not event.startswith(UNTIL) for event in events)


def outcome_parts(outcomes: Mapping[str, tuple[str, ...]]) -> Iterator[Part]:
    """Yield parts with the patients, and the times of each one's events as facts."""
    items = iter(outcomes.items())
    while portion := list(islice(items, PORTION)):
        yield Part(
            "outcomes",
            facts=[list(times) for _, times in portion],
            names=[name for name, _ in portion],
        )


def recorded_outcomes(
    connection: sa.Connection, series: str, merges: Merges
) -> dict[str, tuple[str, ...]]:
    """Return the times of each patient's events, as the last entry on each has them.

    Events entered under several numbers before a merge count together, until a later
    entry replaces the patient's events.
    """
    before: dict[str, tuple[str, ...]] = {}
    since: dict[str, tuple[str, ...]] = {}
    for number, _, parts in outcome_entries(connection, series):
        for part in parts:
            if part.what != "outcomes":
                continue
            for name, times in zip(part.names, part.facts, strict=True):
                if number > merges.entry(name):
                    since[merges.patient(name)] = tuple(times)
                else:
                    before[name] = tuple(times)
    outcomes: dict[str, tuple[str, ...]] = {}
    for name, times in before.items():
        patient = merges.patient(name)
        together = {*outcomes.get(patient, ()), *times}
        outcomes[patient] = tuple(sorted(together))
    return outcomes | since
