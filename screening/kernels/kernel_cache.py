"""Results shared by fits on the same rows.

Fits with different gamma share distances, fits with different costs share the Gram
matrix, and fits with different factors share first passes. A fit makes a cache of its
own rows; a caller that fits the same rows several times passes one cache to each fit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from screening.kernels import pairwise
from screening.kernels.base import Kernel, gram_precision
from screening.kernels.pairwise import Precision, input_distances
from screening.metrics.ties import number_ties

# Bytes for the kernel matrices of one fit where the caller sets no limit: 4 GiB.
DEFAULT_MEMORY = 4 << 30
# Limits of a container's memory in bytes, by the two versions of control groups.
CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Distances:
    """Distances among all rows of a table, shared by fits on subsets.

    They are computed when first needed. If they take more than a quarter of `memory`,
    ``part`` returns None and every fit computes its own.

    Parameters
    ----------
    rows : ndarray of shape (n, n_features)
    memory : int, optional
        Bytes.
    """

    def __init__(self, rows: np.ndarray, memory: int | None = None) -> None:
        self.rows = rows
        self.memory = DEFAULT_MEMORY if memory is None else memory
        self._matrices: dict[tuple[int, str], np.ndarray] = {}
        self._lock = Lock()
        # Distinguishes these rows from those of any other table, in every process.
        self._key = uuid4().hex

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Distances], tuple[str, np.ndarray, int]]:
        # Another process computes the distances itself: they are larger than the rows.
        return _received, (self._key, self.rows, self.memory)

    @cached_property
    def ties(self) -> np.ndarray | None:
        """Numbers of distinct rows, (n,), if many rows are equal; None otherwise."""
        return number_ties(self.rows)

    def part(self, index: np.ndarray, norm: int, dtype: Precision) -> np.ndarray | None:
        """Return the distances among some rows, (m, m); None if memory is too small."""
        dtype_name = np.dtype(dtype).str
        n_bytes = np.dtype(dtype).itemsize * len(self.rows) ** 2
        if 4 * n_bytes > self.memory:
            return None
        key = norm, dtype_name
        with self._lock:
            if key not in self._matrices:
                self._matrices[key] = pairwise.distances(
                    norm, self.rows, self.rows, dtype=dtype
                )
        # Twice as fast as np.ix_; mode "clip" writes without a temporary copy.
        return self._matrices[key][index].take(index, axis=1, mode="clip")


_last_received: dict[str, Distances] = {}
"""Distances among the rows that another process sent last, by their key."""


def _received(key: str, rows: np.ndarray, memory: int) -> Distances:
    """Return distances that another process sent, shared by tasks on the same rows.

    The address of rows in shared memory cannot be the key: other rows reuse it.
    """
    distances = _last_received.get(key)
    if distances is None:
        distances = Distances(np.asarray(rows), memory)
        _last_received.clear()
        _last_received[key] = distances
    return distances


class KernelCache:
    """Distances, the last Gram matrix and solutions on it, for one array of rows.

    Parameters
    ----------
    rows : ndarray of shape (n, n_features)
    memory : int, optional
        Bytes. Distances are kept only if they fit in it beside the Gram matrices.
    part : callable, optional
        Returns the rows' distances for (norm, dtype) from those of a larger table, or
        None.
    asked : ndarray of shape (m, n_features), optional
        Rows at which all machines will be evaluated: the kernel to them is computed
        once.

    Attributes
    ----------
    solutions : dict
        Solutions on the last Gram matrix, by keys that their solvers choose.
    trained : list
        For each machine fitted last, in order, the rescaling before its last pass.
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
        self.trained: list[Any] = []
        self._part = part
        self._distances: dict[int, np.ndarray] = {}
        self._kernel: Kernel | None = None
        self._gram: np.ndarray | None = None
        self._n_grams = 0
        self._across: tuple[Kernel, np.ndarray] | None = None

    def gram(self, kernel: Kernel) -> np.ndarray:
        """Return K over the rows, (n, n), computed only if the kernel has changed."""
        if self._gram is not None and kernel == self._kernel:
            return self._gram
        self.start(kernel)
        dtype = gram_precision(len(self.rows))
        distances = self._distances_for_gram(kernel.norm, dtype)
        if distances is None:
            self._gram = pairwise.gram(kernel, self.rows, dtype=dtype)
        else:
            self._gram = pairwise.gram_from_distances(kernel, distances)
        self._n_grams += 1
        return self._gram

    def _distances_for_gram(self, norm: int, dtype: Precision) -> np.ndarray | None:
        """Return stored distances; compute them if a second gamma is asked for."""
        if norm in self._distances:
            return self._distances[norm]
        distances = None if self._part is None else self._part(norm, dtype)
        if distances is None:
            n_bytes = np.dtype(dtype).itemsize * len(self.rows) ** 2
            fits = n_bytes * (2 + len(self._distances)) <= self.memory
            if self._n_grams and fits:
                distances = pairwise.distances(norm, self.rows, self.rows, dtype=dtype)
        if distances is not None:
            self._distances[norm] = distances
        return distances

    def start(self, kernel: Kernel) -> None:
        """Forget the last Gram matrix and the solutions on it, for another kernel."""
        self._kernel = kernel
        self._gram = None
        self.solutions = {}

    def across(self, kernel: Kernel) -> np.ndarray | None:
        """Return K between the rows and those of `asked`, shape (n, m).

        None without such rows, if the Gram matrix is float32, or if the matrix would
        take more than a quarter of the memory.
        """
        precision = gram_precision(len(self.rows))
        if self.asked is None or precision is np.float32:
            return None
        n_bytes = 8 * len(self.rows) * len(self.asked)
        if 4 * n_bytes > self.memory:
            return None
        if self._across is None or self._across[0] != kernel:
            matrix = pairwise.gram(kernel, self.rows, self.asked, dtype=np.float64)
            self._across = kernel, matrix
        return self._across[1]

    @cached_property
    def largest_distance(self) -> float:
        """Largest Euclidean distance between two of the rows."""
        block = 512
        largest = [
            input_distances(self.rows[start : start + block], self.rows).max()
            for start in range(0, len(self.rows), block)
        ]
        return float(np.sqrt(max(largest)))


def n_concurrent_fits(n_rows: int, memory: int | None) -> int:
    """Return how many kernel matrices fit into the memory at a time, at least 1.

    Each needs a float32 Gram matrix and a copy of it.

    Parameters
    ----------
    n_rows : int
        Rows of the Gram matrix.
    memory : int or None
        Limit in bytes; None for half of the machine's memory.
    """
    limit = machine_memory() // 2 if memory is None else memory
    return max(1, limit // (8 * max(n_rows, 1) ** 2))


@cache
def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container it is."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):
            # The limit of a container without one is the word "max".
            sizes.append(int(path.read_text()))
    return min(sizes)
