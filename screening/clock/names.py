"""Time zones, hours of the day and durations, as people write them."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

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
