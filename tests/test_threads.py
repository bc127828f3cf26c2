"""Threads of the compiled loops: how many, shared out between fits, and the same scores by any number."""

import numpy as np
import pytest

from screening import TwoClassSVM
from screening.errors import UsageError
from screening.kernels import Gaussian
from screening.kernels.threads import available_cores, limit_threads, n_threads, with_share_of_cores


@pytest.mark.parametrize("jobs", [0, -2])
def test_a_number_of_threads_that_is_none_is_refused(jobs):
    with pytest.raises(UsageError, match=f"--jobs {jobs}"), limit_threads(jobs):
        pass


def test_scores_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 3))
    machine = TwoClassSVM(Gaussian(0.3)).fit(x[:200], x[:200, 0] > 0.4)
    found = []
    for jobs in (1, 2):
        with limit_threads(jobs):
            assert n_threads() == jobs
            found.append(machine.decision_function(x))

    assert np.array_equal(*found)


def test_fits_side_by_side_share_the_cores_and_give_them_back():
    before = n_threads()

    inside = with_share_of_cores(2, n_threads)

    assert inside == max(1, available_cores() // 2)
    assert with_share_of_cores(10_000, n_threads) == 1
    assert n_threads() == before
