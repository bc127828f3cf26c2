"""The name of a series: one screen of one place, the key under which its nights follow each other."""

from __future__ import annotations

import re
import unicodedata

NAME = re.compile(r"[^\W_][\w.-]{0,39}")
# So begins the digest by which a series without a name is known.
DIGITS = re.compile(r"[0-9a-f]{12,}")
EACH = "each"


def series_name(text: str) -> str:
    """The name as it is kept.

    Raises
    ------
    ValueError
        It is none, or could be taken for something else.
    """
    name = unicodedata.normalize("NFC", text)
    if not NAME.fullmatch(name):
        raise ValueError(
            "a series is named by up to 40 letters, digits, '.', '_' or '-', such as ward-7.sepsis"
        )
    if name == EACH or DIGITS.fullmatch(name):
        raise ValueError(f"a series may not be named '{name}': that would be taken for something else")
    return name


def shown_series(series: str) -> str:
    """The series as it is told: its name, or the first digits where nobody named it."""
    return series[:12] if DIGITS.fullmatch(series) else series


def filled(pattern: str, series: str, night: str) -> str:
    """A place of a night, such as that of its table: `{series}` and `{date}` of the pattern filled in."""
    return pattern.replace("{series}", series).replace("{date}", night)
