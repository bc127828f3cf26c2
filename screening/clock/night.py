"""The date of a night, and its hour: when its table was taken."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.clock.conversion import local_times, next_instants_of
from screening.clock.zone import Clock, host_clock, is_hour
from screening.errors import CohortError, UsageError
from screening.schemas.run import TakenFrom

ONE_DAY = np.timedelta64(1, "D")
# Earlier years are typing errors.
EARLIEST_YEAR = 1900


def night_of_date(
    date: str | None,
    allow_future: bool | None = None,
    clock: Clock | None = None,
) -> str:
    """Return the night that a date names, by default today's.

    Parameters
    ----------
    date : str or None
        YYYY-MM-DD.
    allow_future : bool, optional
        Accept any date; None where the caller has no such option.
    clock : Clock, optional
        By which it is today; that of this host by default.

    Raises
    ------
    UsageError
        If the text is not a date, or is a date in the future.
    """
    today = (clock or host_clock()).today()
    try:
        night = datetime.date.fromisoformat(date) if date else today
    except ValueError:
        raise UsageError(
            f"`date` {date}: write the night as YYYY-MM-DD", parameters=["date"]
        ) from None
    if night.year < EARLIEST_YEAR:
        raise UsageError(
            f"`date` {date}: the year is before {EARLIEST_YEAR}; correct it",
            parameters=["date"],
        )
    # A day's grace for clocks in other zones, where it is tomorrow already.
    latest = today + datetime.timedelta(days=1)
    if night > latest and not allow_future:
        remedy = "" if allow_future is None else " If it is, give `allow_future`"
        raise UsageError(
            f"`date` {date} is in the future; is the clock right?{remedy}",
            parameters=["date", "allow_future"],
        )
    return night.isoformat()


@dataclass(frozen=True)
class NightHour:
    """The instant of a night.

    Parameters
    ----------
    at : datetime64
        The instant, in UTC.
    taken_from : {"hour", "column", "file", "midnight"}
        Whether a person stated the hour, a column of the table has it, it is the time
        at which the file was written, or none is known and the day's beginning counts.
    """

    at: np.datetime64
    taken_from: TakenFrom


def hour_of_night(
    night: str,
    clock: Clock,
    hour: str | None,
    in_column: Sequence[np.datetime64],
    written: datetime.datetime | None,
) -> NightHour:
    """Return the instant at which the table of a night was taken.

    Parameters
    ----------
    night : str
        YYYY-MM-DD.
    clock : Clock
    hour : str, optional
        What a person stated: an hour of the day, or a column.
    in_column : sequence of datetime64
        Instants in that column; the newest counts.
    written : datetime, optional
        When the table's file was written, in UTC. It counts if that was on the
        night's day: a file may be copied or read later.

    Raises
    ------
    CohortError
        The column has no time, or one of another day.
    """
    midnight = np.datetime64(night, "us")
    if hour is not None and is_hour(hour):
        hours, minutes = hour.split(":")
        of_day = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return NightHour(_instant(clock, midnight + np.timedelta64(of_day)), "hour")
    if hour is not None:
        times = [time for time in in_column if not np.isnat(time)]
        if not times:
            raise CohortError(
                f"column '{hour}' contains no time, but `hour` names it as the column "
                "with the time of the night; correct `hour`"
            )
        _refuse_other_day(hour, max(times), midnight, clock)
        return NightHour(max(times), "column")
    if written is not None:
        at = np.datetime64(written.replace(tzinfo=None), "m").astype("datetime64[us]")
        if str(local_times(np.array([at]), clock)[0])[:10] == night:
            return NightHour(at, "file")
    return NightHour(_instant(clock, midnight), "midnight")


def _instant(clock: Clock, local: np.datetime64) -> np.datetime64:
    """Return the instant of a local time; the next one where it does not exist."""
    utc: np.datetime64 = next_instants_of(np.array([local]), clock)[0]
    return utc


def _refuse_other_day(
    column: str, newest: np.datetime64, midnight: np.datetime64, clock: Clock
) -> None:
    """Raise CohortError if the newest time of a table is not of its night.

    A table that is taken in the evening may be the next day's.
    """
    local = local_times(np.array([newest]), clock)[0]
    if not midnight - ONE_DAY <= local < midnight + 2 * ONE_DAY:
        raise CohortError(
            f"column '{column}': the newest time is not on the day of the night; "
            "correct the column, or the night's date"
        )
