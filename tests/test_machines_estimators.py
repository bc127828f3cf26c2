"""The machines as scikit-learn estimators: attributes, parameters, invariances, state."""

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds
from sklearn.base import clone

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.baselines import Logistic
from screening.estimators.boosting import HistogramBoosting
from screening.estimators.forests import BalancedForest, RandomForest
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
# Which columns a tree of a forest looks at is drawn, so that the order of rows and columns matters there.
EVERY = [
    *MACHINES, RandomForest(n_estimators=5), BalancedForest(n_estimators=5), HistogramBoosting(n_rounds=5),
]  # fmt: skip
# Those whose decision is one sum over support vectors, not votes.
SUMS = [machine for machine in MACHINES[:-1] if getattr(machine, "scheme", "") != "one_vs_one"]


def rows_for(machine) -> tuple[np.ndarray, np.ndarray]:
    return (
        three_clouds(72)
        if isinstance(machine, (MultiClassSVM, RandomForest, HistogramBoosting))
        else two_clouds(72)
    )


def ids(machine) -> str:
    factor = getattr(machine, "factor", None)
    parts = [type(machine).__name__, getattr(machine, "scheme", ""), getattr(factor, "name", "plain")]
    return "-".join([*parts, *(remedy.name for remedy in getattr(machine, "remedies", ()))])


@pytest.mark.parametrize("machine", EVERY, ids=ids)
def test_restored_state_scores_bit_for_bit_the_same(machine):
    x, y = rows_for(machine)
    new = np.random.default_rng(5).normal(size=(400, x.shape[1]))
    fitted = clone(machine).fit(x, y)

    state = {key: np.array(value) for key, value in fitted.state().items()}
    restored = clone(machine).restore(state)

    assert all(value.dtype != object for value in state.values())
    np.testing.assert_array_equal(restored.decision_function(new), fitted.decision_function(new))
    np.testing.assert_array_equal(restored.predict(new), fitted.predict(new))
    assert restored.n_features_in_ == fitted.n_features_in_


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

    reach = np.abs(straight).max()
    np.testing.assert_allclose(by_rows, straight, atol=1e-4 * reach)
    np.testing.assert_allclose(by_features, straight, atol=1e-4 * reach)


@pytest.mark.parametrize("machine", SUMS, ids=ids)
def test_decision_is_what_the_fitted_attributes_say(machine):
    x, y = rows_for(machine)
    fitted = clone(machine).fit(x, y)

    c = fitted.factor_at(x)
    gram = fitted.kernel_(x, fitted.support_vectors_)
    expected = (gram @ (fitted.dual_coef_.T * c[fitted.support_])) * c + fitted.intercept_

    np.testing.assert_array_equal(fitted.support_vectors_, x[fitted.support_])
    np.testing.assert_allclose(
        fitted.decision_function(x).reshape(len(x), -1), expected, atol=1e-9 * np.abs(expected).max()
    )


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


@pytest.mark.parametrize(
    ("machine", "word"),
    [
        (OneClassSVM(nu=0.0), "nu"), (OneClassSVM(nu=1.5), "nu"),
        (OneClassSVM(factor=ClassDecay()), "class_decay.*one_class"),
        (OneClassSVM(Laplacian(), factor=MarginDensity()), "margin_density.*laplacian"),
        (TwoClassSVM(C=0.0), "C must"), (TwoClassSVM(passes=-1), "passes"), (TwoClassSVM(tol=0.0), "tol"),
        (MultiClassSVM(scheme="all"), "one_vs_rest"), (MultiClassSVM(cost_ratio="much"), "cost_ratio"),
        (Logistic(class_weight="much"), "class_weight"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(machine, word):
    x, y = two_clouds()
    with pytest.raises(ValueError, match=word):
        machine.fit(x, y)


@pytest.mark.parametrize("machine", [OneClassSVM(nu=0.3), TwoClassSVM(), MultiClassSVM()], ids=ids)
@pytest.mark.parametrize(
    "weights", [-np.ones(60), np.ones((60, 2)), np.ones(59), np.full(60, np.nan)], ids=len
)
def test_sample_weights_that_are_none_are_refused(machine, weights):
    with pytest.raises(ValueError, match=r"sample_weight|inconsistent numbers"):
        clone(machine).fit(*two_clouds(60), sample_weight=weights)


def test_moved_boundary_keeps_groups_whole():
    x, y = two_clouds(120)
    # A group a pair of rows of the same class: the decision of a copy must not help to place the boundary.
    x, y, groups = np.repeat(x, 2, axis=0), np.repeat(y, 2), np.repeat(np.arange(120), 2)
    machine = TwoClassSVM(Gaussian(50.0), C=100.0, remedies=(MovedBoundary(),))

    split = clone(machine).fit(x, y).intercept_[0]
    whole = clone(machine).fit(x, y, groups=groups).intercept_[0]

    assert split != whole


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

    named = TwoClassSVM(kernel=word, gamma=0.3).fit(x, y)

    np.testing.assert_array_equal(
        named.decision_function(x), TwoClassSVM(value(0.3)).fit(x, y).decision_function(x)
    )


@pytest.mark.parametrize("machine", [TwoClassSVM(), MultiClassSVM()], ids=["two_class", "multi_class"])
def test_class_weights_are_costs_by_class(machine):
    x, y = two_clouds(90)

    by_class = clone(machine).set_params(class_weight={0: 1.0, 1: 3.0}).fit(x, y)
    by_row = clone(machine).fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0))

    # gamma "scale" counts rows by sample weight and not by class weight.
    assert by_class.kernel_.gamma != by_row.kernel_.gamma
    fixed = clone(machine).set_params(gamma=0.5)
    np.testing.assert_allclose(
        clone(fixed).set_params(class_weight={0: 1.0, 1: 3.0}).fit(x, y).decision_function(x),
        clone(fixed).fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0)).decision_function(x),
        atol=1e-8,
    )
