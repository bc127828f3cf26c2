"""Codes with hundreds of values (ICD, ATC, wards) as the beginnings that many of them share: chapters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

# A category of more values than this is encoded by beginnings: so many at most, each of so many of the rows.
MANY_VALUES = 30
MOST_PREFIXES = 30
LEAST_SHARE, LEAST_ROWS = 0.01, 10
# Beyond this a beginning tells hardly anything that its absence does not.
MOST_SHARE = 0.9
NUMBER = re.compile(r"(?P<whole>\d+)(\.(?P<finer>\d*))?")
# K35.8, 5-470, N02BE01: a code, whose beginning is its chapter.
CODE = re.compile(r"[A-Za-z]{0,3}[-.]?\d[A-Za-z0-9.\-/+*]*")


@dataclass(frozen=True)
class CodePrefixes:
    """The beginnings of a category's values that have a column each.

    Only codes are taken apart, which mostly begin with letters and a digit. Numbers are filled up to the
    longest, so that 41 and 410 begin differently. Other texts are compared whole: their `prefixes` are the
    frequent values.
    """

    prefixes: tuple[str, ...]
    width: int  # digits that a number before its point is filled up to; 0 where values are compared whole

    @classmethod
    def learned(cls, counts: Mapping[str, int]) -> CodePrefixes:
        """From each value and the rows that have it.

        >>> CodePrefixes.learned({"K35": 20, "K80": 40, "I21.1": 30, "I21.4": 25}).prefixes
        ('K', 'I21.', 'K80', 'I21.1', 'I21.4', 'K35')
        """
        n_rows = sum(counts.values())
        codes = sum(count for value, count in counts.items() if CODE.fullmatch(value))
        numbers = [match["whole"] for match in map(NUMBER.fullmatch, counts) if match]
        width = max([1, *map(len, numbers)]) if codes > n_rows / 2 else 0
        rows: Counter[str] = Counter()
        for value, count in counts.items():
            key = _key(value, width)
            for end in range(1, len(key) + 1) if width else (len(key),):
                rows[key[:end]] += count
        least = max(LEAST_SHARE * n_rows, LEAST_ROWS)
        frequent = [key for key, count in rows.items() if least <= count <= MOST_SHARE * n_rows]
        # Of beginnings that the same rows have the longest says what they are.
        longer = (
            {(key[:end], rows[key]) for key in frequent for end in range(1, len(key))} if width else set()
        )
        kept = [key for key in frequent if (key, rows[key]) not in longer]
        return cls(tuple(sorted(kept, key=lambda key: (-rows[key], key))[:MOST_PREFIXES]), width)

    @property
    def steps(self) -> list[int]:
        """What the prefixes of a text add up to: the place of the longest in a dictionary, from 1.

        So codes that begin alike stand beside each other, and a chapter is a range.
        """
        place = {prefix: at for at, prefix in enumerate(sorted(self.prefixes), 1)}
        if not self.width:
            return [place[prefix] for prefix in self.prefixes]
        shorter = ([prefix[:end] for end in range(len(prefix))] for prefix in self.prefixes)
        return [
            place[prefix] - max(place.get(start, 0) for start in starts)
            for prefix, starts in zip(self.prefixes, shorter, strict=True)
        ]

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Which prefixes each text begins with, 0 or 1, shape (n_values, n_prefixes); none for None."""
        place, distinct = pd.factorize(values)
        begins = np.zeros((len(distinct) + 1, len(self.prefixes)))  # the last row for None, whose place is -1
        for row, value in enumerate(distinct):
            key = _key(value, self.width)
            begins[row] = [key.startswith(own) if self.width else key == own for own in self.prefixes]
        return begins[place]


def _key(value: str, width: int) -> str:
    number = NUMBER.fullmatch(value) if width else None
    return number["whole"].zfill(width) + (number["finer"] or "") if number else value
