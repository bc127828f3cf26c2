"""A sample of a column's values that does not depend on how the table is cut."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class SampledValues:
    """Values of a column at every k-th row; samples of consecutive rows add up.

    Parameters
    ----------
    most : int
        Largest number of values.
    rows : ndarray of int, shape (n,)
        Rows of the values, counted from 0: multiples of `step`.
    values : ndarray, shape (n,)
    step : int
        k, the smallest power of two that leaves at most `most` values.
    """

    most: int
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    step: int = 1

    @classmethod
    def of(cls, most: int, rows: np.ndarray, values: np.ndarray) -> SampledValues:
        """Return a sample of these values, ascending in their rows."""
        return cls(most, rows, values)._thinned(1)

    def __add__(self, other: SampledValues) -> SampledValues:
        rows = np.concatenate([self.rows, other.rows])
        values = np.concatenate([self.values, other.values])
        joined = SampledValues(self.most, rows, values)
        return joined._thinned(max(self.step, other.step))

    def _thinned(self, step: int) -> SampledValues:
        """Return the values of every `step`-th row, or of fewer where they are many."""
        # Multiples of a power of two end in that many bits of 0.
        kept = self.rows & (step - 1) == 0
        while np.count_nonzero(kept) > self.most:
            step *= 2
            kept = self.rows & (step - 1) == 0
        return SampledValues(self.most, self.rows[kept], self.values[kept], step)
