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
from screening.ledger.database import RUNS, TRAIL, Ledger, Unchained
from screening.ledger.entries import Acknowledged, GivenUp, append, nights_at, stated
from screening.ledger.model_registry import every_series, find_series, retired
from screening.ledger.nights import current_runs
from screening.ledger.trail import Head
from screening.schemas.base import Reason
from screening.schemas.history import CASE_COUNTS, SeriesStatus
from screening.spelling import shown_series

DAY = datetime.timedelta(days=1)
SOON = datetime.timedelta(days=60)
"""How long before its day a review is announced."""
NEVER = "no run has been published yet"
COUNTED = ("read", "scored", "refused", "flagged", *CASE_COUNTS)


def _read_time(text: str) -> datetime.datetime:
    """Return a time or night of the ledger; Unchained if it is none."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Unchained(
            "a table of the ledger holds a time that is none; `screen history "
            "--verify` finds what was changed"
        ) from None


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

    def since(self, night: str) -> datetime.timedelta:
        """How long ago a night began."""
        return self.now - _read_time(night).replace(tzinfo=self.now.tzinfo)


@dataclass(frozen=True)
class Excuses:
    """Of one series: by night why it was given up, and by code and column the last day of a reason's rest."""

    given_up: dict[str, str]
    until: dict[tuple[str, str | None], str]

    def acknowledged(self, reason: Reason, night: str) -> str | None:
        """The day until which this reason of a night is acknowledged; None where it is to be heard."""
        last = self.until.get((reason.code, reason.column), "")
        return last if night <= last else None


def excuses_of(connection: sa.Connection) -> Mapping[str, Excuses]:
    """What was given up and acknowledged of each series, also of one that the ledger has no night of."""
    of_series: dict[str, Excuses] = defaultdict(lambda: Excuses({}, {}))
    for given_up in stated(connection, GivenUp):
        of_series[given_up.facts.series].given_up[given_up.facts.night] = str(
            given_up.reason
        )
    for acknowledged in stated(connection, Acknowledged):
        facts = acknowledged.facts
        of_series[facts.series].until.update(dict.fromkeys(facts.causes, facts.until))
    return of_series


def give_up(
    ledger: Ledger, series: str, night: str, reason: str, due: Iterable[str] = ()
) -> Head:
    """Enter that a night will not come; `due`: series of a site's file, that the ledger may not know."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        if series not in due or series in every_series(connection):
            series = find_series(connection, series)
        if (
            connection.execute(
                current_runs(series, None, RUNS.c.night == night)
            ).first()
            is not None
        ):
            raise UsageError(
                f"series {shown_series(series)} has the night of {night}: there is no need"
            )
        return append(
            connection, ledger.clock(), GivenUp(series=series, night=night), why
        )


def acknowledge(
    ledger: Ledger, series: str, code: str, until: datetime.date, reason: str
) -> Head:
    """Enter that a reason of the series' last night rests until after a day, for the columns it has now."""
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        series = find_series(connection, series)
        *_, last = [0, *(run.entry for run in connection.execute(current_runs(series)))]
        reasons = [
            reason
            for night in nights_at(connection, [last]).values()
            for reason in night.attention
        ]
        causes = sorted(
            {(one.code, one.column) for one in reasons if one.code == code}, key=str
        )
        if not causes:
            codes = ", ".join(sorted({one.code for one in reasons})) or "none"
            raise UsageError(
                f"the last night of series {shown_series(series)} has no reason '{code}'; it has {codes}"
            )
        facts = Acknowledged(series=series, causes=causes, until=until.isoformat())
        return append(connection, ledger.clock(), facts, why)


def pulses(ledger: Ledger, due: Due, names: Sequence[str] = ()) -> list[SeriesStatus]:
    """Say of each series whether its night came: of these names, or of all known that were not retired."""
    first, last = (
        sa.func.min(RUNS.c.entry).label("first"),
        sa.func.max(RUNS.c.entry).label("last"),
    )
    entered: sa.Select[Any] = sa.select(RUNS.c.series, RUNS.c.night, first, last).where(
        ~RUNS.c.shadow
    )
    nights, pulses = defaultdict(list), []
    with ledger.reading() as connection:
        for row in connection.execute(entered.group_by(RUNS.c.series, RUNS.c.night)):
            nights[row.series].append(row)
        closed, excused = retired(connection), excuses_of(connection)
        series_of = {shown_series(series): series for series in sorted(nights)}
        for name in names or [
            name for name, series in series_of.items() if series not in closed
        ]:
            series = series_of.get(name, name)
            if entry := closed.get(series):
                words = f"retired on {entry.recorded[:10]}, last night {entry.facts.last}: {entry.reason}"
                pulses.append(SeriesStatus(True, words, name))
            else:
                pulses.append(
                    _pulse(connection, name, excused[series], nights[series], due)
                )
    nothing = "every series is retired" if series_of else NEVER
    return pulses or [SeriesStatus(bool(series_of), nothing)]


def _pulse(
    connection: sa.Connection,
    name: str,
    excuses: Excuses,
    nights: Sequence[sa.Row[Any]],
    due: Due,
) -> SeriesStatus:
    """What is to be said of a series, by its nights, each with its first entry and the one in force."""
    believed = [row for row in nights if row.night <= due.latest]
    wanted = [row for row in believed if row.night == str(due.night)]
    row = max(wanted or believed, key=lambda row: row.night, default=None)
    last = "" if row is None else row.night
    # The night that is asked for, or else one that is young enough, may have been given up.
    youngest = (due.now - due.max_age - DAY).date().isoformat()
    given_up = ""
    for day, why in sorted(excuses.given_up.items()):
        young = youngest <= day <= due.latest and day > last
        if young if due.night is None else day == str(due.night) != last:
            given_up = f"the night of {day} was given up: {why}"
    if row is None:
        return SeriesStatus(bool(given_up), given_up or NEVER, name)
    # Another revision of a night does not make it younger.
    came = str(
        connection.scalar(
            sa.select(TRAIL.c.recorded).where(TRAIL.c.number == row.first)
        )
    )
    hours = (due.now - _read_time(came).astimezone()).total_seconds() / 3600
    night = nights_at(connection, [row.last])[row.last]
    fine, words = _verdict(last, hours, due)
    said = [
        f"night {last}, {hours:.1f} h ago: {night.flagged} of {night.scored} flagged",
        given_up or words,
    ]
    heard = []
    for reason in night.attention:
        if (until := excuses.acknowledged(reason, last)) is None:
            heard.append(reason)
        else:
            said.append(f"acknowledged until {until}: {reason.words.removesuffix('.')}")
    # What wants attention says it once the day is past.
    if (
        night.review_by is not None
        and night.review_by <= (due.now + SOON).date().isoformat()
    ):
        said.append(f"its model is to be reviewed by {night.review_by}")
    return SeriesStatus(
        fine=bool(given_up) or fine,
        said="; ".join(filter(None, said)),
        series=name,
        night=last,
        came=came,
        age_hours=hours,
        attention=tuple(heard),
        counts={name: getattr(night, name) for name in COUNTED},
        review_by=night.review_by,
    )


def _verdict(last: str, hours: float, due: Due) -> tuple[bool, str]:
    """Whether a series is fine by its last night and the hours since, and what is said of it, if anything."""
    if hours < -1:
        return False, "it was recorded in the future: is the clock right?"
    if due.night is not None:
        still = due.grace - due.since(str(due.night))
        if last == str(due.night):
            return True, ""
        if still > datetime.timedelta(0):
            return (
                True,
                f"the night of {due.night} is due by {due.now + still:%Y-%m-%d %H:%M}",
            )
        return False, f"the night of {due.night} is not published"
    if datetime.timedelta(hours=hours) > due.max_age:
        return (
            False,
            f"none since for more than {due.max_age.total_seconds() / 3600:g} h",
        )
    # A back-fill, or a wrong year, comes today and is an old night all the same: a night comes on its own day
    # or on the next.
    if due.since(last) > due.max_age + 2 * DAY:
        return False, "last run was a late entry; no run for a newer date"
    return True, ""


HELP = {
    "screening_ledger_readable": "1 where the ledger was read and holds a series.",
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


def exposition(pulses: Sequence[SeriesStatus]) -> str:
    """The text format of Prometheus: a figure a series, and whether the ledger could be read at all."""
    shown = [pulse for pulse in pulses if pulse.series is not None]
    readable = bool(shown) or any(pulse.fine for pulse in pulses)
    # Labels, and the figures in the order of `HELP`.
    figures: list[list[Any]] = [["", readable] + [None] * (len(HELP) - 1)]
    for pulse in shown:
        # Who asks for a series may have typed anything.
        label = (
            str(pulse.series)
            .replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\n", "\\n")
        )
        times = map(_seconds, (pulse.night, pulse.came, pulse.review_by))
        counts = [
            (pulse.counts or {}).get(name)
            for name in ("scored", "flagged", "cases", "new")
        ]
        labels = f'{{series="{label}"}}'
        figures.append(
            [labels, None, pulse.fine, len(pulse.attention), *times, *counts]
        )
    lines = []
    for column, (name, about) in enumerate(HELP.items(), start=1):
        samples = [(row[0], row[column]) for row in figures if row[column] is not None]
        of_name = [f"{name}{labels} {figure:.17g}" for labels, figure in samples]
        lines += (
            [f"# HELP {name} {about}", f"# TYPE {name} gauge", *of_name]
            if of_name
            else []
        )
    return "\n".join(lines) + "\n"


def _seconds(time: str | None) -> float | None:
    """A time, or midnight of a day, in UTC, since 1970."""
    if time is None:
        return None
    moment = _read_time(time)
    return (
        moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    ).timestamp()
