"""Values that do not compare between groups, read by their centre and spread within each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from screening.errors import CohortError
from screening.io.columns import Columns, coded, stretches

# By which the median distance from the median is multiplied to be the standard deviation of normal values.
NORMAL = 1.4826


@dataclass
class GroupScales:
    """Centre and spread of columns within groups: `add` takes in all batches in order, then any is scaled."""

    columns: Sequence[str]
    _numbers: dict[str, int] = field(
        default_factory=dict
    )  # of the groups, in the order they come

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and spread, shape (n_groups, n_columns) each; spread 0 where a column is constant."""
        raise NotImplementedError

    def applied(self, group: np.ndarray, features: Columns) -> Columns:
        """The features, standardised; 0 in a group where a column is constant."""
        names, codes = coded(group)
        rows = np.array([self._numbers[name] for name in names], dtype=np.intp)[codes]
        centre, spread = (scale[rows] for scale in self.scales)
        spread = np.where(spread > 0, spread, np.inf)
        own = {
            name: (features[name] - centre[:, column]) / spread[:, column]
            for column, name in enumerate(self.columns)
        }
        return {**features, **own}


@dataclass
class Moments(GroupScales):
    """Scales by mean and standard deviation; sums run row by row: any batch size gives the same bits."""

    def __post_init__(self) -> None:
        self._sums = np.zeros(
            (4, 0, len(self.columns))
        )  # shift, count, sum and sum of squares of x - shift

    def add(self, group: np.ndarray, features: Columns) -> None:
        names, codes = coded(group)
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        rows = np.array(numbers, dtype=np.intp)[codes]
        grown = len(self._numbers) - self._sums.shape[1]
        if grown > 0:
            # Room is doubled, so that many small groups cost no quadratic time.
            room = max(grown, self._sums.shape[1])
            self._sums = np.concatenate(
                [self._sums, np.zeros((4, room, len(self.columns)))], axis=1
            )
        for column, name in enumerate(self.columns):
            finite = np.isfinite(features[name])
            groups, x = rows[finite], features[name][finite]
            shift, count, total, squares = (part[:, column] for part in self._sums)
            # Shifting by a group's first value keeps the squares small, hence exact enough.
            new, first = np.unique(groups, return_index=True)
            unseen = count[new] == 0
            shift[new[unseen]] = x[first[unseen]]
            d = x - shift[groups]
            np.add.at(count, groups, 1.0)
            np.add.at(total, groups, d)
            np.add.at(squares, groups, d * d)

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        shift, count, total, squares = self._sums[:, : len(self._numbers)]
        some = np.maximum(count, 1.0)
        mean = shift + total / some
        variance = np.maximum(squares / some - (total / some) ** 2, 0.0)
        # What rounding leaves of a constant column is no spread.
        spread = np.where(
            variance > 1e-24 * np.maximum(mean**2, squares / some),
            np.sqrt(variance),
            0.0,
        )
        return mean, spread


@dataclass
class Medians(GroupScales):
    """Scales by the median and 1.4826 times the median distance from it, or else the standard deviation.

    Rows of a group stand together: memory is bounded by the largest group, for a median needs all of it.
    """

    _held: list[np.ndarray] = field(
        default_factory=list
    )  # rows of the group that is read
    _robust: list[list[tuple[float, float]]] = field(default_factory=list)

    def add(self, group: np.ndarray, features: Columns) -> None:
        values = np.column_stack([features[name] for name in self.columns])
        for name, rows in stretches(group):
            if (
                self._numbers.setdefault(name, len(self._numbers))
                < len(self._numbers) - 1
            ):
                needs = (
                    "as normalising by the median needs it; sort the table by its group"
                )
                raise CohortError(f"rows of a group do not stand together, {needs}")
            if len(self._numbers) > len(self._robust) + 1:
                self._conclude()
            self._held.append(values[rows])

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        if self._held:
            self._conclude()
        centre, spread = np.reshape(self._robust, (-1, len(self.columns), 2)).transpose(
            2, 0, 1
        )
        return centre, spread

    def _conclude(self) -> None:
        robust = []
        for column in np.concatenate(self._held).T:
            finite = (
                column[np.isfinite(column)]
                if np.isfinite(column).any()
                else np.zeros(1)
            )
            centre = float(np.median(finite))
            distance = float(np.median(np.abs(finite - centre)))
            robust.append((centre, NORMAL * distance or float(finite.std())))
        self._robust.append(robust)
        self._held = []
