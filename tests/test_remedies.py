"""Remedies: what they make of the rows, against independent reckoning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import two_clouds
from sklearn.base import clone
from sklearn.svm import SVC

from screening import MultiClassSVM, TwoClassSVM, build
from screening.factors import AdaptiveBumps, MarginDecay
from screening.kernels import Gaussian, Laplacian
from screening.machines.stopping import inner_folds, passes_worth
from screening.machines.training import Training
from screening.remedies import ESmote, MovedBoundary, Pruning, Smote, UnequalCosts

KERNEL = Gaussian(0.3)


def posed(n_rows: int = 60, c: np.ndarray | None = None) -> Training:
    x, y = two_clouds(n_rows)
    c = np.ones(n_rows) if c is None else c
    return Training(KERNEL(x, x), np.where(y == 1, 1, -1), c, np.full(n_rows, 5.0), 1e-9)


def e_smote_fit(x, y, **given):
    return TwoClassSVM(KERNEL, C=5.0, tol=1e-9, remedies=(ESmote(seed=3),), **given).fit(x, y)


def test_interpolated_gram_equals_the_eigenvector_form():
    training = posed(c=np.random.default_rng(0).uniform(0.5, 2.0, 60))
    gram = training.c[:, None] * training.gram * training.c
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values.max()
    images = vectors[:, kept] * np.sqrt(values[kept])
    drawn = ESmote(seed=3).drawn(training)

    gap = drawn.gap[:, None]
    every = np.vstack([images, (1 - gap) * images[drawn.first] + gap * images[drawn.second]])

    np.testing.assert_allclose(drawn.extended(gram), every @ every.T, atol=1e-8)


def test_folded_e_smote_decides_as_the_machine_on_the_extended_gram():
    x, y = two_clouds(60)
    training = posed()
    drawn = ESmote(seed=3).drawn(training)
    new = np.random.default_rng(5).normal(size=(40, 3))
    across = KERNEL(new, x)
    theirs = SVC(C=5.0, kernel="precomputed", tol=1e-9).fit(
        drawn.extended(training.gram), np.concatenate([y, np.ones(len(drawn.gap), int)])
    )

    found = e_smote_fit(x, y).decision_function(new)

    expected = theirs.decision_function(np.hstack([across, drawn.times(across.T).T]))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_e_smote_stores_training_rows_alone_and_smote_its_synthetic_ones():
    x, y = two_clouds(60)
    in_feature_space = e_smote_fit(x, y)
    in_input_space = TwoClassSVM(KERNEL, C=5.0, remedies=(Smote(),)).fit(x, y)

    assert in_feature_space.support_.max() < 60
    np.testing.assert_array_equal(in_feature_space.support_vectors_, x[in_feature_space.support_])
    synthetic = in_input_space.support_ >= 60
    assert synthetic.any()
    assert np.all(in_input_space.dual_coef_[0, synthetic] > 0)


@pytest.mark.parametrize("n_rows", [13, 60, 61])
def test_e_smote_balances_from_every_minority_row_equally_often(n_rows):
    training = posed(n_rows)
    drawn = ESmote(k=2).drawn(training)
    n_positive = int((training.labels > 0).sum())
    often = np.bincount(drawn.first, minlength=n_rows)[training.labels > 0]

    assert len(drawn.first) == n_rows - 2 * n_positive
    assert np.ptp(often) <= 1
    assert often.sum() == len(drawn.first)
    assert np.all((drawn.gap >= 0) & (drawn.gap < 1))


def test_e_smote_partners_are_among_the_nearest_in_feature_space():
    training = posed()
    drawn = ESmote(k=3).drawn(training)
    own = np.flatnonzero(training.labels > 0)
    distances = 2.0 - 2.0 * training.gram

    for parent, partner in zip(drawn.first, drawn.second, strict=True):
        nearest = np.sort(distances[parent, own])[1:4]
        assert parent != partner
        assert distances[parent, partner] <= nearest[-1] + 1e-12


@pytest.mark.parametrize("remedy", [Smote(), ESmote()])
def test_a_single_positive_row_has_nothing_to_interpolate_with(remedy):
    x, _ = two_clouds(30)
    y = (np.arange(30) == 4).astype(int)
    plain = TwoClassSVM(KERNEL).fit(x, y).decision_function(x)

    np.testing.assert_array_equal(
        TwoClassSVM(KERNEL, remedies=(remedy,)).fit(x, y).decision_function(x), plain
    )


def test_e_smote_combines_with_a_factor_and_costs():
    x, y = two_clouds(60)
    machine = e_smote_fit(x, y, factor=MarginDecay(k=2.0), passes=2)
    none = e_smote_fit(x, y, factor=MarginDecay(k=0.0), passes=2)
    dear = TwoClassSVM(KERNEL, C=5.0, remedies=(UnequalCosts(4.0), ESmote())).fit(x, y)

    assert np.ptp(machine.factor_at(x)) > 0.1
    np.testing.assert_allclose(none.decision_function(x), e_smote_fit(x, y).decision_function(x), atol=1e-6)
    assert dear.predict(x).mean() >= e_smote_fit(x, y).predict(x).mean()


def reference_path(x, y, n_remove, rule):
    """Pruning by its text, with scikit-learn retraining from nothing at every step."""

    def retrained(rows):
        return SVC(C=5.0, gamma=0.3, tol=1e-9).fit(x[rows], y[rows])

    def worth(machine):
        right = machine.predict(x) == y
        return right[y == 1].mean() / (max((~right[y == 0]).sum(), 0.5) / (y == 0).sum())

    support = retrained(np.arange(len(y))).support_
    left = [row for row in support if y[row] == 0]
    minority = list(np.flatnonzero(y == 1))
    path = []
    for _ in range(n_remove):
        worths = [worth(retrained(minority + [each for each in left if each != row])) for row in left]
        at = int(np.argmax(worths) if rule == "max" else np.argmin(worths))
        path.append((left.pop(at), worths[at]))
    return path, retrained(minority + left)


@pytest.mark.parametrize("rule", ["max", "min"])
def test_pruning_removes_what_retraining_from_nothing_removes(rule):
    x, y = two_clouds(60)
    path, machine = reference_path(x, y, 6, rule)

    ours = TwoClassSVM(KERNEL, C=5.0, tol=1e-9, remedies=(Pruning(n_remove=6, rule=rule),)).fit(x, y)

    assert ours.pruning_path_[:, 0].astype(int).tolist() == [row for row, _ in path]
    np.testing.assert_allclose(ours.pruning_path_[:, 1], [worth for _, worth in path], rtol=1e-9)
    np.testing.assert_allclose(ours.decision_function(x), machine.decision_function(x), atol=1e-4)


def test_pruning_nothing_is_the_plain_machine():
    x, y = two_clouds(60)
    plain = TwoClassSVM(KERNEL, C=5.0, tol=1e-9).fit(x, y).decision_function(x)
    pruned = TwoClassSVM(KERNEL, C=5.0, tol=1e-9, remedies=(Pruning(n_remove=0),)).fit(x, y)

    np.testing.assert_allclose(pruned.decision_function(x), plain, atol=1e-5)
    assert pruned.pruning_path_.shape == (0, 4)


def test_pruning_path_is_told_kept_and_restored():
    x, y = two_clouds(60)
    fitted = build("sv_pruning", C=5.0, n_remove=3).fit(x, y)

    again = build("sv_pruning", C=5.0, n_remove=3).restore(fitted.state())

    np.testing.assert_array_equal(again.pruning_path_, fitted.pruning_path_)
    assert fitted.passes_[-1]["pruning_path"] == fitted.pruning_path_.tolist()
    with pytest.raises(AttributeError, match="no pruning"):
        _ = build("svm").fit(x, y).pruning_path_


def test_pruning_by_inner_folds_finds_removals_that_help_a_skewed_machine():
    rng = np.random.default_rng(0)
    y = (np.arange(160) % 8 == 0).astype(int)
    x = rng.normal(size=(160, 2)) + 1.5 * y[:, None]

    inner = TwoClassSVM(KERNEL, remedies=(Pruning(most=15, inner_trials=5, trials=5),)).fit(x, y)
    plain = TwoClassSVM(KERNEL).fit(x, y)

    assert 0 < len(inner.pruning_path_) <= 15
    assert inner.predict(x)[y == 1].mean() > plain.predict(x)[y == 1].mean()


@pytest.mark.parametrize(
    ("remedy", "given", "word"),
    [
        (Pruning, {"n_remove": -1}, "n_remove.*inner"),
        (Pruning, {"rule": "best"}, "rule"),
        (Pruning, {"trials": 1.5}, "trials"),
        (ESmote, {"k": 0}, "k must"),
        (Smote, {"k": "many"}, "k must"),
    ],
)
def test_remedies_out_of_range_are_refused_by_name(remedy, given, word):
    with pytest.raises(ValueError, match=word):
        remedy(**given)


@pytest.mark.parametrize(
    ("scores", "passes"),
    [([0.5, 0.6, 0.7, 0.6], 2), ([0.5, 0.5, 0.9], 0), ([0.5, 0.6, 0.6005], 1), ([0.7], 0)],
)
def test_passes_stop_where_the_next_one_gains_no_more(scores, passes):
    assert passes_worth(np.array(scores)) == passes


def test_inner_stop_trains_no_more_passes_than_allowed_and_ends_as_the_fixed_machine():
    x, y = two_clouds(120)
    machine = TwoClassSVM(Laplacian(), C=10.0, factor=AdaptiveBumps(), passes=4, stop="inner")
    stopped = clone(machine).fit(x, y)
    n_passes = len(stopped.passes_) - 1

    fixed = clone(machine).set_params(passes=n_passes, stop="fixed").fit(x, y)

    assert n_passes <= 4
    np.testing.assert_array_equal(stopped.decision_function(x), fixed.decision_function(x))


def test_inner_folds_keep_groups_whole_and_classes_present():
    codes = np.repeat((np.arange(24) % 3 == 0).astype(int), 2)
    groups = np.repeat(np.arange(24), 2)

    dealt = list(inner_folds(codes, groups, 4, 0))

    assert len(dealt) == 4
    for train, test in dealt:
        assert not set(groups[train]) & set(groups[test])
        assert set(codes[train]) == {0, 1}
    assert list(inner_folds(np.array([0, 0, 1]), None, 5, 0)) == []


def test_there_is_no_stopping_by_test_rows():
    with pytest.raises(ValueError, match="inner"):
        TwoClassSVM(factor=MarginDecay(), stop="test").fit(*two_clouds(20))


AWKWARD = [
    TwoClassSVM(remedies=(Smote(),)),
    TwoClassSVM(remedies=(ESmote(),), factor=MarginDecay(), passes=2),
    TwoClassSVM(remedies=(Pruning(n_remove=2),)),
    TwoClassSVM(remedies=(Pruning(most=2, folds=2),)),
    TwoClassSVM(Laplacian(), factor=AdaptiveBumps(), passes=2, stop="inner"),
    TwoClassSVM(remedies=(MovedBoundary(folds=2), UnequalCosts(), ESmote())),
    MultiClassSVM(scheme="one_vs_one"),
    MultiClassSVM(scheme="crammer_singer", C=100.0),
    MultiClassSVM(scheme="simplified", C=100.0),
]


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
