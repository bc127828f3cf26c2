"""Whether the nights came, series by series, and which nobody waits for: for monitors and Prometheus."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import trail
from screening.ledger.database import RUNS, TRAIL, Ledger
from screening.ledger.entries import Acknowledged, GivenUp, append, nights_at, stated
from screening.ledger.model_registry import every_series, find_series, retired
from screening.ledger.nights import current_runs
from screening.ledger.trail import Head
from screening.schemas.base import Reason
from screening.schemas.history import CASE_COUNTS
from screening.spelling import shown_series

DAY = datetime.timedelta(days=1)
SOON = datetime.timedelta(days=60)
"""How long before its day a review is announced."""
COUNTED = ("read", "scored", "refused", "flagged", *CASE_COUNTS)
NEVER = "no run has been published yet"
ALL_CLOSED = "every series is retired"


@dataclass(frozen=True)
class Due:
    """Which night is asked for."""

    now: datetime.datetime  # With its zone: a night is a day of that zone.
    # Without `night`: how long ago the last night may have come.
    max_age: datetime.timedelta = datetime.timedelta(hours=26)
    night: datetime.date | None = None  # The night that must have come.
    # With `night`: how long after its midnight it may be missing.
    grace: datetime.timedelta = datetime.timedelta(0)

    @property
    def latest(self) -> str:
        """The last night that is believed: it is the 2nd somewhere while it is the 1st here."""
        return str((self.now + DAY).date())


@dataclass(frozen=True)
class Pulse:
    """What is to be said of a series."""

    fine: bool
    said: str  # One line, no patient in it.
    series: str | None = None  # As it is shown; None where the ledger itself cannot be read or holds none.
    night: str | None = None  # The last that is in force.
    came: str | None = None  # When that night was first published, ISO 8601.
    age_hours: float | None = None  # Hours since.
    # Why that night wants a look, though it came: what nobody acknowledged.
    attention: tuple[Reason, ...] = ()
    counts: dict[str, int] | None = None  # Rows and cases of that night.
    # Day after which its model is to be reviewed; not known of nights from before it was kept.
    review_by: str | None = None


@dataclass(frozen=True)
class Excuses:
    """Of one series: by night why it was given up, and by code and column the last day of a reason's rest."""

    given_up: dict[str, str]
    until: dict[tuple[str, str | None], str]

    def acknowledged(self, reason: Reason, night: str) -> str | None:
        """The day until which this reason of a night is acknowledged; None where it is to be heard."""
        last = self.until.get((reason.code, reason.column), "")
        return last if night <= last else None

    def heard(self, reasons: Iterable[Reason], night: str) -> tuple[Reason, ...]:
        """The reasons of a night that nobody acknowledged."""
        return tuple(reason for reason in reasons if self.acknowledged(reason, night) is None)


def excuses(connection: sa.Connection) -> Mapping[str, Excuses]:
    """What was given up and acknowledged of each series, also of one that the ledger has no night of."""
    of_series: dict[str, Excuses] = defaultdict(lambda: Excuses({}, {}))
    for given_up in stated(connection, GivenUp):
        of_series[given_up.facts.series].given_up[given_up.facts.night] = str(given_up.reason)
    for acknowledged in stated(connection, Acknowledged):
        facts = acknowledged.facts
        of_series[facts.series].until.update(dict.fromkeys(facts.causes, facts.until))
    return of_series


def excused(ledger: Ledger, series: str) -> Excuses:
    """The same of one series, of a ledger."""
    with ledger.reading() as connection:
        return excuses(connection)[series]


def give_up(ledger: Ledger, series: str, night: str, reason: str, due: Iterable[str] = ()) -> Head:
    """Enter that a night will not come; `due`: series of a site's file, that the ledger may not know."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        if series not in due or series in every_series(connection):
            series = find_series(connection, series)
        if connection.execute(current_runs(series, None, RUNS.c.night == night)).first() is not None:
            raise UsageError(f"series {shown_series(series)} has the night of {night}: there is no need")
        return append(connection, ledger.clock(), GivenUp(series=series, night=night), why)


def acknowledge(ledger: Ledger, series: str, code: str, until: datetime.date, reason: str) -> Head:
    """Enter that a reason of the series' last night rests until after a day, for the columns it has now."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        series = find_series(connection, series)
        *_, last = [0, *(run.entry for run in connection.execute(current_runs(series)))]
        reasons = [reason for night in nights_at(connection, [last]).values() for reason in night.attention]
        causes = sorted({(one.code, one.column) for one in reasons if one.code == code}, key=str)
        if not causes:
            codes = ", ".join(sorted({one.code for one in reasons})) or "none"
            raise UsageError(
                f"the last night of series {shown_series(series)} has no reason '{code}'; it has {codes}"
            )
        facts = Acknowledged(series=series, causes=causes, until=until.isoformat())
        return append(connection, ledger.clock(), facts, why)


def pulses(ledger: Ledger, due: Due, names: Sequence[str] = ()) -> list[Pulse]:
    """Say of each series whether its night came; shadows are not asked for.

    `names`: only these; one that the ledger does not know has not come. All it knows where there are none,
    but those that were retired.
    """
    first, last = sa.func.min(RUNS.c.entry).label("first"), sa.func.max(RUNS.c.entry).label("last")
    entered: sa.Select[Any] = sa.select(RUNS.c.series, RUNS.c.night, first, last).where(~RUNS.c.shadow)
    nights = defaultdict(list)
    with ledger.reading() as connection:
        for row in connection.execute(entered.group_by(RUNS.c.series, RUNS.c.night)):
            nights[row.series].append(row)
        closed, excused_of = retired(connection), excuses(connection)
        series_of = {shown_series(series): series for series in sorted(nights)}
        pulses = []
        for name in names or [name for name, series in series_of.items() if series not in closed]:
            series = series_of.get(name, name)
            if entry := closed.get(series):
                words = f"retired on {entry.recorded[:10]}, last night {entry.facts.last}: {entry.reason}"
                pulses.append(Pulse(True, words, name))
            else:
                pulses.append(_pulse(connection, name, excused_of[series], nights[series], due))
    return pulses or [Pulse(bool(series_of), ALL_CLOSED if series_of else NEVER)]


def _pulse(
    connection: sa.Connection, name: str, excused: Excuses, nights: Sequence[sa.Row[Any]], due: Due
) -> Pulse:
    """What is to be said of a series, by its nights, each with its first entry and the one in force."""
    latest, asked_for = due.latest, str(due.night)
    believed = [row for row in nights if row.night <= latest]
    wanted = [row for row in believed if row.night == asked_for]
    row = max(wanted or believed, key=lambda row: row.night, default=None)
    last = "" if row is None else row.night
    given_up = _given_up(excused, last, due)
    if row is None:
        return Pulse(bool(given_up), given_up or NEVER, name)
    # Another revision of a night does not make it younger.
    came = str(connection.scalar(sa.select(TRAIL.c.recorded).where(TRAIL.c.number == row.first)))
    hours = (due.now - datetime.datetime.fromisoformat(came)).total_seconds() / 3600
    night = nights_at(connection, [row.last])[row.last]
    fault, waits = _fault(last, hours, due)
    words = [
        f"night {last}, {hours:.1f} h ago: {night.flagged} of {night.scored} flagged",
        given_up or fault or waits,
    ]
    words += [
        f"acknowledged until {day}: {reason.words.removesuffix('.')}"
        for reason in night.attention
        if (day := excused.acknowledged(reason, last)) is not None
    ]
    # What wants attention says it once the day is past.
    if night.review_by is not None and night.review_by <= (due.now + SOON).date().isoformat():
        words.append(f"its model is to be reviewed by {night.review_by}")
    return Pulse(
        fine=bool(given_up or not fault),
        said="; ".join(filter(None, words)),
        series=name,
        night=last,
        came=came,
        age_hours=hours,
        attention=excused.heard(night.attention, last),
        counts={name: getattr(night, name) for name in COUNTED},
        review_by=night.review_by,
    )


def _given_up(excused: Excuses, last: str, due: Due) -> str:
    """What is said where the night that is asked for, or else one that is young enough, was given up."""
    youngest = (due.now - due.max_age - DAY).date().isoformat()
    for night, reason in sorted(excused.given_up.items(), reverse=True):
        young = youngest <= night <= due.latest and night > last
        if young if due.night is None else night == str(due.night) != last:
            return f"the night of {night} was given up: {reason}"
    return ""


def _fault(last: str, hours: float, due: Due) -> tuple[str, str]:
    """Why the series is not fine, and what is said of one that may still come; empty where nothing is."""
    if hours < -1:
        return "it was recorded in the future: is the clock right?", ""
    if due.night is not None and last != due.night.isoformat():
        end = datetime.datetime.combine(due.night, datetime.time(), due.now.tzinfo) + due.grace
        if due.now < end:
            return "", f"the night of {due.night} is due by {end:%Y-%m-%d %H:%M}"
        return f"the night of {due.night} is not published", ""
    if due.night is not None:
        return "", ""
    if datetime.timedelta(hours=hours) > due.max_age:
        return f"none since for more than {due.max_age.total_seconds() / 3600:g} h", ""
    # A back-fill, or a wrong year, comes today and is an old night all the same: a night comes on its own day
    # or on the next.
    begun = datetime.datetime.combine(datetime.date.fromisoformat(last), datetime.time(), due.now.tzinfo)
    if due.now - begun > due.max_age + 2 * DAY:
        return "last run was a late entry; no run for a newer date", ""
    return "", ""


READABLE = "screening_ledger_readable"
HELP = {
    "screening_fine": "1 where the night that is due came.",
    "screening_attention_reasons": "Reasons why that night wants a look.",
    "screening_night_timestamp_seconds": "Midnight (UTC) of the last night in force.",
    "screening_came_timestamp_seconds": "When that night came.",
    "screening_review_timestamp_seconds": "Midnight (UTC) of the day of its model's review.",
    "screening_rows_scored": "Rows scored in that night.",
    "screening_rows_flagged": "Rows flagged in that night.",
    "screening_cases": "Flagged cases of that night.",
    "screening_cases_new": "Cases that were not flagged on the night before.",
}


def _figures(pulse: Pulse) -> dict[str, float | None]:
    """What `HELP` names, of one series; None is not known."""
    counts, midnight = pulse.counts or {}, "T00:00:00+00:00"
    times = [
        pulse.night and pulse.night + midnight,
        pulse.came,
        pulse.review_by and pulse.review_by + midnight,
    ]
    figures: list[float | None] = [
        float(pulse.fine),
        len(pulse.attention),
        *(datetime.datetime.fromisoformat(time).timestamp() if time else None for time in times),
        *(counts.get(name) for name in ("scored", "flagged", "cases", "new")),
    ]
    return dict(zip(HELP, figures, strict=True))


def exposition(pulses: Sequence[Pulse]) -> str:
    """The text format of Prometheus: a figure a series, and whether the ledger could be read at all."""
    figures = [(_label(pulse.series), _figures(pulse)) for pulse in pulses if pulse.series is not None]
    readable = float(bool(figures) or any(pulse.fine for pulse in pulses))
    families: dict[str, list[tuple[str, float | None]]] = {READABLE: [("", readable)]}
    families |= {name: [(label, of_it[name]) for label, of_it in figures] for name in HELP}
    lines = []
    for name, values in families.items():
        samples = [f"{name}{label} {value:.17g}" for label, value in values if value is not None]
        if samples:
            words = HELP.get(name, "1 where the ledger was read and holds a series.")
            lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge", *samples]
    return "\n".join(lines) + "\n"


def _label(series: str) -> str:
    """A label: who asks for a series may have typed anything."""
    escaped = series.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{series="{escaped}"}}'
