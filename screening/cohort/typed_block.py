"""One block of a cohort once its columns are typed: what each role holds, and what is wrong with the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from screening.cohort.columns import Columns


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
        kept = {name: _where(part, good) for name, part in vars(self).items() if part is not None}
        return replace(self, **kept)


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


def _where(part: Any, good: np.ndarray) -> Any:
    return part.take(good) if isinstance(part, Columns) else part[good]
