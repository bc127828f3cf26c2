"""Values that do not compare between groups, scaled by centre and spread within each.

One scanner's intensities are not another's: a patient's voxels are scaled by the
patient's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from screening.errors import CohortError
from screening.io.columns import Columns, coded, runs_of

# Ratio of the standard deviation to the median distance from the median, of normal
# values.
NORMAL = 1.4826
# Of the values' mean square: a variance below is what rounding leaves of a constant.
ROUNDING = 1e-24


@dataclass
class GroupScales:
    """Centre and spread of some columns within each group.

    `add` takes in all rows, batch by batch and in order; only then `applied` scales.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns that are scaled.
    """

    columns: Sequence[str]
    # Numbers of the groups, in the order in which they come.
    _numbers: dict[str, int] = field(default_factory=dict)

    def add(self, group: np.ndarray, features: Columns) -> None:
        """Add rows by the names of their groups, shape (n_rows,), and their values."""
        raise NotImplementedError

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and spread, shape (n_groups, n_columns) each.

        The spread of a column that is constant in a group is 0 there.
        """
        raise NotImplementedError

    def applied(self, group: np.ndarray, features: Columns) -> Columns:
        """Return the features, `columns` scaled; 0 where one is constant in a group."""
        names, codes = coded(group)
        numbers = [self._numbers[name] for name in names]
        rows = np.array(numbers, dtype=np.intp)[codes]
        all_centres, all_spreads = self.scales
        centre = all_centres[rows]
        spread = all_spreads[rows]
        spread = np.where(spread > 0, spread, np.inf)
        scaled = {
            name: (features[name] - centre[:, column]) / spread[:, column]
            for column, name in enumerate(self.columns)
        }
        return {**features, **scaled}


@dataclass
class Moments(GroupScales):
    """Scales by mean and standard deviation.

    Sums run row by row, so that batches of any size give the same bits.
    """

    def __post_init__(self) -> None:
        # By group and column: a shift, the count of values x, and the sums of
        # x - shift and of its square.
        self._sums = np.zeros((4, 0, len(self.columns)))

    def add(self, group: np.ndarray, features: Columns) -> None:
        """Count in the values of rows, by the name of each row's group."""
        names, codes = coded(group)
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names]
        rows = np.array(numbers, dtype=np.intp)[codes]
        self._make_room()
        for column, name in enumerate(self.columns):
            is_finite = np.isfinite(features[name])
            self._add_column(column, rows[is_finite], features[name][is_finite])

    def _make_room(self) -> None:
        """Grow the sums to as many groups as there are numbers."""
        n_held = self._sums.shape[1]
        n_new = len(self._numbers) - n_held
        if n_new > 0:
            # Room is doubled, so that many small groups cost no quadratic time.
            n_added = max(n_new, n_held)
            room = np.zeros((4, n_added, len(self.columns)))
            self._sums = np.concatenate([self._sums, room], axis=1)

    def _add_column(self, column: int, groups: np.ndarray, x: np.ndarray) -> None:
        """Add the values of one column to the sums of their groups."""
        shift, count, total, squares = self._sums[:, :, column]
        # Shifted by a group's first value the squares are small, hence exact enough.
        present, first = np.unique(groups, return_index=True)
        is_new = count[present] == 0
        shift[present[is_new]] = x[first[is_new]]
        shifted = x - shift[groups]
        np.add.at(count, groups, 1.0)
        np.add.at(total, groups, shifted)
        np.add.at(squares, groups, shifted * shifted)

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and spread by group and column."""
        shift, count, total, squares = self._sums[:, : len(self._numbers)]
        n_values = np.maximum(count, 1.0)
        mean = shift + total / n_values
        mean_square = squares / n_values
        variance = np.maximum(mean_square - (total / n_values) ** 2, 0.0)
        is_constant = variance <= ROUNDING * np.maximum(mean**2, mean_square)
        return mean, np.where(is_constant, 0.0, np.sqrt(variance))


@dataclass
class Medians(GroupScales):
    """Scales by the median, and 1.4826 times the median distance from it.

    Where that distance is 0, by the standard deviation. Rows of a group are
    consecutive: a median needs all of a group's values, so memory is bounded by the
    largest group.
    """

    # Values of the group that is being read.
    _held: list[np.ndarray] = field(default_factory=list)
    # By group, centre and spread of each column.
    _concluded: list[list[tuple[float, float]]] = field(default_factory=list)

    def add(self, group: np.ndarray, features: Columns) -> None:
        """Take in rows; CohortError if a group's rows come after those of another."""
        values = np.column_stack([features[name] for name in self.columns])
        for name, rows in runs_of(group):
            number = self._numbers.setdefault(name, len(self._numbers))
            if number < len(self._numbers) - 1:
                raise CohortError(
                    "the rows of a group are not next to each other, as normalising "
                    "by the median requires; sort the table by group"
                )
            if number > len(self._concluded):
                self._conclude_group()
            self._held.append(values[rows])

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and spread by group and column."""
        if self._held:
            self._conclude_group()
        scales = np.reshape(self._concluded, (-1, len(self.columns), 2))
        return scales[:, :, 0], scales[:, :, 1]

    def _conclude_group(self) -> None:
        """Compute the scales of the rows that are held, and release them."""
        columns = np.concatenate(self._held).T
        self._concluded.append(list(map(_robust_scale, columns)))
        self._held = []


def _robust_scale(values: np.ndarray) -> tuple[float, float]:
    """Return median and spread of the finite values, (0, 0) without any."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0
    centre = float(np.median(finite))
    distance = float(np.median(np.abs(finite - centre)))
    return centre, NORMAL * distance or float(finite.std())
