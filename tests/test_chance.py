"""Chances of the gates: valid at any size, and those that textbooks give where textbooks give one."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import fisher_exact, ks_2samp, kstwobign

from screening.monitoring import tests as chance

sizes = st.integers(1, 60)


@given(st.integers(0, 60), sizes, st.integers(0, 60), sizes)
def test_more_events_than_before_is_the_one_sided_test_of_fisher(events, rows, past, past_rows):
    events, past = min(events, rows), min(past, past_rows)
    table = [[events, rows - events], [past, past_rows - past]]
    told = chance.more_often(events, rows, past, past_rows)
    assert told == pytest.approx(fisher_exact(table, "greater").pvalue, rel=1e-7)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 90)), min_size=2, max_size=4))
def test_other_shares_are_the_surest_category_either_way_times_their_number(categories):
    counts, past = np.array(categories).T
    rows, past_rows = counts.sum(), past.sum()
    assume(rows and past_rows)
    tails = [
        fisher_exact([[n, rows - n], [k, past_rows - k]], way).pvalue
        for n, k in zip(counts, past, strict=True)
        for way in ("greater", "less")
    ]
    # Of two categories each says what the other says.
    tried = 2 * {2: 1}.get(len(categories), len(categories))

    assert chance.other_shares(counts, past) == pytest.approx(min(1.0, tried * min(tails)), rel=1e-7)


@given(st.integers(1, 25), st.integers(4, 80), st.integers(0, 10_000))
def test_the_distance_of_two_samples_is_never_said_to_be_rarer_than_it_is(m, n, seed):
    rng = np.random.default_rng(seed)
    found = ks_2samp(rng.normal(0.5, 1, m), rng.normal(0, 1, n), method="exact")
    assert chance.other_distribution(found.statistic, m, n) >= 0.999 * found.pvalue


@given(st.integers(2, 400))
def test_one_row_of_a_new_category_has_the_chance_of_a_draw(n):
    """It counts as one row at least, and names that nearly all differ are no news."""
    assert chance.never_seen([1], [n], 1) == pytest.approx(1 / (n + 1), rel=1e-6)
    assert chance.outside(1, 1, n) == pytest.approx(min(1, 2 / (n + 1)), rel=1e-6)
    assert chance.never_seen([0.2], [40], 1) == chance.never_seen([1], [40], 1) < 0.03
    assert chance.never_seen([1] * 40, [1] * 500, 40) > 0.5


@pytest.mark.parametrize("m", [1, 5, 20, 60])
def test_unseen_and_outside_keep_their_chance_where_nothing_has_changed(m):
    rng = np.random.default_rng(m)
    hits = np.zeros(2)
    for _ in range(2000):
        rows = np.floor(rng.exponential(5, 100 + m)).astype(int)
        night, past = rows[:m], rows[m:]
        new = np.unique(night[~np.isin(night, past)], return_counts=True)[1]
        beyond = np.count_nonzero((night < past.min()) | (night > past.max()))
        known = np.unique(past, return_counts=True)[1]
        hits += chance.never_seen(new, known, m) < 0.05, chance.outside(beyond, m, 100) < 0.05

    assert (hits / 2000 < 0.06).all()


def test_large_tables_count_as_the_limits_of_their_laws():
    """More than 20,000 rows as so many of the same shares, the distance by Kolmogorov's law."""
    assert chance.more_often(60, 80_000, 20, 40_000) == chance.more_often(15, 20_000, 10, 20_000)
    for scale in (1.2, 1.6, 2.2):
        long = chance.other_distribution(scale * np.sqrt(1 / 800 + 1 / 1600), 800, 1600)
        assert kstwobign.sf(scale) <= long <= 1.1 * kstwobign.sf(scale)
    assert chance.effective_units([500]) == 1
    assert chance.effective_units([5] * 20) == pytest.approx(20)
