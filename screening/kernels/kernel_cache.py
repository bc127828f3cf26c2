"""What fits on the same rows share: distances over gammas, a Gram over costs, solutions over factors.

A fit makes a cache of its own rows; a caller that is going to fit the same rows several times makes it once
and hands it to each fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from screening.kernels import pairwise
from screening.kernels.base import Kernel, gram_precision
from screening.kernels.pairwise import Precision, input_distances

DEFAULT_MEMORY = 4 << 30


class Distances:
    """Distances among all rows of a table, made when first asked for: fits on some rows take their part.

    Where the whole takes more than a quarter of `memory` there are none, and every fit makes its own.
    """

    def __init__(self, rows: np.ndarray, memory: int | None = None) -> None:
        self.rows = rows
        self.memory = DEFAULT_MEMORY if memory is None else memory
        self._made: dict[tuple[int, str], np.ndarray] = {}
        self._making = Lock()

    def __reduce__(self) -> tuple[type[Distances], tuple[np.ndarray, int]]:
        # Who takes the rows elsewhere makes the distances there.
        return Distances, (self.rows, self.memory)

    def part(self, at: np.ndarray, norm: int, dtype: Precision) -> np.ndarray | None:
        """Distances among the rows ``at``; None where memory does not hold those of all."""
        name = np.dtype(dtype).str
        if 4 * np.dtype(dtype).itemsize * len(self.rows) ** 2 > self.memory:
            return None
        with self._making:
            if (norm, name) not in self._made:
                self._made[norm, name] = pairwise.distances(
                    norm, self.rows, self.rows, dtype=dtype
                )
        # Twice as fast as np.ix_; 'clip' writes without a copy on the way.
        return self._made[norm, name][at].take(at, axis=1, mode="clip")


class KernelCache:
    """Distances, the last Gram and the solutions on it, for one array of rows.

    Distances are kept only where they fit beside the Grams in `memory`. `part` makes of norm and type the
    rows' distances as part of a larger matrix, or None. `asked` are rows that all the machines will be asked
    about: the kernel to them is made once.
    """

    def __init__(
        self,
        rows: np.ndarray,
        memory: int | None = None,
        part: Callable[[int, Precision], np.ndarray | None] | None = None,
        asked: np.ndarray | None = None,
    ) -> None:
        self.rows = rows
        self.asked = asked
        self.memory = DEFAULT_MEMORY if memory is None else memory
        self.solutions: dict[Any, Any] = {}
        # What the last passes of the machines fitted last follow, in their order.
        self.trained: list[Any] = []
        self._part = part
        self._distances: dict[int, np.ndarray] = {}
        self._kernel: Kernel | None = None
        self._gram: np.ndarray | None = None
        self._grams_made = 0
        self._across: tuple[Kernel, np.ndarray] | None = None

    def gram(self, kernel: Kernel) -> np.ndarray:
        """K over the rows: the one made last, or from distances once a second gamma is asked for."""
        if self._gram is not None and kernel == self._kernel:
            return self._gram
        self.start(kernel)
        dtype = gram_precision(len(self.rows))
        n_bytes = np.dtype(dtype).itemsize * len(self.rows) ** 2
        kept = self._distances.get(kernel.norm)
        if kept is None and self._part is not None:
            kept = self._part(kernel.norm, dtype)
            if kept is not None:
                self._distances[kernel.norm] = kept
        if (
            kept is None
            and self._grams_made
            and n_bytes * (2 + len(self._distances)) <= self.memory
        ):
            kept = self._distances[kernel.norm] = pairwise.distances(
                kernel.norm, self.rows, self.rows, dtype=dtype
            )
        self._gram = (
            pairwise.gram(kernel, self.rows, dtype=dtype)
            if kept is None
            else pairwise.gram_from(kernel, kept)
        )
        self._grams_made += 1
        return self._gram

    def start(self, kernel: Kernel) -> None:
        """Forget the last Gram, and solutions on it: K of this kernel comes next, or is read by rows."""
        self._kernel, self._gram, self.solutions = kernel, None, {}

    def across(self, kernel: Kernel) -> np.ndarray | None:
        """K between the rows and those asked about; None where it takes much of the memory or none are."""
        n = len(self.rows)
        if (
            self.asked is None
            or gram_precision(n) is np.float32
            or 32 * n * len(self.asked) > self.memory
        ):
            return None
        if self._across is None or self._across[0] != kernel:
            self._across = (
                kernel,
                pairwise.gram(kernel, self.rows, self.asked, dtype=np.float64),
            )
        return self._across[1]

    @cached_property
    def largest_distance(self) -> float:
        """Between two of the rows."""
        rows = self.rows
        blocks = (
            input_distances(rows[i : i + 512], rows).max()
            for i in range(0, len(rows), 512)
        )
        return float(np.sqrt(max(blocks)))


def side_by_side(n_rows: int, memory: int | None) -> int:
    """How many fits of so many rows the memory holds at a time, a Gram and its copy each; one at least."""
    return max(
        1, (DEFAULT_MEMORY if memory is None else memory) // (8 * max(n_rows, 1) ** 2)
    )
