"""Kernel expansions: the rows they stand on, and the sums over these that training and scoring need.

Distances between a row and the basis are measured once; machines whose bumps are equally wide share the
exponentials too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from screening.kernels import pairwise
from screening.kernels.base import Kernel
from screening.kernels.pairwise import Precision

Key = tuple[int, int]


@dataclass(frozen=True)
class Bumps:
    """sum_k heights_k exp(-rates_k d(x, x_k)) over the basis."""

    norm: int
    rates: np.ndarray
    heights: np.ndarray


@dataclass(frozen=True)
class _Sweep:
    """One sweep over rows of the basis: terms of one norm and type, and whose columns come out of it."""

    rows: np.ndarray
    norm: int
    dtype: Precision
    terms: list[tuple[float | np.ndarray, np.ndarray]]
    keys: list[Key]
    widths: list[int]


class ExpansionSums:
    """Kernel expansions and sums of bumps over one basis.

    By key: `expansions` are coefficients (n_basis, n_outputs), and `c` is what a decision multiplies an
    expansion by, at the basis, (n_basis, 1) or (n_basis, n_outputs).
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: np.ndarray,
        expansions: Mapping[Key, np.ndarray],
        bumps: Mapping[Key, Bumps] | None = None,
        c: Mapping[Key, np.ndarray] | None = None,
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self._expansions = dict(expansions)
        self._weights = np.hstack(list(self._expansions.values()))
        sweeps = [*self._of_kernel(c or {}), *_of_bumps(rows, bumps or {})]
        self._sweeps = [_on_used(sweep) for sweep in _joined(sweeps)]

    def _of_kernel(self, c: Mapping[Key, np.ndarray]) -> list[_Sweep]:
        """In float64 what some expansion wants in it, in float32 the rest."""
        exact = np.zeros((len(self.rows), 1), bool)
        for key, weights in self._expansions.items():
            used = np.flatnonzero(weights.any(axis=1))
            there = c[key][used] if key in c else None
            exact[used, 0] |= pairwise.in_double(self.kernel, self.rows[used], weights[used], there)
        if not exact.any():
            return [self._expanded(self._weights, np.float32)]
        if not self._weights[~exact[:, 0]].any():
            return [self._expanded(self._weights, np.float64)]
        return [
            self._expanded(self._weights * exact, np.float64),
            self._expanded(self._weights * ~exact, np.float32),
        ]

    def _expanded(self, weights: np.ndarray, dtype: Precision) -> _Sweep:
        keys, widths = list(self._expansions), [each.shape[1] for each in self._expansions.values()]
        return _Sweep(self.rows, self.kernel.norm, dtype, [(self.kernel.number, weights)], keys, widths)

    def at(self, x: np.ndarray) -> dict[Key, np.ndarray]:
        """Every sum at the rows of x, (n, n_outputs) each."""
        by_key: dict[Key, np.ndarray] = {}
        for sweep in self._sweeps:
            sums = pairwise.weighted_sums(sweep.norm, x, sweep.rows, sweep.terms, dtype=sweep.dtype)
            for key, part in _columns(sums[0] if len(sums) == 1 else np.hstack(sums), sweep).items():
                by_key[key] = by_key[key] + part if key in by_key else part
        return by_key


def _columns(sums: np.ndarray, one: _Sweep) -> dict[Key, np.ndarray]:
    ends = accumulate(one.widths)
    return {
        key: sums[:, end - width : end] for key, width, end in zip(one.keys, one.widths, ends, strict=True)
    }


def _of_bumps(rows: np.ndarray, bumps: Mapping[Key, Bumps]) -> list[_Sweep]:
    """One sweep a norm; bumps of one and the same width are one term of several outputs."""
    sweeps = []
    for norm in sorted({each.norm for each in bumps.values()}):
        own = {key: each for key, each in bumps.items() if each.norm == norm}
        together: dict[bytes, list[Key]] = {}
        dtype: Precision = np.float32
        for key, each in own.items():
            used = np.flatnonzero(each.heights)
            if pairwise.precise_bumps(norm, rows[used], each.rates[used]) is np.float64:
                dtype = np.float64
            one_rate = bool(len(used)) and np.ptp(each.rates[used]) == 0.0
            name = each.rates[used[:1]].tobytes() if one_rate else repr(key).encode()
            together.setdefault(name, []).append(key)
        terms = []
        for keys in together.values():
            first = own[keys[0]]
            rate = first.rates if len(keys) == 1 else first.rates[first.heights != 0][0]
            terms.append((rate, np.column_stack([own[key].heights for key in keys])))
        order = [key for keys in together.values() for key in keys]
        sweeps.append(_Sweep(rows, norm, dtype, terms, order, [1] * len(order)))
    return sweeps


def _joined(sweeps: list[_Sweep]) -> list[_Sweep]:
    """Sweeps of one norm and type as one: they share the distances."""
    joined: dict[tuple[int, Precision], _Sweep] = {}
    for sweep in sweeps:
        before = joined.setdefault((sweep.norm, sweep.dtype), sweep)
        if before is not sweep:
            joined[sweep.norm, sweep.dtype] = replace(
                sweep,
                terms=before.terms + sweep.terms,
                keys=before.keys + sweep.keys,
                widths=before.widths + sweep.widths,
            )
    return list(joined.values())


def _on_used(one: _Sweep) -> _Sweep:
    """Without the rows that no term of it has a weight for."""
    weighted = [weights.any(axis=1) for _, weights in one.terms]
    if all(each.all() for each in weighted):
        return one
    used = np.flatnonzero(np.any(weighted, axis=0))
    terms: list[tuple[float | np.ndarray, np.ndarray]] = [
        (rate[used] if isinstance(rate, np.ndarray) and rate.ndim else rate, weights[used])
        for rate, weights in one.terms
    ]
    return replace(one, rows=one.rows[used], terms=terms)


@dataclass(frozen=True)
class KernelBlock:
    """K between a basis and a block of rows x, as far as it is known; the rest is made when asked for."""

    kernel: Kernel
    basis: np.ndarray  # (n_basis, n_features)
    x: np.ndarray  # (n, n_features)
    matrix: np.ndarray | None = None  # (n_basis, n)
    symmetric: bool = False  # whether x is the basis, as in training
    sums: ExpansionSums | None = None  # what will be asked for at x

    @cached_property
    def foreseen(self) -> Mapping[Key, np.ndarray]:
        """The sums that were foreseen, all of them made at once."""
        return {} if self.sums is None else self.sums.at(self.x)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """K between x and the basis, times weights (n_basis, n_outputs)."""
        if self.matrix is None:
            return expansion_at(self.kernel, self.x, self.basis, weights)
        return pairwise.symmetric_times(self.matrix, weights) if self.symmetric else self.matrix.T @ weights

    def among(self, at: np.ndarray) -> np.ndarray:
        """K among the rows ``at`` of the basis."""
        if self.symmetric and self.matrix is not None:
            return self.matrix[np.ix_(at, at)]
        return self.kernel(self.basis[at], self.basis[at].copy())

    def columns(self, at: np.ndarray) -> np.ndarray:
        """K between x and the rows ``at`` of the basis."""
        if self.matrix is None:
            return self.kernel(self.x, self.basis[at])
        return self.matrix[:, at] if self.symmetric else self.matrix.T[:, at]


def expansion_at(kernel: Kernel, x: np.ndarray, basis: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_i weights_i K(basis_i, x) at the rows of x, (n, n_outputs), without a matrix."""
    used = np.flatnonzero(weights.any(axis=1))
    rows, weights = basis[used], weights[used]
    dtype = np.float64 if pairwise.in_double(kernel, rows, weights).any() else np.float32
    return pairwise.weighted_sum(kernel, x, rows, weights, dtype=dtype)
