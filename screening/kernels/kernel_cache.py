"""What several fits on the same rows share: distances over gammas, a Gram over costs, solutions over factors.

A caller that is going to fit the same rows several times says so (``with over(rows):``); kernels and solvers
look there before they compute. Rows are recognised by identity, so other rows are never mistaken for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from screening.kernels import pairwise
from screening.kernels.pairwise import Precision, RadialKernel, input_distances

DEFAULT_MEMORY = 4 << 30
# A Gram of more rows than this is float32: half the memory, its rounding (1e-7) far below any tolerance.
EXACT_ROWS = 2000

_current: ContextVar[Shared | None] = ContextVar("shared", default=None)


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
                self._made[norm, name] = pairwise.distances(norm, self.rows, self.rows, dtype=dtype)
        # Twice as fast as np.ix_; 'clip' writes without a copy on the way.
        return self._made[norm, name][at].take(at, axis=1, mode="clip")


class Shared:
    """Distances, the last Gram and the solutions found on it, for one array of rows.

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
        self._asked = asked
        self._across: tuple[RadialKernel, np.ndarray] | None = None
        self._trained: list[tuple[RadialKernel, np.ndarray, Any]] = []
        self.memory = DEFAULT_MEMORY if memory is None else memory
        self._part = part
        self._distances: dict[int, np.ndarray] = {}
        self._kernel: RadialKernel | None = None
        self._gram: object = None
        self._grams_made = 0
        self.solutions: dict[Any, Any] = {}

    def gram(self, kernel: RadialKernel, dtype: Precision) -> np.ndarray:
        """K over the rows: the one made last, or from distances once a second gamma is asked for."""
        if isinstance(self._gram, np.ndarray) and kernel == self._kernel:
            return self._gram
        self._gram = None
        self.solutions = {}
        n_bytes = np.dtype(dtype).itemsize * len(self.rows) ** 2
        kept = self._distances.get(kernel.norm)
        if kept is None and self._part is not None:
            kept = self._part(kernel.norm, dtype)
            if kept is not None:
                self._distances[kernel.norm] = kept
        if kept is None and self._grams_made and n_bytes * (2 + len(self._distances)) <= self.memory:
            kept = self._distances[kernel.norm] = pairwise.distances(
                kernel.norm, self.rows, self.rows, dtype=dtype
            )
        gram = (
            pairwise.gram(kernel, self.rows, dtype=dtype)
            if kept is None
            else pairwise.gram_from(kernel, kept)
        )
        self._grams_made += 1
        self.keep(kernel, gram)
        return gram

    def keep(self, kernel: RadialKernel, gram: object) -> None:
        """Take a Gram made elsewhere as the one whose solutions are kept."""
        if gram is not self._gram:
            self._kernel, self._gram, self.solutions = kernel, gram, {}

    def trained(self, kernel: RadialKernel, machines: Sequence[tuple[np.ndarray, Any]]) -> None:
        """Take note of the machines fitted last: the rows each stands on, and what its last pass follows."""
        self._trained = [(kernel, *each) for each in machines]

    def trained_on(self, basis: np.ndarray, x: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """What the last pass of a machine fitted last follows, and K between the shared rows and x.

        None for another machine or for rows that were not to be asked about, and where K takes much of the
        memory or the Gram is not exact.
        """
        n = len(self.rows)
        if x is not self._asked or n > EXACT_ROWS or 32 * n * len(x) > self.memory:
            return None
        for kernel, rows, before in self._trained:
            if rows is basis:
                if self._across is None or self._across[0] != kernel:
                    self._across = (kernel, pairwise.gram(kernel, self.rows, x, dtype=np.float64))
                return before, self._across[1]
        return None

    @cached_property
    def largest_distance(self) -> float:
        """Between two of the rows."""
        rows = self.rows
        blocks = (input_distances(rows[i : i + 512], rows).max() for i in range(0, len(rows), 512))
        return float(np.sqrt(max(blocks)))

    def solutions_on(self, gram: object) -> dict[Any, Any] | None:
        """The solutions kept for this Gram; None where it is not the one in use."""
        return self.solutions if gram is self._gram else None


def current() -> Shared | None:
    """What the caller shares here, if anything."""
    return _current.get()


def memory() -> int:
    """Bytes a fit may take for kernel matrices here."""
    shared = _current.get()
    return DEFAULT_MEMORY if shared is None else shared.memory


@contextmanager
def using(shared: Shared) -> Iterator[Shared]:
    """Look in ``shared`` first, inside."""
    token = _current.set(shared)
    try:
        yield shared
    finally:
        _current.reset(token)


@contextmanager
def over(rows: np.ndarray) -> Iterator[Shared]:
    """Share over these rows inside; of rows that are shared already, go on with what there is."""
    outer = _current.get()
    if outer is not None and outer.rows is rows:
        yield outer
        return
    with using(Shared(rows, memory())) as inner:
        yield inner


def side_by_side(n_rows: int, memory: int | None) -> int:
    """How many fits of so many rows the memory holds at a time, a Gram and its copy each; one at least."""
    return max(1, (DEFAULT_MEMORY if memory is None else memory) // (8 * max(n_rows, 1) ** 2))


def gram_of(kernel: RadialKernel, rows: np.ndarray, dtype: Precision) -> np.ndarray:
    """The Gram of rows: from what is kept where they are shared."""
    shared = _current.get()
    if shared is None or shared.rows is not rows:
        return pairwise.gram(kernel, rows, dtype=dtype)
    return shared.gram(kernel, dtype)
