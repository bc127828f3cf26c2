"""Columns of a table: Arrow's as texts or floats, and arrays by name with None or NaN for no value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

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


def is_text(cells: pa.Array) -> bool:
    return pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)


def plain(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array without dictionary encoding."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if pa.types.is_dictionary(cells.type):
        # Arrow decodes no dictionary of string views, which polars makes of categories.
        cells = pa.DictionaryArray.from_arrays(
            cells.indices, plain(cells.dictionary)
        ).dictionary_decode()
    if pa.types.is_null(cells.type) or str(cells.type) == "string_view":
        cells = cells.cast(pa.string())
    return cells


def is_numeric(cells: pa.Array) -> bool:
    kind = cells.type
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def floats(cells: pa.Array) -> np.ndarray:
    """Numbers of any kind as float64, NaN where missing; decimals to the nearest, as their text is read."""
    if pa.types.is_decimal(cells.type):
        # Arrow's own way from decimals to floats is off by a last bit in every third value.
        cells = pc.cast(cells, pa.string())
    return np.asarray(
        pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )


def texts(cells: pa.Array) -> pa.Array | None:
    """The column as text, whole numbers without a point; None where its kind has no text (nested, binary)."""
    kind = cells.type
    if is_text(cells):
        return cells
    if pa.types.is_floating(kind):
        wide = pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False)
        unique, codes = np.unique(wide, return_inverse=True)
        distinct = [
            str(int(x)) if x.is_integer() else None if x != x else repr(x)
            for x in unique.tolist()
        ]
        return pa.array(np.array(distinct, dtype=object)[codes], pa.string())
    simple = (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
    return pc.cast(cells, pa.string()) if simple or pa.types.is_temporal(kind) else None
