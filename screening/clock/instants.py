"""Cells of a column of times as instants, whatever notation or zone each cell has."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from screening.clock.conversion import (
    MICROSECONDS,
    NAT,
    instants_of,
    local_times,
    next_instants_of,
)
from screening.clock.zone import Clock
from screening.errors import UsageError
from screening.io.date_formats import DateNumbers, read_time, times_of_numbers

# Numbers that count from an instant and not from a day on the clock.
FROM_AN_INSTANT = ("seconds_1970", "milliseconds_1970")
NOON = np.timedelta64(12, "h")
ONE_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class TimeCells:
    """Times of cells, each array of shape (n_cells,).

    Parameters
    ----------
    utc : ndarray of datetime64[us]
        Instants; a date alone is the beginning of its day, NaT is not a time.
    is_day : ndarray of bool
        The cell has a date alone.
    is_zoned : ndarray of bool
        The cell states its zone.
    is_twice, is_lost : ndarray of bool
        See `conversion.Instants`; a cell that states its zone is neither.
    """

    utc: np.ndarray
    is_day: np.ndarray
    is_zoned: np.ndarray
    is_twice: np.ndarray
    is_lost: np.ndarray

    def take(self, places: np.ndarray) -> TimeCells:
        """Take the cells at some places."""
        taken = {
            field.name: getattr(self, field.name)[places] for field in fields(self)
        }
        return TimeCells(**taken)

    def at_noon(self, clock: Clock) -> np.ndarray:
        """Return the instants with dates alone taken at noon of their day."""
        noon = local_times(self.utc, clock).astype("datetime64[D]") + NOON
        return np.where(self.is_day, next_instants_of(noon, clock), self.utc)


def times_of_texts(
    texts: Sequence[str | None], order: str | None, clock: Clock
) -> TimeCells:
    """Return the times that texts say, each read by itself.

    Parameters
    ----------
    texts : sequence of str or None
    order : {"dmy", "mdy"} or None
        See `io.date_formats.parse_time`.
    clock : Clock
        Of times without a zone.
    """
    local = np.full(len(texts), NAT)
    zoned = np.full(len(texts), NAT)
    is_day = np.zeros(len(texts), dtype=bool)
    for place, text in enumerate(texts):
        time = None if text is None else read_time(text, order)
        if time is None:
            continue
        if not isinstance(time, datetime.datetime):
            is_day[place] = True
            local[place] = np.datetime64(time, "us")
        elif time.tzinfo is None:
            local[place] = np.datetime64(time, "us")
        else:
            utc = time.astimezone(datetime.UTC).replace(tzinfo=None)
            zoned[place] = np.datetime64(utc, "us")
    return _times(local, zoned, is_day, clock)


def times_of_counts(
    numbers: np.ndarray, counted: DateNumbers, clock: Clock
) -> TimeCells:
    """Return the times that numbers count, from 1970 in UTC, from other days locally.

    Parameters
    ----------
    numbers : ndarray of float, shape (n_cells,)
    counted : DateNumbers
    clock : Clock
    """
    times = times_of_numbers(numbers, counted).astype(MICROSECONDS)
    none = np.full(len(times), NAT)
    is_day = np.zeros(len(times), dtype=bool)
    if counted in FROM_AN_INSTANT:
        return _times(none, times, is_day, clock)
    is_day = ~np.isnat(times) & (times == times.astype("datetime64[D]"))
    return _times(times, none, is_day, clock)


def _times(
    local: np.ndarray, zoned: np.ndarray, is_day: np.ndarray, clock: Clock
) -> TimeCells:
    """Combine local times and instants; each is NaT for times of the other kind.

    A day begins with the first time that it has.
    """
    instants = instants_of(local, clock)
    begins = next_instants_of(np.where(is_day, local, NAT), clock)
    is_zoned = ~np.isnat(zoned)
    utc = np.where(is_zoned, zoned, np.where(is_day, begins, instants.utc))
    return TimeCells(
        utc=utc,
        is_day=is_day,
        is_zoned=is_zoned,
        is_twice=instants.is_twice & ~is_day,
        is_lost=instants.is_lost & ~is_day,
    )


def read_moment(parameter: str, text: str | None, clock: Clock) -> np.datetime64:
    """Parse an instant from the command line; a date is its beginning, None is now.

    Raises
    ------
    UsageError
        The text is not a time.
    """
    if text is None:
        return np.datetime64(clock.now().astimezone(datetime.UTC).replace(tzinfo=None))
    moment: np.datetime64 = times_of_texts([text], None, clock).utc[0]
    if np.isnat(moment):
        raise UsageError(
            f"`{parameter}` {text}: write YYYY-MM-DD, or a time such as "
            "2026-03-10T06:00",
            parameters=[parameter],
        )
    return moment
