"""Kernel expansions: the rows they stand on, and the sums over these that training and scoring need.

Distances between a row and the basis are measured once; machines whose bumps are equally wide share the
exponentials too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from screening.kernels import pairwise
from screening.kernels.base import Kernel
from screening.kernels.pairwise import Precision
from screening.solvers.kernel_rows import Gram

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


class Sums:
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
        self._joined = [_on_used(each) for each in _joined(sweeps)]

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
        found: dict[Key, np.ndarray] = {}
        for each in self._joined:
            sums = pairwise.weighted_sums(each.norm, x, each.rows, each.terms, dtype=each.dtype)
            for key, part in _columns(sums[0] if len(sums) == 1 else np.hstack(sums), each).items():
                found[key] = found[key] + part if key in found else part
        return found


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
    found: dict[tuple[int, Precision], _Sweep] = {}
    for each in sweeps:
        name = (each.norm, each.dtype)
        known = found.get(name)
        if known is None:
            found[name] = each
        else:
            terms, keys = known.terms + each.terms, known.keys + each.keys
            found[name] = replace(each, terms=terms, keys=keys, widths=known.widths + each.widths)
    return list(found.values())


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


class Basis:
    """The rows kernel expansions stand on; in training it holds their Gram and recognises them by identity.

    The kernel to the rows asked for last is kept, and so are the sums: the decision, the factor and the next
    pass all want them.
    """

    def __init__(
        self, kernel: Kernel, rows: np.ndarray, gram: Gram | None = None, sums: Sums | None = None
    ) -> None:
        self.kernel = kernel
        self.rows = rows
        self.sums = sums
        # Rows that are asked about, and K between the basis and them.
        self.across: tuple[np.ndarray, np.ndarray] | None = None
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
        """K between the rows of x and the basis, times weights (n_basis, n_outputs), in one pairwise."""
        if self.gram is not None and x is self.rows:
            return pairwise.symmetric_times(self.gram, weights)
        held = self.held(x)
        if held is not None:
            return held.T @ weights
        used = np.flatnonzero(weights.any(axis=1))
        rows, weights = self.rows[used], weights[used]
        dtype = np.float64 if pairwise.in_double(self.kernel, rows, weights).any() else np.float32
        return pairwise.weighted_sum(self.kernel, x, rows, weights, dtype=dtype)

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
