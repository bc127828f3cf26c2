"""Observers that count the typed rows of a table.

They are registered in `ReadOptions` where a table is opened: for a night the gates,
unused rows and refused cells (`scoring.score`, `Model.opened`), for `screen check` the
gates. The ids are observed always (`CohortStream`), in a training nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from screening.data.cohort import Cohort
from screening.data.out_of_bounds import Bounds
from screening.data.row_faults import SortedFaults


@dataclass(frozen=True)
class CheckedBlock:
    """All rows of a block, and what follows from their faults.

    Parameters
    ----------
    file : str
    first_row : int
        Number in the file of the first row.
    rows : Cohort
        Typed, before any normalisation within groups.
    faults : SortedFaults
    bounds : mapping of str to Bounds
        Of columns of numbers.
    is_taken : ndarray of bool, shape (n_rows,), optional
        Rows that are used, where one is taken of each unit.
    is_repeated : ndarray of bool, shape (n_rows,), optional
        Rows with a repeated id, where such rows are left out.
    """

    file: str
    first_row: int
    rows: Cohort
    faults: SortedFaults
    bounds: Mapping[str, Bounds]
    is_taken: np.ndarray | None
    is_repeated: np.ndarray | None


class Observer(ABC):
    """Counts the rows of a table; registered when the table is opened."""

    # Duplicate ids are not counted by an observer: they need the hashes of all rows,
    # which `ReadingTotals` keeps, those of a long table in a file (`DuplicateIds`).

    @property
    @abstractmethod
    def counter(self) -> Callable[[CheckedBlock], Any]:
        """Counts a block, in any process, to which it is pickled.

        Within a piece counts are added by `+`.
        """

    @property
    def categories(self) -> Mapping[str, Set[str | None]]:
        """The categories that are known, by feature; `on_unseen` decides on others."""
        return {}

    @abstractmethod
    def add(self, counts: Any) -> None:
        """Take in the counts of the next piece or block.

        It is called in the process of the command, in the order of the table.
        """

    def add_repeated_ids(self, file: str, column: str, rows: np.ndarray) -> None:
        """Take in the rows of a file whose ids are those of other rows.

        They are known once the table has been read.
        """
        return

    def faults(self) -> list[str]:
        """Return why the whole table is refused."""
        return []

    def notes(self) -> list[str]:
        """Return what the counts show."""
        return []
