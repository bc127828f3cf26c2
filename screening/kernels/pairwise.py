"""Distances, kernel matrices and weighted sums of kernels between rows, several outputs at once.

One lane of the loops is one row and every row goes through the same operations in the same order, so the
result for a row does not depend on the batch, the block or the thread it is computed in.
Distances are sums of differences, never |x|^2 + |z|^2 - 2 x'z: no cancellation, hence no centring, and one
loop serves both kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numba import types
from numba.extending import overload

from screening.kernels.jit import njit
from screening.kernels.simd import (
    CENTRES,
    PANEL,
    absolute_tile,
    flush_tiny,
    fused,
    maximum,
    restore,
    scaled,
    squared_tile,
    widest,
)
from screening.kernels.threads import run_in_threads

Precision = type[np.float32] | type[np.float64]
"""What distances and kernels are computed in; sums of them are float64."""
SQUARED, ABSOLUTE = 0, 1
"""Kinds of distances, as the loops know them."""
BLOCK = 256
"""Rows in a block: the accumulators of a block stay in the first-level cache."""
_TASK = 4096  # rows a thread takes at a time
_PROBES = 64
_LOG2_E = 1.4426950408889634
# What float32 adds to a sum, of the root of its squared weights, and how much of the largest sum that may be.
_ROUNDING, _LEFT = 3e-7, 3e-5
# Share of the centres in float64 from which a sweep in each type takes longer than one in float64 alone.
_MIXED = 2 / 3
_LINE = 64  # bytes of a line of the cache
_MAGIC = np.float32(
    12582912.0
)  # 1.5 * 2^23: adding it rounds to an integer held in the low bits
_FLOOR = np.float32(-125.0)
_C1 = np.float32(0.6931469775988578)  # 2^f - 1 on [-1/2, 1/2], relative error 9.2e-8
_C2 = np.float32(0.24022242085173234)
_C3 = np.float32(0.05550733743691264)
_C4 = np.float32(0.009671512648906882)
_C5 = np.float32(0.001326472706523345)
_ONE = np.float32(1.0)


_MAGIC_64 = 6755399441055744.0  # 1.5 * 2^52
_FLOOR_64 = -1021.0
# 2^f - 1 on [-1/2, 1/2] through Chebyshev's nodes, relative error 6e-16: three products less than Taylor's.
_E1, _E2, _E3 = 0.6931471805599462, 0.24022650695910075, 0.05550410866465167
_E4, _E5, _E6 = 0.009618129107618665, 0.0013333558200794592, 0.00015403530424776529
_E7, _E8 = 1.5252672924850737e-05, 1.3215451633221434e-06
_E9, _E10 = 1.0205905413765595e-07, 7.070977866508138e-09


class RadialKernel(Protocol):
    """K = exp(-number d), d the squared Euclidean distance (norm 2) or the city-block one (norm 1)."""

    @property
    def norm(self) -> int: ...

    @property
    def number(self) -> float: ...


def input_distances(x: np.ndarray, z: np.ndarray, norm: int = 2) -> np.ndarray:
    """Distances between the rows of x and of z in the input space.

    Parameters
    ----------
    x, z : ndarray of shape (n, n_features), (m, n_features)
    norm : {2, 1}
        2 gives *squared* Euclidean distances, 1 gives city-block distances (not squared).

    Returns
    -------
    ndarray of shape (n, m)
    """
    if norm not in (1, 2):
        raise ValueError(f"norm must be 1 or 2, got {norm!r}")
    return distances(norm, x, z, dtype=np.float64)


def rate_of(kernel: RadialKernel) -> float:
    """The r of K = 2^(r d)."""
    return -kernel.number * _LOG2_E


def _width(n_features: int) -> int:
    return max(4, -(-n_features // 4) * 4)


def padded(x: np.ndarray, dtype: Precision) -> np.ndarray:
    """x with zero columns up to a multiple of four features, and zero rows up to one of `CENTRES`."""
    out = np.zeros((-(-len(x) // CENTRES) * CENTRES, _width(x.shape[1])), dtype)
    out[: len(x), : x.shape[1]] = x
    return out


def padded_transposed(x: np.ndarray) -> np.ndarray:
    """Like ``padded`` with features along the first axis."""
    out = np.zeros((_width(x.shape[1]), len(x)), np.float32)
    out[: x.shape[1]] = x.T
    return out


def weighted_sum(
    kernel: RadialKernel,
    x: np.ndarray,
    centres: np.ndarray,
    weights: np.ndarray,
    *,
    dtype: Precision = np.float32,
) -> np.ndarray:
    """sum_i weights_i K(centre_i, x) at every row of x.

    `weights` are (m,) or (m, n_outputs). Distances and kernels are computed in `dtype`, sums in float64
    except over 32 centres at a time: the absolute error is about 3e-7 (float64: 1e-15) times the root of
    sum_i weights_i^2. The result does not depend on the number of threads.
    """
    columns = weights if weights.ndim == 2 else weights[:, None]
    out = weighted_sums(
        kernel.norm, x, centres, [(kernel.number, columns)], dtype=dtype
    )[0]
    return out if weights.ndim == 2 else out[:, 0]


def weighted_sums(
    norm: int,
    x: np.ndarray,
    centres: np.ndarray,
    terms: Sequence[tuple[float | np.ndarray, np.ndarray]],
    *,
    dtype: Precision = np.float32,
) -> list[np.ndarray]:
    """Several sums over the same distances in one sweep: a decision and the bumps of its factor.

    Of each of the terms (gamma, weights): sum_i weights_i exp(-gamma_i d(x, centre_i)), (n, n_outputs), d
    squared Euclidean or city-block, gamma a number or one per centre.
    """
    moved = padded(centres, dtype)
    rates = np.zeros((len(terms), len(moved)), dtype)
    for q, (gamma, _) in enumerate(terms):
        rates[q, : len(centres)] = gamma * -_LOG2_E
    ends = np.array([*accumulate(weights.shape[1] for _, weights in terms)], np.int64)
    weights = np.concatenate([weights for _, weights in terms], axis=1)
    # Scaled by a power of two, which changes no digit: float32 partial sums neither overflow nor vanish.
    largest = float(np.abs(weights).max(initial=0.0))
    unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    of_unit = np.zeros((len(moved), weights.shape[1]), dtype)
    of_unit[: len(centres)] = weights / unit
    kind = SQUARED if norm == 2 else ABSOLUTE
    rows = np.ascontiguousarray(x, dtype)
    out = np.zeros((len(x), weights.shape[1]))

    most = BLOCK if moved.shape[1] <= 16 else BLOCK // 2
    block = max(
        PANEL, min(most, -(-len(rows) // PANEL) * PANEL)
    )  # a block is worked on whole

    def task(first: int) -> None:
        panels = _aligned_zeros((block // PANEL, moved.shape[1], PANEL), dtype)
        room = _aligned_zeros((5 + out.shape[1], block), dtype)
        total = _aligned_zeros((out.shape[1], block), np.float64)
        stop = min(first + _TASK, len(rows))
        sweep_rows(
            rows,
            first,
            stop,
            moved,
            kind,
            rates,
            ends,
            of_unit,
            panels,
            room,
            total,
            out,
        )

    run_in_threads(task, range(0, len(rows), _TASK))
    out *= unit
    return [
        out[:, end - weights.shape[1] : end]
        for end, (_, weights) in zip(ends, terms, strict=True)
    ]


def distances(
    norm: int, x: np.ndarray, z: np.ndarray, *, dtype: Precision = np.float32
) -> np.ndarray:
    """Distances between the rows of x and of z, shape (n, m), without cancellation.

    ``norm`` 2 gives squared Euclidean distances, 1 city-block distances; for z = x the matrix is symmetric
    and its diagonal zero, both to the last bit.
    """
    return _matrix(norm, x, z, 0.0, dtype)


def gram(
    kernel: RadialKernel,
    x: np.ndarray,
    z: np.ndarray | None = None,
    *,
    dtype: Precision = np.float32,
) -> np.ndarray:
    """K(x, z), shape (n, m); z = x by default, then symmetric with ones on its diagonal."""
    return _matrix(kernel.norm, x, x if z is None else z, rate_of(kernel), dtype)


def gram_from(kernel: RadialKernel, distances: np.ndarray) -> np.ndarray:
    """K from the ``distances`` of its norm, to the bit what ``gram`` gives; of their shape and type."""
    out = np.empty_like(distances)
    rate = distances.dtype.type(rate_of(kernel))
    step = max(1, _TASK * _TASK // 8 // max(distances.shape[1], 1))

    def task(first: int) -> None:
        kernels_of(distances, first, min(first + step, len(distances)), rate, out)

    run_in_threads(task, range(0, len(distances), step))
    return out


def _matrix(
    norm: int, x: np.ndarray, z: np.ndarray, rate: float, dtype: Precision
) -> np.ndarray:
    out = np.empty((len(x), len(z)), dtype)
    rows, columns = padded(x, dtype), np.ascontiguousarray(z, dtype)
    kind = SQUARED if norm == 2 else ABSOLUTE
    step = max(1, _TASK * _TASK // 8 // CENTRES // max(len(z), 1)) * CENTRES

    def task(first: int) -> None:
        kernel_rows(
            columns, rows, first, min(first + step, len(x)), kind, dtype(rate), out
        )

    run_in_threads(task, range(0, len(x), step))
    return out


def in_double(
    kernel: RadialKernel,
    centres: np.ndarray,
    weights: np.ndarray,
    c: np.ndarray | None = None,
) -> np.ndarray:
    """Mask of the centres whose part of a sum is made in float64; float32 is enough for the others together.

    Weights of both signs can cancel (a large C does it): rounding of the others stays below 3e-5 of the
    largest sum, so that the largest weights are left to float64. The answer depends on the machine alone,
    never on the rows to be scored. `c` is what a decision multiplies the sum by, at the centres: where the
    types are mixed it is the decisions that keep to the limit, of which the largest need not be where the sum
    is.
    """
    if len(centres) <= _PROBES:
        return np.ones(len(centres), bool)
    step = -(-len(centres) // _PROBES)
    sums = weighted_sum(kernel, centres[::step], centres, weights, dtype=np.float64)
    left = np.abs(sums).max(axis=0)
    squares = np.square(weights)
    exact = np.zeros(len(centres), bool)
    if np.all(_ROUNDING * np.sqrt(squares.sum(axis=0)) <= _LEFT * left):
        return exact
    if c is not None:
        left = np.abs(sums * c[::step]).max(axis=0) / c.max(axis=0)
    for square, most in zip(squares.T, left, strict=True):
        order = np.argsort(square, kind="stable")
        rounding = _ROUNDING * np.sqrt(np.cumsum(square[order]))
        exact[order[rounding > _LEFT * most]] = True
    return exact if exact.mean() < _MIXED else np.ones(len(centres), bool)


def precise_bumps(norm: int, centres: np.ndarray, rates: np.ndarray) -> Precision:
    """float32 where it moves no bump exp(-rate d) by more than 1e-5 of its height.

    What counts is how narrow bumps are against the rounding of where they stand; heights of one sign cannot
    cancel. As above the answer depends on the machine alone.
    """
    if len(centres) <= _PROBES:
        return np.float64
    # What a coordinate that is off by delta moves a bump where that is most: at rate d = 1/2, or at its top.
    delta = 1.2e-7 * float(np.abs(centres).max(initial=0.0))
    narrowest = float(rates.max(initial=0.0))
    moved = (
        math.sqrt(2.0 / math.e * narrowest) * delta
        if norm == 2
        else narrowest * delta * centres.shape[1]
    )
    return np.float32 if moved <= 1e-5 else np.float64


def symmetric_times(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """matrix @ weights in float64 for a symmetric matrix, without a float64 copy of a float32 one.

    Not by BLAS: its threads wait for each other on a busy machine, a hundred times as long as this takes.
    """
    columns = weights.T if weights.ndim == 2 else weights[None]
    out = np.zeros((len(columns), len(matrix)))
    for column, total in zip(columns, out, strict=True):
        (used,) = column.nonzero()
        weighted_rows(matrix, used, column[used], total)
    return out.T if weights.ndim == 2 else out[0]


def _aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros to work in, from the start of a line of the cache: vectors across two load at half the speed."""
    n, size = math.prod(shape), np.dtype(dtype).itemsize
    room = np.zeros(n + _LINE // size, dtype)
    skipped = -room.ctypes.data % _LINE // size
    return room[skipped : skipped + n].reshape(shape)


def exp2_of_product(a, b):
    """2 ** (a * b) for a * b <= 0, 1 exactly at 0; relative error below 3e-7 in float32, 1e-13 in float64.

    (The error of float32 is that of rounding a * b.)
    """
    raise NotImplementedError("for compiled code only")


@overload(exp2_of_product, inline="always")
def _exp2_of_product(a, b):
    if a == types.float32:

        def single(a, b):
            y = maximum(a * b, _FLOOR)
            rounded = y + _MAGIC
            f = y - (rounded - _MAGIC)
            p = fused(fused(fused(fused(_C5, f, _C4), f, _C3), f, _C2), f, _C1)
            return scaled(fused(p, f, _ONE), rounded)

        return single

    def double(a, b):
        y = maximum(a * b, _FLOOR_64)
        rounded = y + _MAGIC_64
        f = y - (rounded - _MAGIC_64)
        p = fused(
            fused(fused(fused(fused(_E10, f, _E9), f, _E8), f, _E7), f, _E6), f, _E5
        )
        p = fused(fused(fused(fused(p, f, _E4), f, _E3), f, _E2), f, _E1)
        return scaled(fused(p, f, 1.0), rounded)

    return double


@njit(inline="always")
def distances_to(xt, first, width, centre, n_padded, kind, acc):
    """Distances of columns first .. first + width - 1 of xt (features, rows) to one centre, into acc.

    Loops run from 0 over slices: where an index might be negative numba wraps it, and loads become gathers.
    """
    for k in range(0, n_padded, 4):
        z0, z1, z2, z3 = centre[k], centre[k + 1], centre[k + 2], centre[k + 3]
        x0, x1 = xt[k, first : first + width], xt[k + 1, first : first + width]
        x2, x3 = xt[k + 2, first : first + width], xt[k + 3, first : first + width]
        if kind == SQUARED:
            if k == 0:
                for t in range(width):
                    d0, d1, d2, d3 = x0[t] - z0, x1[t] - z1, x2[t] - z2, x3[t] - z3
                    acc[t] = fused(d0, d0, fused(d1, d1, fused(d2, d2, d3 * d3)))
            else:
                for t in range(width):
                    d0, d1, d2, d3 = x0[t] - z0, x1[t] - z1, x2[t] - z2, x3[t] - z3
                    acc[t] = fused(
                        d0, d0, fused(d1, d1, fused(d2, d2, fused(d3, d3, acc[t])))
                    )
        elif k == 0:
            for t in range(width):
                acc[t] = (abs(x0[t] - z0) + abs(x1[t] - z1)) + (
                    abs(x2[t] - z2) + abs(x3[t] - z3)
                )
        else:
            for t in range(width):
                acc[t] += (abs(x0[t] - z0) + abs(x1[t] - z1)) + (
                    abs(x2[t] - z2) + abs(x3[t] - z3)
                )


@njit(inline="always")
def kernel_row(xt, centre, kind, rate, row):
    """K between one centre and every column of xt (features, rows); the distances themselves at rate 0."""
    widest()
    for first in range(0, row.size, BLOCK):
        width = min(BLOCK, row.size - first)
        acc = row[first : first + width]
        distances_to(xt, first, width, centre, centre.size, kind, acc)
        if rate != 0:
            for t in range(width):
                acc[t] = exp2_of_product(acc[t], rate)


@njit(inline="always")
def laid_out(x, first, width, panels):
    """Rows first .. first + width - 1 of x as `distances_of_four` reads them."""
    for t in range(width):
        panel, lane = panels[t // PANEL], t % PANEL
        for k in range(x.shape[1]):
            panel[k, lane] = x[first + t, k]


@njit(inline="always")
def distances_of_four(panels, centres, i, kind, acc):
    """Distances of rows to centres i .. i + 3, into acc (4, block), the bits that `distances_to` gives."""
    if kind == SQUARED:
        squared_tile(panels, centres, i, acc)
    else:
        absolute_tile(panels, centres, i, acc)


@njit(nogil=True, cache=True)
def kernel_rows(x, centres, start, stop, kind, rate, out):
    """Rows start .. stop - 1 of the matrix of kernels (distances, at rate 0) of centres to the rows of x.

    `start` is a multiple of four, and so is the number of centres; `out` has a row for each that is wanted.
    """
    widest()
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL), x.dtype)
    acc = np.empty((CENTRES, BLOCK), x.dtype)
    for first in range(0, len(x), BLOCK):
        width = min(BLOCK, len(x) - first)
        laid_out(x, first, width, panels)
        for i in range(start, stop, CENTRES):
            distances_of_four(panels, centres, i, kind, acc)
            for j in range(min(CENTRES, stop - i)):
                near, row = acc[j], out[i + j, first : first + width]
                if rate != 0:
                    for t in range(width):
                        row[t] = exp2_of_product(near[t], rate)
                else:
                    for t in range(width):
                        row[t] = near[t]


@njit(nogil=True, cache=True)
def kernels_of(distances, start, stop, rate, out):
    """Rows start .. stop - 1 of the kernels of distances, the bits that `kernel_rows` gives."""
    widest()
    for i in range(start, stop):
        near, row = distances[i], out[i]
        for t in range(row.size):
            row[t] = exp2_of_product(near[t], rate)


@njit(nogil=True, cache=True)
def sweep_rows(
    x, start, stop, centres, kind, rates, ends, weights, panels, room, total, out
):
    """out[r, o] = sum_i weights[i, o] 2^(rates[q(o), i] d(x_r, centre_i)) for rows start <= r < stop.

    Output o belongs to term q(o): term q owns the outputs ends[q - 1] <= o < ends[q].
    Sums run in the type of x over 32 centres at a time and in float64 across them.
    The number of centres is a multiple of four. ``panels`` (block / PANEL, n_padded, PANEL), ``room``
    (5 + n_outputs, block) and ``total`` (n_outputs, block) are to work in, all zero.
    """
    widest()
    before = flush_tiny()
    n_centres, n_terms = len(centres), len(ends)
    n_outputs, block = total.shape
    four, value, part = room[:4], room[4], room[5:]
    for first in range(start, stop, block):
        width = min(block, stop - first)
        laid_out(x, first, width, panels)
        for i in range(n_centres):
            if i % CENTRES == 0:
                distances_of_four(panels, centres, i, kind, four)
            acc = four[i % CENTRES]
            o = 0
            for q in range(n_terms):
                rate = rates[q, i]
                if ends[q] == o + 1:
                    w, row = weights[i, o], part[o]
                    if w != 0.0:
                        for t in range(block):
                            row[t] = fused(w, exp2_of_product(acc[t], rate), row[t])
                    o += 1
                    continue
                for t in range(block):
                    value[t] = exp2_of_product(acc[t], rate)
                while o < ends[q]:
                    w = weights[i, o]
                    if w != 0.0:
                        row = part[o]
                        for t in range(block):
                            row[t] = fused(w, value[t], row[t])
                    o += 1
            if i % 32 == 31 or i == n_centres - 1:
                for o in range(n_outputs):
                    whole, row = total[o], part[o]
                    for t in range(block):
                        whole[t] += row[t]
                        row[t] = 0.0
        for o in range(n_outputs):
            for t in range(width):
                out[first + t, o] = total[o, t]
            total[o, :] = 0.0
    restore(before)


@njit(nogil=True, cache=True)
def weighted_rows(gram, which, weights, out):
    """out += sum_k weights[k] gram[which[k]], in float64 (a symmetric Gram is read by rows)."""
    widest()
    before = flush_tiny()
    n = out.size
    for first in range(0, n, 1024):
        last = min(first + 1024, n)
        part = out[first:last]
        for k in range(which.size):
            row = gram[which[k], first:last]
            w = weights[k]
            for t in range(part.size):
                part[t] += w * row[t]
    restore(before)
