"""The stem of a row's name: what the rows of one patient share where names only count them on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np

# voice_07_1, P12-OD, 0815/2 and, where a digit stands before it, 0815a and S03V2.
ENDED = re.compile(
    r"(?P<parted>.*\w)[\s_.:/#-]+(?P<end>\d{1,3}|[A-Z]|O[DSU]|[LR]E|left|right)"
    r"|(?P<joined>.*\d)(?P<letter>[A-Z]\d{0,2})",
    re.IGNORECASE,
)
DAY = re.compile(r"\d{4}-\d{1,2}(-\d{1,2})?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
# Fewer stems are years or places.
FEWEST_STEMS = 10
# A patient's rows are seldom more; the patients of a centre are numbered further.
USUAL_ROWS, MOST_USUAL = 12, 20
SPREAD = 2.0


def stem_and_end(name: str) -> tuple[str, str]:
    """A row's name as stem and running end; the whole of it and nothing where it has no such end."""
    match = ENDED.fullmatch(name)
    if match is None:
        return name, ""
    return match["parted"] or match["joined"], match["end"] or match["letter"]


def stems_of(names: np.ndarray) -> np.ndarray:
    """The stem of each row's name, shape (n_rows,), None where there is none."""
    return np.array([name and stem_and_end(name.strip())[0] for name in names.tolist()], dtype=object)


def sizes_of_stems(names: Sequence[str]) -> list[int]:
    """Rows of each stem, where different names are some stems with ends that follow each other; else none."""
    ends = defaultdict(list)
    for stem, end in map(stem_and_end, names):
        ends[stem].append(end)
    several = [mine for mine in ends.values() if len(mine) > 1]
    if len(ends) < FEWEST_STEMS or 2 * sum(map(len, several)) < len(names):
        return []
    if len({*names}) < 0.95 * len(names) or sum(map(bool, map(DAY.fullmatch, names))) > len(names) / 2:
        return []
    running = median(_spread(mine) / len(mine) for mine in several) <= SPREAD
    return [len(mine) for mine in ends.values()] if running else []


def usual(names: Sequence[str], sizes: Sequence[int]) -> bool:
    """Whether ends count a patient's rows, few and in one or two digits, and not a centre's patients."""
    short = sum(len(stem_and_end(name)[1]) <= 2 or not name[-1].isdigit() for name in names)
    return median(sizes) <= USUAL_ROWS and max(sizes) <= MOST_USUAL and short >= 0.9 * len(names)


def counts_rows(names: Sequence[str]) -> bool:
    """Whether ends are one sign or a side: a patient's few rows, and no centre's many patients."""
    few = sum(len(end) == 1 or not end[-1:].isdigit() for _, end in map(stem_and_end, names))
    return few >= 0.95 * len(names)


def _spread(ends: list[str]) -> int:
    """From the first to the last of a stem's ends, by number or letter; of sides, their count."""
    numbers = [re.search(r"\d+$", end) for end in ends]
    if all(numbers):
        places = [int(match[0]) for match in numbers if match]
    elif all(len(end) == 1 for end in ends):
        places = [ord(end.lower()) for end in ends]
    else:
        return len(ends)
    return max(places) - min(places) + 1
