"""The stem of a row's name: what the rows of one patient share where names only count them on."""

from __future__ import annotations

import re

# voice_07_1, P12-OD, 0815/2 and, where a digit stands before it, 0815a and S03V2.
ENDED = re.compile(
    r"(?P<parted>.*\w)[\s_.:/#-]+(?P<end>\d{1,3}|[A-Z]|O[DSU]|[LR]E|left|right)"
    r"|(?P<joined>.*\d)(?P<letter>[A-Z]\d{0,2})",
    re.IGNORECASE,
)


def stem_and_end(name: str) -> tuple[str, str]:
    """A row's name in two: its stem and what counts on; the whole name and nothing where it has no such end."""
    match = ENDED.fullmatch(name)
    if match is None:
        return name, ""
    return match["parted"] or match["joined"], match["end"] or match["letter"]


def stem_of(name: str) -> str:
    """A row's name without its running end."""
    return stem_and_end(name)[0]
