"""One block of a cohort once its columns are typed: what each role holds, and what is wrong with the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from screening.sources.columns import Columns, joined_columns

Column = TypeVar("Column", np.ndarray, Columns)


@dataclass(frozen=True)
class Parts:
    """The typed columns of some rows; None where the contract gives no column the role."""

    features: Columns
    id: np.ndarray | None = None
    group: np.ndarray | None = None
    label: np.ndarray | None = None
    time: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    subgroups: Columns | None = None
    display: Columns | None = None

    def where(self, good: np.ndarray) -> Parts:
        """Those of the rows that `good` marks."""
        if good.all():
            return self
        return replace(self, **{name: rows_of(vars(self)[name], good) for name in columns_of(self)})


@dataclass
class TypedBlock:
    """One block by contract: its parts, faults as (column, kind, mask), and texts the contract has not."""

    parts: Parts
    faults: list[tuple[str, str, np.ndarray]]
    n_rows: int
    unlisted: dict[str, np.ndarray]

    def faulty(self) -> np.ndarray:
        mask = np.zeros(self.n_rows, dtype=bool)
        for _, _, rows in self.faults:
            mask |= rows
        return mask


def columns_of(rows: object) -> list[str]:
    """Names of the fields of typed rows that hold a value a row."""
    return [name for name, one in vars(rows).items() if isinstance(one, np.ndarray | Columns)]


def rows_of(values: Column, places: np.ndarray) -> Column:
    """Those of some rows, by their positions or a mask."""
    return values.take(places) if isinstance(values, Columns) else values[places]


def stacked(parts: Sequence[Column]) -> Column:
    """The values of consecutive rows, one after the other."""
    return joined_columns(parts) if isinstance(parts[0], Columns) else np.concatenate(parts)
