"""Machines as estimators, their remedies and their duals: certificates, scikit-learn,
invariances.
"""

import gc
import pickle
from weakref import ref

import numpy as np
import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import rows_and_labels, three_clouds, two_clouds
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.svm import OneClassSVM as ScikitOneClass

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.baselines import Logistic
from screening.estimators.remedies import (
    ESmote,
    MovedBoundary,
    Pruning,
    Smote,
    UnequalCosts,
)
from screening.estimators.remedies.moved_boundary import best_g_mean
from screening.estimators.schemes import OneVsOne
from screening.factors import (
    FACTORS,
    AdaptiveBumps,
    Bumps,
    ClassDecay,
    DistanceDecay,
    LocalBumps,
    MarginDecay,
    MarginDensity,
    OneSidedMarginDecay,
)
from screening.kernels import FLOOR, Gaussian, Laplacian, input_distances
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import Problem, smo

MACHINES = [
    OneClassSVM(nu=0.3),
    OneClassSVM(nu=0.3, factor=MarginDensity(), passes=2),
    OneClassSVM(nu=0.3, factor=LocalBumps()),
    TwoClassSVM(Laplacian(), C=2.0),
    TwoClassSVM(
        factor=MarginDensity(), remedies=(UnequalCosts(), MovedBoundary(folds=3))
    ),
    MultiClassSVM(C=2.0),
    MultiClassSVM(factor=ClassDecay("weighted"), passes=2, cost_ratio="balanced"),
    MultiClassSVM(factor=ClassDecay("local", Q=0.4, per_class=True)),
    TwoClassSVM(Laplacian(), factor=AdaptiveBumps(), passes=2, stop="inner"),
    TwoClassSVM(factor=DistanceDecay(), passes=2, normalise=True),
    TwoClassSVM(factor=MarginDecay(), remedies=(ESmote(), UnequalCosts())),
    TwoClassSVM(remedies=(Pruning(n_remove=3),)),
    MultiClassSVM(scheme="one_vs_one", factor=OneSidedMarginDecay()),
    MultiClassSVM(scheme="crammer_singer", factor=ClassDecay("weighted")),
    MultiClassSVM(scheme="simplified", factor=ClassDecay("local", Q=0.4)),
    MultiClassSVM(factor=Bumps(width=3.0)),
    Logistic(class_weight="balanced"),
]
# Those whose decision is one sum over support vectors, not votes.
SUMS = [
    machine
    for machine in MACHINES[:-1]
    if getattr(machine, "scheme", "") != "one_vs_one"
]


def rows_for(machine) -> tuple[np.ndarray, np.ndarray]:
    clouds = three_clouds if machine.name == "multi_class" else two_clouds
    return clouds(72)


def ids(machine) -> str:
    factor = getattr(machine, "factor", None)
    parts = [
        type(machine).__name__,
        getattr(machine, "scheme", ""),
        getattr(factor, "name", "plain"),
    ]
    return "-".join(
        [*parts, *(remedy.name for remedy in getattr(machine, "remedies", ()))]
    )


@pytest.mark.parametrize("machine", MACHINES[:-1], ids=ids)
def test_order_of_rows_and_of_features_changes_no_decision(machine):
    x, y = rows_for(machine)
    # Inner folds depend on the order of rows by their nature.
    tight = clone(machine).set_params(tol=1e-8)
    if "remedies" in tight.get_params(deep=False):
        tight.set_params(remedies=())
    rows = default_rng(2).permutation(len(x))
    straight = clone(tight).fit(x, y).decision_function(x)
    by_rows = clone(tight).fit(x[rows], y[rows])
    turned = x[:, ::-1]
    by_features = clone(tight).fit(turned, y)

    close = 1e-4 * np.abs(straight).max()
    moved = by_rows.decision_function(x)
    assert_allclose(moved, straight, atol=close)
    moved = by_features.decision_function(turned)
    assert_allclose(moved, straight, atol=close)


@pytest.mark.parametrize("machine", SUMS, ids=ids)
def test_decision_is_what_the_fitted_attributes_say(machine):
    x, y = rows_for(machine)
    fitted = clone(machine).fit(x, y)
    c = fitted.factor_at(x)
    gram = fitted.kernel_(x, fitted.support_vectors_)
    expected = (
        gram @ (fitted.dual_coef_.T * c[fitted.support_])
    ) * c + fitted.intercept_
    decisions = fitted.decision_function(x).reshape(len(x), -1)

    assert_array_equal(fitted.support_vectors_, x[fitted.support_])
    close = 1e-9 * np.abs(expected).max()
    assert_allclose(decisions, expected, atol=close)


def test_fields_of_kernel_factor_and_remedy_are_parameters():
    machine = TwoClassSVM(
        Gaussian(), factor=MarginDensity(), remedies=(UnequalCosts(),)
    )
    changed = clone(machine).set_params(
        kernel__gamma=2.0, factor__n="rows", unequal_costs__cost_ratio=3.0, C=5.0
    )

    for word, kernel in {
        "rbf": Gaussian,
        "gaussian": Gaussian,
        "laplacian": Laplacian,
    }.items():
        named = TwoClassSVM(kernel=word, gamma=0.3).fit(*two_clouds(60))
        assert named.kernel_ == kernel(0.3)
    assert changed.kernel == Gaussian(2.0)
    assert changed.factor == MarginDensity("rows")
    assert changed.remedies == (UnequalCosts(3.0),)
    assert machine.kernel == Gaussian()
    assert machine.C == 1.0
    with pytest.raises(ValueError, match="factor__kappa"):
        machine.set_params(factor__kappa=1.0)


@pytest.mark.parametrize(
    "machine", [OneClassSVM(nu=0.3), TwoClassSVM(), MultiClassSVM()], ids=ids
)
@pytest.mark.parametrize(
    "weights",
    [
        -np.ones(60),
        np.ones((60, 2)),
        np.ones(59),
        np.full(60, np.nan),
        np.full(60, 1e307),
    ],
    ids=len,
)
def test_sample_weights_that_are_none_are_refused(machine, weights):
    with pytest.raises(ValueError, match=r"sample_weight|inconsistent numbers"):
        clone(machine).fit(*two_clouds(60), sample_weight=weights)


def test_moved_boundary_keeps_groups_whole():
    # A group a pair of rows of the same class: the decision of a copy must not help to
    # place the boundary.
    x, y = two_clouds(120)
    x = np.repeat(x, 2, axis=0)
    y = np.repeat(y, 2)
    groups = np.repeat(np.arange(120), 2)
    machine = TwoClassSVM(Gaussian(50.0), C=100.0, remedies=(MovedBoundary(),))
    split = clone(machine).fit(x, y)
    grouped = clone(machine).fit(x, y, groups=groups)
    assert split.intercept_[0] != grouped.intercept_[0]


def test_best_g_mean_is_the_best_of_all_thresholds():
    rng = default_rng(0)
    decisions = rng.normal(size=80)
    positive = rng.random(80) < 0.2

    def g_mean(threshold: float) -> float:
        return np.sqrt(
            (decisions[positive] > threshold).mean()
            * (decisions[~positive] <= threshold).mean()
        )

    best = max(g_mean(threshold) for threshold in decisions)

    assert g_mean(best_g_mean(decisions, positive)) == pytest.approx(best)


@pytest.mark.parametrize(
    "machine", [TwoClassSVM(), MultiClassSVM()], ids=["two_class", "multi_class"]
)
def test_class_weights_are_costs_by_class(machine):
    """Gamma "scale" counts rows by sample weight and not by class weight."""
    x, y = two_clouds(90)

    def by_class_and_row(machine):
        by_class = clone(machine).set_params(class_weight={0: 1.0, 1: 3.0})
        weights = np.where(y == 1, 3.0, 1.0)
        by_row = clone(machine).fit(x, y, sample_weight=weights)
        return by_class.fit(x, y), by_row

    by_class, by_row = by_class_and_row(machine)
    assert by_class.kernel_.gamma != by_row.kernel_.gamma
    same = [
        each.decision_function(x)
        for each in by_class_and_row(clone(machine).set_params(gamma=0.5))
    ]
    assert_allclose(*same, atol=1e-8)


SCHEMES = ["one_vs_rest", "one_vs_one", "crammer_singer", "simplified"]


def test_one_vs_one_tie():
    """One-vs-one breaks a tie of votes by the margins and never a vote."""
    # Pairs (0,1), (0,2), (1,2): each class has one vote in the first row.
    decisions = np.array(
        [
            [-0.1, 5.0, -0.2],
            [-0.1, -0.1, 100.0],
        ]
    )
    scores = OneVsOne.scores(decisions)
    votes = np.floor(scores + 0.5)
    assert scores.argmax(axis=1).tolist() == [2, 0]
    assert_array_equal(votes, [[1, 1, 1], [2, 0, 1]])


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_two_classes_are_the_two_class_machine(scheme):
    x, y = two_clouds()
    kernel = Gaussian(0.5)
    several = MultiClassSVM(kernel, C=3.0, scheme=scheme, tol=1e-8)
    several.fit(x, y)
    two = TwoClassSVM(kernel, C=3.0, tol=1e-8).fit(x, y)
    expected = two.decision_function(x)
    decisions = several.decision_function(x)
    assert_allclose(decisions, expected, atol=1e-5)
    assert_array_equal(several.predict(x), two.predict(x))


@pytest.mark.parametrize("scheme", ["crammer_singer", "simplified"])
def test_all_at_once_two_classes(scheme):
    """Two classes at once are half the machine without intercept at twice the cost."""
    # With A_i1 = -A_i0 both duals are min 1/2 b'Qb / 2 - 1'b / 2 over b = 2 a.
    x, y = two_clouds()
    gram = Gaussian(0.5)(x, x)
    signs = np.where(y == 1, 1.0, -1.0)
    n = len(x)
    ones = np.ones(n)
    problem = Problem(gram, signs, ones, -ones, 6.0 * ones, None)
    alphas = smo.solve(problem, 1e-9).alphas
    several = MultiClassSVM(Gaussian(0.5), C=3.0, scheme=scheme, tol=1e-9)
    decisions = several.fit(x, y).decision_function(x)
    expected = gram @ (signs * alphas) / 2.0
    assert_allclose(decisions, expected, atol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_balanced_costs_raise_the_recall_of_the_rarest_class(scheme):
    x, y = three_clouds(240)
    kept = (y != "a") | (np.arange(240) < 60)
    x = x[kept]
    y = y[kept]
    rarest = y == "a"
    settings = {"kernel": Gaussian(0.3), "C": 0.3, "scheme": scheme}
    plain = MultiClassSVM(**settings, cost_ratio=1.0)
    costly = MultiClassSVM(**settings, cost_ratio="balanced")
    of_plain = plain.fit(x, y).predict(x[rarest])
    of_costly = costly.fit(x, y).predict(x[rarest])
    assert np.mean(of_costly == "a") > np.mean(of_plain == "a")


def test_inner_stop_judges_all_classes_and_ends_as_the_fixed_machine():
    x, y = three_clouds(120)
    groups = np.repeat(np.arange(20), 6)
    machine = MultiClassSVM(
        C=10.0,
        factor=AdaptiveBumps("feature_both"),
        passes=3,
        stop="inner",
    )
    stopped = clone(machine).fit(x, y, groups=groups)
    fixed = (
        clone(machine)
        .set_params(passes=len(stopped.passes_) - 1, stop="fixed")
        .fit(x, y)
    )

    assert_array_equal(stopped.decision_function(x), fixed.decision_function(x))
    last = stopped.codes_after(x, len(fixed.passes_) - 1)
    predicted = stopped.classes_[last]
    assert_array_equal(predicted, fixed.predict(x))


def test_two_class_machine_and_its_gamma_are_scikit_learns():
    x, y = two_clouds(120)
    theirs = SVC(class_weight={0: 1.0, 1: 5.0}, tol=1e-6).fit(x, y)
    ours = TwoClassSVM(remedies=(UnequalCosts(5.0),), tol=1e-6).fit(x, y)
    expected = theirs.decision_function(x)
    assert_allclose(ours.decision_function(x), expected, atol=1e-3)
    assert_array_equal(ours.predict(x), theirs.predict(x))


@pytest.mark.parametrize("gamma", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_log_ratio_is_that_of_the_kernel_sums(kernel, gamma):
    """It is log((f + rho) / rho), summed from exponents where the kernel vanishes."""
    x = rows_and_labels(200)[0]
    far = 40.0 * rows_and_labels(50)[0]
    machine = OneClassSVM(kernel, gamma=gamma, nu=0.3).fit(x)
    norm = machine.kernel_.norm
    distances = input_distances(far, machine.support_vectors_, norm)
    log_sums = logsumexp(-gamma * distances, b=machine.dual_coef_[0], axis=1)
    expected = log_sums - np.log(machine.offset_)

    found = machine.log_ratio(far)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-4)
    signs = np.sign(machine.decision_function(x))
    found_signs = np.sign(machine.log_ratio(x))
    assert (found_signs == signs).all()


@pytest.mark.parametrize("nu", [0.055, 0.3, 0.985])
def test_one_class_is_scikit_learns_divided_by_nu_n(nu):
    """With every row at its bound it is a density estimate."""
    x, _ = two_clouds(100)
    theirs = ScikitOneClass(nu=nu, gamma=0.3, tol=1e-7).fit(x)
    ours = OneClassSVM(Gaussian(0.3), nu=nu, tol=1e-7).fit(x)
    density = OneClassSVM(Gaussian(0.3), nu=1.0)
    ours_scaled = nu * 100 * ours.decision_function(x)
    expected = theirs.decision_function(x)
    assert_allclose(ours_scaled, expected, atol=1e-3)
    assert np.sum(ours.dual_coef_) == pytest.approx(1.0)
    few = x[:50]
    scores = density.fit(few).score_samples(few)
    expected = Gaussian(0.3)(few, few).mean(axis=1)
    assert_allclose(scores, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "machine",
    [
        *(
            MultiClassSVM(Gaussian(1.0), C=50.0, scheme=scheme, cost_ratio="balanced")
            for scheme in SCHEMES
        ),
        OneClassSVM(nu=0.2, factor=MarginDensity(), passes=2),
        TwoClassSVM(factor=MarginDensity(), passes=2, normalise=True),
        MultiClassSVM(factor=ClassDecay("local", Q=0.3), passes=2),
    ],
    ids=lambda machine: f"{machine.name}-{getattr(machine, 'scheme', '')}",
)
def test_every_pass_is_optimal_to_the_tolerance(machine):
    x, y = three_clouds(150)
    if machine.name == "two_class":
        y = (y == "a").astype(int)
    machine.fit(x, y)
    for one in machine.passes_:
        assert one["kkt_gap"] <= 1.05e-3
    assert machine.kkt_gap_ == max(one["kkt_gap"] for one in machine.passes_)


KERNEL = Gaussian(0.3)


def e_smote_fit(x, y, **given):
    remedies = (ESmote(seed=3),)
    machine = TwoClassSVM(KERNEL, C=5.0, tol=1e-9, remedies=remedies, **given)
    return machine.fit(x, y)


def test_smote_stored_rows():
    """E-SMOTE stores training rows alone and SMOTE its synthetic ones."""
    x, y = two_clouds(60)
    in_feature_space = e_smote_fit(x, y)
    in_input_space = TwoClassSVM(KERNEL, C=5.0, remedies=(Smote(),)).fit(x, y)

    assert in_feature_space.support_.max() < 60
    assert_array_equal(in_feature_space.support_vectors_, x[in_feature_space.support_])
    synthetic = in_input_space.support_ >= 60
    assert synthetic.any()
    assert np.all(in_input_space.dual_coef_[0, synthetic] > 0)


@pytest.mark.parametrize("remedy", [Smote(), ESmote()])
def test_a_single_positive_row_has_nothing_to_interpolate_with(remedy):
    x = two_clouds(30)[0]
    y = (np.arange(30) == 4).astype(int)
    plain = TwoClassSVM(KERNEL, remedies=()).fit(x, y)
    remedied = TwoClassSVM(KERNEL, remedies=(remedy,)).fit(x, y)
    expected = plain.decision_function(x)
    assert_array_equal(remedied.decision_function(x), expected)


def test_e_smote_combines_with_a_factor_and_costs():
    x, y = two_clouds(60)
    machine = e_smote_fit(x, y, factor=MarginDecay(k=2.0), passes=2)
    none = e_smote_fit(x, y, factor=MarginDecay(k=0.0), passes=2)
    plain = e_smote_fit(x, y)
    remedies = (UnequalCosts(4.0), ESmote())
    dear = TwoClassSVM(KERNEL, C=5.0, remedies=remedies).fit(x, y)
    assert np.ptp(machine.factor_at(x)) > 0.1
    expected = plain.decision_function(x)
    decisions = none.decision_function(x)
    assert_allclose(decisions, expected, atol=1e-6)
    flag_rate = plain.predict(x).mean()
    assert dear.predict(x).mean() >= flag_rate


def skewed_clouds() -> tuple[np.ndarray, np.ndarray]:
    """Return two overlapping clouds, the second of one row in eight."""
    y = (np.arange(160) % 8 == 0).astype(int)
    noise = default_rng(0).normal(size=(160, 2))
    return noise + 1.5 * y[:, None], y


def test_pruning_inner_folds():
    """Pruning by inner folds finds removals that help a skewed machine."""
    x, y = skewed_clouds()
    pruning = Pruning(most=15, inner_trials=5, trials=5)
    inner = TwoClassSVM(KERNEL, remedies=(pruning,)).fit(x, y)
    plain = TwoClassSVM(KERNEL).fit(x, y)
    cases = x[y == 1]
    assert 0 < len(inner.pruning_path_) <= 15
    assert inner.predict(cases).mean() > plain.predict(cases).mean()


def test_pruning_curve_on_held_out_rows():
    """Inner folds choose the number of removals with the largest G-mean they noted."""
    x, y = skewed_clouds()
    pruning = Pruning(most=15, inner_trials=5, trials=5)
    machine = TwoClassSVM(KERNEL, remedies=(pruning,)).fit(x, y)
    curve = np.array(machine.passes_[-1]["pruning_curve"])

    recalls = np.column_stack([curve[:, 0], 1 - curve[:, 1]])

    assert curve.shape == (16, 2)
    assert ((curve >= 0) & (curve <= 1)).all()
    best = recalls.prod(axis=1).argmax()
    assert best == len(machine.pruning_path_)


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
KINDS = {
    "one_class": OneClassSVM,
    "two_class": TwoClassSVM,
    "multi_class": MultiClassSVM,
}
AWKWARD += [
    KINDS[kind](
        Gaussian() if "gaussian" in factor.kernels else Laplacian(),
        factor=factor(),
        passes=2,
    )
    for factor in FACTORS.values()
    for kind in sorted(factor.machines)
]


VALUES = [-1e3, -1.0, 0.0, 0.5, 1.0, 50.0]


@pytest.mark.repeated
@settings(max_examples=examples(20, 60))
@given(
    x=arrays(np.float64, (12, 2), elements=st.sampled_from(VALUES)),
    n_positive=st.integers(1, 11),
    machine=st.sampled_from(AWKWARD),
)
def test_duplicates_constants_and_single_rows_are_learned_from(x, n_positive, machine):
    """And c is finite and positive there and far away."""
    y = (np.arange(12) < n_positive).astype(int)
    fitted = clone(machine).fit(x, y)
    far = np.vstack([x, [[1e6, -1e6]]])
    c = fitted.factor_at(far)
    assert np.isfinite(fitted.decision_function(far)).all()
    assert fitted.kkt_gap_ <= 1.05e-3
    assert np.isfinite(c).all()
    largest = fitted.factor_at(x).max(axis=0)
    assert np.all(c >= FLOOR * largest * (1 - 1e-9))


@pytest.mark.parametrize("machine", MACHINES[:-1], ids=ids)
def test_fit_caches_end_with_it(machine):
    """Grams go back with their last user; until a garbage collection those of many fits
    would add up.
    """
    x, y = rows_for(machine)
    # Compiling leaves traces of its own.
    clone(machine).fit(x, y).decision_function(x)
    gc.disable()
    try:
        cache = KernelCache(x)
        (fitted,) = clone(machine).fit_each([machine.factor], x, y, cache=cache)
        fitted.decision_function(x)
        kept = [ref(cache), ref(fitted.passes_kept)]
        del cache, fitted
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("machine", MACHINES[:-1], ids=ids)
def test_fitted_machine_travels_with_one_copy_of_its_rows(machine):
    x, y = rows_for(machine)
    fitted = clone(machine).fit(x, y)
    wide = np.hstack([x, np.zeros((len(x), 400))])
    fitted_wide = clone(machine).fit(wide, y)

    n_added = len(pickle.dumps(fitted_wide)) - len(pickle.dumps(fitted))

    n_kept = fitted_wide.passes_kept.rows.nbytes - fitted.passes_kept.rows.nbytes
    assert n_added < 1.2 * n_kept
