"""Columns of a table as NumPy arrays by name, None or NaN where a value is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

Columns: TypeAlias = Mapping[str, np.ndarray]
"""Columns of the same rows by name, each float64 with NaN or text with None where a
value is missing."""


def frame_of(columns: Columns) -> pd.DataFrame:
    """Return the columns as a frame."""
    # Without a dtype pandas guesses one for texts, which depends on the batch.
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=values.dtype)
            for name, values in columns.items()
        }
    )


def count_rows(columns: Columns) -> int:
    """Count the rows, 0 without columns."""
    return next(map(len, columns.values()), 0)


def count_values(values: np.ndarray) -> Counter[Any]:
    """Count how often each value occurs, in order of occurrence; not missing ones."""
    codes, distinct = pd.factorize(values)
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    return Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))


def coded(values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values in order of occurrence, and each row's code.

    Unlike `pandas.factorize`, a missing value is a value.
    """
    code_of_value: dict[object, int] = {}
    codes = [
        code_of_value.setdefault(value, len(code_of_value)) for value in values.tolist()
    ]
    return list(code_of_value), np.array(codes, dtype=np.intp)


def runs_of(names: np.ndarray) -> Iterator[tuple[str, slice]]:
    """Yield each run of consecutive rows with one name.

    A name is repeated if its rows are apart.
    """
    if not len(names):
        return
    changes = 1 + np.flatnonzero(names[1:] != names[:-1])
    for start, end in pairwise([0, *changes, len(names)]):
        yield names[start], slice(start, end)


@dataclass(frozen=True)
class SampledValues:
    """Values of a column at every k-th row; samples of consecutive rows add up.

    Parameters
    ----------
    most : int
        Largest number of values.
    rows : ndarray of int, shape (n,)
        Rows of the values, counted from 0: multiples of `step`.
    values : ndarray, shape (n,)
    step : int
        k, the smallest power of two that leaves at most `most` values.
    """

    most: int
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    step: int = 1

    @classmethod
    def of(cls, most: int, rows: np.ndarray, values: np.ndarray) -> SampledValues:
        """Return a sample of these values, ascending in their rows."""
        return cls(most, rows, values)._thinned(1)

    def __add__(self, other: SampledValues) -> SampledValues:
        rows = np.concatenate([self.rows, other.rows])
        values = np.concatenate([self.values, other.values])
        joined = SampledValues(self.most, rows, values)
        return joined._thinned(max(self.step, other.step))

    def _thinned(self, step: int) -> SampledValues:
        """Return the values of every `step`-th row, or of fewer where they are many."""
        # Multiples of a power of two end in that many bits of 0.
        kept = self.rows & (step - 1) == 0
        while np.count_nonzero(kept) > self.most:
            step *= 2
            kept = self.rows & (step - 1) == 0
        return SampledValues(self.most, self.rows[kept], self.values[kept], step)
