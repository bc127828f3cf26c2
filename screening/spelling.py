"""Names in a message: what a mistyped one was probably meant to be, and the first of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a word, None where none is alike."""
    names = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold(), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that asks back, empty where no known name is alike."""
    found = nearest(word, known)
    return f"; did you mean '{found}'?" if found else ""


def first_of(names: Sequence[object], most: int, count: int | None = None) -> str:
    """The first `most` names, and how many more there are of `count` (of those given, unless told)."""
    more = (len(names) if count is None else count) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")
