"""The machines solve the duals they say they solve: certificates, independent solver, scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as ScikitOneClass

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.factors import ClassDecay, MarginDensity
from screening.kernels import Gaussian, Laplacian
from screening.remedies import UnequalCosts


@pytest.mark.parametrize("cost_ratio", [1.0, 5.0, "balanced"])
@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_two_class_agrees_with_scikit_learn(c, cost_ratio):
    x, y = two_clouds(120)
    ratio = {"balanced": (y == 0).sum() / (y == 1).sum()}.get(cost_ratio, cost_ratio)
    theirs = SVC(C=c, gamma=0.3, class_weight={0: 1.0, 1: ratio}, tol=1e-6).fit(x, y)

    ours = TwoClassSVM(Gaussian(0.3), C=c, remedies=(UnequalCosts(cost_ratio),), tol=1e-6).fit(x, y)

    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


def test_laplacian_agrees_with_scikit_learn_on_its_gram():
    x, y = two_clouds(100)
    gram = Laplacian(0.5)(x, x)
    theirs = SVC(C=2.0, kernel="precomputed", tol=1e-6).fit(gram, y)

    ours = TwoClassSVM(Laplacian(0.5), C=2.0, tol=1e-6).fit(x, y)

    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(gram), atol=1e-3)


def test_gamma_scale_is_scikit_learns():
    x, y = two_clouds(100)
    np.testing.assert_allclose(
        TwoClassSVM(tol=1e-6).fit(x, y).decision_function(x),
        SVC(tol=1e-6).fit(x, y).decision_function(x),
        atol=1e-3,
    )


@pytest.mark.parametrize("nu", [0.055, 0.3, 0.985])
def test_one_class_is_scikit_learns_divided_by_nu_n(nu):
    x, _ = two_clouds(100)
    theirs = ScikitOneClass(nu=nu, gamma=0.3, tol=1e-7).fit(x)

    ours = OneClassSVM(Gaussian(0.3), nu=nu, tol=1e-7).fit(x)

    np.testing.assert_allclose(nu * 100 * ours.decision_function(x), theirs.decision_function(x), atol=1e-3)
    assert np.sum(ours.dual_coef_) == pytest.approx(1.0)


def test_one_class_with_every_row_at_its_bound_is_a_density_estimate():
    x, _ = two_clouds(50)
    gram = Gaussian(0.3)(x, x)

    scores = OneClassSVM(Gaussian(0.3), nu=1.0).fit(x).score_samples(x)

    np.testing.assert_allclose(scores, gram.mean(axis=1), rtol=1e-9)


def test_one_vs_rest_is_one_two_class_machine_a_class():
    x, y = three_clouds()
    scores = MultiClassSVM(Gaussian(0.5), C=3.0, tol=1e-6).fit(x, y).decision_function(x)

    for m, name in enumerate("abc"):
        alone = TwoClassSVM(Gaussian(0.5), C=3.0, tol=1e-6).fit(x, (y == name).astype(int))
        np.testing.assert_allclose(scores[:, m], alone.decision_function(x), atol=1e-9)


@pytest.mark.parametrize(
    "machine",
    [
        OneClassSVM(nu=0.2, factor=MarginDensity(), passes=2),
        TwoClassSVM(factor=MarginDensity(), passes=2, normalise=True),
        MultiClassSVM(factor=ClassDecay("local", Q=0.3), passes=2),
    ],
    ids=lambda machine: machine.kind,
)
def test_every_pass_is_optimal_to_the_tolerance(machine):
    x, y = three_clouds(120)
    target = {"two_class": (y == "a").astype(int)}.get(machine.kind, y)

    machine.fit(x, target)

    assert [one["kkt_gap"] <= 1.05e-3 for one in machine.passes_] == [True] * 3
    assert machine.kkt_gap_ == max(one["kkt_gap"] for one in machine.passes_)
