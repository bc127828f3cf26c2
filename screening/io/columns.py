"""Columns of a table as NumPy arrays by name, None or NaN where a value is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pandas as pd

Columns: TypeAlias = Mapping[str, np.ndarray]
"""Columns of the same rows by name, each float64 with NaN or text with None where a value is missing."""


def frame_of(columns: Columns) -> pd.DataFrame:
    """The columns as pandas has them."""
    # The dtype is said, or pandas guesses one for texts that depends on the batch.
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=values.dtype)
            for name, values in columns.items()
        }
    )


def count_rows(columns: Columns) -> int:
    return next(map(len, columns.values()), 0)


def absent(values: np.ndarray) -> np.ndarray:
    """Where a column has no value, shape (n_rows,)."""
    return pd.isna(values)


def coded(values: np.ndarray) -> tuple[list, np.ndarray]:
    """Distinct values in the order they occur, and the place of each row's among them."""
    codes_of: dict[object, int] = {}
    codes = np.array(
        [codes_of.setdefault(value, len(codes_of)) for value in values.tolist()],
        dtype=np.intp,
    )
    return list(codes_of), codes


def stretches(names: np.ndarray) -> Iterator[tuple[str, slice]]:
    """Each stretch of rows of one name, in order; a name whose rows stand apart comes more than once."""
    cuts = (
        [0, *(1 + np.flatnonzero(names[1:] != names[:-1])), len(names)]
        if len(names)
        else []
    )
    for start, end in pairwise(cuts):
        yield names[start], slice(start, end)
