"""A sample of a column's values in bounded memory, the same whatever batches they come in."""

from __future__ import annotations

import numpy as np


class SampledValues:
    """Every k-th value of a column, k doubling as the table grows.

    Parameters
    ----------
    most : int
        Values that are kept at the most.
    """

    def __init__(self, most: int):
        self.values = np.zeros(0)
        self._most, self._step, self._seen = most, 1, 0

    def add(self, values: np.ndarray) -> None:
        """Take in finite values in the order of the table."""
        self.values = np.concatenate([self.values, values[-self._seen % self._step :: self._step]])
        self._seen += values.size
        while self.values.size > self._most:
            self.values = self.values[::2]
            self._step *= 2
