"""Distances, kernel matrices and weighted sums of kernels between rows.

One lane of the loops is one row, and every row goes through the same operations in the
same order, so the result for a row does not depend on the batch, the block or the
thread it is computed in. Distances are sums of differences, never
|x|^2 + |z|^2 - 2 x'z: nothing cancels, rows need no centring, and one loop serves both
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numba import types
from numba.extending import overload

from screening.kernels.jit import njit
from screening.kernels.simd import (
    CENTRES,
    PANEL,
    absolute_tile,
    add_to_exponent,
    flush_subnormals,
    fma,
    maximum,
    restore_control_word,
    squared_tile,
    use_widest_vectors,
)
from screening.threads import run_in_threads

Precision = type[np.float32] | type[np.float64]
"""Type of distances and kernels; sums of kernels are float64."""
SQUARED = 0
"""Code of squared Euclidean distances in the loops."""
_ABSOLUTE = 1
"""Code of city-block distances in the loops."""
BLOCK = 256
"""Rows in a block: the accumulators of a block stay in the first-level cache."""
# Rows that a thread takes at a time.
_TASK = 4096
# Matrix elements that a thread takes at a time.
_TASK_ELEMENTS = _TASK * _TASK // 8
# Centres at which `in_double` evaluates a sum, and below which all are float64.
_PROBES = 64
_LOG2_E = 1.4426950408889634
# Rounding error of a float32 sum, as a share of the root of its squared weights.
_FLOAT32_ERROR = 3e-7
# Largest rounding error of the centres in float32, as a share of the largest sum.
_MAX_FLOAT32_ERROR = 3e-5
# Share of centres in float64 from which one sweep in float64 is faster than a sweep in
# each precision.
_MAX_MIXED_SHARE = 2 / 3
# Centres over which partial sums stay in the type of the kernels.
_PARTIAL_SUM = 32
# Bytes of a cache line.
_CACHE_LINE = 64
# Columns of a Gram matrix that are multiplied at a time, to stay in the cache.
_PRODUCT_BLOCK = 1024

# 2^y in float32: adding _MAGIC = 1.5 * 2^23 rounds y to an integer in the low bits.
_MAGIC = np.float32(12582912.0)
# Least y, so that 2^y is a normal number.
_MIN_EXPONENT = np.float32(-125.0)
_ONE = np.float32(1.0)
# Polynomial of 2^f - 1 on [-1/2, 1/2], relative error 9.2e-8.
_C1 = np.float32(0.6931469775988578)
_C2 = np.float32(0.24022242085173234)
_C3 = np.float32(0.05550733743691264)
_C4 = np.float32(0.009671512648906882)
_C5 = np.float32(0.001326472706523345)

# The same in float64: _MAGIC_64 = 1.5 * 2^52.
_MAGIC_64 = 6755399441055744.0
_MIN_EXPONENT_64 = -1021.0
# Polynomial of 2^f - 1 on [-1/2, 1/2] through Chebyshev nodes, relative error 6e-16:
# three terms fewer than Taylor's series.
_E1 = 0.6931471805599462
_E2 = 0.24022650695910075
_E3 = 0.05550410866465167
_E4 = 0.009618129107618665
_E5 = 0.0013333558200794592
_E6 = 0.00015403530424776529
_E7 = 1.5252672924850737e-05
_E8 = 1.3215451633221434e-06
_E9 = 1.0205905413765595e-07
_E10 = 7.070977866508138e-09


class RadialKernel(Protocol):
    """K = exp(-number d), d squared Euclidean (norm 2) or city-block (norm 1)."""

    @property
    def norm(self) -> int:
        """Norm of the distance d, 1 or 2."""

    @property
    def number(self) -> float:
        """Gamma as a number, > 0."""


def input_distances(x: np.ndarray, z: np.ndarray, norm: int = 2) -> np.ndarray:
    """Return distances between the rows of x and of z in the input space.

    Parameters
    ----------
    x, z : ndarray of shape (n, n_features), (m, n_features)
    norm : {2, 1}
        2 gives *squared* Euclidean distances, 1 gives city-block distances (not
        squared).

    Returns
    -------
    ndarray of shape (n, m)
    """
    return distances(norm, x, z, dtype=np.float64)


def distance_code(norm: int) -> int:
    """Return the code of a norm in the loops; ValueError for another than 1 and 2."""
    if norm not in (1, 2):
        raise ValueError(f"norm must be 1 or 2, got {norm!r}")
    return SQUARED if norm == 2 else _ABSOLUTE


def rate_of(kernel: RadialKernel) -> float:
    """Return the rate r < 0 of K = 2^(r d)."""
    return -kernel.number * _LOG2_E


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def _padded_width(n_features: int) -> int:
    return max(4, _round_up(n_features, 4))


def padded(x: np.ndarray, dtype: Precision) -> np.ndarray:
    """Return x with zeros added to a multiple of 4 columns and ``CENTRES`` rows."""
    shape = _round_up(len(x), CENTRES), _padded_width(x.shape[1])
    out = np.zeros(shape, dtype)
    out[: len(x), : x.shape[1]] = x
    return out


def padded_transposed(x: np.ndarray) -> np.ndarray:
    """Return x transposed in float32, features padded to a multiple of 4 rows."""
    out = np.zeros((_padded_width(x.shape[1]), len(x)), np.float32)
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
    """Return sum_i weights_i K(centre_i, x) at every row of x.

    Distances and kernels are computed in `dtype`, sums in float64 except over 32
    centres at a time: the absolute error is about 3e-7 (float64: 1e-15) times the root
    of sum_i weights_i^2. The result does not depend on the number of threads.

    Parameters
    ----------
    kernel : RadialKernel
    x : ndarray of shape (n, n_features)
    centres : ndarray of shape (m, n_features)
    weights : ndarray of shape (m,) or (m, n_outputs)
    dtype : {float32, float64}

    Returns
    -------
    ndarray of shape (n,) or (n, n_outputs)
    """
    columns = weights if weights.ndim == 2 else weights[:, None]
    terms = [(kernel.number, columns)]
    out = weighted_sums(kernel.norm, x, centres, terms, dtype=dtype)[0]
    return out if weights.ndim == 2 else out[:, 0]


def weighted_sums(
    norm: int,
    x: np.ndarray,
    centres: np.ndarray,
    terms: Sequence[tuple[float | np.ndarray, np.ndarray]],
    *,
    dtype: Precision = np.float32,
) -> list[np.ndarray]:
    """Return several weighted sums that share distances, in one sweep.

    Parameters
    ----------
    norm : {2, 1}
        d is squared Euclidean (2) or city-block (1).
    x : ndarray of shape (n, n_features)
    centres : ndarray of shape (m, n_features)
    terms : sequence of (gamma, weights)
        gamma is a number or an array of shape (m,), weights (m, n_outputs).
    dtype : {float32, float64}
        As for ``weighted_sum``.

    Returns
    -------
    list of ndarray of shape (n, n_outputs)
        sum_i weights_i exp(-gamma_i d(x, centre_i)) for each term.
    """
    padded_centres = padded(centres, dtype)
    rates = np.zeros((len(terms), len(padded_centres)), dtype)
    for q, (gamma, _) in enumerate(terms):
        rates[q, : len(centres)] = gamma * -_LOG2_E
    widths = [weights.shape[1] for _, weights in terms]
    ends = np.cumsum(widths, dtype=np.int64)
    weights = np.concatenate([weights for _, weights in terms], axis=1)
    # Scaling by a power of two changes no digit, and float32 partial sums neither
    # overflow nor vanish.
    largest = float(np.abs(weights).max(initial=0.0))
    unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    scaled_weights = np.zeros((len(padded_centres), weights.shape[1]), dtype)
    scaled_weights[: len(centres)] = weights / unit
    kind = distance_code(norm)
    rows = np.ascontiguousarray(x, dtype)
    out = np.zeros((len(x), weights.shape[1]))

    max_block = BLOCK if padded_centres.shape[1] <= 16 else BLOCK // 2
    # A block is computed in full even if it has fewer rows.
    block = max(PANEL, min(max_block, _round_up(len(rows), PANEL)))

    def task(first: int) -> None:
        panel_shape = (block // PANEL, padded_centres.shape[1], PANEL)
        panels = _aligned_zeros(panel_shape, dtype)
        workspace = _aligned_zeros((5 + out.shape[1], block), dtype)
        total = _aligned_zeros((out.shape[1], block), np.float64)
        _sweep_rows(
            rows,
            first,
            min(first + _TASK, len(rows)),
            padded_centres,
            kind,
            rates,
            ends,
            scaled_weights,
            panels,
            workspace,
            total,
            out,
        )

    run_in_threads(task, range(0, len(rows), _TASK))
    out *= unit
    return np.split(out, ends[:-1], axis=1)


def distances(
    norm: int, x: np.ndarray, z: np.ndarray, *, dtype: Precision = np.float32
) -> np.ndarray:
    """Return distances between the rows of x and of z without cancellation.

    Parameters
    ----------
    norm : {2, 1}
        2 for squared Euclidean distances, 1 for city-block distances.
    x, z : ndarray of shape (n, n_features), (m, n_features)
    dtype : {float32, float64}

    Returns
    -------
    ndarray of shape (n, m)
        For z = x symmetric with a zero diagonal, both to the last bit.
    """
    return _matrix(norm, x, z, 0.0, dtype)


def gram(
    kernel: RadialKernel,
    x: np.ndarray,
    z: np.ndarray | None = None,
    *,
    dtype: Precision = np.float32,
) -> np.ndarray:
    """Return K(x, z), shape (n, m).

    Without z it is K(x, x), symmetric with ones on its diagonal.
    """
    if z is None:
        z = x
    return _matrix(kernel.norm, x, z, rate_of(kernel), dtype)


def gram_from_distances(kernel: RadialKernel, distances: np.ndarray) -> np.ndarray:
    """Return K from distances of its norm, in their shape and type.

    The result has the same bits as that of ``gram``.
    """
    out = np.empty_like(distances)
    rate = distances.dtype.type(rate_of(kernel))
    step = max(1, _TASK_ELEMENTS // max(distances.shape[1], 1))

    def task(first: int) -> None:
        stop = min(first + step, len(distances))
        _kernels_from_distances(distances, first, stop, rate, out)

    run_in_threads(task, range(0, len(distances), step))
    return out


def _matrix(
    norm: int, x: np.ndarray, z: np.ndarray, rate: float, dtype: Precision
) -> np.ndarray:
    """Return the kernel matrix, or the distances for a rate of 0, in threads."""
    out = np.empty((len(x), len(z)), dtype)
    rows = padded(x, dtype)
    columns = np.ascontiguousarray(z, dtype)
    kind = distance_code(norm)
    step = max(1, _TASK_ELEMENTS // CENTRES // max(len(z), 1)) * CENTRES

    def task(first: int) -> None:
        stop = min(first + step, len(x))
        kernel_rows(columns, rows, first, stop, kind, dtype(rate), out)

    run_in_threads(task, range(0, len(x), step))
    return out


def in_double(
    kernel: RadialKernel,
    centres: np.ndarray,
    weights: np.ndarray,
    c: np.ndarray | None = None,
) -> np.ndarray:
    """Return the mask of centres whose part of a sum must be computed in float64.

    Weights of both signs can cancel, for instance with a large C: the centres with the
    largest weights are summed in float64, so that the rounding of the others stays
    below 3e-5 of the largest sum. The answer depends on the machine alone, never on the
    rows to be scored.

    Parameters
    ----------
    kernel : RadialKernel
    centres : ndarray of shape (m, n_features)
    weights : ndarray of shape (m, n_outputs)
    c : ndarray of shape (m, 1) or (m, n_outputs), optional
        Factor that a decision multiplies the sum by, at the centres. If precisions are
        mixed, the limit then applies to the decisions, whose largest value need not be
        where the sum is largest.

    Returns
    -------
    bool ndarray of shape (m,)
    """
    if len(centres) <= _PROBES:
        return np.ones(len(centres), bool)
    step = -(-len(centres) // _PROBES)
    sums = weighted_sum(kernel, centres[::step], centres, weights, dtype=np.float64)
    largest = np.abs(sums).max(axis=0)
    squares = np.square(weights)
    exact = np.zeros(len(centres), bool)
    errors = _FLOAT32_ERROR * np.sqrt(squares.sum(axis=0))
    if np.all(errors <= _MAX_FLOAT32_ERROR * largest):
        return exact
    if c is not None:
        largest = np.abs(sums * c[::step]).max(axis=0) / c.max(axis=0)
    for square, largest_sum in zip(squares.T, largest, strict=True):
        order = np.argsort(square, kind="stable")
        rounding = _FLOAT32_ERROR * np.sqrt(np.cumsum(square[order]))
        exact[order[rounding > _MAX_FLOAT32_ERROR * largest_sum]] = True
    if exact.mean() < _MAX_MIXED_SHARE:
        return exact
    return np.ones(len(centres), bool)


def bump_precision(norm: int, centres: np.ndarray, rates: np.ndarray) -> Precision:
    """Return float32 if it moves no bump exp(-rate d) by over 1e-5 of its height.

    This depends on how narrow bumps are compared with the rounding of their centres;
    heights of one sign cannot cancel. As for ``in_double`` the answer depends on the
    machine alone.

    Parameters
    ----------
    norm : {2, 1}
    centres : ndarray of shape (m, n_features)
    rates : ndarray of shape (m,)
    """
    if len(centres) <= _PROBES:
        return np.float64
    # A coordinate that is off by `rounding` moves a squared bump most at rate d = 1/2,
    # a city-block bump most at its top.
    rounding = 1.2e-7 * float(np.abs(centres).max(initial=0.0))
    narrowest = float(rates.max(initial=0.0))
    if norm == 2:
        error = math.sqrt(2.0 / math.e * narrowest) * rounding
    else:
        error = narrowest * rounding * centres.shape[1]
    return np.float32 if error <= 1e-5 else np.float64


def symmetric_times(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return matrix @ weights in float64 for a symmetric matrix.

    A float32 matrix is not copied. BLAS is not used: on a busy machine its threads wait
    for each other a hundred times as long as this takes.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
    weights : ndarray of shape (n,) or (n, n_outputs)
    """
    columns = weights.T if weights.ndim == 2 else weights[None]
    out = np.zeros((len(columns), len(matrix)))
    for column, total in zip(columns, out, strict=True):
        (used,) = column.nonzero()
        add_weighted_rows(matrix, used, column[used], total)
    return out.T if weights.ndim == 2 else out[0]


def _aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return zeros that begin at a cache line.

    Vectors that cross a line load at half the speed.
    """
    n = math.prod(shape)
    itemsize = np.dtype(dtype).itemsize
    buffer = np.zeros(n + _CACHE_LINE // itemsize, dtype)
    offset = -buffer.ctypes.data % _CACHE_LINE // itemsize
    return buffer[offset : offset + n].reshape(shape)


def exp2_of_product(a, b):
    """Return 2 ** (a * b) for a * b <= 0, exactly 1 at 0; for compiled code only.

    The relative error is below 3e-7 in float32, from rounding a * b, and below 1e-13 in
    float64.
    """
    raise NotImplementedError("for compiled code only")


@overload(exp2_of_product, inline="always")
def _exp2_of_product(a, b):
    if a == types.float32:

        def single(a, b):
            y = maximum(a * b, _MIN_EXPONENT)
            rounded = y + _MAGIC
            f = y - (rounded - _MAGIC)
            p = fma(_C5, f, _C4)
            p = fma(p, f, _C3)
            p = fma(p, f, _C2)
            p = fma(p, f, _C1)
            return add_to_exponent(fma(p, f, _ONE), rounded)

        return single

    def double(a, b):
        y = maximum(a * b, _MIN_EXPONENT_64)
        rounded = y + _MAGIC_64
        f = y - (rounded - _MAGIC_64)
        p = fma(_E10, f, _E9)
        p = fma(p, f, _E8)
        p = fma(p, f, _E7)
        p = fma(p, f, _E6)
        p = fma(p, f, _E5)
        p = fma(p, f, _E4)
        p = fma(p, f, _E3)
        p = fma(p, f, _E2)
        p = fma(p, f, _E1)
        return add_to_exponent(fma(p, f, 1.0), rounded)

    return double


@njit(inline="always")
def _distances_to(xt, first, width, centre, n_padded, kind, acc):
    """Store in acc the distances of columns of xt (features, rows) to one centre.

    The columns are first .. first + width - 1. Loops run from 0 over slices: numba
    wraps an index that might be negative, and then loads become gathers.
    """
    for k in range(0, n_padded, 4):
        z0 = centre[k]
        z1 = centre[k + 1]
        z2 = centre[k + 2]
        z3 = centre[k + 3]
        x0 = xt[k, first : first + width]
        x1 = xt[k + 1, first : first + width]
        x2 = xt[k + 2, first : first + width]
        x3 = xt[k + 3, first : first + width]
        if kind == SQUARED:
            if k == 0:
                for t in range(width):
                    d0 = x0[t] - z0
                    d1 = x1[t] - z1
                    d2 = x2[t] - z2
                    d3 = x3[t] - z3
                    acc[t] = fma(d0, d0, fma(d1, d1, fma(d2, d2, d3 * d3)))
            else:
                for t in range(width):
                    d0 = x0[t] - z0
                    d1 = x1[t] - z1
                    d2 = x2[t] - z2
                    d3 = x3[t] - z3
                    last_two = fma(d2, d2, fma(d3, d3, acc[t]))
                    acc[t] = fma(d0, d0, fma(d1, d1, last_two))
        elif k == 0:
            for t in range(width):
                first_two = abs(x0[t] - z0) + abs(x1[t] - z1)
                last_two = abs(x2[t] - z2) + abs(x3[t] - z3)
                acc[t] = first_two + last_two
        else:
            for t in range(width):
                first_two = abs(x0[t] - z0) + abs(x1[t] - z1)
                last_two = abs(x2[t] - z2) + abs(x3[t] - z3)
                acc[t] += first_two + last_two


@njit(inline="always")
def kernel_row(xt, centre, kind, rate, row):
    """Store in row K between one centre and every column of xt (features, rows).

    A rate of 0 gives the distances themselves.
    """
    use_widest_vectors()
    for first in range(0, row.size, BLOCK):
        width = min(BLOCK, row.size - first)
        acc = row[first : first + width]
        _distances_to(xt, first, width, centre, centre.size, kind, acc)
        if rate != 0:
            for t in range(width):
                acc[t] = exp2_of_product(acc[t], rate)


@njit(inline="always")
def fill_panels(x, first, width, panels):
    """Copy rows first .. first + width - 1 of x into panels for `tile_distances`."""
    for t in range(width):
        panel = panels[t // PANEL]
        lane = t % PANEL
        for k in range(x.shape[1]):
            panel[k, lane] = x[first + t, k]


@njit(inline="always")
def tile_distances(panels, centres, i, kind, acc):
    """Store in acc (4, block) the distances of rows to centres i .. i + 3.

    They have the same bits as those of `_distances_to`.
    """
    if kind == SQUARED:
        squared_tile(panels, centres, i, acc)
    else:
        absolute_tile(panels, centres, i, acc)


@njit(nogil=True, cache=True)
def kernel_rows(x, centres, start, stop, kind, rate, out):
    """Store in rows start .. stop - 1 of out K of these centres to the rows of x.

    A rate of 0 gives distances. `start` and the number of centres are multiples of
    four; `out` has no rows for centres that only pad to such a multiple.
    """
    use_widest_vectors()
    panels = np.zeros((BLOCK // PANEL, centres.shape[1], PANEL), x.dtype)
    acc = np.empty((CENTRES, BLOCK), x.dtype)
    for first in range(0, len(x), BLOCK):
        width = min(BLOCK, len(x) - first)
        fill_panels(x, first, width, panels)
        for i in range(start, stop, CENTRES):
            tile_distances(panels, centres, i, kind, acc)
            for j in range(min(CENTRES, stop - i)):
                distance = acc[j]
                row = out[i + j, first : first + width]
                if rate != 0:
                    for t in range(width):
                        row[t] = exp2_of_product(distance[t], rate)
                else:
                    for t in range(width):
                        row[t] = distance[t]


@njit(nogil=True, cache=True)
def _kernels_from_distances(distances, start, stop, rate, out):
    """Store in rows start .. stop - 1 of out the kernels of these distances.

    They have the same bits as those of `kernel_rows`.
    """
    use_widest_vectors()
    for i in range(start, stop):
        distance = distances[i]
        row = out[i]
        for t in range(row.size):
            row[t] = exp2_of_product(distance[t], rate)


# One function on purpose: with the body of the loop in an inlined helper, LLVM does not
# vectorize it as a whole, and 20,000 rows by 2,600 centres take 24 ms in place of 14.
@njit(nogil=True, cache=True)
def _sweep_rows(
    x, start, stop, centres, kind, rates, ends, weights, panels, workspace, total, out
):
    """Store in rows start .. stop - 1 of out the weighted sums of kernels.

    out[r, o] = sum_i weights[i, o] 2^(rates[q(o), i] d(x_r, centre_i)), where output o
    belongs to term q(o): term q owns the outputs ends[q - 1] <= o < ends[q]. Sums run
    in the type of x over 32 centres at a time and in float64 across them. The number of
    centres is a multiple of four. ``panels`` (block / PANEL, n_padded, PANEL),
    ``workspace`` (5 + n_outputs, block) and ``total`` (n_outputs, block) are buffers,
    zero on entry.
    """
    use_widest_vectors()
    control_word = flush_subnormals()
    n_centres = len(centres)
    n_terms = len(ends)
    n_outputs, block = total.shape
    tile = workspace[:4]
    value = workspace[4]
    part = workspace[5:]
    for first in range(start, stop, block):
        width = min(block, stop - first)
        fill_panels(x, first, width, panels)
        for i in range(n_centres):
            if i % CENTRES == 0:
                tile_distances(panels, centres, i, kind, tile)
            acc = tile[i % CENTRES]
            o = 0
            for q in range(n_terms):
                rate = rates[q, i]
                if ends[q] == o + 1:
                    # A term of one output needs no kernel values kept.
                    w = weights[i, o]
                    row = part[o]
                    if w != 0.0:
                        for t in range(block):
                            row[t] = fma(w, exp2_of_product(acc[t], rate), row[t])
                    o += 1
                    continue
                for t in range(block):
                    value[t] = exp2_of_product(acc[t], rate)
                while o < ends[q]:
                    w = weights[i, o]
                    if w != 0.0:
                        row = part[o]
                        for t in range(block):
                            row[t] = fma(w, value[t], row[t])
                    o += 1
            if i % _PARTIAL_SUM == _PARTIAL_SUM - 1 or i == n_centres - 1:
                for o in range(n_outputs):
                    whole = total[o]
                    row = part[o]
                    for t in range(block):
                        whole[t] += row[t]
                        row[t] = 0.0
        for o in range(n_outputs):
            for t in range(width):
                out[first + t, o] = total[o, t]
            total[o, :] = 0.0
    restore_control_word(control_word)


@njit(nogil=True, cache=True)
def add_weighted_rows(gram, index, weights, out):
    """Add sum_k weights[k] gram[index[k]] to out, in float64."""
    use_widest_vectors()
    control_word = flush_subnormals()
    n = out.size
    for first in range(0, n, _PRODUCT_BLOCK):
        last = min(first + _PRODUCT_BLOCK, n)
        part = out[first:last]
        for k in range(index.size):
            row = gram[index[k], first:last]
            w = weights[k]
            for t in range(part.size):
                part[t] += w * row[t]
    restore_control_word(control_word)
