"""Centre and spread of every group, gathered row by row so that batches do not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from screening.contract.contract import Feature
from screening.errors import CohortError
from screening.io.columns import Columns, coded, stretches

# By which the median distance from the median is multiplied to be the standard deviation of normal values.
NORMAL = 1.4826


@dataclass(frozen=True)
class Scales:
    """Centre and spread of columns within groups, by which values not comparable between groups are read.

    Parameters
    ----------
    columns : ndarray of str, shape (n_columns,)
    names : ndarray of str, shape (n_groups,)
    centre, spread : ndarray, shape (n_groups, n_columns)
        The spread is 0 where a column is constant in a group.
    """

    columns: np.ndarray
    names: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @cached_property
    def _places(self) -> pd.Index:
        return pd.Index(self.names, dtype=object)

    def applied(self, group: np.ndarray, features: Columns) -> Columns:
        """The features, standardised; 0 in a group where a column is constant."""
        rows = self._places.get_indexer(pd.Index(group, dtype=object))
        centre, spread = self.centre[rows], np.where(self.spread > 0, self.spread, np.inf)[rows]
        return features.but(
            {
                str(name): (features[str(name)] - centre[:, column]) / spread[:, column]
                for column, name in enumerate(self.columns)
            }
        )


class Moments:
    """Scales by mean and standard deviation.

    Sums run over the rows in their order, whatever the batches: any batch size gives the same bits.
    Memory is bounded by the number of groups times columns.
    """

    def __init__(self, columns: Sequence[str]):
        self.columns = columns
        self._places: dict[str, int] = {}
        self._sums = np.zeros((4, 0, len(columns)))  # shift, count, sum and sum of squares of x - shift

    def add(self, group: np.ndarray, features: Columns) -> None:
        """Take in the rows of one batch; `group` has shape (n_rows,)."""
        names, codes = coded(group)
        places = np.array(
            [self._places.setdefault(name, len(self._places)) for name in names], dtype=np.intp
        )[codes]
        grown = len(self._places) - self._sums.shape[1]
        if grown > 0:
            # Room is doubled, so that many small groups cost no quadratic time.
            room = max(grown, self._sums.shape[1])
            self._sums = np.concatenate([self._sums, np.zeros((4, room, len(self.columns)))], axis=1)
        for column, name in enumerate(self.columns):
            values = features[name]
            there = np.isfinite(values)
            at, x = places[there], values[there]
            shift, count, total, squares = (part[:, column] for part in self._sums)
            # Shifting by a group's first value keeps the squares small, hence exact enough.
            new, first = np.unique(at, return_index=True)
            unseen = count[new] == 0
            shift[new[unseen]] = x[first[unseen]]
            d = x - shift[at]
            np.add.at(count, at, 1.0)
            np.add.at(total, at, d)
            np.add.at(squares, at, d * d)

    def scales(self) -> Scales:
        """The scales of the rows taken in."""
        shift, count, total, squares = self._sums[:, : len(self._places)]
        some = np.maximum(count, 1.0)
        mean = shift + total / some
        variance = np.maximum(squares / some - (total / some) ** 2, 0.0)
        # What rounding leaves of a constant column is no spread.
        spread = np.where(variance > 1e-24 * np.maximum(mean**2, squares / some), np.sqrt(variance), 0.0)
        return Scales(np.array(self.columns), np.array([*self._places]), mean, spread)


class Medians:
    """Scales by the median and 1.4826 times the median distance from it.

    Where more than half of a group's values are equal, the standard deviation takes the distance's place.
    Rows of a group stand together: memory is bounded by the largest group, for a median needs all of it.
    """

    def __init__(self, columns: Sequence[str]):
        self.columns = columns
        self._known: dict[str, list[tuple[float, float]]] = {}  # centre and spread of every column
        self._held: list[np.ndarray] = []
        self._group = ""

    def add(self, group: np.ndarray, features: Columns) -> None:
        """Take in the rows of one batch.

        Raises CohortError: rows of a group come after those of another.
        """
        values = np.column_stack([features[name] for name in self.columns])
        for name, rows in stretches(group):
            if name != self._group:
                self._conclude()
                self._group = name
                if name in self._known:
                    raise CohortError(
                        "rows of a group do not stand together, as normalising by the median needs it; "
                        "sort the table by its group"
                    )
            self._held.append(values[rows])

    def scales(self) -> Scales:
        """The scales of the rows taken in."""
        self._conclude()
        known = np.array([*self._known.values()]).reshape(-1, len(self.columns), 2)
        return Scales(np.array(self.columns), np.array([*self._known]), known[:, :, 0], known[:, :, 1])

    def _conclude(self) -> None:
        if self._held:
            self._known[self._group] = [_robust(column) for column in np.concatenate(self._held).T]
            self._held = []


def _robust(values: np.ndarray) -> tuple[float, float]:
    there = values[np.isfinite(values)]
    if not there.size:
        return 0.0, 0.0
    centre = float(np.median(there))
    return centre, NORMAL * float(np.median(np.abs(there - centre))) or float(there.std())


def gathering(features: Mapping[str, Feature]) -> list[Moments | Medians]:
    """What gathers the scales of the features that are to be standardised, none where there are none."""
    kinds: dict[str, type[Moments] | type[Medians]] = {
        "within_group": Moments,
        "within_group_robust": Medians,
    }
    named = {kind: [name for name, each in features.items() if each.normalise == kind] for kind in kinds}
    return [kinds[kind](names) for kind, names in named.items() if names]
