"""Whether the nights came, series by series: for a monitor that knows nothing else, and for Prometheus."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from screening.documents.base import Reason
from screening.ledger import trail
from screening.ledger.database import RUNS, TRAIL, Ledger
from screening.ledger.excuses import Excuses, excuses
from screening.ledger.kinds import nights_in
from screening.ledger.model_registry import every_series, retired
from screening.spelling import shown_series

DAY = datetime.timedelta(days=1)
SOON = datetime.timedelta(days=60)
"""How long before its day a review is announced."""
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
        return (self.now + DAY).date().isoformat()


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


def pulses(ledger: Ledger, due: Due, names: Sequence[str] = ()) -> list[Pulse]:
    """Say of each series whether its night came; shadows are not asked for.

    `names`: only these; one that the ledger does not know has not come. All it knows where there are none,
    but those that were retired.
    """
    with ledger.reading() as connection:
        known = {shown_series(each): each for each in every_series(connection) if _screened(connection, each)}
        closed = retired(connection)
        asked = names or [name for name, series in known.items() if series not in closed]
        found = [
            _closed(name, closed[known[name]])
            if known.get(name) in closed
            else _pulse(connection, name, known.get(name), due)
            for name in asked
        ]
    return found or [Pulse(bool(known), ALL_CLOSED if known else NEVER)]


def _closed(name: str, told: Mapping[str, Any]) -> Pulse:
    """What is said of a series that was retired, where somebody asks for it."""
    return Pulse(
        True, f"retired on {told['recorded'][:10]}, last night {told['last']}: {told['reason']}", name
    )


def _screened(connection: sa.Connection, series: str) -> bool:
    """Whether anything but a shadow was scored there."""
    mine = sa.select(RUNS.c.entry).where(RUNS.c.series == series, ~RUNS.c.shadow)
    return connection.scalar(mine.limit(1)) is not None


def _pulse(connection: sa.Connection, name: str, series: str | None, due: Due) -> Pulse:
    last = None if series is None else _last(connection, series, due)
    excused = excuses(connection, series or name)
    given_up = _given_up(excused, "" if last is None else last.night, due)
    if series is None or last is None:
        return Pulse(bool(given_up), given_up or NEVER, name)
    came = _first_recorded(connection, series, last.night)
    hours = (due.now - datetime.datetime.fromisoformat(came)).total_seconds() / 3600
    (stated,) = trail.stated(connection, [last.entry]).values()
    facts = nights_in(stated)
    said = f"night {last.night}, {hours:.1f} h ago: {facts.rows.flagged} of {facts.rows.scored} flagged"
    fault = "" if given_up else _fault(last, hours, due)
    waits, review_by = _waits(last.night, due), facts.review_by
    resting = [
        f"acknowledged until {day}: {reason.words.removesuffix('.')}"
        for reason in facts.attention
        if (day := excused.acknowledged(reason, last.night)) is not None
    ]
    return Pulse(
        fine=not fault,
        said="; ".join(filter(None, [said, given_up or fault or waits, *resting, _review(review_by, due)])),
        series=name,
        night=last.night,
        came=came,
        age_hours=hours,
        attention=excused.heard(facts.attention, last.night),
        counts=vars(facts.rows) | vars(facts.counts),
        review_by=review_by,
    )


def _given_up(excused: Excuses, last: str, due: Due) -> str:
    """What is said where the night that is asked for, or else one that is young enough, was given up."""
    youngest = (due.now - due.max_age - DAY).date().isoformat()
    for night, reason in sorted(excused.given_up.items(), reverse=True):
        young = youngest <= night <= due.latest and night > last
        if young if due.night is None else night == str(due.night) != last:
            return f"the night of {night} was given up: {reason}"
    return ""


def _review(day: str | None, due: Due) -> str:
    """What is said when the model's review comes near; what wants attention says it once it is past."""
    if day is None or day > (due.now + SOON).date().isoformat():
        return ""
    return f"its model is to be reviewed by {day}"


def _last(connection: sa.Connection, series: str, due: Due) -> sa.Row[Any] | None:
    """The run in force of the last night, or of the night that is asked for."""
    mine = sa.select(RUNS).where(RUNS.c.series == series, ~RUNS.c.shadow, RUNS.c.night <= due.latest)
    ordered = mine.order_by(RUNS.c.night.desc(), RUNS.c.entry.desc()).limit(1)
    if due.night is not None:
        asked = connection.execute(ordered.where(RUNS.c.night == due.night.isoformat())).first()
        if asked is not None:
            return asked
    return connection.execute(ordered).first()


def _first_recorded(connection: sa.Connection, series: str, night: str) -> str:
    """When a night came: another revision of it does not make it younger."""
    recorded = sa.select(sa.func.min(TRAIL.c.recorded)).join(RUNS, RUNS.c.entry == TRAIL.c.number)
    mine = recorded.where(RUNS.c.series == series, RUNS.c.night == night, ~RUNS.c.shadow)
    return str(connection.scalar(mine))


def _fault(last: sa.Row[Any], hours: float, due: Due) -> str:
    """Why the series is not fine; empty where it is."""
    if hours < -1:
        return "it was recorded in the future: is the clock right?"
    if due.night is not None:
        missing = last.night != due.night.isoformat()
        return f"the night of {due.night} is not published" if missing and not _waits(last.night, due) else ""
    # A back-fill, or a wrong year, comes today and is an old night all the same: a night comes on its own day
    # or on the next.
    begun = datetime.datetime.combine(
        datetime.date.fromisoformat(last.night), datetime.time(), due.now.tzinfo
    )
    if datetime.timedelta(hours=hours) > due.max_age:
        return f"none since for more than {due.max_age.total_seconds() / 3600:g} h"
    if due.now - begun > due.max_age + 2 * DAY:
        return "last run was a late entry; no run for a newer date"
    return ""


def _waits(night: str, due: Due) -> str:
    """What is said of a night that is asked for and has not to be there yet; empty otherwise."""
    if due.night is None or night == due.night.isoformat():
        return ""
    midnight = datetime.datetime.combine(due.night, datetime.time(), due.now.tzinfo)
    early = due.now < midnight + due.grace
    return f"the night of {due.night} is due by {(midnight + due.grace):%Y-%m-%d %H:%M}" if early else ""


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
    counts = pulse.counts or {}
    return {
        "screening_fine": float(pulse.fine),
        "screening_attention_reasons": len(pulse.attention),
        "screening_night_timestamp_seconds": _seconds(pulse.night, "T00:00:00+00:00"),
        "screening_came_timestamp_seconds": _seconds(pulse.came),
        "screening_review_timestamp_seconds": _seconds(pulse.review_by, "T00:00:00+00:00"),
        "screening_rows_scored": counts.get("scored"),
        "screening_rows_flagged": counts.get("flagged"),
        "screening_cases": counts.get("cases"),
        "screening_cases_new": counts.get("new"),
    }


def _seconds(text: str | None, time: str = "") -> float | None:
    return None if text is None else datetime.datetime.fromisoformat(text + time).timestamp()


def exposition(pulses: Sequence[Pulse]) -> str:
    """The text format of Prometheus: a figure a series, and whether the ledger could be read at all."""
    known = [pulse for pulse in pulses if pulse.series is not None]
    lines = _head("screening_ledger_readable", "1 where the ledger was read and holds a series.")
    lines.append(f"screening_ledger_readable {float(bool(known) or any(each.fine for each in pulses)):g}")
    figures = [(pulse.series, _figures(pulse)) for pulse in known]
    for name, words in HELP.items():
        values = [(series, value) for series, of_it in figures if (value := of_it[name]) is not None]
        lines += _head(name, words) if values else []
        lines += [f'{name}{{series="{_escaped(series)}"}} {value:.17g}' for series, value in values]
    return "\n".join(lines) + "\n"


def _escaped(name: str | None) -> str:
    """As a label: who asks for a series may have typed anything."""
    return str(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
