"""The rows that kernel expansions stand on, and the kernel to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from screening.kernels import sweep
from screening.machines.sums import Key, Sums

if TYPE_CHECKING:
    from screening.kernels.base import Kernel
    from screening.solvers.kernel_rows import Gram


class Basis:
    """The rows kernel expansions stand on; in training it holds their Gram and recognises them by identity.

    The kernel to the rows asked for last is kept, and so are the sums: the decision, the factor and the next
    pass all want them.
    """

    def __init__(
        self, kernel: Kernel, rows: np.ndarray, gram: Gram | None = None, sums: Sums | None = None,
        across: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.rows = rows
        self.sums = sums
        self.across = across  # rows that are asked about, and K between the basis and them
        self._at: tuple[np.ndarray | None, dict[Key, np.ndarray]] = (None, {})
        self.gram = gram if isinstance(gram, np.ndarray) else None  # rows on the fly are for the solver alone
        self._last: tuple[np.ndarray | None, np.ndarray | None] = (None, None)

    def to(self, x: np.ndarray) -> np.ndarray:
        """K between the rows of x and the basis, (n, n_basis)."""
        held = self.held(x)
        if held is not None:
            return held if x is self.rows else held.T
        known, gram = self._last
        if known is not x or gram is None:
            gram = self.kernel(x, self.rows)
            self._last = (x, gram)
        return gram

    def held(self, x: np.ndarray) -> np.ndarray | None:
        """K between the basis and the rows of x, (n_basis, n), where the whole of it is at hand."""
        if self.gram is not None and x is self.rows:
            return self.gram
        return self.across[1] if self.across is not None and x is self.across[0] else None

    def sum_at(self, x: np.ndarray, key: Key) -> np.ndarray | None:
        """A foreseen sum at the rows of x, all of them made at once; None where it was not foreseen."""
        if self.sums is None:
            return None
        if self._at[0] is not x:
            self._at = (x, self.sums.at(x))
        return self._at[1].get(key)

    def times(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """K between the rows of x and the basis, times weights (n_basis, n_outputs), in one sweep."""
        if self.gram is not None and x is self.rows:
            return sweep.symmetric_times(self.gram, weights)
        held = self.held(x)
        if held is not None:
            return held.T @ weights
        used = np.flatnonzero(weights.any(axis=1))
        rows, weights = self.rows[used], weights[used]
        dtype = np.float64 if sweep.in_double(self.kernel, rows, weights).any() else np.float32
        return sweep.weighted_sum(self.kernel, x, rows, weights, dtype=dtype)

    def among(self, at: np.ndarray) -> np.ndarray:
        """K among the rows ``at`` of the basis."""
        if self.gram is not None:
            return self.gram[np.ix_(at, at)]
        return self.kernel(self.rows[at], self.rows[at].copy())

    def columns(self, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        """K between the rows of x and the rows ``at`` of the basis."""
        if self.held(x) is not None or self._last[0] is x:
            return self.to(x)[:, at]
        return self.kernel(x, self.rows[at])
