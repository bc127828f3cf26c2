"""Kernel sums, Gram matrices and distances by the compiled sweep, against plain
formulas and plain loops.
"""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.random import default_rng
from numpy.testing import assert_allclose

from screening import TwoClassSVM
from screening.kernels import Gaussian, Laplacian, jit
from screening.kernels.expansions import ExpansionSums
from screening.kernels.pairwise import (
    bump_precision,
    distances,
    gram,
    in_double,
    symmetric_times,
    weighted_sum,
    weighted_sums,
)
from screening.threads import (
    limit_threads,
    n_threads,
)

KERNELS = (Gaussian(0.2), Laplacian(0.1))


def rows_and_centres(
    n_features: int, n: int = 700, m: int = 150
) -> tuple[np.ndarray, np.ndarray]:
    rng = default_rng(n_features)
    x = rng.normal(size=(n, n_features))
    return x, rng.normal(size=(m, n_features))


@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e30])
def test_weights_of_any_size_keep_their_digits(factor):
    x, centres = rows_and_centres(3)
    weights = factor * np.ones(len(centres))
    exact = Gaussian(0.2)(x, centres) @ weights
    smallest = np.full((9, 9), 3e-308)
    tiny = symmetric_times(smallest, np.ones(9))
    sums = weighted_sum(Gaussian(0.2), x, centres, weights)
    assert_allclose(sums, exact, rtol=2e-6)
    expected = np.full(9, 9 * 3e-308)
    assert tiny == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("apart", "exact"),
    [
        (0.1, False),
        (1e-3, True),
    ],
)
def test_weights_that_cancel_to_next_to_nothing_are_summed_in_double(apart, exact):
    rng = default_rng(0)
    centres = rng.normal(size=(400, 3))
    copies = centres + apart * rng.normal(size=centres.shape)
    near = np.concatenate([centres, copies])
    weights = np.repeat([1.0, -1.0], 400)[:, None]
    both = np.hstack([np.abs(weights), weights])
    assert (in_double(Gaussian(0.2), near, weights) == exact).all()
    # One output that cancels decides for all.
    assert (in_double(Gaussian(0.2), near, both) == exact).all()


@given(few=st.integers(1, 100), large=st.floats(1.0, 1e6), seed=st.integers(0, 9))
def test_a_sum_of_few_large_weights_is_right_in_both_types(few, large, seed):
    rng = default_rng(seed)
    rows = rng.normal(size=(400, 3))
    weights = rng.normal(size=(400, 1))
    weights[:few] *= large
    weights[:few] -= weights[:few].mean()
    kernel = Gaussian(0.2)
    exact = weighted_sum(kernel, rows, rows, weights, dtype=np.float64)
    sums = ExpansionSums(kernel, rows, {(0, -1): weights})
    ours = sums.at(rows)[0, -1]

    apart = np.abs(ours - exact)
    assert apart.max() <= 3e-5 * np.abs(exact).max()


def test_only_the_largest_weights_are_summed_in_double():
    rows = default_rng(0).normal(size=(400, 3))
    weights = np.ones((400, 1))
    weights[:40, 0] = 1e5 * np.repeat([1.0, -1.0], 20)
    rows[20:40] = rows[:20] + 1e-4
    double = np.flatnonzero(in_double(Gaussian(0.2), rows, weights))
    assert double.tolist() == list(range(40))


def test_sums_small_c_in_double():
    """Where c is small at the largest sum more of it is summed in double."""
    rng = default_rng(0)
    rows = rng.normal(size=(400, 3))
    rows[200:] = rows[:200] + 0.01 * rng.normal(size=(200, 3))
    sizes = 10 ** rng.uniform(0, 3, 200)
    weights = np.concatenate([sizes, -sizes])[:, None]
    kernel = Gaussian(0.2)
    ones = np.ones((400, 1))
    exact = weighted_sum(kernel, rows, rows, weights, dtype=np.float64)
    sums = np.abs(exact)
    c = np.where(sums > np.median(sums), 0.1, 1.0)
    few = in_double(kernel, rows, weights, ones).sum()
    more = in_double(kernel, rows, weights, c).sum()

    assert 0 < few < more


def test_far_rows_get_zero_and_equal_rows_get_one():
    """No rows and no centres give empty sums."""
    far = np.array(
        [
            [0.0, 0.0],
            [1e4, 0.0],
            [3e18, 0.0],
        ]
    )
    x, centres = rows_and_centres(3)
    ones = np.ones(len(centres))
    of_no_row = weighted_sum(Gaussian(0.2), x[:0], centres, ones)
    of_no_centre = weighted_sum(Gaussian(0.2), x, centres[:0], np.ones(0))
    of_far = gram(Gaussian(1.0), far)
    assert_allclose(of_far, np.eye(3), atol=1e-37)
    assert of_no_row.shape == (0,)
    assert np.array_equal(of_no_centre, np.zeros(len(x)))


@given(
    start=st.integers(0, 600),
    length=st.integers(1, 700),
    threads=st.integers(1, 3),
    n_features=st.sampled_from([2, 9, 21]),
    kernel=st.sampled_from(KERNELS),
)
def test_a_row_scores_the_same_bits_in_every_batch_and_thread(
    start, length, threads, n_features, kernel
):
    x, centres = rows_and_centres(n_features)
    weights = default_rng(1).normal(size=len(centres))
    with limit_threads(1):
        whole = weighted_sum(kernel, x, centres, weights)
    with limit_threads(threads):
        part = weighted_sum(kernel, x[start : start + length], centres, weights)
    assert np.array_equal(part, whole[start : start + length])


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_bumps_are_summed_to_a_hundred_thousandth_of_themselves(norm, rate, offset):
    rng = default_rng(0)
    centres = rng.normal(size=(200, 5)) + offset
    noise = rng.normal(size=(100, 5))
    x = centres[:100] + noise / np.sqrt(rate)
    rates = np.full(200, rate)
    terms = [(rates, np.ones((200, 1)))]
    (exact,) = weighted_sums(norm, x, centres, terms, dtype=np.float64)
    precision = bump_precision(norm, centres, rates)
    (sums,) = weighted_sums(norm, x, centres, terms, dtype=precision)

    assert_allclose(sums, exact, rtol=2e-5, atol=1e-8)


@pytest.mark.parametrize("n_features", [1, 5, 30])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gram_is_symmetric_to_the_bit_with_ones_on_its_diagonal(kernel, n_features):
    x, _ = rows_and_centres(n_features)
    with limit_threads(2):
        ours = gram(kernel, x)
    assert ours.dtype == np.float32
    assert np.array_equal(ours, ours.T)
    assert np.array_equal(np.diagonal(ours), np.ones(len(x)))
    assert_allclose(ours, kernel(x, x), atol=1e-6)


@njit
def plain_sums(x, centres, norm, rates, weights):
    """Distances, and the weighted sums of exp(-rate d), without vectors, tiles or fused
    operations.
    """
    apart = np.zeros((len(x), len(centres)), x.dtype)
    sums = np.zeros((len(x), weights.shape[1]))
    for r in range(len(x)):
        for i in range(len(centres)):
            for k in range(x.shape[1]):
                step = x[r, k] - centres[i, k]
                apart[r, i] += step * step if norm == 2 else abs(step)
            for o in range(weights.shape[1]):
                bump = np.exp(-rates[i] * apart[r, i])
                sums[r, o] += weights[i, o] * bump
    return apart, sums


@pytest.mark.parametrize(
    ("dtype", "close"),
    [
        (np.float32, 3e-6),
        (np.float64, 1e-13),
    ],
)
@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize(
    ("n", "m", "n_features"),
    [
        (1, 1, 1),
        (33, 5, 3),
        (300, 70, 4),
        (257, 33, 21),
    ],
)
def test_vector_code_gives_what_a_plain_loop_gives(
    dtype, close, norm, n, m, n_features
):
    """Of the decision and of bumps of every width, in one sweep."""
    rng = default_rng(n)
    x = rng.normal(size=(n, n_features)).astype(dtype)
    centres = rng.normal(size=(m, n_features)).astype(dtype)
    weights = rng.normal(size=(m, 2))
    rates = rng.uniform(0.1, 0.5, m)
    equal_rates = np.full(m, 0.3)
    apart, sums = plain_sums(x, centres, norm, equal_rates, weights)
    _, bumps = plain_sums(x, centres, norm, rates, weights)

    assert_allclose(distances(norm, x, centres, dtype=dtype), apart, rtol=close)
    terms = [(0.3, weights), (rates, weights)]
    both = weighted_sums(norm, x, centres, terms, dtype=dtype)
    size = np.sqrt(np.square(weights).sum())
    for ours, plain in zip(both, (sums, bumps), strict=True):
        assert_allclose(ours, plain, rtol=0, atol=close * size)


SUM = """
import logging, sys
logging.basicConfig(stream=sys.stderr, format="%(message)s")
import numpy as np
from screening.kernels import Gaussian
from screening.kernels.pairwise import gram
print(float(gram(Gaussian(1.0), np.zeros((2, 1))).sum()))
"""


def test_compiling_is_told_once_and_not_again_from_the_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    given = {"env": environment, "capture_output": True, "text": True, "check": True}
    command = [sys.executable, "-c", SUM]
    runs = [subprocess.run(command, **given) for _ in range(2)]

    assert [run.stdout for run in runs] == ["4.0\n", "4.0\n"]
    n_compiled = [run.stderr.count("compiling once") for run in runs]
    assert n_compiled == [1, 0]


def test_compiled_without_cache_folder(monkeypatch, caplog):
    """Where there is no place a loop is compiled and that is said once.

    A read-only installation without a home still works, as numba itself would not.
    """
    monkeypatch.setattr(jit, "_warned", threading.Event())
    names: dict = {}
    exec(
        compile(
            "def one(x):\n    return x + 1\ndef two(x):\n    return x + 2\n",
            "<no file>",
            "exec",
        ),
        names,
    )
    with caplog.at_level(logging.WARNING, logger="screening"):
        one = jit.njit(cache=True)(names["one"])
        two = jit.njit(cache=True)(names["two"])

    assert one(1) == 2
    assert two(1) == 3
    assert ["NUMBA_CACHE_DIR" in record.message for record in caplog.records] == [True]


def test_fits_side_by_side_share_the_cores_and_give_them_back():
    """Scores do not depend on the number of threads."""
    x = default_rng(0).normal(size=(9000, 3))
    is_high = x[:200, 0] > 0.4
    machine = TwoClassSVM(Gaussian(0.3)).fit(x[:200], is_high)
    before = n_threads()
    decisions = []
    for jobs in (1, 2):
        with limit_threads(jobs):
            assert n_threads() == jobs
            decisions.append(machine.decision_function(x))

    assert np.array_equal(*decisions)
    assert n_threads() == before


CACHES = {
    "private": (0o700, 0o700, [], True),
    "open and empty": (0o700, 0o777, [], True),
    "open and filled": (0o700, 0o777, ["index.nbi"], False),
    "within an open folder": (0o777, 0o700, [], False),
    "within a sticky folder": (0o1777, 0o700, ["index.nbi"], True),
}


@pytest.mark.parametrize(
    ("mode_above", "mode", "files", "trusted"), CACHES.values(), ids=CACHES
)
def test_cache_others_may_write(mode_above, mode, files, trusted, tmp_path):
    """A compiled loop is loaded only if nobody else can have written it."""
    folder = tmp_path / "above" / "cache"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_bytes(b"a pickle")
    folder.chmod(mode)
    folder.parent.chmod(mode_above)

    assert jit._is_private(folder) == trusted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_cache_of_another_user(tmp_path):
    """Root loads nothing that another user has written."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)

    assert not jit._is_private(folder)
