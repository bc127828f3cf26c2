"""The rows of a kernel matrix over the points that may still move, as the compiled loops want them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from screening.solvers.kernel_rows import Gram, KernelRows

STOP, PATIENCE, VISITS = 0, 1, 2
"""What is kept from one climb to the next: the violation to leave, and what decides on a move at once."""
WORTH = 0.85  # compact only where the active set shrinks to this share
LAST_DIGITS = 16 * float(np.finfo(float).eps)  # of a level: what rounding leaves of it after many steps


@dataclass
class Active:
    """The problem over the active points, compact, as the compiled loops want it."""

    gram: Gram
    memory: int = 0
    points: np.ndarray = field(init=False)
    mode: int = field(init=False)

    def __post_init__(self) -> None:
        from screening.kernels.compiled import ABSOLUTE, SQUARED
        from screening.kernels.sweep import padded_transposed, rate_of

        self._all: Any = None
        self.kind, self.rate = SQUARED, np.float32(0)
        if isinstance(self.gram, KernelRows):
            self.dense = np.zeros((1, 1), np.float32)
            self._all = padded_transposed(self.gram.x)
            self.kind = SQUARED if self.gram.kernel.norm == 2 else ABSOLUTE
            self.rate = np.float32(rate_of(self.gram.kernel))
        else:
            exact = np.asarray(self.gram).dtype != np.float32
            self.dense = np.ascontiguousarray(self.gram, np.float64 if exact else np.float32)
            self._all = None if exact else np.zeros((4, 1), np.float32)  # float32 shares one specialisation
        self.computed = isinstance(self.gram, KernelRows)
        self.buffer = np.empty(0, self.dense.dtype)
        self.slot_of = self.owner = self.newer = self.older = self.lru = np.empty(0, np.int64)
        self.take(np.arange(len(self.gram)))

    def take(self, points: np.ndarray, keep: np.ndarray | None = None) -> None:
        """Make `points` the active set; `keep`, their places in the one before, saves the cached rows."""
        from screening.solvers import rows

        before = len(self.points) if keep is not None else 0
        m = len(points)
        direct = not self.computed and m == len(self.dense)
        was_cached = keep is not None and self.mode != rows.DIRECT
        self.points = points
        self.mode = rows.DIRECT if direct else rows.COMPUTED if self.computed else rows.GATHERED
        self.xt = np.ascontiguousarray(self._all[:, points]) if self.computed else self._all
        if direct:  # nothing is cached
            self.slot_of = self.owner = self.newer = self.older = np.empty(0, np.int64)
            self.lru = np.zeros(5, np.int64)
            return
        wanted = min(max(self.memory // self.dense.itemsize, 2 * m), m * m)
        if len(self.buffer) < wanted and not was_cached:
            self.buffer = np.empty(wanted, self.dense.dtype)
        capacity = max(min(len(self.buffer) // m, m), 0)
        slot_of = np.full(m, -1, np.int64)
        if was_cached:
            rows.compact(
                keep, before, self.buffer, self.slot_of, self.owner, self.newer, self.older, self.lru, slot_of
            )
        else:
            self.lru = np.array([-1, -1, 0, 0, 0], np.int64)
        grown = [np.full(capacity, -1, np.int64) for _ in range(3)]
        if was_cached:
            used = self.lru[rows.USED]
            for new, old in zip(grown, (self.owner, self.newer, self.older), strict=True):
                new[:used] = old[:used]
        self.owner, self.newer, self.older = grown
        self.slot_of = slot_of
        self.lru[rows.CAPACITY] = capacity

    def rows(self) -> tuple:
        return (
            self.mode, self.points, self.dense, self.xt, self.kind, self.rate, self.buffer,
            self.slot_of, self.owner, self.newer, self.older, self.lru,
        )  # fmt: skip
