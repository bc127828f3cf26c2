"""Words on how outcomes were counted: by which clock, up to when, what was left out."""

from __future__ import annotations

from collections.abc import Mapping

from screening.report import format as fmt
from screening.schemas.history import OutcomeFigures
from screening.schemas.run import RunDocument, TakenFrom

# What a row was left out for.
LEFT_OUT_WORDS = {
    "past": "after an event",
    "unknown": "of a case without a time",
    "censored": "of a stay that ended before its window",
    "open": "with an open window",
}
SHORT_HOUR_WORDS = {
    "hour": "stated",
    "column": "by its column",
    "file": "by its file",
    "midnight": "no hour is known",
}
# What the hour of a night is known from.
HOUR_WORDS = {
    "hour": "the stated hour",
    "column": "the column of the hour",
    "file": "the time at which the table's file was written",
    "midnight": "midnight, since no hour is known",
}


def taken_words(
    taken_at: str | None,
    taken_from: TakenFrom | None,
    time_zone: str | None,
    is_zone_of_host: bool,
) -> str:
    """Return when the table of a night was taken, and by which clock; "" if unknown."""
    if taken_at is None or taken_from is None:
        return ""
    words = f"{fmt.moment(taken_at)}, {HOUR_WORDS[taken_from]}; time zone {time_zone}"
    return f"{words}, of this host" if is_zone_of_host else words


def hour_words(run: RunDocument) -> str:
    """Return the hour of a night in a few words for its page; "" if unknown."""
    times = run.times
    if times.taken_at is None or times.taken_from is None:
        return ""
    words = SHORT_HOUR_WORDS[times.taken_from]
    day = times.taken_at[:10]
    hour = times.taken_at[11:16]
    when = hour if day == run.date else f"{day}, {hour}"
    host = " of this host" if times.is_zone_of_host else ""
    return f"{when} ({words}; time zone {times.time_zone}{host})"


def zone_words(figures: OutcomeFigures) -> str:
    """Return the time zone of the outcomes, and whether it was not stated."""
    if figures.time_zone is None:
        return "not recorded"
    if figures.is_zone_of_host:
        return f"{figures.time_zone}, of this host; set `time_zone` to state one"
    return figures.time_zone


def hours_words(figures: OutcomeFigures) -> str:
    """Return what the hours of the nights are known from, with numbers of nights."""
    hours = figures.hours or {"midnight": figures.nights}
    words = [
        f"{HOUR_WORDS.get(source, source)} ({fmt.plural(number, 'night')})"
        for source, number in hours.items()
    ]
    return ", ".join(words)


def complete_words(figures: OutcomeFigures) -> str:
    """Return up to when outcomes are complete, and why that is before `as_of`."""
    complete = figures.complete or "no time at all"
    if figures.reach is None:
        return fmt.moment(figures.complete or figures.as_of)
    return f"{fmt.moment(complete)}: {figures.reach}"


def left_out_words(figures: OutcomeFigures) -> str:
    """Return how many rows count in no rate, by the reason."""
    return left_out_of(figures.left_out or {"past": figures.past, "open": figures.open})


def left_out_of(counts: Mapping[str, int]) -> str:
    """Return numbers of rows that were left out, by the reason; "none" without."""
    words = [
        f"{fmt.count(number)} {LEFT_OUT_WORDS.get(reason, reason)}"
        for reason, number in counts.items()
        if number
    ]
    return ", ".join(words) or "none"
