"""One block of a cohort once its columns are typed: what each role holds, and what is wrong with the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd

Column = TypeVar("Column", np.ndarray, pd.DataFrame)


@dataclass(frozen=True)
class Parts:
    """The typed columns of some rows; None where the contract gives no column the role."""

    features: pd.DataFrame
    id: np.ndarray | None = None
    group: np.ndarray | None = None
    label: np.ndarray | None = None
    time: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    subgroups: pd.DataFrame | None = None
    display: pd.DataFrame | None = None

    def where(self, good: np.ndarray) -> Parts:
        """Those of the rows that `good` marks."""
        if good.all():
            return self
        return replace(
            self, **{name: _where(one, good) for name, one in vars(self).items() if one is not None}
        )


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


def _where(values: Column, good: np.ndarray) -> Column:
    if isinstance(values, pd.DataFrame):
        return values[good].reset_index(drop=True)
    return values[good]
