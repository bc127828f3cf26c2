"""Fits on the same rows share distances, Grams and first passes, and give what they give alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from independent.optimality import certificate

from screening import OneClassSVM, TwoClassSVM, solvers
from screening.factors import AdaptiveBumps, MarginDecay
from screening.kernels import Gaussian, Laplacian, pairwise, shared
from screening.solvers import KernelRows, Problem, smo
from screening.validation.candidates import by_shared_work


def made(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, (x[:, 0] + 0.7 * rng.normal(size=n) > 0.8).astype(int)


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_from_kept_distances_has_the_bits_of_one_from_rows(kernel, dtype):
    x, _ = made()
    apart = pairwise.distances(kernel.norm, x, x, dtype=dtype)

    assert np.array_equal(pairwise.of(kernel(0.3), apart), pairwise.gram(kernel(0.3), x, dtype=dtype))


def test_distances_are_computed_once_for_a_grid_of_gammas(monkeypatch):
    x, _ = made()
    alone = [Gaussian(gamma)(x, x) for gamma in (0.1, 0.2, 0.4, 0.8)]
    computed = []
    matrix = pairwise._matrix
    monkeypatch.setattr(pairwise, "_matrix", lambda *given: computed.append(1) or matrix(*given))

    with shared.over(x):
        together = [Gaussian(gamma)(x, x) for gamma in (0.1, 0.2, 0.4, 0.8)]

    assert len(computed) == 2  # the first Gram at once, the distances when a second gamma is asked for
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_gram_is_made_once_for_a_path_of_costs(monkeypatch):
    x, y = made()
    computed = []
    matrix = pairwise._matrix
    monkeypatch.setattr(pairwise, "_matrix", lambda *given: computed.append(1) or matrix(*given))

    with shared.over(x):
        for cost in (0.1, 1.0, 10.0):
            TwoClassSVM(Gaussian(0.3), C=cost).fit(x, y)

    assert len(computed) == 1


def test_the_first_pass_is_solved_once_for_all_factors_on_it(monkeypatch):
    x, y = made()
    solved = []
    solve = smo.solve_each
    monkeypatch.setattr(
        smo, "solve_each", lambda *given, **more: solved.extend(given[0]) or solve(*given, **more)
    )

    with shared.over(x):
        for kappa in (0.1, 0.3, 1.0):
            TwoClassSVM(Gaussian(0.3), factor=MarginDecay(kappa)).fit(x, y)

    assert len(solved) == 1 + 3


def test_a_solution_that_meets_no_bound_is_taken_under_wider_ones(monkeypatch):
    x, y = made()
    costs = (0.5, 1e3, 1e4, 1e5)
    alone = [TwoClassSVM(Gaussian(20.0), C=cost).fit(x, y).decision_function(x) for cost in costs]
    solved = []
    solve = smo.solve_each
    monkeypatch.setattr(
        smo, "solve_each", lambda *given, **more: solved.extend(given[0]) or solve(*given, **more)
    )

    with shared.over(x):
        together = [TwoClassSVM(Gaussian(20.0), C=cost).fit(x, y).decision_function(x) for cost in costs]

    assert len(solved) == 2  # at 0.5 there are bounds to meet, at 1e3 none is left
    np.testing.assert_allclose(together, alone, atol=2e-3)


@pytest.mark.parametrize("passes", [1, 4])
def test_shared_fits_decide_as_fits_alone_within_the_tolerance(passes):
    x, y = made()
    machines = [
        TwoClassSVM(Gaussian(gamma), C=cost, factor=MarginDecay(0.3), passes=passes, tol=1e-6)
        for gamma in (0.1, 0.5)
        for cost in (0.5, 5.0)
    ]
    alone = [machine.fit(x, y).decision_function(x) for machine in machines]

    with shared.over(x):
        together = [machine.fit(x, y).decision_function(x) for machine in machines]

    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_the_same_fit_twice_has_the_same_bits():
    x, y = made()
    machine = TwoClassSVM(Gaussian(0.3), factor=MarginDecay(0.3), passes=3)

    assert np.array_equal(machine.fit(x, y).decision_function(x), machine.fit(x, y).decision_function(x))


def test_later_passes_start_from_the_one_before():
    x, y = made(400)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(len(x))
    gram = Gaussian(0.5)(x, x)
    problem = Problem(gram, signs, ones, -ones, 10.0 * ones, 0.0)
    near = Problem(gram, signs, ones + 1e-4 * signs, -ones, 10.0 * ones, 0.0)

    with shared.over(x) as here:
        here.keep(Gaussian(0.5), gram)
        solvers.solve(problem)
        warm = solvers.solve(near)

    assert warm.n_iter < smo.solve(near).n_iter / 2
    assert warm.gap <= 1e-3


def test_a_larger_cost_starts_from_the_solution_of_the_smaller_one():
    x, y = made(400)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(len(x))
    gram = Gaussian(0.1)(x, x)
    small, large = (Problem(gram, signs, ones, -ones, cost * ones, 0.0) for cost in (0.1, 1.0))

    with shared.over(x) as here:
        here.keep(Gaussian(0.1), gram)
        solvers.solve(small)
        warm = solvers.solve(large)

    alone = smo.solve(large)
    assert warm.n_iter < alone.n_iter / 2
    assert certificate(large, warm.alphas)[1] <= 1e-3
    assert large.objective(warm.alphas) == pytest.approx(large.objective(alone.alphas), rel=1e-4)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.01, 1e3), min_size=2, max_size=5), st.floats(0.01, 30.0))
def test_whatever_the_path_of_costs_each_is_solved_to_the_tolerance(costs, gamma):
    x, y = made(60)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(len(x))
    gram = Gaussian(gamma)(x, x)

    with shared.over(x) as here:
        here.keep(Gaussian(gamma), gram)
        problems = [Problem(gram, signs, ones, -ones, cost * ones, 0.0) for cost in costs]
        solutions = [solvers.solve(problem) for problem in problems]

    for problem, solution in zip(problems, solutions, strict=True):
        assert (solution.alphas <= problem.upper).all()
        assert certificate(problem, solution.alphas)[1] <= 1.01e-3


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_several_c_at_once_have_the_bits_of_one_after_another(batches, data):
    x, y = made(60)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(len(x))
    gram = Gaussian(20.0)(x, x)
    factors = np.exp(-np.arange(5.0)[:, None] * np.abs(x[:, 1]))
    costs = [data.draw(st.sampled_from([0.5, 1e3, 1e4])) for _ in batches]  # the larger ones meet no bound
    found = []
    for step in (6, 1):
        with shared.over(x) as here:
            here.keep(Gaussian(20.0), gram)
            found.append([])
            for cost, numbers in zip(costs, batches, strict=True):
                problem = Problem(gram, signs, ones, -ones, cost * ones, 0.0)
                for first in range(0, len(numbers), step):
                    some = numbers[first : first + step]
                    found[-1] += solvers.solve_each([replace(problem, c=factors[at]) for at in some])

    for together, alone in zip(*found, strict=True):
        assert np.array_equal(together.alphas, alone.alphas)
        assert (together.intercept, together.gap, together.n_iter) == (
            alone.intercept, alone.gap, alone.n_iter,
        )  # fmt: skip


@pytest.mark.parametrize("n", [200, 600], ids=["all points looked at", "points left out"])
def test_each_of_several_c_is_solved_from_the_one_before(n):
    x, y = made(n)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(n)
    problem = Problem(Gaussian(0.5)(x, x), signs, ones, -ones, 10.0 * ones, 0.0)
    other = replace(problem, c=ones + 1e-4 * signs)

    first, second = smo.solve_each([problem, other])

    assert second.n_iter < smo.solve(other).n_iter / 2
    assert certificate(other, second.alphas)[1] <= 1.01e-3
    assert np.array_equal(first.alphas, smo.solve(problem).alphas)


def test_other_rows_are_never_taken_for_the_shared_ones():
    x, _ = made()
    z, _ = made(seed=1)

    with shared.over(x):
        Gaussian(0.3)(x, x)
        found = Gaussian(0.3)(z, z)

    assert np.array_equal(found, pairwise.gram(Gaussian(0.3), z, dtype=np.float64))


@pytest.mark.parametrize("machine", [TwoClassSVM(Gaussian(0.3), C=5.0), OneClassSVM(Gaussian(0.3))], ids=repr)
def test_a_gram_beyond_the_memory_is_made_by_rows_to_the_same_decisions(machine):
    x, y = made(2200)
    whole = machine.fit(x, y).decision_function(x)

    with shared.using(shared.Shared(x, memory=1 << 20)):
        assert isinstance(solvers.gram_within(Gaussian(0.3), x), KernelRows)
        by_rows = machine.fit(x, y).decision_function(x)

    np.testing.assert_allclose(by_rows, whole, atol=5e-3)


def test_as_many_fits_run_side_by_side_as_the_memory_holds():
    assert shared.side_by_side(10_000, 1 << 30) == 1
    assert shared.side_by_side(1_000, 1 << 30) == 134
    assert shared.side_by_side(100_000, 1 << 20) == 1


def test_candidates_of_one_kernel_follow_each_other_from_the_smallest_cost_upwards():
    candidates = [
        {"gamma": "scale", "C": 10.0},
        {"gamma": "scale*3", "C": 1.0},
        {"gamma": "scale", "C": 0.1},
        {"gamma": "scale*3", "C": 1.0, "Q": 2},
    ]

    assert by_shared_work(candidates) == [2, 0, 1, 3]


def test_many_rows_are_solved_by_rows_where_few_solutions_are_wanted():
    x, _ = made(3600)

    assert isinstance(solvers.gram_within(Gaussian(0.3), x, n_solutions=2), KernelRows)
    assert isinstance(solvers.gram_within(Gaussian(0.3), x, n_solutions=11), np.ndarray)
    assert isinstance(solvers.gram_within(Gaussian(0.3), x, whole=True), np.ndarray)
    assert isinstance(solvers.gram_within(Gaussian(0.3), x[:300]), np.ndarray)


@pytest.mark.parametrize("factor", [None, AdaptiveBumps()], ids=["plain", "factor"])
def test_a_machine_by_rows_decides_as_on_the_whole_matrix(factor, monkeypatch):
    x, y = made(2300)
    machine = TwoClassSVM(Laplacian(0.3), factor=factor, tol=1e-5)
    whole = machine.fit(x, y).decision_function(x)
    monkeypatch.setattr(solvers.warm_start, "_ROWS_A_SOLUTION", 1)

    np.testing.assert_allclose(machine.fit(x, y).decision_function(x), whole, atol=1e-3 * np.ptp(whole))
