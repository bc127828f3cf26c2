"""Formats of dates in tables: ISO, HL7, with names of months, and numbers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Literal

import numpy as np

TIME = r"(?:[T ](?P<time>.*))?"
ISO_DATE = re.compile(
    r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + TIME, re.ASCII
)
OTHER_DATE = re.compile(
    r"(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4}|\d{2})" + TIME,
    re.ASCII,
)
# 20250131, and HL7's 20250131154500 with parts of a second and a zone.
COMPACT_DATE = re.compile(
    r"(?P<year>(19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)"
    r"(?:(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)?"
    r"(?P<rest>(\.\d+)?([+-]\d{4})?))?",
    re.ASCII,
)
# Months by the first letters of their names in English, German, French, Spanish and
# Italian.
MONTHS = (
    "jan jän janv ene gen",
    "feb fév févr",
    "mar mär mrz mars",
    "apr avr abr",
    "may mai mag",
    "jun juin giu",
    "jul juil lug",
    "aug août ago",
    "sep sept set",
    "oct okt ott",
    "nov",
    "dec dez déc dic",
)
MONTH_OF_NAME: dict[str, int] = {}
for month, names_of_month in enumerate(MONTHS, 1):
    MONTH_OF_NAME |= dict.fromkeys(names_of_month.split(), month)
# 01JAN2025, 1. Jan 2025, Jan-25.
NAMED_DATE = re.compile(
    r"(?:(?P<day>\d{1,2})[-. ]{0,2})?(?P<month>[^\W\d_]{3,10})\.?[-., ]{0,2}"
    r"(?P<year>\d{4}|\d{2})" + TIME
)
CLOCK_OF_HALF_DAY = re.compile(
    r"(?P<hour>\d{1,2})(?P<rest>(:\d{2}){0,2}(\.\d+)?)\s*(?P<half>[AP])\.?M\.?",
    re.IGNORECASE,
)
YEAR_OR_MONTH = re.compile(r"\d{4}(-\d{2})?", re.ASCII)
LONE_DIGIT = re.compile(r"(?<![\d.,])\d(?!\d)", re.ASCII)
# What Arrow looks for before each distinct text is parsed.
DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|(\d{1,2}[-. ]{0,2})?(?i:"
    + "|".join(" ".join(MONTHS).split())
    + r")\pL{0,7}\.?[-., ]{0,2}(\d{4}|\d{2}))([T ]\d|$)"
)
# pandas stores times in 64 bits of nanoseconds: no other years.
FIRST_YEAR = 1678
LAST_YEAR = 2261
# Of a year with two digits, 70 is 1970 and 69 is 2069.
FIRST_SHORT_YEAR = 70
FEWEST_DATES = 5

DateOrder = Literal["dmy", "mdy"]
DateNumbers = Literal[
    "days_1900", "days_1904", "days_1960", "seconds_1970", "milliseconds_1970"
]
# Day 0, seconds of a unit, and the numbers of 2000 to 2040 by which they are
# recognised. Days since 1904, a choice of old workbooks, look like those since 1900.
ORIGINS: dict[str, tuple[datetime.datetime, float, tuple[float, float]]] = {
    "days_1900": (datetime.datetime(1899, 12, 30), 86_400.0, (29_220, 60_000)),
    "days_1904": (datetime.datetime(1904, 1, 1), 86_400.0, (0, 0)),
    "days_1960": (datetime.datetime(1960, 1, 1), 86_400.0, (14_610, 29_220)),
    "seconds_1970": (datetime.datetime(1970, 1, 1), 1.0, (946e6, 2209e6)),
    "milliseconds_1970": (datetime.datetime(1970, 1, 1), 1e-3, (946e9, 2209e9)),
}


def date_numbers_of(high: float) -> DateNumbers | None:
    """Return how dates are counted, by the latest; None if it is not such a number."""
    for name, (_, _, (first, last)) in ORIGINS.items():
        if first < high <= last:
            return name  # type: ignore[return-value]
    return None


def times_of_numbers(numbers: np.ndarray, counted: DateNumbers) -> np.ndarray:
    """Return numbers of days or seconds as datetime64[us], NaT where that is none."""
    origin, seconds, _ = ORIGINS[counted]
    start = np.datetime64(origin, "us")
    most = (datetime.datetime(LAST_YEAR, 12, 31) - origin).total_seconds()
    least = (datetime.datetime(FIRST_YEAR, 1, 1) - origin).total_seconds()
    elapsed = numbers * seconds
    is_time = (least <= elapsed) & (elapsed <= most)
    microseconds = np.where(is_time, np.round(elapsed * 1e6), 0).astype(np.int64)
    times = start + microseconds.astype("timedelta64[us]")
    return np.where(is_time, times, np.datetime64("NaT", "us"))


def are_compact_dates(texts: Iterable[str]) -> bool:
    """Return True if several texts of digits are all dates, such as 20250131."""
    distinct = set(texts)
    if len(distinct) < FEWEST_DATES:
        return False
    return all(
        COMPACT_DATE.fullmatch(text) and parse_time(text, None) for text in distinct
    )


def parse_time(text: str, order: str | None) -> datetime.datetime | None:
    """Parse the point in time of a text, in UTC without a zone.

    A year or a month alone means its first day.

    Parameters
    ----------
    text : str
    order : {"dmy", "mdy"} or None
        Order of a date that does not begin with the year; None refuses such dates.

    Returns
    -------
    datetime or None
        None for a text that is not a time, and for years that pandas cannot store.
    """
    time = read_time(text, order)
    if isinstance(time, datetime.datetime):
        if time.tzinfo:
            return time.astimezone(datetime.UTC).replace(tzinfo=None)
        return time
    return None if time is None else datetime.datetime(time.year, time.month, time.day)


def read_time(text: str, order: str | None) -> datetime.datetime | datetime.date | None:
    """Parse a time, with its zone if it has one, or a date.

    Parameters and None are those of `parse_time`.
    """
    iso = _iso_text(text, order)
    for read in (datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            time = read(iso)
        except ValueError:
            continue
        return time if FIRST_YEAR <= time.year <= LAST_YEAR else None
    return None


def _iso_text(text: str, order: str | None) -> str:
    """Return a date in ISO's notation, and any other text as it is."""
    if YEAR_OR_MONTH.fullmatch(text):
        return f"{text}-01-01"[:10]
    compact = COMPACT_DATE.fullmatch(text)
    if compact:
        return _iso_of_compact(compact)
    match = ISO_DATE.fullmatch(text)
    if match is None and order:
        match = OTHER_DATE.fullmatch(text)
    if match is None:
        named = NAMED_DATE.fullmatch(text)
        return _iso_of_named(named) if named else text
    month = match["month"]
    day = match["day"]
    if order == "mdy" and match.re is OTHER_DATE:
        month, day = day, month
    return _iso_of_parts(match["year"], month, day, match["time"])


def _iso_of_compact(match: re.Match[str]) -> str:
    iso = f"{match['year']}-{match['month']}-{match['day']}"
    if match["hour"]:
        second = match["second"] or "00"
        iso += f"T{match['hour']}:{match['minute']}:{second}{match['rest']}"
    return iso


def _iso_of_named(match: re.Match[str]) -> str:
    """Return a date with the name of its month in ISO's notation, "" for no month."""
    name = match["month"].lower()
    ends = range(3, len(name) + 1)
    months = {MONTH_OF_NAME.get(name[:end]) for end in ends} - {None}
    if len(months) != 1:
        return ""
    return _iso_of_parts(
        match["year"], str(months.pop()), match["day"] or "1", match["time"]
    )


def _iso_of_parts(year: str, month: str, day: str, time: str | None) -> str:
    if len(year) == 2:
        century = "19" if int(year) >= FIRST_SHORT_YEAR else "20"
        year = century + year
    iso = f"{year}-{int(month):02}-{int(day):02}"
    if time:
        iso += "T" + LONE_DIGIT.sub(r"0\g<0>", _clock_of_day(time))
    return iso


def _clock_of_day(time: str) -> str:
    """Return a time with AM or PM in hours of the whole day, any other as it is."""
    match = CLOCK_OF_HALF_DAY.fullmatch(time)
    if match is None or not 1 <= int(match["hour"]) <= 12:
        return time
    hour = int(match["hour"]) % 12 + 12 * (match["half"] in "pP")
    return f"{hour:02}{match['rest'] or ':00'}"
