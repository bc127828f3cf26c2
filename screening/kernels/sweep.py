"""Weighted sums of kernels over many rows: f(x) = sum_i w_i K(x_i, x), for several outputs at once.

A row's result does not depend on its batch or on the number of threads (see ``loops``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from screening.kernels.compiled import ABSOLUTE, BLOCK, CENTRES, PANEL, SQUARED, prepare
from screening.kernels.machine_code import Loop, aligned_zeros
from screening.kernels.threads import run_in_threads

if TYPE_CHECKING:
    from screening.kernels.base import Kernel, Precision

_TASK = 4096  # rows a thread takes at a time
_PROBES = 64
_LOG2_E = 1.4426950408889634
# What float32 adds to a sum, of the root of its squared weights, and how much of the largest sum that may be.
_ROUNDING, _LEFT = 3e-7, 3e-5
# Share of the centres in float64 from which a sweep in each type takes longer than one in float64 alone.
_MIXED = 2 / 3


_SWEEPS: dict[Precision, Loop] = {
    dtype: Loop(
        "screening.kernels.loops",
        "sweep_block",
        " ".join([*[dtype.__name__] * 3, "int64", *[dtype.__name__] * 2, "float64 float64 int64"]),
    )
    for dtype in (np.float32, np.float64)
}


def rate_of(kernel: Kernel) -> float:
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
    kernel: Kernel, x: np.ndarray, centres: np.ndarray, weights: np.ndarray, *,
    dtype: Precision = np.float32, threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """sum_i weights_i K(centre_i, x) at every row of x.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    x : ndarray of shape (n, n_features)
    centres : ndarray of shape (m, n_features)
    weights : ndarray of shape (m,) or (m, n_outputs)
    dtype : float32 or float64
        What distances and kernels are computed in; sums are float64 except over 32 centres at a time.
    threads : int, optional
        All cores by default; the result does not depend on it.

    Returns
    -------
    ndarray of shape (n,) or (n, n_outputs)
        Absolute error about 3e-7 (float64: 1e-15) times the root of sum_i weights_i^2.
    """
    columns = weights if weights.ndim == 2 else weights[:, None]
    out = weighted_sums(kernel.norm, x, centres, [(kernel.number, columns)], dtype=dtype, threads=threads)[0]
    return out if weights.ndim == 2 else out[:, 0]


def weighted_sums(
    norm: int,
    x: np.ndarray,
    centres: np.ndarray,
    terms: Sequence[tuple[float | np.ndarray, np.ndarray]],
    *,
    dtype: Precision = np.float32,
    threads: int | None = None,
) -> list[np.ndarray]:
    """Several sums over the same distances in one sweep: a decision and the bumps of its factor.

    Parameters
    ----------
    norm : {2, 1}
        Squared Euclidean or city-block distances d.
    x, centres : ndarray of shape (n, n_features), (m, n_features)
    terms : sequence of (gamma, weights)
        gamma a number or one per centre, shape (m,); weights of shape (m, n_outputs).

    Returns
    -------
    list of ndarray of shape (n, n_outputs)
        sum_i weights_i exp(-gamma_i d(x, centre_i)), one array a term.
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
    scaled = np.zeros((len(moved), weights.shape[1]), dtype)
    scaled[: len(centres)] = weights / unit
    kind = SQUARED if norm == 2 else ABSOLUTE
    rows = np.ascontiguousarray(x, dtype)
    out = np.zeros((len(x), weights.shape[1]))

    loop = _SWEEPS[dtype]
    most = BLOCK if moved.shape[1] <= 16 else BLOCK // 2
    block = max(PANEL, min(most, -(-len(rows) // PANEL) * PANEL))  # a block is worked on whole

    def task(first: int) -> None:
        within = (*rows.shape, first, min(first + _TASK, len(rows)), kind)
        numbers = np.array([*within, *moved.shape, *rates.shape[:1], *out.shape[1:], block], np.int64)
        work = aligned_zeros((moved.shape[1] + 5 + out.shape[1], block), dtype)
        total = aligned_zeros((out.shape[1], block), np.float64)
        loop(rows, moved, rates, ends, scaled, work, total, out, numbers)

    run_in_threads(task, range(0, len(rows), _TASK), threads)
    out *= unit
    return [out[:, end - weights.shape[1] : end] for end, (_, weights) in zip(ends, terms, strict=True)]


def distances(
    norm: int, x: np.ndarray, z: np.ndarray, *, dtype: Precision = np.float32, threads: int | None = None
) -> np.ndarray:
    """Distances between the rows of x and of z, shape (n, m), without cancellation.

    ``norm`` 2 gives squared Euclidean distances, 1 city-block distances; for z = x the matrix is symmetric
    and its diagonal zero, both to the last bit.
    """
    return _matrix(norm, x, z, 0.0, dtype, threads)


def gram(
    kernel: Kernel, x: np.ndarray, z: np.ndarray | None = None, *,
    dtype: Precision = np.float32, threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """K(x, z), shape (n, m); z = x by default, then symmetric with ones on its diagonal."""
    return _matrix(kernel.norm, x, x if z is None else z, rate_of(kernel), dtype, threads)


def of(kernel: Kernel, known: np.ndarray, *, threads: int | None = None) -> np.ndarray:
    """K from the ``distances`` of its norm, to the bit what ``gram`` gives; of their shape and type."""
    prepare()
    from screening.kernels.loops import kernels_of

    out = np.empty_like(known)
    rate = known.dtype.type(rate_of(kernel))
    step = max(1, _TASK * _TASK // 8 // max(known.shape[1], 1))

    def task(first: int) -> None:
        kernels_of(known, first, min(first + step, len(known)), rate, out)

    run_in_threads(task, range(0, len(known), step), threads)
    return out


def _matrix(
    norm: int, x: np.ndarray, z: np.ndarray, rate: float, dtype: Precision, threads: int | None
) -> np.ndarray:
    prepare()
    from screening.kernels.loops import kernel_rows

    out = np.empty((len(x), len(z)), dtype)
    rows, columns = padded(x, dtype), np.ascontiguousarray(z, dtype)
    kind = SQUARED if norm == 2 else ABSOLUTE
    step = max(1, _TASK * _TASK // 8 // CENTRES // max(len(z), 1)) * CENTRES

    def task(first: int) -> None:
        kernel_rows(columns, rows, first, min(first + step, len(x)), kind, dtype(rate), out)

    run_in_threads(task, range(0, len(x), step), threads)
    return out


def in_double(
    kernel: Kernel, centres: np.ndarray, weights: np.ndarray, c: np.ndarray | None = None
) -> np.ndarray:
    """Mask of the centres whose part of a sum is made in float64; float32 is enough for the others together.

    Weights of both signs can cancel (a large C does it): rounding of the others stays below 3e-5 of the
    largest sum, so that the largest weights are left to float64. The answer depends on the machine alone,
    never on the rows to be scored.

    Parameters
    ----------
    centres : ndarray of shape (m, n_features)
    weights : ndarray of shape (m, n_outputs)
    c : ndarray of shape (m, 1) or (m, n_outputs), optional
        What a decision multiplies the sum by, at the centres: where the types are mixed it is the decisions
        that keep to the limit, of which the largest need not be where the sum is.
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
        exact[order[_ROUNDING * np.sqrt(np.cumsum(square[order])) > _LEFT * most]] = True
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
    moved = math.sqrt(2.0 / math.e * narrowest) * delta if norm == 2 else narrowest * delta * centres.shape[1]
    return np.float32 if moved <= 1e-5 else np.float64


def symmetric_times(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """matrix @ weights in float64 for a symmetric matrix, without a float64 copy of a float32 one.

    Not by BLAS: its threads wait for each other on a busy machine, a hundred times as long as this takes.
    """
    prepare()
    from screening.kernels.loops import weighted_rows

    columns = weights.T if weights.ndim == 2 else weights[None]
    out = np.zeros((len(columns), len(matrix)))
    for column, total in zip(columns, out, strict=True):
        (used,) = column.nonzero()
        weighted_rows(matrix, used, column[used], total)
    return out.T if weights.ndim == 2 else out[0]
