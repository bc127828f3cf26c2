"""Compiled loops are kept where numba has a place for them; any number of threads gives the same scores."""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from screening import TwoClassSVM
from screening.errors import UsageError
from screening.kernels import Gaussian, jit
from screening.kernels.threads import available_cores, limit_threads, n_threads, with_share_of_cores

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

    runs = [
        subprocess.run(
            [sys.executable, "-c", SUM], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]

    assert [run.stdout for run in runs] == ["4.0\n", "4.0\n"]
    assert [run.stderr.count("compiling once") for run in runs] == [1, 0]


def test_where_there_is_no_place_a_loop_is_compiled_and_that_is_said_once(monkeypatch, caplog):
    """A read-only installation without a home still works, as numba itself would not."""
    monkeypatch.setattr(jit, "_said", threading.Event())
    names: dict = {}
    exec(
        compile("def one(x):\n    return x + 1\ndef two(x):\n    return x + 2\n", "<no file>", "exec"), names
    )
    with caplog.at_level(logging.WARNING, logger="screening"):
        one, two = (jit.njit(cache=True)(names[name]) for name in ("one", "two"))

    assert (one(1), two(1)) == (2, 3)
    assert ["NUMBA_CACHE_DIR" in record.message for record in caplog.records] == [True]


def test_fits_side_by_side_share_the_cores_and_give_them_back():
    """Scores do not depend on the number of threads; one that is none is refused."""
    x = np.random.default_rng(0).normal(size=(9000, 3))
    machine = TwoClassSVM(Gaussian(0.3)).fit(x[:200], x[:200, 0] > 0.4)
    before, decisions = n_threads(), []
    for jobs in (1, 2):
        with limit_threads(jobs):
            assert n_threads() == jobs
            decisions.append(machine.decision_function(x))

    assert np.array_equal(*decisions)
    assert with_share_of_cores(2, n_threads) == max(1, available_cores() // 2)
    assert with_share_of_cores(10_000, n_threads) == 1
    assert n_threads() == before
    for jobs in (0, -2):
        with pytest.raises(UsageError, match=f"--jobs {jobs}"), limit_threads(jobs):
            pass
