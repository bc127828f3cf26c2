"""Kernel expansions: the rows they stand on, and the sums over these that training and scoring need.

Distances between a row and the basis are measured once; machines whose bumps are equally wide share the
exponentials too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass
class _Sweep:
    """Terms of one norm and type: they share the distances to the rows."""

    rows: np.ndarray
    terms: list[tuple[float | np.ndarray, np.ndarray]] = field(default_factory=list)
    widths: dict[Key, int] = field(
        default_factory=dict
    )  # of the columns, in their order

    def add(
        self, rate: float | np.ndarray, weights: np.ndarray, widths: Mapping[Key, int]
    ) -> None:
        self.terms.append((rate, weights))
        self.widths |= widths

    def drop_unused(self) -> None:
        """Leave out the rows that no term has a weight for."""
        used = np.any([weights.any(axis=1) for _, weights in self.terms], axis=0)
        if not used.all():
            self.rows = self.rows[used]
            self.terms = [
                (
                    rate[used] if isinstance(rate, np.ndarray) and rate.ndim else rate,
                    weights[used],
                )
                for rate, weights in self.terms
            ]


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
        self._sweeps: dict[tuple[int, Precision], _Sweep] = {}
        # In float64 what some expansion wants in it, in float32 the rest.
        exact = np.zeros((len(rows), 1), bool)
        for key, weights in expansions.items():
            used = np.flatnonzero(weights.any(axis=1))
            c_used = c[key][used] if c and key in c else None
            exact[used, 0] |= pairwise.in_double(
                kernel, rows[used], weights[used], c_used
            )
        whole = np.hstack(list(expansions.values()))
        widths = {key: weights.shape[1] for key, weights in expansions.items()}
        # Neither type is swept over for nothing.
        parts: list[tuple[Precision, np.ndarray]] = [
            (np.float64, whole * exact),
            (np.float32, whole * ~exact),
        ]
        if not exact.any():
            parts = [(np.float32, whole)]
        elif not parts[1][1].any():
            parts = [(np.float64, whole)]
        for dtype, weights in parts:
            sweep = self._sweeps.setdefault((kernel.norm, dtype), _Sweep(rows))
            sweep.add(kernel.number, weights, widths)
        for norm in sorted({own.norm for own in (bumps or {}).values()}):
            self._add_bumps(
                norm,
                rows,
                {key: own for key, own in (bumps or {}).items() if own.norm == norm},
            )
        for sweep in self._sweeps.values():
            sweep.drop_unused()

    def _add_bumps(
        self, norm: int, rows: np.ndarray, bumps: Mapping[Key, Bumps]
    ) -> None:
        """Bumps of one and the same width are one term of several outputs."""
        of_width: dict[bytes, list[Key]] = {}
        dtype: Precision = np.float32
        for key, own in bumps.items():
            used = np.flatnonzero(own.heights)
            if pairwise.precise_bumps(norm, rows[used], own.rates[used]) is np.float64:
                dtype = np.float64
            one_rate = bool(len(used)) and np.ptp(own.rates[used]) == 0.0
            name = own.rates[used[:1]].tobytes() if one_rate else repr(key).encode()
            of_width.setdefault(name, []).append(key)
        sweep = self._sweeps.setdefault((norm, dtype), _Sweep(rows))
        for keys in of_width.values():
            first = bumps[keys[0]]
            rate = first.rates if len(keys) == 1 else first.rates[first.heights != 0][0]
            heights = np.column_stack([bumps[key].heights for key in keys])
            sweep.add(rate, heights, dict.fromkeys(keys, 1))

    def at(self, x: np.ndarray) -> dict[Key, np.ndarray]:
        """Every sum at the rows of x, (n, n_outputs) each."""
        by_key: dict[Key, np.ndarray] = {}
        for (norm, dtype), sweep in self._sweeps.items():
            sums = pairwise.weighted_sums(norm, x, sweep.rows, sweep.terms, dtype=dtype)
            columns = sums[0] if len(sums) == 1 else np.hstack(sums)
            for (key, width), end in zip(
                sweep.widths.items(), accumulate(sweep.widths.values()), strict=True
            ):
                part = columns[:, end - width : end]
                by_key[key] = by_key[key] + part if key in by_key else part
        return by_key


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
        return (
            pairwise.symmetric_times(self.matrix, weights)
            if self.symmetric
            else self.matrix.T @ weights
        )

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


def expansion_at(
    kernel: Kernel, x: np.ndarray, basis: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """sum_i weights_i K(basis_i, x) at the rows of x, (n, n_outputs), without a matrix."""
    used = np.flatnonzero(weights.any(axis=1))
    rows, weights = basis[used], weights[used]
    dtype = (
        np.float64 if pairwise.in_double(kernel, rows, weights).any() else np.float32
    )
    return pairwise.weighted_sum(kernel, x, rows, weights, dtype=dtype)
