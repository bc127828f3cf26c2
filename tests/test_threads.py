"""Loops in several threads of this process."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.threads import MIN_SORTED, limit_threads, sort_in_threads


@pytest.mark.parametrize("jobs", [1, 2, 3, 16])
@given(
    n_values=st.integers(0, 4 * MIN_SORTED),
    n_distinct=st.sampled_from([1, 3, 2**63]),
    seed=st.integers(0, 9),
)
def test_sort_in_threads_sorts(jobs, n_values, n_distinct, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_distinct, n_values, dtype=np.uint64)
    expected = np.sort(values)

    with limit_threads(jobs):
        sort_in_threads(values)

    np.testing.assert_array_equal(values, expected)
