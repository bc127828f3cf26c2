"""Time zones, hours and durations as people write them, and the clock of a site."""

from __future__ import annotations

import datetime
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from screening.errors import UsageError

# Files that name the zone of a host, and the folder of its zones.
ZONE_NAME_FILE = Path("/etc/timezone")
ZONE_FILE = Path("/etc/localtime")
ZONE_FOLDER = "zoneinfo"
HOUR_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def check_zone(name: str) -> str:
    """Check the name of a time zone; ValueError if it is unknown."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"'{name}' is not a time zone; write a zone such as Europe/Berlin or UTC"
        ) from None
    return name


def is_hour(text: str) -> bool:
    """Return True for an hour of the day such as 06:00; other texts name a column."""
    return HOUR_OF_DAY.fullmatch(text) is not None


def check_hour(text: str) -> str:
    """Check an hour or the name of a column; ValueError for a wrong hour."""
    if re.fullmatch(r"\d{1,2}(:\d*)?", text) and not is_hour(text):
        raise ValueError(
            f"'{text}' is not an hour of the day; write an hour such as 06:00, or the "
            "name of a column"
        )
    return text


ZoneName: TypeAlias = Annotated[str, AfterValidator(check_zone)]
HourOrColumn: TypeAlias = Annotated[
    str, Field(min_length=1), AfterValidator(check_hour)
]


def hours_from(text: object) -> object:
    """Return a duration such as "72h" or "3d" in hours; anything else unchanged.

    ValueError for a text that is not a duration.
    """
    if not isinstance(text, str):
        return text
    duration = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([hd])", text.strip())
    if duration is None:
        raise ValueError('write hours or days, such as "72h" or "3d"')
    return float(duration[1]) * (24 if duration[2] == "d" else 1)


@dataclass(frozen=True)
class Clock:
    """The time zone in which times without a zone are, and others are shown.

    Parameters
    ----------
    name : str
        Name of the zone in the IANA database, such as Europe/Berlin.
    is_of_host : bool
        It was not stated: it is the zone of this host.

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
        """The zone."""
        return ZoneInfo(self.name)

    def instant(self, local: datetime.datetime) -> datetime.datetime | None:
        """Return the instant of a local time, in UTC; None if it does not exist.

        Of a time that exists twice the first is taken.
        """
        instant = local.replace(tzinfo=self.zone, fold=0).astimezone(datetime.UTC)
        shown = instant.astimezone(self.zone).replace(tzinfo=None)
        return instant if shown == local else None

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
        "the time zone of this host has no name; give `time_zone`, such as "
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
