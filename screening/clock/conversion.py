"""Local times to instants and back, as arrays, by the clock of a site.

Instants are datetime64[us] in UTC, local times datetime64[us] as clocks show them.
"""

from __future__ import annotations

from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from screening.clock.zone import Clock

MICROSECONDS = "datetime64[us]"
NAT = np.datetime64("NaT", "us")


class Instants(NamedTuple):
    """Instants of local times.

    Parameters
    ----------
    utc : ndarray of datetime64[us]
        NaT where the local time is missing or does not exist.
    is_twice : ndarray of bool
        The local time exists twice, as in the hour when summer time ends; the first of
        both is taken.
    is_lost : ndarray of bool
        The local time does not exist, as in the hour when summer time begins.
    """

    utc: np.ndarray
    is_twice: np.ndarray
    is_lost: np.ndarray


def instants_of(local: np.ndarray, clock: Clock) -> Instants:
    """Return the instants of local times, shape (n_times,)."""
    index = pd.DatetimeIndex(np.asarray(local, MICROSECONDS))
    is_first = np.ones(len(index), dtype=bool)
    first = _instants(index, clock.zone, is_first)
    second = _instants(index, clock.zone, ~is_first)
    is_lost = np.isnat(first) & ~np.isnat(index.to_numpy())
    is_twice = ~np.isnat(first) & (first != second)
    return Instants(first, is_twice, is_lost)


def next_instants_of(local: np.ndarray, clock: Clock) -> np.ndarray:
    """Return the instants of local times, or the next instant if a time does not exist.

    A day may begin with an hour that does not exist.
    """
    index = pd.DatetimeIndex(np.asarray(local, MICROSECONDS))
    is_first = np.ones(len(index), dtype=bool)
    instants = index.tz_localize(
        clock.zone, ambiguous=is_first, nonexistent="shift_forward"
    )
    return _naive(instants.tz_convert("UTC"))


def local_times(utc: np.ndarray, clock: Clock) -> np.ndarray:
    """Return the local times of instants, shape (n_times,)."""
    index = pd.DatetimeIndex(np.asarray(utc, MICROSECONDS)).tz_localize("UTC")
    return _naive(index.tz_convert(clock.zone))


def text_of(utc: np.datetime64 | pd.Timestamp | None, clock: Clock) -> str:
    """Return an instant as ISO 8601 with its offset, to the minute; "" for none."""
    if utc is None or pd.isna(utc):
        return ""
    local = pd.Timestamp(utc).tz_localize("UTC").tz_convert(clock.zone)
    if local.second:
        return local.isoformat(timespec="seconds")
    return local.isoformat(timespec="minutes")


def _instants(
    index: pd.DatetimeIndex, zone: ZoneInfo, is_first: np.ndarray
) -> np.ndarray:
    """Return the instants of local times, NaT where one does not exist.

    `is_first`: of a time that exists twice, take the first.
    """
    local = index.tz_localize(zone, ambiguous=is_first, nonexistent="NaT")
    return _naive(local.tz_convert("UTC"))


def _naive(index: pd.DatetimeIndex) -> np.ndarray:
    """Return the times of an index as its clock shows them."""
    return np.asarray(index.tz_localize(None).to_numpy(), dtype=MICROSECONDS)
