"""Remedies: what they make of the rows, against independent reckoning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import two_clouds
from sklearn.base import clone

from screening import MultiClassSVM, TwoClassSVM, build
from screening.estimators.remedies import ESmote, MovedBoundary, Pruning, Smote, UnequalCosts
from screening.factors import AdaptiveBumps, MarginDecay
from screening.kernels import Gaussian, Laplacian

KERNEL = Gaussian(0.3)


def e_smote_fit(x, y, **given):
    return TwoClassSVM(KERNEL, C=5.0, tol=1e-9, remedies=(ESmote(seed=3),), **given).fit(x, y)


def test_e_smote_stores_training_rows_alone_and_smote_its_synthetic_ones():
    x, y = two_clouds(60)
    in_feature_space = e_smote_fit(x, y)
    in_input_space = TwoClassSVM(KERNEL, C=5.0, remedies=(Smote(),)).fit(x, y)

    assert in_feature_space.support_.max() < 60
    np.testing.assert_array_equal(in_feature_space.support_vectors_, x[in_feature_space.support_])
    synthetic = in_input_space.support_ >= 60
    assert synthetic.any()
    assert np.all(in_input_space.dual_coef_[0, synthetic] > 0)


@pytest.mark.parametrize("remedy", [Smote(), ESmote()])
def test_a_single_positive_row_has_nothing_to_interpolate_with(remedy):
    x, y = two_clouds(30)[0], (np.arange(30) == 4).astype(int)
    plain, remedied = (TwoClassSVM(KERNEL, remedies=each).fit(x, y) for each in ((), (remedy,)))

    np.testing.assert_array_equal(remedied.decision_function(x), plain.decision_function(x))


def test_e_smote_combines_with_a_factor_and_costs():
    x, y = two_clouds(60)
    machine = e_smote_fit(x, y, factor=MarginDecay(k=2.0), passes=2)
    none = e_smote_fit(x, y, factor=MarginDecay(k=0.0), passes=2)
    dear = TwoClassSVM(KERNEL, C=5.0, remedies=(UnequalCosts(4.0), ESmote())).fit(x, y)

    assert np.ptp(machine.factor_at(x)) > 0.1
    np.testing.assert_allclose(none.decision_function(x), e_smote_fit(x, y).decision_function(x), atol=1e-6)
    assert dear.predict(x).mean() >= e_smote_fit(x, y).predict(x).mean()


def test_pruning_path_is_told_kept_and_restored():
    x, y = two_clouds(60)
    fitted = build("sv_pruning", C=5.0, n_remove=3).fit(x, y)
    again = build("sv_pruning", C=5.0, n_remove=3).restore(fitted.state())

    np.testing.assert_array_equal(again.pruning_path_, fitted.pruning_path_)
    assert fitted.passes_[-1]["pruning_path"] == fitted.pruning_path_.tolist()


def test_pruning_by_inner_folds_finds_removals_that_help_a_skewed_machine():
    rng = np.random.default_rng(0)
    y = (np.arange(160) % 8 == 0).astype(int)
    x = rng.normal(size=(160, 2)) + 1.5 * y[:, None]

    inner = TwoClassSVM(KERNEL, remedies=(Pruning(most=15, inner_trials=5, trials=5),)).fit(x, y)
    plain = TwoClassSVM(KERNEL).fit(x, y)

    assert 0 < len(inner.pruning_path_) <= 15
    assert inner.predict(x)[y == 1].mean() > plain.predict(x)[y == 1].mean()


AWKWARD = [
    TwoClassSVM(remedies=(Smote(),)), TwoClassSVM(remedies=(ESmote(),), factor=MarginDecay(), passes=2),
    TwoClassSVM(remedies=(Pruning(n_remove=2),)), TwoClassSVM(remedies=(Pruning(most=2, folds=2),)),
    TwoClassSVM(Laplacian(), factor=AdaptiveBumps(), passes=2, stop="inner"),
    TwoClassSVM(remedies=(MovedBoundary(folds=2), UnequalCosts(), ESmote())),
    MultiClassSVM(scheme="one_vs_one"), MultiClassSVM(scheme="crammer_singer", C=100.0),
    MultiClassSVM(scheme="simplified", C=100.0),
]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    x=arrays(np.float64, (12, 2), elements=st.sampled_from([-1e3, -1.0, 0.0, 0.5, 1.0, 50.0])),
    n_positive=st.integers(1, 11),
    machine=st.sampled_from(AWKWARD),
)
def test_duplicates_constants_and_single_rows_are_learned_from(x, n_positive, machine):
    y = (np.arange(12) < n_positive).astype(int)
    fitted = clone(machine).fit(x, y)

    decisions = fitted.decision_function(np.vstack([x, [[1e6, -1e6]]]))

    assert np.isfinite(decisions).all()
    assert fitted.kkt_gap_ <= 1.05e-3
