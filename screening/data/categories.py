"""A category as columns of 0 and 1: its values, or the beginnings that many of its codes share (chapters)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from screening.io.columns import absent

# A category of more values than this is encoded by beginnings: so many at most, each of so many of the rows.
MANY_VALUES = 30
MOST_PREFIXES = 30
LEAST_SHARE, LEAST_ROWS = 0.01, 10
# Beyond this a beginning tells hardly anything that its absence does not.
MOST_SHARE = 0.9
NUMBER = re.compile(r"(?P<whole>\d+)(\.(?P<finer>\d*))?")
# K35.8, 5-470, N02BE01: a code, whose beginning is its chapter.
CODE = re.compile(r"[A-Za-z]{0,3}[-.]?\d[A-Za-z0-9.\-/+*]*")
EVERY_VALUE, WHOLE = -1, 0


@dataclass(frozen=True)
class Category:
    """What of a category has a column.

    Of at most 30 values each has one, and of two the second. Of more, codes, which mostly begin with letters
    and a digit, have one for each beginning that one row in a hundred shares; numbers are filled up to the
    longest, so that 41 and 410 begin differently. Other texts are compared whole: the frequent ones have a
    column.

    Parameters
    ----------
    typical : str or None
        The most frequent value; None where most rows have none, and that is a level of its own.
    levels : tuple of str
        Values, or beginnings.
    width : int
        Digits that a number before its point is filled up to; ``WHOLE`` where levels are the frequent ones of
        many values, ``EVERY_VALUE`` where they are all.
    missing_level : bool
        Whether a missing value has a column, the last, and is not taken for the typical one.
    """

    typical: str | None
    levels: tuple[str, ...]
    width: int
    missing_level: bool

    @classmethod
    def learned(cls, values: np.ndarray, listed: Sequence[str] | None, missing_level: bool) -> Category:
        """From a column; where its values are `listed`, in that order."""
        missing = absent(values)
        counts = Counter(values[~missing].tolist())
        levels, width = [text for text in listed or sorted(counts) if text in counts], EVERY_VALUE
        typical = max(levels, key=counts.__getitem__, default=None)
        if missing_level and missing.sum() > max(counts.values(), default=0):
            typical = None
        if len(counts) > MANY_VALUES:
            levels, width = frequent_beginnings(counts)
        return cls(typical, tuple(levels), width, missing_level)

    @property
    def _told_by_one(self) -> bool:
        return self.width == EVERY_VALUE and len(self.levels) + self.missing_level == 2

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        names = [level + "*" * (self.width > WHOLE) for level in self.levels]
        return [*names, *["(missing)"] * self.missing_level][self._told_by_one :]

    @property
    def steps(self) -> list[int]:
        """What the columns that are set add up to, one a column: the place of a level, from 1.

        That of beginnings is the place of the longest in a dictionary, so that codes that begin alike stand
        beside each other, and a chapter is a range.
        """
        place = dict(zip(self.levels, range(1, len(self.levels) + 1), strict=True))
        if self.width > EVERY_VALUE:
            place = {level: at for at, level in enumerate(sorted(self.levels), 1)}
        steps = [place[level] for level in self.levels]
        if self.width > WHOLE:
            shorter = ([level[:end] for end in range(len(level))] for level in self.levels)
            before = [max(place.get(start, 0) for start in starts) for starts in shorter]
            steps = [step - less for step, less in zip(steps, before, strict=True)]
        return [*steps, *[len(steps) + 1] * self.missing_level][self._told_by_one :]

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Encode texts, (n_values, n_columns); where one column tells two values apart, NaN for another."""
        texts = values if self.missing_level else np.where(absent(values), self.typical or "", values)
        place, distinct = pd.factorize(texts)
        # The last row is that of None, whose place is -1.
        encoded = np.zeros((len(distinct) + 1, len(self.levels) + self.missing_level))
        for row, value in enumerate(distinct):
            key = _key(value, self.width)
            begins = key.startswith if self.width > WHOLE else key.__eq__
            encoded[row, : len(self.levels)] = [begins(level) for level in self.levels]
        encoded[-1, len(self.levels) :] = 1
        if self._told_by_one:
            encoded = np.where(encoded.any(axis=1), encoded[:, 1], np.nan)[:, None]
        return encoded[place]


def frequent_beginnings(counts: Mapping[str, int]) -> tuple[list[str], int]:
    """The beginnings of codes, or other texts whole, that many rows share; and the width of numbers.

    `counts`: the rows of each value.

    >>> frequent_beginnings({"K35": 20, "K80": 40, "I21.1": 30, "I21.4": 25})
    (['K', 'I21.', 'K80', 'I21.1', 'I21.4', 'K35'], 1)
    """
    n_rows = sum(counts.values())
    codes = sum(count for value, count in counts.items() if CODE.fullmatch(value))
    numbers = [match["whole"] for match in map(NUMBER.fullmatch, counts) if match]
    width = max([1, *map(len, numbers)]) if codes > n_rows / 2 else WHOLE
    rows: Counter[str] = Counter()
    for value, count in counts.items():
        key = _key(value, width)
        for end in range(1 if width else len(key), len(key) + 1):
            rows[key[:end]] += count
    least = max(LEAST_SHARE * n_rows, LEAST_ROWS)
    frequent = [key for key, count in rows.items() if least <= count <= MOST_SHARE * n_rows]
    # Of beginnings that the same rows have the longest says what they are.
    longer = {(key[:end], rows[key]) for key in frequent for end in range(len(key)) if width}
    kept = [key for key in frequent if (key, rows[key]) not in longer]
    return sorted(kept, key=lambda key: (-rows[key], key))[:MOST_PREFIXES], width


def _key(value: str, width: int) -> str:
    number = NUMBER.fullmatch(value) if width > WHOLE else None
    return number["whole"].zfill(width) + (number["finer"] or "") if number else value
