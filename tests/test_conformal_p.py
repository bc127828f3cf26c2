"""Conformal p-values: exact ranks, nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from screening.statistics.p_values import group_maxima, p_values, resolution_warning

tied = st.lists(st.integers(0, 6), min_size=2, max_size=25)


def leave_one_out(scores: np.ndarray) -> list[Fraction]:
    """p-value of each row against all others: every row is the new one equally often."""
    rounds = [p_values(np.sort(np.delete(scores, i)), scores[i]) for i in range(len(scores))]
    return [Fraction(float(p)).limit_denominator(1000) for p in rounds]


@given(st.integers(1, 30).flatmap(lambda n: st.permutations(range(n + 1))))
@settings(max_examples=40, deadline=None)
def test_p_is_exactly_uniform_on_its_ranks_without_ties(order):
    n = len(order) - 1
    p = leave_one_out(np.array(order, float))

    assert sorted(p) == [Fraction(j, n + 1) for j in range(1, n + 2)]


@given(tied)
@settings(max_examples=60, deadline=None)
def test_p_is_never_too_small_whatever_the_ties(scores):
    n = len(scores) - 1
    p = leave_one_out(np.array(scores, float))

    for j in range(1, n + 2):
        assert sum(value <= Fraction(j, n + 1) for value in p) <= j


@given(tied, st.integers(-1, 7))
@settings(max_examples=60, deadline=None)
def test_p_counts_calibration_scores_at_least_as_high(calibration, score):
    counted = sum(known >= score for known in calibration)

    assert p_values(np.sort(calibration), score) == (1 + counted) / (len(calibration) + 1)


def test_p_keeps_the_shape_of_the_scores():
    assert p_values(np.arange(9.0), np.array([[8.5], [-1.0]])).tolist() == [[0.1], [1.0]]


def test_one_calibration_score_a_group_is_its_highest():
    assert group_maxima([1.0, 5.0, 2.0, 3.0], ["a", "b", "a", "b"]).tolist() == [2.0, 5.0]


def test_patients_highest_scores_are_uniform_though_their_rows_are_alike():
    rng = np.random.default_rng(0)
    patients = rng.normal(size=(2000, 1)) + 0.3 * rng.normal(size=(2000, 20))
    known = group_maxima(patients[:1000].ravel(), np.repeat(np.arange(1000), 20))
    p = p_values(known, patients[1000:].max(axis=1))

    assert np.quantile(p, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.06)


@pytest.mark.parametrize(("n", "m", "needed"), [(608, 240, "4"), (99, 100, "10"), (2399, 240, None)])
def test_too_coarse_a_calibration_is_said(n, m, needed):
    said = str(resolution_warning(n, m, 0.1))
    wanted = {None: "None"}.get(needed, f"needs at least {needed} of them")

    assert wanted in said
    smallest = np.full(m, 1.0)
    smallest[: int(needed or 1)] = 1 / (n + 1)
    assert (false_discovery_control(smallest) <= 0.1 * (1 + 1e-12)).sum() == int(needed or 1)
