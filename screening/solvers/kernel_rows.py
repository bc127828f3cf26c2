"""Rows of a kernel matrix for solvers: stored, computed one by one, or cached.

A cache is one flat buffer (of the Gram matrix's type, or float32 if rows are computed)
of rows as long as the active set; a new row replaces the oldest. When the active set
shrinks, the rows are compacted in place, so the buffer never grows and has room for
more rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from screening.kernels.base import Kernel
from screening.kernels.jit import njit
from screening.kernels.pairwise import (
    SQUARED,
    distance_code,
    kernel_row,
    padded_transposed,
    rate_of,
    weighted_sum,
)

# Modes of `fetch_row`: a row of the Gram matrix as it is, a cached row of some of its
# columns, or a cached row that is computed.
DIRECT = 0
_GATHERED = 1
_COMPUTED = 2
# Positions in ``ActiveRows.turn``: the slot to be filled next, and the slot read last.
_NEXT = 0
_LAST = 1


@dataclass(frozen=True)
class KernelRows:
    """A kernel matrix that is computed by rows, for use as ``Problem.gram``.

    Parameters
    ----------
    x : ndarray of shape (n, n_features)
    kernel : Kernel
        gamma a number.
    """

    x: np.ndarray
    kernel: Kernel

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return (len(self.x), len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    def diagonal(self) -> np.ndarray:
        """Return K(x_i, x_i), shape (n,)."""
        return self.kernel.diagonal(self.x)

    def part(self, rows: np.ndarray) -> KernelRows:
        """Return the matrix over some of the rows, by index."""
        return KernelRows(self.x[rows], self.kernel)

    def __getitem__(self, key: tuple[np.ndarray | slice, ...]) -> np.ndarray:
        """Compute a block ``[np.ix_(rows, columns)]`` or ``[:, columns]``."""
        of_rows, of_columns = key
        numbers = np.arange(len(self.x))
        rows = numbers[of_rows].ravel()
        columns = numbers[of_columns].ravel()
        return self.kernel(self.x[rows], self.x[columns])

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """Return K weights, shape (n,)."""
        used = np.flatnonzero(weights)
        return weighted_sum(self.kernel, self.x, self.x[used], weights[used])


Gram = np.ndarray | KernelRows
"""A kernel matrix, stored or computed by rows."""


class ActiveRows(NamedTuple):
    """Rows of the kernel over the active points, for `fetch_row`.

    Parameters
    ----------
    mode : int
        DIRECT, _GATHERED or _COMPUTED.
    active : int ndarray of shape (m,)
        The active points.
    gram : ndarray of shape (n, n)
    xt : ndarray of shape (n_features, m) or None
        The active points' features, if rows are computed.
    kind, rate
        Distance code and rate of the kernel, if rows are computed.
    buffer : ndarray
        The cached rows.
    slot_of : int ndarray of shape (m,)
        Slot of each active point's row in the buffer, -1 if it is not cached.
    owner : int ndarray of shape (n_slots,)
        Active point of each slot, -1 if it is free.
    turn : int ndarray of shape (2,)
        The slots _NEXT and _LAST.
    """

    mode: int
    active: np.ndarray
    gram: np.ndarray
    xt: np.ndarray | None
    kind: int
    rate: np.float32
    buffer: np.ndarray
    slot_of: np.ndarray
    owner: np.ndarray
    turn: np.ndarray


@dataclass
class ActiveSet:
    """The kernel over the active points, compact, with its cache of rows.

    Parameters
    ----------
    gram : ndarray of shape (n, n) or KernelRows
    memory : int
        Bytes of the cache; at least two rows are cached.

    Attributes
    ----------
    points : int ndarray of shape (m,)
        The active points; at first all.
    """

    gram: Gram
    memory: int = 0
    points: np.ndarray = field(init=False)
    mode: int = field(init=False)

    def __post_init__(self) -> None:
        self._xt_of_all: Any = None
        self.kind = SQUARED
        self.rate = np.float32(0)
        self.computed = isinstance(self.gram, KernelRows)
        if isinstance(self.gram, KernelRows):
            self.dense = np.zeros((1, 1), np.float32)
            self._xt_of_all = padded_transposed(self.gram.x)
            self.kind = distance_code(self.gram.kernel.norm)
            self.rate = np.float32(rate_of(self.gram.kernel))
        elif np.asarray(self.gram).dtype == np.float32:
            self.dense = np.ascontiguousarray(self.gram, np.float32)
            # A placeholder: stored and computed float32 rows then share the compiled
            # loops of one signature.
            self._xt_of_all = np.zeros((4, 1), np.float32)
        else:
            self.dense = np.ascontiguousarray(self.gram, np.float64)
        self.buffer = np.empty(0, self.dense.dtype)
        self._clear_cache()
        self.take(np.arange(len(self.gram)))

    def _clear_cache(self) -> None:
        self.slot_of = np.empty(0, np.int64)
        self.owner = np.empty(0, np.int64)
        self.turn = np.empty(0, np.int64)

    def take(self, points: np.ndarray, keep: np.ndarray | None = None) -> None:
        """Make some points the active set.

        Parameters
        ----------
        points : int ndarray of shape (m,)
        keep : int ndarray of shape (m,), optional
            Positions of the points in the active set before; cached rows are then kept.
        """
        n_before = len(self.points) if keep is not None else 0
        was_cached = keep is not None and self.mode != DIRECT
        m = len(points)
        self.points = points
        self.xt = self._xt_of_all
        if self.computed:
            self.mode = _COMPUTED
            self.xt = np.ascontiguousarray(self._xt_of_all[:, points])
        elif m == len(self.dense):
            self.mode = DIRECT
            self._clear_cache()
            return
        else:
            self.mode = _GATHERED
        n_within_memory = self.memory // self.dense.itemsize
        n_numbers = min(max(n_within_memory, 2 * m), m * m)
        if len(self.buffer) < n_numbers and not was_cached:
            self.buffer = np.empty(n_numbers, self.dense.dtype)
        n_slots = min(len(self.buffer) // m, m)
        slot_of = np.full(m, -1, np.int64)
        owner = np.full(n_slots, -1, np.int64)
        n_cached = 0
        if was_cached:
            n_cached = compact(keep, n_before, self.buffer, self.owner, slot_of, owner)
        self.slot_of = slot_of
        self.owner = owner
        next_slot = n_cached % max(n_slots, 1)
        self.turn = np.array([next_slot, -1], np.int64)

    def rows(self) -> ActiveRows:
        """Return the rows for the compiled loops."""
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
    """Fill a row of the kernel over the active points, from the matrix or the rows."""
    m = row.size
    if mode == _GATHERED:
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
def fetch_row(i, rows):
    """Return the kernel row of active point i, a view of the Gram matrix or cache.

    The last two rows that were fetched stay valid.
    """
    m = rows.active.size
    if rows.mode == DIRECT:
        return rows.gram[i]
    buffer = rows.buffer
    owner = rows.owner
    turn = rows.turn
    slot = rows.slot_of[i]
    if slot >= 0:
        turn[_LAST] = slot
        return buffer[slot * m : slot * m + m]
    slot = turn[_NEXT]
    if slot == turn[_LAST]:
        slot = (slot + 1) % owner.size
    if owner[slot] >= 0:
        rows.slot_of[owner[slot]] = -1
    owner[slot] = i
    rows.slot_of[i] = slot
    turn[_NEXT] = (slot + 1) % owner.size
    turn[_LAST] = slot
    row = buffer[slot * m : slot * m + m]
    _fill(row, i, rows.mode, rows.active, rows.gram, rows.xt, rows.kind, rows.rate)
    return row


@njit(nogil=True, cache=True)
def compact(keep, m, buffer, owner, new_slot_of, new_owner):
    """Drop columns and rows of inactive points from the buffer, in place.

    `keep`: the positions that stay active, out of m. Returns the number of cached rows.
    """
    position = np.full(m, -1, np.int64)
    for k in range(keep.size):
        position[keep[k]] = k
    width = keep.size
    used = 0
    # Rows move towards the front in order: nothing is overwritten before it is read.
    for slot in range(owner.size):
        point = position[owner[slot]] if owner[slot] >= 0 else -1
        if point >= 0:
            row = buffer[slot * m : slot * m + m]
            moved = buffer[used * width : used * width + width]
            for t in range(width):
                moved[t] = row[keep[t]]
            new_owner[used] = point
            new_slot_of[point] = used
            used += 1
    return used
