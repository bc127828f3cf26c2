"""Kernel expansions over a basis of rows: the sums that training and scoring need.

Distances between a row and the basis are computed once for all sums; bumps of equal
width share the exponentials too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from screening.kernels import pairwise
from screening.kernels.base import Kernel
from screening.kernels.pairwise import Precision

Key = tuple[int, int]
"""Key of a sum: (number of the pass, output), output -1 for its decisions."""


@dataclass(frozen=True)
class BumpSum:
    """sum_k heights_k exp(-rates_k d(x, x_k)) over the basis.

    Parameters
    ----------
    norm : {2, 1}
        Norm of the distances d: squared Euclidean or city-block.
    rates, heights : ndarray of shape (n_basis,)
    """

    norm: int
    rates: np.ndarray
    heights: np.ndarray


@dataclass
class _Sweep:
    """Terms of one norm and precision, which share the distances to the rows.

    Parameters
    ----------
    rows : ndarray of shape (n_basis, n_features)
    terms : list of (rate, weights)
        As for ``pairwise.weighted_sums``.
    widths : dict of Key to int
        Number of output columns of each sum, in their order.
    """

    rows: np.ndarray
    terms: list[tuple[float | np.ndarray, np.ndarray]] = field(default_factory=list)
    widths: dict[Key, int] = field(default_factory=dict)

    def add(
        self, rate: float | np.ndarray, weights: np.ndarray, widths: Mapping[Key, int]
    ) -> None:
        """Add a term whose columns belong to the keys of ``widths``, in order."""
        self.terms.append((rate, weights))
        self.widths |= widths

    def drop_unused(self) -> None:
        """Drop the rows whose weight is 0 in every term."""
        used = np.zeros(len(self.rows), bool)
        for _, weights in self.terms:
            used |= weights.any(axis=1)
        if used.all():
            return
        self.rows = self.rows[used]
        terms: list[tuple[float | np.ndarray, np.ndarray]] = []
        for rate, weights in self.terms:
            if isinstance(rate, np.ndarray) and rate.ndim:
                rate = rate[used]
            terms.append((rate, weights[used]))
        self.terms = terms


class ExpansionSums:
    """Kernel expansions and sums of bumps over one basis.

    Parameters
    ----------
    kernel : Kernel
    rows : ndarray of shape (n_basis, n_features)
        The basis.
    expansions : dict of Key to ndarray of shape (n_basis, n_outputs)
        Coefficients of the expansions.
    bumps : dict of Key to BumpSum, optional
    c : dict of Key to ndarray of shape (n_basis, 1) or (n_basis, n_outputs), optional
        Factor that a decision multiplies an expansion by, at the basis.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: np.ndarray,
        expansions: Mapping[Key, np.ndarray],
        bumps: Mapping[Key, BumpSum] | None = None,
        c: Mapping[Key, np.ndarray] | None = None,
    ) -> None:
        self._sweeps: dict[tuple[int, Precision], _Sweep] = {}
        self._add_expansions(kernel, rows, expansions, c or {})
        bumps = bumps or {}
        for norm in sorted({bump_sum.norm for bump_sum in bumps.values()}):
            of_norm = {
                key: bump_sum
                for key, bump_sum in bumps.items()
                if bump_sum.norm == norm
            }
            self._add_bumps(norm, rows, of_norm)
        for sweep in self._sweeps.values():
            sweep.drop_unused()

    def _add_expansions(
        self,
        kernel: Kernel,
        rows: np.ndarray,
        expansions: Mapping[Key, np.ndarray],
        c: Mapping[Key, np.ndarray],
    ) -> None:
        """Sum each row in float64 if some expansion needs it, in float32 otherwise."""
        exact = np.zeros((len(rows), 1), bool)
        for key, weights in expansions.items():
            used = np.flatnonzero(weights.any(axis=1))
            c_used = c[key][used] if key in c else None
            exact[used, 0] |= pairwise.in_double(
                kernel, rows[used], weights[used], c_used
            )
        weights = np.hstack(list(expansions.values()))
        widths = {key: columns.shape[1] for key, columns in expansions.items()}
        in_float64 = weights * exact
        in_float32 = weights * ~exact
        # A precision without rows of its own is left out: its sweep would cost time.
        by_precision: dict[Precision, np.ndarray] = {}
        if not exact.any():
            by_precision[np.float32] = weights
        elif not in_float32.any():
            by_precision[np.float64] = weights
        else:
            by_precision[np.float64] = in_float64
            by_precision[np.float32] = in_float32
        for dtype, columns in by_precision.items():
            sweep = self._sweeps.setdefault((kernel.norm, dtype), _Sweep(rows))
            sweep.add(kernel.number, columns, widths)

    def _add_bumps(
        self, norm: int, rows: np.ndarray, bumps: Mapping[Key, BumpSum]
    ) -> None:
        """Add sums of bumps; those of one equal width become one term."""
        keys_by_rate: dict[float | Key, list[Key]] = {}
        dtype: Precision = np.float32
        for key, bump_sum in bumps.items():
            used = np.flatnonzero(bump_sum.heights)
            rates = bump_sum.rates[used]
            if pairwise.bump_precision(norm, rows[used], rates) is np.float64:
                dtype = np.float64
            equal_rates = bool(len(used)) and np.ptp(rates) == 0.0
            name: float | Key = float(rates[0]) if equal_rates else key
            keys_by_rate.setdefault(name, []).append(key)
        sweep = self._sweeps.setdefault((norm, dtype), _Sweep(rows))
        for keys in keys_by_rate.values():
            first = bumps[keys[0]]
            rate = first.rates
            if len(keys) > 1:
                rate = first.rates[first.heights != 0][0]
            heights = np.column_stack([bumps[key].heights for key in keys])
            sweep.add(rate, heights, dict.fromkeys(keys, 1))

    def at(self, x: np.ndarray) -> dict[Key, np.ndarray]:
        """Return every sum at the rows of x, shape (n, n_outputs) each."""
        by_key: dict[Key, np.ndarray] = {}
        for (norm, dtype), sweep in self._sweeps.items():
            sums = pairwise.weighted_sums(norm, x, sweep.rows, sweep.terms, dtype=dtype)
            columns = sums[0] if len(sums) == 1 else np.hstack(sums)
            ends = accumulate(sweep.widths.values())
            for (key, width), end in zip(sweep.widths.items(), ends, strict=True):
                part = columns[:, end - width : end]
                by_key[key] = by_key[key] + part if key in by_key else part
        return by_key


@dataclass(frozen=True)
class KernelBlock:
    """K between a basis and a block of rows x.

    Values that were not passed in are computed when they are asked for.

    Parameters
    ----------
    kernel : Kernel
    basis : ndarray of shape (n_basis, n_features)
    x : ndarray of shape (n, n_features)
    matrix : ndarray of shape (n_basis, n), optional
        K between basis and x.
    symmetric : bool
        x is the basis, as in training.
    sums : dict of Key to ndarray of shape (n, n_outputs), optional
        Sums at x that were computed together.
    """

    kernel: Kernel
    basis: np.ndarray
    x: np.ndarray
    matrix: np.ndarray | None = None
    symmetric: bool = False
    sums: Mapping[Key, np.ndarray] = field(default_factory=dict)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Return K between x and the basis, times weights (n_basis, n_outputs)."""
        if self.matrix is None:
            return expansion_at(self.kernel, self.x, self.basis, weights)
        if self.symmetric:
            return pairwise.symmetric_times(self.matrix, weights)
        return self.matrix.T @ weights

    def among(self, index: np.ndarray) -> np.ndarray:
        """Return K among some rows of the basis, by index, shape (m, m)."""
        if self.symmetric and self.matrix is not None:
            return self.matrix[np.ix_(index, index)]
        return self.kernel(self.basis[index], self.basis[index].copy())

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Return K between x and some rows of the basis, by index, shape (n, m)."""
        if self.matrix is None:
            return self.kernel(self.x, self.basis[index])
        rows = self.matrix if self.symmetric else self.matrix.T
        return rows[:, index]


def expansion_at(
    kernel: Kernel, x: np.ndarray, basis: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return sum_i weights_i K(basis_i, x) at the rows of x, shape (n, n_outputs)."""
    used = np.flatnonzero(weights.any(axis=1))
    rows = basis[used]
    weights = weights[used]
    exact = pairwise.in_double(kernel, rows, weights).any()
    dtype = np.float64 if exact else np.float32
    return pairwise.weighted_sum(kernel, x, rows, weights, dtype=dtype)
