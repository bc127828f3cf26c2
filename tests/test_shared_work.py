"""Fits that share distances, kernels and first passes, as a search does, give what each gives alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from independent.duals import certificate
from machines_cohort import three_clouds, two_clouds

from screening import OneClassSVM, TwoClassSVM, load_recipe, solvers
from screening.kernels import Gaussian
from screening.kernels.kernel_cache import Distances, KernelCache
from screening.model_selection.fold_fits import EncodedRows
from screening.solvers import KernelRows, Problem

COSTS = [{"C": cost, "gamma": gamma} for gamma in (0.3, 2.0) for cost in (0.1, 1.0, 300.0)]
SEARCHED = {
    "svm": COSTS, "one_class": [{"nu": nu, "gamma": gamma} for gamma in (0.3, 2.0) for nu in (0.05, 0.5)],
    "wu_amari": [{"passes": passes} for passes in (0, 1, 3)],
    "e_smote_svm": [{"C": cost} for cost in (0.1, 10.0)], "logistic": [{"C": cost} for cost in (0.1, 10.0)],
    "shao_local": [{"Q": reach, "C": cost} for cost in (1.0, 100.0) for reach in (0.1, 0.5, 1.0)],
    "one_vs_one": [{"C": cost} for cost in (0.1, 10.0)],
}  # fmt: skip


def made(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, (x[:, 0] + 0.7 * rng.normal(size=n) > 0.8).astype(int)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.01, 1e3), min_size=2, max_size=5), st.floats(0.01, 30.0))
def test_whatever_the_path_of_costs_each_is_solved_to_the_tolerance(costs, gamma):
    x, y = made(60)
    signs, ones = np.where(y == 1, 1.0, -1.0), np.ones(len(x))
    cache = KernelCache(x)
    gram = cache.gram(Gaussian(gamma))

    problems = [Problem(gram, signs, ones, -ones, cost * ones, 0.0) for cost in costs]
    solutions = [solvers.solve(problem, cache=cache) for problem in problems]

    for problem, solution in zip(problems, solutions, strict=True):
        assert (solution.alphas <= problem.upper).all()
        assert certificate(problem, solution.alphas)[1] <= 1.01e-3


@pytest.mark.parametrize("machine", [TwoClassSVM(Gaussian(0.3), C=5.0), OneClassSVM(Gaussian(0.3))], ids=repr)
def test_a_gram_beyond_the_memory_is_made_by_rows_to_the_same_decisions(machine):
    x, y = made(2200)
    whole = machine.fit(x, y).decision_function(x)

    little = KernelCache(x, memory=1 << 20)

    assert isinstance(solvers.gram_within(Gaussian(0.3), little), KernelRows)
    by_rows = machine.fit_each([None], x, y, cache=little)[0].decision_function(x)

    np.testing.assert_allclose(by_rows, whole, atol=5e-3)


@pytest.mark.parametrize("name", SEARCHED)
def test_settings_searched_together_decide_as_each_machine_does_by_itself(name):
    recipe = load_recipe(name)
    several = recipe.machine == "multi_class"
    x, y = three_clouds(260) if several else two_clouds(260)
    codes = np.unique(y, return_inverse=True)[1]
    rows = EncodedRows(recipe, 3 if several else 1, Distances(x), codes, None)
    new = np.random.default_rng(1).normal(size=(90, x.shape[1])) + 1.0

    machines, decided = rows.tried(np.arange(len(x)), SEARCHED[name], new)

    for machine, together in zip(machines, decided, strict=True):
        alone = rows.decisions(machine, new)
        assert np.abs(together - alone).max() <= 3e-5 * np.abs(alone).max()
