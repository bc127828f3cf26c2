"""The machines as scikit-learn estimators: attributes, parameters, invariances, state."""

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds
from sklearn.base import clone

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.baselines import Logistic
from screening.estimators.remedies import ESmote, MovedBoundary, Pruning, UnequalCosts
from screening.estimators.remedies.threshold_moving import best_g_mean
from screening.factors import (
    AdaptiveBumps,
    Bumps,
    ClassDecay,
    DistanceDecay,
    LocalBumps,
    MarginDecay,
    MarginDensity,
    OneSidedMarginDecay,
)
from screening.kernels import Gaussian, Laplacian

MACHINES = [
    OneClassSVM(nu=0.3), OneClassSVM(nu=0.3, factor=MarginDensity(), passes=2),
    OneClassSVM(nu=0.3, factor=LocalBumps()), TwoClassSVM(Laplacian(), C=2.0),
    TwoClassSVM(factor=MarginDensity(), remedies=(UnequalCosts(), MovedBoundary(folds=3))),
    MultiClassSVM(C=2.0), MultiClassSVM(factor=ClassDecay("weighted"), passes=2, cost_ratio="balanced"),
    MultiClassSVM(factor=ClassDecay("local", Q=0.4, per_class=True)),
    TwoClassSVM(Laplacian(), factor=AdaptiveBumps(), passes=2, stop="inner"),
    TwoClassSVM(factor=DistanceDecay(), passes=2, normalise=True),
    TwoClassSVM(factor=MarginDecay(), remedies=(ESmote(), UnequalCosts())),
    TwoClassSVM(remedies=(Pruning(n_remove=3),)),
    MultiClassSVM(scheme="one_vs_one", factor=OneSidedMarginDecay()),
    MultiClassSVM(scheme="crammer_singer", factor=ClassDecay("weighted")),
    MultiClassSVM(scheme="simplified", factor=ClassDecay("local", Q=0.4)),
    MultiClassSVM(factor=Bumps(width=3.0)), Logistic(class_weight="balanced"),
]  # fmt: skip
# Those whose decision is one sum over support vectors, not votes.
SUMS = [machine for machine in MACHINES[:-1] if getattr(machine, "scheme", "") != "one_vs_one"]


def rows_for(machine) -> tuple[np.ndarray, np.ndarray]:
    return three_clouds(72) if isinstance(machine, MultiClassSVM) else two_clouds(72)


def ids(machine) -> str:
    factor = getattr(machine, "factor", None)
    parts = [type(machine).__name__, getattr(machine, "scheme", ""), getattr(factor, "name", "plain")]
    return "-".join([*parts, *(remedy.name for remedy in getattr(machine, "remedies", ()))])


@pytest.mark.parametrize("machine", MACHINES[:-1], ids=ids)
def test_order_of_rows_and_of_features_changes_no_decision(machine):
    x, y = rows_for(machine)
    # Inner folds depend on the order of rows by their nature.
    tight = clone(machine).set_params(tol=1e-8)
    tight.set_params(**{name: () for name in {"remedies"} & set(tight.get_params(deep=False))})
    rows = np.random.default_rng(2).permutation(len(x))
    straight = clone(tight).fit(x, y).decision_function(x)

    by_rows = clone(tight).fit(x[rows], y[rows]).decision_function(x)
    by_features = clone(tight).fit(x[:, ::-1], y).decision_function(x[:, ::-1])

    for moved in (by_rows, by_features):
        np.testing.assert_allclose(moved, straight, atol=1e-4 * np.abs(straight).max())


@pytest.mark.parametrize("machine", SUMS, ids=ids)
def test_decision_is_what_the_fitted_attributes_say(machine):
    x, y = rows_for(machine)
    fitted = clone(machine).fit(x, y)
    c = fitted.factor_at(x)
    gram = fitted.kernel_(x, fitted.support_vectors_)
    expected = (gram @ (fitted.dual_coef_.T * c[fitted.support_])) * c + fitted.intercept_
    decisions = fitted.decision_function(x).reshape(len(x), -1)

    np.testing.assert_array_equal(fitted.support_vectors_, x[fitted.support_])
    np.testing.assert_allclose(decisions, expected, atol=1e-9 * np.abs(expected).max())


def test_fields_of_kernel_factor_and_remedy_are_parameters():
    machine = TwoClassSVM(Gaussian(), factor=MarginDensity(), remedies=(UnequalCosts(),))

    changed = clone(machine).set_params(
        kernel__gamma=2.0, factor__n="rows", unequal_costs__cost_ratio=3.0, C=5.0
    )

    assert changed.kernel == Gaussian(2.0)
    assert changed.factor == MarginDensity("rows")
    assert changed.remedies == (UnequalCosts(3.0),)
    assert (machine.kernel, machine.C) == (Gaussian(), 1.0)
    with pytest.raises(ValueError, match="factor__kappa"):
        machine.set_params(factor__kappa=1.0)


@pytest.mark.parametrize("machine", [OneClassSVM(nu=0.3), TwoClassSVM(), MultiClassSVM()], ids=ids)
@pytest.mark.parametrize(
    "weights", [-np.ones(60), np.ones((60, 2)), np.ones(59), np.full(60, np.nan)], ids=len
)
def test_sample_weights_that_are_none_are_refused(machine, weights):
    with pytest.raises(ValueError, match=r"sample_weight|inconsistent numbers"):
        clone(machine).fit(*two_clouds(60), sample_weight=weights)


def test_moved_boundary_keeps_groups_whole():
    # A group a pair of rows of the same class: the decision of a copy must not help to place the boundary.
    x, y, groups = (np.repeat(each, 2, axis=0) for each in (*two_clouds(120), np.arange(120)))
    machine = TwoClassSVM(Gaussian(50.0), C=100.0, remedies=(MovedBoundary(),))

    split = clone(machine).fit(x, y).intercept_[0]

    assert split != clone(machine).fit(x, y, groups=groups).intercept_[0]


def test_best_g_mean_is_the_best_of_all_thresholds():
    rng = np.random.default_rng(0)
    decisions, positive = rng.normal(size=80), rng.random(80) < 0.2

    def g_mean(threshold: float) -> float:
        return np.sqrt((decisions[positive] > threshold).mean() * (decisions[~positive] <= threshold).mean())

    best = max(g_mean(threshold) for threshold in decisions)

    assert g_mean(best_g_mean(decisions, positive)) == pytest.approx(best)


@pytest.mark.parametrize(
    ("word", "value"), [("rbf", Gaussian), ("gaussian", Gaussian), ("laplacian", Laplacian)]
)
def test_a_kernel_by_its_name_is_the_kernel(word, value):
    x, y = two_clouds(60)
    named, given = TwoClassSVM(kernel=word, gamma=0.3).fit(x, y), TwoClassSVM(value(0.3)).fit(x, y)

    np.testing.assert_array_equal(named.decision_function(x), given.decision_function(x))


@pytest.mark.parametrize("machine", [TwoClassSVM(), MultiClassSVM()], ids=["two_class", "multi_class"])
def test_class_weights_are_costs_by_class(machine):
    """Gamma "scale" counts rows by sample weight and not by class weight."""
    x, y = two_clouds(90)

    def by_class_and_row(machine):
        weighted = clone(machine).set_params(class_weight={0: 1.0, 1: 3.0}).fit(x, y)
        return weighted, clone(machine).fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0))

    by_class, by_row = by_class_and_row(machine)
    assert by_class.kernel_.gamma != by_row.kernel_.gamma
    same = [each.decision_function(x) for each in by_class_and_row(clone(machine).set_params(gamma=0.5))]
    np.testing.assert_allclose(*same, atol=1e-8)
