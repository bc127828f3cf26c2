"""The duals of several classes: certificates, an independent solver, scikit-learn, two classes as a limit."""

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as ScikitOneClass

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.remedies import UnequalCosts
from screening.estimators.schemes import OneVsOne
from screening.factors import AdaptiveBumps, ClassDecay, MarginDensity
from screening.kernels import Gaussian
from screening.solvers import Problem, solve

SCHEMES = ["one_vs_rest", "one_vs_one", "crammer_singer", "simplified"]


def test_one_vs_one_has_scikit_learns_votes_and_margins():
    x, y = three_clouds(90)
    theirs = SVC(C=3.0, gamma=0.5, tol=1e-7, decision_function_shape="ovr", break_ties=True).fit(x, y)

    ours = MultiClassSVM(Gaussian(0.5), C=3.0, scheme="one_vs_one", tol=1e-7).fit(x, y)

    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


def test_one_vs_one_breaks_a_tie_of_votes_by_the_margins_and_never_a_vote():
    # Pairs (0,1), (0,2), (1,2): each class has one vote in the first row.
    scores = OneVsOne.scores(np.array([[-0.1, 5.0, -0.2], [-0.1, -0.1, 100.0]]))

    assert scores.argmax(axis=1).tolist() == [2, 0]
    np.testing.assert_array_equal(np.floor(scores + 0.5), [[1, 1, 1], [2, 0, 1]])


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_two_classes_are_the_two_class_machine(scheme):
    x, y = two_clouds()
    several = MultiClassSVM(Gaussian(0.5), C=3.0, scheme=scheme, tol=1e-8).fit(x, y)
    two = TwoClassSVM(Gaussian(0.5), C=3.0, tol=1e-8).fit(x, y)

    np.testing.assert_allclose(several.decision_function(x), two.decision_function(x), atol=1e-5)
    np.testing.assert_array_equal(several.predict(x), two.predict(x))


@pytest.mark.parametrize("scheme", ["crammer_singer", "simplified"])
def test_two_classes_at_once_are_half_the_machine_without_intercept_at_twice_the_cost(scheme):
    # With A_i1 = -A_i0 both duals are min 1/2 b'Qb / 2 - 1'b / 2 over b = 2 a.
    x, y = two_clouds()
    gram, signs = Gaussian(0.5)(x, x), np.where(y == 1, 1.0, -1.0)
    n = len(x)
    alphas = solve(Problem(gram, signs, np.ones(n), -np.ones(n), np.full(n, 6.0), None), 1e-9).alphas

    several = MultiClassSVM(Gaussian(0.5), C=3.0, scheme=scheme, tol=1e-9).fit(x, y)

    np.testing.assert_allclose(several.decision_function(x), gram @ (signs * alphas) / 2.0, atol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_balanced_costs_raise_the_recall_of_the_rarest_class(scheme):
    x, y = three_clouds(240)
    x, y = x[(y != "a") | (np.arange(240) < 60)], y[(y != "a") | (np.arange(240) < 60)]
    plain, balanced = (
        MultiClassSVM(Gaussian(0.3), C=0.3, scheme=scheme, cost_ratio=ratio).fit(x, y).predict(x)
        for ratio in (1.0, "balanced")
    )

    assert np.mean(balanced[y == "a"] == "a") > np.mean(plain[y == "a"] == "a")


def test_inner_stop_judges_all_classes_and_ends_as_the_fixed_machine():
    x, y = three_clouds(120)
    groups = np.repeat(np.arange(20), 6)
    machine = MultiClassSVM(C=10.0, factor=AdaptiveBumps("feature_both"), passes=3, stop="inner")
    stopped = clone(machine).fit(x, y, groups=groups)

    fixed = clone(machine).set_params(passes=len(stopped.passes_) - 1, stop="fixed").fit(x, y)

    np.testing.assert_array_equal(stopped.decision_function(x), fixed.decision_function(x))
    last = stopped.codes_after(x, len(fixed.passes_) - 1)
    np.testing.assert_array_equal(stopped.classes_[last], fixed.predict(x))


@pytest.mark.parametrize("cost_ratio", [1.0, 5.0, "balanced"])
@pytest.mark.parametrize(("c", "gamma"), [(0.1, 0.3), (1.0, "scale"), (30.0, 0.3)])
def test_two_class_agrees_with_scikit_learn(c, gamma, cost_ratio):
    x, y = two_clouds(120)
    ratio = {"balanced": (y == 0).sum() / (y == 1).sum()}.get(cost_ratio, cost_ratio)
    theirs = SVC(C=c, gamma=gamma, class_weight={0: 1.0, 1: ratio}, tol=1e-6).fit(x, y)

    ours = TwoClassSVM(Gaussian(gamma), C=c, remedies=(UnequalCosts(cost_ratio),), tol=1e-6).fit(x, y)

    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


@pytest.mark.parametrize("nu", [0.055, 0.3, 0.985])
def test_one_class_is_scikit_learns_divided_by_nu_n(nu):
    x, _ = two_clouds(100)
    theirs = ScikitOneClass(nu=nu, gamma=0.3, tol=1e-7).fit(x)

    ours = OneClassSVM(Gaussian(0.3), nu=nu, tol=1e-7).fit(x)

    np.testing.assert_allclose(nu * 100 * ours.decision_function(x), theirs.decision_function(x), atol=1e-3)
    assert np.sum(ours.dual_coef_) == pytest.approx(1.0)


def test_one_class_with_every_row_at_its_bound_is_a_density_estimate():
    x, _ = two_clouds(50)
    scores = OneClassSVM(Gaussian(0.3), nu=1.0).fit(x).score_samples(x)

    np.testing.assert_allclose(scores, Gaussian(0.3)(x, x).mean(axis=1), rtol=1e-9)


@pytest.mark.parametrize(
    "machine",
    [
        *(MultiClassSVM(Gaussian(1.0), C=50.0, scheme=scheme, cost_ratio="balanced") for scheme in SCHEMES),
        OneClassSVM(nu=0.2, factor=MarginDensity(), passes=2),
        TwoClassSVM(factor=MarginDensity(), passes=2, normalise=True),
        MultiClassSVM(factor=ClassDecay("local", Q=0.3), passes=2),
    ],
    ids=lambda machine: f"{machine.name}-{getattr(machine, 'scheme', '')}",
)
def test_every_pass_is_optimal_to_the_tolerance(machine):
    x, y = three_clouds(150)
    machine.fit(x, {"two_class": (y == "a").astype(int)}.get(machine.name, y))

    assert [one["kkt_gap"] <= 1.05e-3 for one in machine.passes_] == [True] * len(machine.passes_)
    assert machine.kkt_gap_ == max(one["kkt_gap"] for one in machine.passes_)
