"""Columns of a table as NumPy arrays by name, None or NaN where a value is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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
    """Return the number of rows, 0 without columns."""
    return next(map(len, columns.values()), 0)


def absent(values: np.ndarray) -> np.ndarray:
    """Return True where a column has no value, shape (n_rows,)."""
    return pd.isna(values)


def count_values(values: np.ndarray) -> Counter[Any]:
    """Return how often each value occurs, in order of occurrence; not missing ones."""
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


def stretches(names: np.ndarray) -> Iterator[tuple[str, slice]]:
    """Yield each run of consecutive rows with one name.

    A name whose rows stand apart comes more than once.
    """
    if not len(names):
        return
    changes = 1 + np.flatnonzero(names[1:] != names[:-1])
    for start, end in pairwise([0, *changes, len(names)]):
        yield names[start], slice(start, end)
