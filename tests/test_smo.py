"""The SMO against libsvm, an interior-point method and its optimality conditions, alone
and in a search.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from independent import duals
from independent.duals import certificate
from machines_cohort import problem_of, rows_and_labels, three_clouds, two_clouds
from numpy.random import default_rng
from numpy.testing import assert_allclose

from screening import OneClassSVM, TwoClassSVM, load_recipe, solvers
from screening.kernels import Gaussian, Laplacian
from screening.kernels.base import MAX_FLOAT64_ROWS
from screening.kernels.kernel_cache import Distances, KernelCache
from screening.kernels.pairwise import gram
from screening.model_selection.fold_fits import EncodedRows
from screening.solvers import KernelRows, Problem, smo

KINDS = ("one_class", "two_class", "no_equality")
KERNELS = (Gaussian(0.4), Laplacian(0.3))


def objective_of(problem, alphas):
    """Return 1/2 a'Qa + p'a."""
    slope = problem.gradient(alphas) + problem.linear
    return float(0.5 * alphas @ slope)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", ["one_class", "two_class"])
def test_solution_agrees_with_libsvm(kind, kernel):
    x, y = rows_and_labels()
    problem = problem_of(kind, kernel(x, x), x, y)
    scaled = problem.c[:, None] * problem.gram * problem.c
    ours = smo.solve(problem, 1e-05)
    if kind == "one_class":
        alphas, offset = duals.one_class(scaled, 0.15)
        # What is subtracted of one class is added of two.
        intercept = -offset
    else:
        alphas, intercept = duals.two_class(scaled, y, problem.upper)

    expected = objective_of(problem, alphas)
    found = objective_of(problem, ours.alphas)
    assert found == pytest.approx(expected, rel=1e-6)
    gradient = problem.gradient(alphas)
    close = 1e-3 * np.ptp(gradient)
    assert ours.intercept == pytest.approx(intercept, abs=close)
    apart = problem.gradient(ours.alphas) - gradient
    assert np.abs(apart).max() <= close


@pytest.mark.parametrize("kind", KINDS)
def test_objective_is_that_of_an_interior_point_method(kind):
    x, y = rows_and_labels(80)
    problem = problem_of(kind, Gaussian(0.4)(x, x), x, y)
    ours = smo.solve(problem, 1e-7)
    weights = problem.signs * problem.c
    equality = [problem.signs[None], problem.total]
    if kind == "no_equality":
        equality = []
    quadratic = weights[:, None] * problem.gram * weights
    theirs = duals.quadratic_program(
        quadratic, problem.linear, problem.upper, *equality
    )
    feasible = np.clip(theirs, 0.0, problem.upper)
    best = objective_of(problem, feasible)
    found = objective_of(problem, ours.alphas)
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("form", ["float64", "float32", "rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimality_conditions_hold_for_every_form_of_the_kernel(kind, form):
    x, y = rows_and_labels(900)
    kernel = Gaussian(0.4)
    exact = kernel(x, x)
    given = {
        "float64": exact,
        "float32": exact.astype(np.float32),
        "rows": KernelRows(x, kernel),
    }[form]
    problem = problem_of(kind, given, x, y)
    ours = smo.solve(problem, 1e-3)
    checked = problem_of(kind, exact, x, y)
    intercept, violation = certificate(checked, ours.alphas)

    assert ours.gap <= 1e-3
    assert violation <= 1.1e-3
    assert intercept == pytest.approx(ours.intercept, abs=1e-4)
    assert (ours.alphas >= 0).all()
    assert (ours.alphas <= checked.upper).all()


@pytest.mark.parametrize("kind", KINDS)
def test_smo_scale_of_c_and_cache(kind):
    """Result and effort do not depend on the scale of c or the cache."""
    x, y = rows_and_labels(600)
    gram = Gaussian(0.4)(x, x)
    problem = problem_of(kind, gram, x, y, scale=1.0)
    of_tiny_c = problem_of(kind, gram, x, y, scale=2.0 ** (-10))
    rows = KernelRows(x, Gaussian(0.4))
    by_rows = problem_of(kind, rows, x, y)
    plain = smo.solve(problem)
    tiny = smo.solve(of_tiny_c)
    little = smo.solve(by_rows, memory=1)
    cached = smo.solve(by_rows)

    # Costs take the scale of c, nu's bounds do not.
    largest = {"one_class": 1.0}.get(kind, 2.0**20)
    expected = largest * plain.alphas
    assert_allclose(tiny.alphas, expected, rtol=1e-9)
    assert tiny.n_iter == plain.n_iter
    assert tiny.gap == pytest.approx(plain.gap)
    # Two rows of cache give the same bits as all.
    assert np.array_equal(little.alphas, cached.alphas)


def test_the_limit_of_steps_is_kept_and_its_gap_told():
    """The certificate tells an alpha that is not optimal."""
    x, y = rows_and_labels(600)
    problem = problem_of("two_class", Gaussian(0.4)(x, x), x, y)
    solved = smo.solve(problem, 1e-7)
    stopped = smo.solve(problem, max_iter=50)
    _, violation = certificate(problem, stopped.alphas)

    assert certificate(problem, solved.alphas)[1] < 1e-6
    assert certificate(problem, 0.5 * solved.alphas)[1] > 0.1
    assert stopped.n_iter == 50
    assert stopped.gap > 1e-3
    assert stopped.gap == pytest.approx(violation, rel=1e-6)


@st.composite
def degenerate(draw):
    """Few distinct rows many times over, a constant column, and as little as one
    positive row.
    """
    n_distinct = draw(st.integers(1, 6))
    n = draw(st.integers(2, 40))
    rng = default_rng(draw(st.integers(0, 2**16)))
    distinct = rng.normal(size=(n_distinct, 2))
    x = distinct[rng.integers(0, n_distinct, n)]
    x = np.column_stack([x, np.full(n, 3.0)])
    n_positive = draw(st.integers(1, max(1, n - 1)))
    y = -np.ones(n)
    y[:n_positive] = 1.0
    return x, y


@given(degenerate(), st.sampled_from(KINDS), st.sampled_from(KERNELS))
def test_degenerate_rows_still_reach_the_optimality_conditions(rows, kind, kernel):
    x, y = rows
    problem = problem_of(kind, kernel(x, x), x, y)
    least = (problem.total or 0.0) / len(x)
    problem = replace(problem, upper=np.maximum(problem.upper, least))
    ours = smo.solve(problem)
    assert ours.gap <= 1e-3
    assert certificate(problem, ours.alphas)[1] <= 1.1e-3


def test_one_class_machine_of_many_rows_decides_as_with_its_exact_gram():
    x, _ = rows_and_labels(MAX_FLOAT64_ROWS + 100, 6)
    kernel = Gaussian(0.1)
    ones = np.ones(len(x))
    exact_gram = gram(kernel, x, dtype=np.float64)
    problem = problem_of("one_class", exact_gram, x, ones)
    problem = replace(problem, c=ones)
    machine = OneClassSVM(kernel, nu=0.15).fit(x)

    exact = problem.gradient(smo.solve(problem).alphas)
    decisions = machine.decision_function(x) + machine.offset_
    apart = np.abs(decisions - exact)
    assert apart.max() <= 1e-3 * np.ptp(exact)


def test_a_smooth_kernel_under_a_wide_factor_takes_few_steps():
    x, y = rows_and_labels(1200)
    c = np.exp(-0.5 * x[:, 1] ** 2)
    ones = np.ones(len(x))
    gram = Gaussian(0.05)(x, x)
    problem = Problem(gram, y, c, -ones, 1000.0 * ones, 0.0)
    solution = smo.solve(problem, 1e-6)
    # Pairs alone take over half a million.
    assert solution.n_iter < 50_000
    assert certificate(problem, solution.alphas)[1] <= 1.1e-6


@pytest.mark.parametrize("seed", [0, 242, 351])
def test_free_alphas_wide_range_of_c(seed):
    """Free alphas are not sent uphill under a factor of twelve decades."""
    x, y = rows_and_labels(200)
    at = default_rng(seed).choice(x, 30, replace=False)
    squared = duals.squared(x, at)
    bumps = np.exp(-70.0 * squared).sum(axis=1)
    c = np.maximum(bumps, 1e-12)
    ones = np.ones(len(x))
    gram = Laplacian(0.001)(x, x)
    problem = Problem(gram, y, c, -ones, 1e7 * ones, 0.0)
    solution = smo.solve(problem, 1e-3, max_iter=200_000)

    # Where moves uphill stayed, these ran to any limit.
    assert solution.n_iter < 100_000
    assert solution.gap <= 1e-3


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.0), Gaussian(10.0), Laplacian(1.0)], ids=repr
)
def test_few_rows_are_solved_to_their_last_digits_and_no_further(kernel):
    for seed in range(5):
        x = default_rng(seed).normal(size=(7, 3))
        gram = kernel(x, x)
        problem = problem_of("one_class", gram, x, np.ones(7))
        solved = smo.solve(problem, 1e-10, max_iter=20_000)
        assert solved.n_iter < 20_000
        # Of the millionth of the level that differences are resolved to.
        assert solved.gap < 4e-9


COSTS = [
    {"C": cost, "gamma": gamma} for gamma in (0.3, 2.0) for cost in (0.1, 1.0, 300.0)
]
SEARCHED = {
    "svm": COSTS,
    "one_class": [
        {"nu": nu, "gamma": gamma} for gamma in (0.3, 2.0) for nu in (0.05, 0.5)
    ],
    "wu_amari": [{"passes": passes} for passes in (0, 1, 3)],
    "e_smote_svm": [{"C": cost} for cost in (0.1, 10.0)],
    "logistic": [{"C": cost} for cost in (0.1, 10.0)],
    "shao_local": [
        {"Q": reach, "C": cost} for cost in (1.0, 100.0) for reach in (0.1, 0.5, 1.0)
    ],
    "one_vs_one": [{"C": cost} for cost in (0.1, 10.0)],
}


@given(st.lists(st.floats(0.01, 1e3), min_size=2, max_size=5), st.floats(0.01, 30.0))
def test_whatever_the_path_of_costs_each_is_solved_to_the_tolerance(costs, gamma):
    x, y = two_clouds(60)
    signs = np.where(y == 1, 1.0, -1.0)
    ones = np.ones(len(x))
    cache = KernelCache(x)
    gram = cache.gram(Gaussian(gamma))
    problems = []
    for cost in costs:
        problem = Problem(gram, signs, ones, -ones, cost * ones, 0.0)
        problems.append(problem)
    solutions = []
    for problem in problems:
        solutions += solvers.solve_warm_started([problem], cache=cache)

    for problem, solution in zip(problems, solutions, strict=True):
        assert (solution.alphas <= problem.upper).all()
        assert certificate(problem, solution.alphas)[1] <= 1.01e-3


@pytest.mark.parametrize(
    "machine",
    [
        TwoClassSVM(Gaussian(0.3), C=5.0),
        OneClassSVM(Gaussian(0.3)),
    ],
    ids=repr,
)
def test_gram_beyond_memory(machine):
    """A gram beyond the memory is made by rows to the same decisions."""
    x, y = two_clouds(2200)
    whole = machine.fit(x, y).decision_function(x)
    little = KernelCache(x, memory=1 << 20)
    assert isinstance(solvers.gram_within(Gaussian(0.3), little), KernelRows)
    (by_rows,) = machine.fit_each([None], x, y, cache=little)
    decisions = by_rows.decision_function(x)
    assert_allclose(decisions, whole, atol=5e-3)


@pytest.mark.parametrize("name", SEARCHED)
def test_settings_fitted_together(name):
    """Settings searched together decide as each machine does by itself."""
    recipe = load_recipe(name)
    several = recipe.machine == "multi_class"
    x, y = three_clouds(260) if several else two_clouds(260)
    n_scores = 3 if several else 1
    codes = np.unique(y, return_inverse=True)[1]
    rows = EncodedRows(recipe, n_scores, Distances(x), codes, None)
    rng = default_rng(1)
    new = rng.normal(size=(90, x.shape[1])) + 1.0
    everyone = np.arange(len(x))
    machines, decided = rows.fit_settings(everyone, SEARCHED[name], new)

    for machine, together in zip(machines, decided, strict=True):
        alone = rows.decisions(machine, new)
        apart = np.abs(together - alone)
        assert apart.max() <= 3e-5 * np.abs(alone).max()
