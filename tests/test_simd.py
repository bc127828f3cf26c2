"""The hand-written vector code gives what a plain loop gives."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from screening.kernels.pairwise import distances, weighted_sums


@njit
def plain_sums(x, centres, norm, rate, weights):
    """Distances, and the weighted sums of 2^(rate d), without vectors, tiles or fused operations."""
    apart = np.zeros((len(x), len(centres)), x.dtype)
    sums = np.zeros((len(x), weights.shape[1]))
    for r in range(len(x)):
        for i in range(len(centres)):
            for k in range(x.shape[1]):
                step = x[r, k] - centres[i, k]
                apart[r, i] += step * step if norm == 2 else abs(step)
            for o in range(weights.shape[1]):
                sums[r, o] += weights[i, o] * np.exp(-rate * apart[r, i])
    return apart, sums


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 3e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize(("n", "m", "n_features"), [(1, 1, 1), (33, 5, 3), (300, 70, 4), (257, 33, 21)])
def test_vector_code_gives_what_a_plain_loop_gives(dtype, close, norm, n, m, n_features):
    rng = np.random.default_rng(n)
    x, centres = (rng.normal(size=(count, n_features)).astype(dtype) for count in (n, m))
    weights = rng.normal(size=(m, 2))

    apart, sums = plain_sums(x, centres, norm, 0.3, weights)

    np.testing.assert_allclose(distances(norm, x, centres, dtype=dtype), apart, rtol=close)
    (ours,) = weighted_sums(norm, x, centres, [(0.3, weights)], dtype=dtype)
    np.testing.assert_allclose(ours, sums, rtol=0, atol=close * np.sqrt(np.square(weights).sum()))
