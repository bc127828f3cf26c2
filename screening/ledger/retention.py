"""How long the nights of a ledger name their patients."""

from __future__ import annotations

import datetime
import re

from screening.errors import UsageError


def before_age(age: str, today: datetime.date) -> str:
    """The first night, YYYY-MM-DD, that is not older than `90d`, `26w` or `3y` today.

    Raises
    ------
    UsageError
        The age is none of these.
    """
    written = re.fullmatch(r"([1-9]\d{0,4})([dwy])", age)
    if written is None:
        raise UsageError(f"--older-than {age}: write it as 90d, 26w or 3y")
    number, unit = int(written[1]), written[2]
    try:
        if unit == "y":
            return _years_before(today, number).isoformat()
        return (today - datetime.timedelta(days=number * (7 if unit == "w" else 1))).isoformat()
    except (OverflowError, ValueError):
        raise UsageError(f"--older-than {age}: no night is so old") from None


def _years_before(day: datetime.date, years: int) -> datetime.date:
    if (day.month, day.day) == (2, 29):
        # Most years have no such day; the one after is in all of them.
        day += datetime.timedelta(days=1)
    return day.replace(year=day.year - years)
