"""The clock of a site: local times to instants and back, in one time zone.

Instants are datetime64[us] in UTC, local times datetime64[us] as clocks show them.
"""

from __future__ import annotations

import datetime
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from screening.clock.names import check_zone
from screening.errors import UsageError

MICROSECONDS = "datetime64[us]"
NAT = np.datetime64("NaT", "us")
# Files that name the zone of a host, and the folder of its zones.
ZONE_NAME_FILE = Path("/etc/timezone")
ZONE_FILE = Path("/etc/localtime")
ZONE_FOLDER = "zoneinfo"


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


@dataclass(frozen=True)
class Clock:
    """The time zone in which times without a zone are, and others are shown.

    Parameters
    ----------
    name : str
        Name of the zone in the IANA database, such as Europe/Berlin.
    is_of_host : bool
        Nobody stated it: it is the zone of this host.

    Raises
    ------
    ValueError
        No such zone is known.
    """

    name: str
    is_of_host: bool = False

    def __post_init__(self) -> None:
        check_zone(self.name)

    @property
    def zone(self) -> ZoneInfo:
        """Return the zone."""
        return ZoneInfo(self.name)

    def instants(self, local: np.ndarray) -> Instants:
        """Return the instants of local times, shape (n_times,)."""
        index = pd.DatetimeIndex(np.asarray(local, MICROSECONDS))
        is_first = np.ones(len(index), dtype=bool)
        first = _instants(index, self.zone, is_first)
        second = _instants(index, self.zone, ~is_first)
        is_lost = np.isnat(first) & ~np.isnat(index.to_numpy())
        is_twice = ~np.isnat(first) & (first != second)
        return Instants(first, is_twice, is_lost)

    def instants_of_days(self, local: np.ndarray) -> np.ndarray:
        """Return the instants of local times, the next one where there is none.

        A day may begin with an hour that does not exist.
        """
        index = pd.DatetimeIndex(np.asarray(local, MICROSECONDS))
        is_first = np.ones(len(index), dtype=bool)
        instants = index.tz_localize(
            self.zone, ambiguous=is_first, nonexistent="shift_forward"
        )
        return _naive(instants.tz_convert("UTC"))

    def local(self, utc: np.ndarray) -> np.ndarray:
        """Return the local times of instants, shape (n_times,)."""
        index = pd.DatetimeIndex(np.asarray(utc, MICROSECONDS)).tz_localize("UTC")
        return _naive(index.tz_convert(self.zone))

    def text(self, utc: np.datetime64 | pd.Timestamp | None) -> str:
        """Return an instant as ISO 8601 with its offset, to the minute; "" for none."""
        if utc is None or pd.isna(utc):
            return ""
        local = pd.Timestamp(utc).tz_localize("UTC").tz_convert(self.zone)
        if local.second:
            return local.isoformat(timespec="seconds")
        return local.isoformat(timespec="minutes")

    def now(self) -> datetime.datetime:
        """Return the time of now, with the zone."""
        return datetime.datetime.now(self.zone)

    def today(self) -> datetime.date:
        """Return the day of now."""
        return self.now().date()

    def description(self) -> str:
        """Return the zone for a reader, and that it is the host's where that is so."""
        if self.is_of_host:
            return f"{self.name}, the time zone of this host"
        return self.name


def clock_of(name: str | None) -> Clock:
    """Return the clock of a time zone, that of this host where none is stated."""
    return Clock(name) if name else host_clock()


def host_clock() -> Clock:
    """Return the clock of this host.

    Raises
    ------
    UsageError
        The zone of the host has no name.
    """
    for name in _names_of_host():
        try:
            return Clock(name, is_of_host=True)
        except ValueError:
            continue
    if not time.timezone and not time.daylight:
        return Clock("UTC", is_of_host=True)
    raise UsageError(
        "the time zone of this host has no name: give `time_zone`, such as "
        "Europe/Berlin, in the contract or under [site]",
        parameters=["time_zone"],
    )


def _names_of_host() -> list[str]:
    """Return the names that a host may state for its zone, the first that counts."""
    variable = os.environ.get("TZ")
    if variable:
        return [variable.removeprefix(":")]
    names = []
    parts = ZONE_FILE.resolve().parts
    if ZONE_FOLDER in parts:
        names.append("/".join(parts[parts.index(ZONE_FOLDER) + 1 :]))
    if ZONE_NAME_FILE.is_file():
        names.append(ZONE_NAME_FILE.read_text(encoding="utf-8").strip())
    return names


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
