"""Rows of a kernel matrix as solvers ask for them: held, made one by one, or kept in a bounded cache.

A cache is one flat buffer (the Gram's type, or float32 where rows are computed) of rows as long as the active
set, a new row taking the place of the oldest. When the active set shrinks the rows are compacted in place, so
the buffer never grows and later holds more rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from screening.kernels.base import Kernel
from screening.kernels.jit import njit
from screening.kernels.pairwise import (
    ABSOLUTE,
    SQUARED,
    kernel_row,
    padded_transposed,
    rate_of,
    weighted_sum,
)

DIRECT, GATHERED, COMPUTED = 0, 1, 2
NEXT, LAST = 0, 1


@dataclass(frozen=True)
class KernelRows:
    """A kernel matrix that is computed by rows when asked for, in place of ``Problem.gram``."""

    x: np.ndarray
    kernel: Kernel

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.x), len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def diagonal(self) -> np.ndarray:
        """K(x_i, x_i), shape (n,)."""
        return self.kernel.diagonal(self.x)

    def part(self, rows: np.ndarray) -> KernelRows:
        """The matrix over some of the rows."""
        return KernelRows(self.x[rows], self.kernel)

    def __getitem__(self, key: tuple[np.ndarray | slice, ...]) -> np.ndarray:
        """Blocks ``[np.ix_(rows, columns)]`` and ``[:, columns]``, computed."""
        rows, columns = (np.arange(len(self.x))[index].ravel() for index in key)
        return self.kernel(self.x[rows], self.x[columns])

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """K weights, shape (n,)."""
        used = np.flatnonzero(weights)
        return weighted_sum(self.kernel, self.x, self.x[used], weights[used])


Gram = np.ndarray | KernelRows
"""A kernel matrix, held or made by rows."""


class ActiveRows(NamedTuple):
    """Rows of the kernel over the active points, for `fetch`: the matrix or what makes it, and the cache."""

    mode: int  # DIRECT, GATHERED or COMPUTED
    active: np.ndarray
    gram: np.ndarray
    xt: np.ndarray | None
    kind: int
    rate: np.float32
    buffer: np.ndarray
    slot_of: (
        np.ndarray
    )  # of each active point's row in the buffer, -1 where there is none
    owner: np.ndarray  # the point of each slot, -1 where it is free
    turn: np.ndarray  # slots: which is filled NEXT, which was asked for LAST


@dataclass
class Active:
    """The problem over the active points, compact, as the compiled loops want it."""

    gram: Gram
    memory: int = 0
    points: np.ndarray = field(init=False)
    mode: int = field(init=False)

    def __post_init__(self) -> None:
        self._all: Any = None
        self.kind, self.rate = SQUARED, np.float32(0)
        if isinstance(self.gram, KernelRows):
            self.dense = np.zeros((1, 1), np.float32)
            self._all = padded_transposed(self.gram.x)
            self.kind = SQUARED if self.gram.kernel.norm == 2 else ABSOLUTE
            self.rate = np.float32(rate_of(self.gram.kernel))
        else:
            exact = np.asarray(self.gram).dtype != np.float32
            self.dense = np.ascontiguousarray(
                self.gram, np.float64 if exact else np.float32
            )
            self._all = (
                None if exact else np.zeros((4, 1), np.float32)
            )  # float32 shares one specialisation
        self.computed = isinstance(self.gram, KernelRows)
        self.buffer = np.empty(0, self.dense.dtype)
        self.slot_of = self.owner = self.turn = np.empty(0, np.int64)
        self.take(np.arange(len(self.gram)))

    def take(self, points: np.ndarray, keep: np.ndarray | None = None) -> None:
        """Make `points` the active set; `keep`, their places in the one before, saves the cached rows."""
        before = len(self.points) if keep is not None else 0
        m = len(points)
        direct = not self.computed and m == len(self.dense)
        was_cached = keep is not None and self.mode != DIRECT
        self.points = points
        self.mode = DIRECT if direct else COMPUTED if self.computed else GATHERED
        self.xt = (
            np.ascontiguousarray(self._all[:, points]) if self.computed else self._all
        )
        if direct:  # nothing is cached
            self.slot_of = self.owner = self.turn = np.empty(0, np.int64)
            return
        wanted = min(max(self.memory // self.dense.itemsize, 2 * m), m * m)
        if len(self.buffer) < wanted and not was_cached:
            self.buffer = np.empty(wanted, self.dense.dtype)
        capacity = min(len(self.buffer) // m, m)
        slot_of, owner = np.full(m, -1, np.int64), np.full(capacity, -1, np.int64)
        used = (
            compact(keep, before, self.buffer, self.owner, slot_of, owner)
            if was_cached
            else 0
        )
        self.slot_of, self.owner = slot_of, owner
        self.turn = np.array([used % max(capacity, 1), -1], np.int64)

    def rows(self) -> ActiveRows:
        return ActiveRows(
            self.mode,
            self.points,
            self.dense,
            self.xt,
            self.kind,
            self.rate,
            self.buffer,
            self.slot_of,
            self.owner,
            self.turn,
        )


@njit
def _fill(row, i, mode, active, gram, xt, kind, rate):
    m = row.size
    if mode == GATHERED:
        source = gram[active[i]]
        for t in range(m):
            row[t] = source[active[t]]
        return
    if xt is not None:
        centre = np.empty(xt.shape[0], np.float32)
        for k in range(centre.size):
            centre[k] = xt[k, i]
        kernel_row(xt, centre, kind, rate, row)


@njit
def fetch(i, rows):
    """Row of the active point i, a view of the Gram or of the cache; the last two fetched stay valid."""
    m = rows.active.size
    if rows.mode == DIRECT:
        return rows.gram[i]
    buffer, owner, turn = rows.buffer, rows.owner, rows.turn
    slot = rows.slot_of[i]
    if slot >= 0:
        turn[LAST] = slot
        return buffer[slot * m : slot * m + m]
    slot = turn[NEXT]
    if slot == turn[LAST]:
        slot = (slot + 1) % owner.size
    if owner[slot] >= 0:
        rows.slot_of[owner[slot]] = -1
    owner[slot], rows.slot_of[i] = i, slot
    turn[NEXT], turn[LAST] = (slot + 1) % owner.size, slot
    row = buffer[slot * m : slot * m + m]
    _fill(row, i, rows.mode, rows.active, rows.gram, rows.xt, rows.kind, rows.rate)
    return row


@njit(nogil=True, cache=True)
def compact(keep, m, buffer, owner, new_slot_of, new_owner):
    """Keep only columns and rows of the active positions `keep`, in place; returns how many rows."""
    position = np.full(m, -1, np.int64)
    for k in range(keep.size):
        position[keep[k]] = k
    width, used = keep.size, 0
    # Rows move towards the front of the buffer, slot by slot, so nothing is overwritten before it is read.
    for slot in range(owner.size):
        point = position[owner[slot]] if owner[slot] >= 0 else -1
        if point >= 0:
            row, moved = (
                buffer[slot * m : slot * m + m],
                buffer[used * width : used * width + width],
            )
            for t in range(width):
                moved[t] = row[keep[t]]
            new_owner[used], new_slot_of[point] = point, used
            used += 1
    return used
