"""Report if the nights of each series came, for monitors and Prometheus."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger import trail
from screening.ledger.current import current_runs
from screening.ledger.database import RUNS, TRAIL, Ledger, Unchained
from screening.ledger.entries import (
    ALL_SERIES,
    Acknowledged,
    GivenUp,
    Night,
    Retired,
    SiteNight,
    Stated,
    append,
    facts_at,
    stated,
)
from screening.ledger.model_registry import every_series, find_series, retired
from screening.ledger.outcome_entries import last_figures, reasons_of_outcomes
from screening.ledger.site_entries import last_site_night
from screening.ledger.standing import has_grown
from screening.ledger.trail import Head
from screening.schemas.base import Reason
from screening.schemas.history import CASE_COUNTS, SeriesStatus
from screening.spelling import shown_series

DAY = datetime.timedelta(days=1)
# How long before its day a review of a model is announced.
REVIEW_NOTICE = datetime.timedelta(days=60)
# A night may be recorded so much in the future: clocks of two hosts differ.
MAX_CLOCK_DIFFERENCE_HOURS = 1
SITE_LINE = "all series"
NO_RUN = "no run has been published yet"
COUNTS = ("read", "scored", "refused", "flagged", *CASE_COUNTS)


def _read_time(text: str) -> datetime.datetime:
    """Parse a time or night of the ledger; Unchained if it cannot be parsed."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Unchained(
            "a table of the ledger contains an invalid time", repair="verify"
        ) from None


@dataclass(frozen=True)
class Due:
    """Night that must have been published by now.

    Parameters
    ----------
    now : datetime
        With its zone: a night is a day of that zone.
    max_age : timedelta
        Without `night`: the longest time since the last night was recorded.
    night : date, optional
        The night that must have been published.
    grace : timedelta
        With `night`: how long after its midnight it may be missing.
    """

    now: datetime.datetime
    max_age: datetime.timedelta = datetime.timedelta(hours=26)
    night: datetime.date | None = None
    grace: datetime.timedelta = datetime.timedelta(0)

    @property
    def latest(self) -> str:
        """The latest night that can have begun anywhere: tomorrow's."""
        return str((self.now + DAY).date())

    @property
    def earliest(self) -> str:
        """The earliest night that is young enough, if none is asked for."""
        return str((self.now - self.max_age - DAY).date())

    def since(self, night: str) -> datetime.timedelta:
        """Return the time since a night began."""
        return self.now - _read_time(night).replace(tzinfo=self.now.tzinfo)


@dataclass(frozen=True)
class Suppressions:
    """Nights of one series that were given up, and reasons that are silenced.

    Parameters
    ----------
    given_up : dict
        Why a night was given up, by night.
    silenced : dict
        Last day on which a reason for attention is silenced, and what was measured
        then, by its code and column.
    """

    given_up: dict[str, str]
    silenced: dict[tuple[str, str | None], tuple[str, float | None]]

    def split(
        self, reasons: Iterable[Reason], night: str
    ) -> tuple[list[Reason], list[tuple[Reason, str]]]:
        """Split a night's reasons into those to report and those that are silenced.

        Each of the latter comes with the last day on which it is. A change that has
        grown by half since is reported.
        """
        reported = []
        acknowledged = []
        for reason in reasons:
            cause = (reason.code, reason.column)
            until, figure = self.silenced.get(cause, ("", None))
            if night > until or has_grown(reason, figure):
                reported.append(reason)
            else:
                acknowledged.append((reason, until))
        return reported, acknowledged


def suppressions_of(connection: sa.Connection) -> Mapping[str, Suppressions]:
    """Return given-up nights and silenced reasons by series, and by night if asked."""
    of_series: dict[str, Suppressions] = defaultdict(lambda: Suppressions({}, {}))
    for entry in stated(connection, GivenUp):
        night = entry.facts.night
        of_series[entry.facts.series].given_up[night] = str(entry.reason)
    for acknowledged in stated(connection, Acknowledged):
        facts = acknowledged.facts
        figures = facts.figures or [None] * len(facts.causes)
        for cause, figure in zip(facts.causes, figures, strict=True):
            of_series[facts.series].silenced[cause] = (facts.until, figure)
    return of_series


def give_up(
    ledger: Ledger, series: str, night: str, reason: str, due: Iterable[str] = ()
) -> Head:
    """Enter that a night will not come.

    `due`: series of a site's file, which the ledger may not know yet. UsageError if the
    night is in the ledger.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        if series not in due or series in every_series(connection):
            series = find_series(connection, series)
        runs = current_runs(series, None, RUNS.c.night == night)
        if connection.execute(runs).first() is not None:
            raise UsageError(
                f"series {shown_series(series)} already has the night of {night}; "
                "there is no missing night to give up"
            )
        facts = GivenUp(series=series, night=night)
        return append(connection, ledger.clock(), facts, why)


def acknowledge(
    ledger: Ledger, series: str, code: str, until: datetime.date, reason: str
) -> Head:
    """Enter that a reason of the series' last night is silenced until after a day.

    The entry is for the columns that the reason has now. UsageError if the last night
    has no such reason. `series`: `ALL_SERIES` for a reason of the site.
    """
    why = trail.reason_of(reason)
    with ledger.writing() as connection:
        owner = "the site"
        if series != ALL_SERIES:
            series = find_series(connection, series)
            owner = f"series {shown_series(series)}"
        reasons = _last_attention(connection, series)
        figures = {
            (entry.code, entry.column): entry.figure
            for entry in reasons
            if entry.code == code
        }
        if not figures:
            codes = ", ".join(sorted({entry.code for entry in reasons})) or "none"
            raise UsageError(
                f"the last night of {owner} has no reason '{code}'; its reasons are "
                f"{codes}"
            )
        ordered = sorted(figures, key=str)
        facts = Acknowledged(
            series=series,
            causes=ordered,
            until=until.isoformat(),
            figures=[figures[cause] for cause in ordered],
        )
        return append(connection, ledger.clock(), facts, why)


def _last_attention(connection: sa.Connection, series: str) -> Sequence[Reason]:
    """Return the reasons for attention of the last night of a series or the site."""
    of_site = last_site_night(connection)
    if series == ALL_SERIES:
        return () if of_site is None else of_site.attention
    runs = connection.execute(current_runs(series)).all()
    if not runs:
        return ()
    entry = runs[-1].entry
    night = facts_at(connection, Night, [entry])[entry]
    return [*night.attention, *_reasons_of_nights(of_site, series, night.night)]


def _reasons_of_nights(
    of_site: SiteNight | None, series: str, night: str
) -> Sequence[Reason]:
    """Return what the nights of a series show together up to a night."""
    if of_site is None or of_site.night != night:
        return ()
    return of_site.by_series.get(series, ())


def series_statuses(
    ledger: Ledger, due: Due, names: Sequence[str] = ()
) -> list[SeriesStatus]:
    """Return the status of each series: did its night come.

    `names`: only these series; by default all known ones that were not retired.
    """
    with ledger.reading() as connection:
        nights = _nights_by_series(connection)
        closed = retired(connection)
        suppressions = suppressions_of(connection)
        of_site = last_site_night(connection)
        keys = {shown_series(series): series for series in sorted(nights)}
        if not names:
            names = [name for name, series in keys.items() if series not in closed]
        statuses = []
        for name in names:
            series = keys.get(name, name)
            entry = closed.get(series)
            if entry is not None:
                status = _retired_status(name, entry)
            else:
                status = _series_status(
                    connection, name, nights[series], suppressions[series], due, of_site
                )
            statuses.append(status)
    if statuses:
        return [*statuses, *_status_of_site(of_site, suppressions[ALL_SERIES], due)]
    sentence = "every series is retired" if keys else NO_RUN
    return [SeriesStatus(bool(keys), sentence)]


def _retired_status(name: str, entry: Stated[Retired]) -> SeriesStatus:
    """Return the status of a retired series."""
    last = entry.facts.last
    sentence = (
        f"retired on {entry.recorded[:10]}, last night {last or 'none'}: {entry.reason}"
    )
    return SeriesStatus(True, sentence, name, night=last or None)


def _status_of_site(
    of_site: SiteNight | None, suppressions: Suppressions, due: Due
) -> list[SeriesStatus]:
    """Return a line for what all series show together, if there is anything."""
    if of_site is None or not of_site.attention or of_site.night < due.earliest:
        return []
    reported, acknowledged = suppressions.split(of_site.attention, of_site.night)
    sentences = [f"night {of_site.night}", *map(_acknowledgement, acknowledged)]
    return [
        SeriesStatus(
            fine=True,
            said="; ".join(sentences),
            series=SITE_LINE,
            night=of_site.night,
            attention=tuple(reported),
        )
    ]


def _acknowledgement(acknowledged: tuple[Reason, str]) -> str:
    """Return a sentence for a reason that is silenced until a day."""
    reason, until = acknowledged
    return f"acknowledged until {until}: {reason.words.removesuffix('.')}"


def _nights_by_series(connection: sa.Connection) -> dict[str, list[sa.Row[Any]]]:
    """Return the published nights of each series, in no order.

    Each has its `night`, and the `first` and the `last` entry of a run of it.
    """
    first = sa.func.min(RUNS.c.entry).label("first")
    last = sa.func.max(RUNS.c.entry).label("last")
    columns = (RUNS.c.series, RUNS.c.night)
    chosen: sa.Select[Any] = sa.select(*columns, first, last)
    of_nights = chosen.where(~RUNS.c.shadow).group_by(*columns)
    nights = defaultdict[str, list[sa.Row[Any]]](list)
    for row in connection.execute(of_nights):
        nights[row.series].append(row)
    return nights


def _series_status(
    connection: sa.Connection,
    name: str,
    nights: Sequence[sa.Row[Any]],
    suppressions: Suppressions,
    due: Due,
    of_site: SiteNight | None,
) -> SeriesStatus:
    """Return the status of a series that is not retired.

    Parameters
    ----------
    connection : Connection
    name : str
    nights : sequence of rows
        As `_nights_by_series` returns them.
    suppressions : Suppressions
    due : Due
    of_site : SiteNight, optional
        The site's last night, with what nights show together.
    """
    published = _due_night(nights, due)
    if published is None:
        given_up = _given_up(suppressions, due, "")
        return SeriesStatus(bool(given_up), given_up or NO_RUN, name)
    given_up = _given_up(suppressions, due, published.night)
    # Another revision of a night does not make it younger.
    recorded = sa.select(TRAIL.c.recorded).where(TRAIL.c.number == published.first)
    came = str(connection.scalar(recorded))
    age = due.now - _read_time(came).astimezone()
    hours = age.total_seconds() / 3600
    night = facts_at(connection, Night, [published.last])[published.last]
    is_fine, sentence = _judge_age(published.night, hours, due)
    over_nights = _reasons_of_nights(of_site, name, published.night)
    by_outcomes = reasons_of_outcomes(last_figures(connection, night.series))
    reported, acknowledged = suppressions.split(
        [*night.attention, *over_nights, *by_outcomes], published.night
    )
    sentences = [
        (
            f"night {published.night}, published {hours:.1f} h ago: "
            f"{night.flagged} of {night.scored} flagged"
        ),
        given_up or sentence,
        *map(_acknowledgement, acknowledged),
    ]
    soon = str((due.now + REVIEW_NOTICE).date())
    if night.review_by is not None and night.review_by <= soon:
        sentences.append(f"its model is to be reviewed by {night.review_by}")
    return SeriesStatus(
        fine=bool(given_up) or is_fine,
        said="; ".join(filter(None, sentences)),
        series=name,
        night=published.night,
        came=came,
        age_hours=hours,
        attention=tuple(reported),
        counts={count: getattr(night, count) for count in COUNTS},
        expected=_expected_of(night),
        review_by=night.review_by,
    )


def _due_night(nights: Sequence[sa.Row[Any]], due: Due) -> sa.Row[Any] | None:
    """Return the night that is due if it was published, or else the last one."""
    possible = [row for row in nights if row.night <= due.latest]
    asked_for = [row for row in possible if row.night == str(due.night)]
    return max(asked_for or possible, key=lambda row: row.night, default=None)


def _given_up(suppressions: Suppressions, due: Due, last: str) -> str:
    """Return why the night that is missing was given up, in words, or ''.

    `last`: the published night that counts. If no night is required, the latest
    given-up night counts that is after `last` and not too old.
    """
    sentence = ""
    for day, reason in sorted(suppressions.given_up.items()):
        if due.night is None:
            is_meant = due.earliest <= day <= due.latest and day > last
        else:
            is_meant = day == str(due.night) != last
        if is_meant:
            sentence = f"the night of {day} was given up: {reason}"
    return sentence


def _expected_of(night: Night) -> dict[str, float | None] | None:
    """Return cases, misses and PPV that a night's chances expect, None without them."""
    expected = night.expected
    if expected is None:
        return None
    return {
        "cases": expected.cases.value,
        "missed": expected.missed.value,
        "ppv": expected.ppv.value,
    }


def _judge_age(last: str, hours: float, due: Due) -> tuple[bool, str]:
    """Check that a series' last night is recent enough; return a remark or '' too.

    `hours`: since the last night was recorded.
    """
    if hours < -MAX_CLOCK_DIFFERENCE_HOURS:
        return False, "its recorded time is in the future; check the clock"
    if due.night is not None:
        return _judge_night(last, due, str(due.night))
    if datetime.timedelta(hours=hours) > due.max_age:
        longest = due.max_age.total_seconds() / 3600
        return False, f"no night since, for more than {longest:g} h"
    # A back-fill, or a wrong year, is recorded today but is an old night: a night is
    # recorded on its own day or on the next.
    if due.since(last) > due.max_age + 2 * DAY:
        return False, "the last night was scored late; tonight's is missing"
    return True, ""


def _judge_night(last: str, due: Due, night: str) -> tuple[bool, str]:
    """Check that the required night was published; return a remark or '' too."""
    if last == night:
        return True, ""
    remaining = due.grace - due.since(night)
    if remaining > datetime.timedelta(0):
        end = due.now + remaining
        return True, f"the night of {night} is due by {end:%Y-%m-%d %H:%M}"
    return False, f"the night of {night} is not published"


READABLE = "screening_ledger_readable"
# By name, a description, and how to get the value of a series.
SERIES_METRICS: dict[str, tuple[str, Callable[[SeriesStatus], float | None]]] = {
    "screening_fine": (
        "1 if the night that is due has arrived.",
        lambda status: status.fine,
    ),
    "screening_attention_reasons": (
        "Reasons why that night needs attention.",
        lambda status: len(status.attention),
    ),
    "screening_night_timestamp_seconds": (
        "Midnight (UTC) of the last night in force.",
        lambda status: _seconds(status.night),
    ),
    "screening_came_timestamp_seconds": (
        "When that night arrived.",
        lambda status: _seconds(status.came),
    ),
    "screening_review_timestamp_seconds": (
        "Midnight (UTC) of the day of its model's review.",
        lambda status: _seconds(status.review_by),
    ),
    "screening_rows_scored": (
        "Rows scored in that night.",
        lambda status: _count(status, "scored"),
    ),
    "screening_rows_flagged": (
        "Rows flagged in that night.",
        lambda status: _count(status, "flagged"),
    ),
    "screening_cases": (
        "Flagged cases of that night.",
        lambda status: _count(status, "cases"),
    ),
    "screening_expected_cases": (
        "Cases expected from the chances of that night, flagged or not.",
        lambda status: _expected(status, "cases"),
    ),
    "screening_expected_missed": (
        "Expected cases that are not flagged.",
        lambda status: _expected(status, "missed"),
    ),
    "screening_expected_ppv": (
        "Share of cases among the flagged, expected from the chances.",
        lambda status: _expected(status, "ppv"),
    ),
    "screening_cases_new": (
        "Cases that were not flagged on the night before.",
        lambda status: _count(status, "new"),
    ),
}


def _count(status: SeriesStatus, name: str) -> float | None:
    """Return a count of the last night, or None."""
    return (status.counts or {}).get(name)


def _expected(status: SeriesStatus, name: str) -> float | None:
    """Return what the chances of the last night expect, or None."""
    return (status.expected or {}).get(name)


def exposition(
    statuses: Sequence[SeriesStatus], of_site: SiteNight | None = None
) -> str:
    """Return metrics of the series in the text format of Prometheus.

    `of_site`: the site's last run, which has metrics too.
    """
    series = [status for status in statuses if status.series is not None]
    is_readable = bool(series) or any(status.fine for status in statuses)
    description = "1 if the ledger was read and contains a series."
    lines = _metric(READABLE, description, [("", is_readable)])
    for name, (description, value_of) in SERIES_METRICS.items():
        samples = []
        for status in series:
            value = value_of(status)
            if value is not None:
                samples.append((_label(str(status.series)), value))
        lines += _metric(name, description, samples)
    lines += _attention_metric(series)
    if of_site is not None:
        lines += _run_metrics(of_site)
    return "\n".join(lines) + "\n"


def _attention_metric(series: Sequence[SeriesStatus]) -> list[str]:
    """Return the lines that count reasons by series, code and state."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for status in series:
        for reason in status.attention:
            state = "new" if reason.since is None else "standing"
            counts[str(status.series), reason.code, state] += 1
    samples = []
    for (name, code, state), count in counts.items():
        label = _label(name).removesuffix("}")
        samples.append((f'{label},code="{code}",state="{state}"}}', count))
    return _metric("screening_attention", "Reasons by code; new or standing.", samples)


def _run_metrics(of_site: SiteNight) -> list[str]:
    """Return the metrics of the site's last run."""
    failed = [(_label(shown_series(name)), 1.0) for name in of_site.failed]
    codes = Counter(reason.code for reason in of_site.attention)
    attention = [(f'{{code="{code}"}}', float(n)) for code, n in codes.items()]
    return [
        *_metric(
            "screening_run_seconds",
            "Duration of the site's last run.",
            [("", of_site.seconds)],
        ),
        *_metric(
            "screening_run_exit_code",
            "Exit code of the site's last run.",
            [("", of_site.exit_code)],
        ),
        *_metric(
            "screening_run_failed", "Series that failed in the site's last run.", failed
        ),
        *_metric(
            "screening_site_attention",
            "Reasons of all series together by code.",
            attention,
        ),
    ]


def _metric(
    name: str, description: str, samples: Sequence[tuple[str, float]]
) -> list[str]:
    """Return the lines of a metric; none without a sample."""
    if not samples:
        return []
    values = [f"{name}{label} {value:.17g}" for label, value in samples]
    return [f"# HELP {name} {description}", f"# TYPE {name} gauge", *values]


# What Prometheus wants escaped in a label.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _label(series: str) -> str:
    """Return the label of a series, with its name escaped."""
    escaped = series.translate(_ESCAPES)
    return f'{{series="{escaped}"}}'


def _seconds(time: str | None) -> float | None:
    """Return a time, or midnight of a day, in seconds since 1970 in UTC."""
    if time is None:
        return None
    moment = _read_time(time)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
