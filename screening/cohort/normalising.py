"""Mean and standard deviation of every group, gathered row by row so that batches do not matter."""

from __future__ import annotations

import numpy as np
import pandas as pd


class GroupScales:
    """Standardise columns within groups, for values not comparable between groups.

    Sums run over the rows in their order, whatever the batches: any batch size gives the same bits.
    Memory is bounded by the number of groups times columns.

    Parameters
    ----------
    columns : list of str
        Names of the columns to standardise.
    """

    def __init__(self, columns: list[str]):
        self.columns = columns
        self._places: dict[str, int] = {}
        self._sums = np.zeros((4, 0, len(columns)))  # shift, count, sum and sum of squares of x - shift

    def add(self, group: np.ndarray, features: pd.DataFrame) -> None:
        """Take in the rows of one batch; `group` has shape (n_rows,)."""
        codes, names = pd.factorize(group)
        places = np.array(
            [self._places.setdefault(name, len(self._places)) for name in names], dtype=np.intp
        )[codes]
        grown = len(self._places) - self._sums.shape[1]
        if grown > 0:
            # Room is doubled, so that many small groups cost no quadratic time.
            room = max(grown, self._sums.shape[1])
            self._sums = np.concatenate([self._sums, np.zeros((4, room, len(self.columns)))], axis=1)
        for column, name in enumerate(self.columns):
            values = features[name].to_numpy()
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

    def applied(self, group: np.ndarray, features: pd.DataFrame) -> pd.DataFrame:
        """The features, standardised; 0 in a group where a column is constant."""
        codes, names = pd.factorize(group)
        places = np.array([self._places[name] for name in names], dtype=np.intp)[codes]
        shift, count, total, squares = self._sums
        some = np.maximum(count, 1.0)
        mean = shift + total / some
        variance = np.maximum(squares / some - (total / some) ** 2, 0.0)
        # What rounding leaves of a constant column is no spread.
        spread = np.where(variance > 1e-24 * np.maximum(mean**2, squares / some), np.sqrt(variance), np.inf)
        standard = features.copy()
        for column, name in enumerate(self.columns):
            values = features[name].to_numpy()
            standard[name] = (values - mean[places, column]) / spread[places, column]
        return standard
