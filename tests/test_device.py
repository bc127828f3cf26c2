"""The sweep for accelerators, run on the arrays of every library that is installed."""

from __future__ import annotations

import numpy as np
import pytest

from screening.kernels import Gaussian, Laplacian
from screening.kernels.device import weighted_sum

MAKERS = {"numpy": "asarray", "torch": "from_numpy", "cupy": "asarray"}


@pytest.fixture(params=sorted(MAKERS))
def made(request):
    """A function from numpy arrays to those of the library; skipped where it is not installed."""
    library = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return getattr(library, MAKERS[request.param])


@pytest.mark.parametrize("kernel", [Gaussian(0.2), Laplacian(0.1)], ids=repr)
def test_sum_on_library_arrays_is_that_of_numpy(made, kernel):
    rng = np.random.default_rng(0)
    x, centres, weights = rng.normal(size=(150, 5)), rng.normal(size=(40, 5)), rng.normal(size=(40, 2))

    found = weighted_sum(kernel, made(x), made(centres), made(weights), block=64)

    np.testing.assert_allclose(np.asarray(found), kernel(x, centres) @ weights, atol=1e-12)


def test_a_row_scores_the_same_bits_in_a_smaller_batch():
    rng = np.random.default_rng(0)
    x, centres, weights = rng.normal(size=(150, 20)), rng.normal(size=(40, 20)), rng.normal(size=(40, 1))

    whole = weighted_sum(Gaussian(0.1), x, centres, weights, block=64)

    assert np.array_equal(weighted_sum(Gaussian(0.1), x[:70], centres, weights, block=64), whole[:70])


def test_no_rows_give_no_scores():
    centres = np.ones((3, 2))

    assert weighted_sum(Gaussian(0.1), np.ones((0, 2)), centres, np.ones((3, 1))).shape == (0, 1)
