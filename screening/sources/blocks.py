"""Some rows of one part of a cohort, as its reader gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Block:
    """Some rows of one part: `columns` maps names to arrow arrays; `first_row` counts from 1 in the part."""

    columns: Mapping[str, pa.Array]
    n_rows: int
    first_row: int
    ragged: np.ndarray
    repeated_header: np.ndarray


def whole_block(columns: Mapping[str, pa.Array], n_rows: int, first_row: int) -> Block:
    """A block of what has no broken rows: its reader knows rows and columns by itself."""
    none = np.zeros(n_rows, dtype=bool)
    return Block(columns, n_rows, first_row, none, none)


def wanted_of(header: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, each once; all that have a name where none are."""
    return list(dict.fromkeys(filter(None, header) if columns is None else columns))
