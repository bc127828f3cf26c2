"""How names are written: of a series (one screen of one place, the key under which its nights follow each
other), and in a message: what a mistyped one was probably meant to be, and the first of many."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

NAME = re.compile(r"[^\W_][\w.-]{0,39}")
# So begins the digest by which a series without a name is known.
DIGITS = re.compile(r"[0-9a-f]{12,}")
EACH = "each"
SHORTEST_PART = 4


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
        raise ValueError(
            f"a series may not be named '{name}': that would be taken for something else"
        )
    return name


def shown_series(series: str) -> str:
    """The series as messages have it: its name, or the first digits where nobody named it."""
    return series[:12] if DIGITS.fullmatch(series) else series


def filled(pattern: str, series: str, night: str) -> str:
    """A place of a night, such as that of its table: `{series}` and `{date}` of the pattern filled in."""
    return pattern.replace("{series}", series).replace("{date}", night)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a word, or has it as a part; None where none is alike."""
    names, word = {name.casefold(): name for name in known}, word.casefold()
    matches = get_close_matches(word, names, n=1, cutoff=0.6)
    matches += [name for name in names if len(word) >= SHORTEST_PART and word in name]
    return names[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that asks back, empty where no known name is alike."""
    name = nearest(word, known)
    return f"; did you mean '{name}'?" if name else ""


def first_of(names: Sequence[object], most: int, count: int | None = None) -> str:
    """The first `most` names, and how many more there are of `count` (of those given, if absent)."""
    more = (len(names) if count is None else count) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")
