"""Factors: what the papers print, positive everywhere, recomputed from the row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import three_clouds, two_clouds

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM, factors
from screening.factors import (
    FACTORS,
    AdaptiveBumps,
    Bumps,
    ClassDecay,
    DistanceDecay,
    MarginDensity,
    why_not,
)
from screening.kernels import FLOOR, Gaussian, Laplacian, input_distances, rescaled

MAKERS = {
    "one_class": lambda **given: OneClassSVM(nu=0.3, **given),
    "two_class": lambda **given: TwoClassSVM(C=5.0, **given),
    "multi_class": lambda **given: MultiClassSVM(C=5.0, **given),
}
COMPOSED = [(name, kind) for name, factor in FACTORS.items() for kind in sorted(factor.machines)]


def fitted(name: str, kind: str, x: np.ndarray, codes: np.ndarray, **given):
    factor = FACTORS[name]()
    kernel = Gaussian() if "gaussian" in factor.kernels else Laplacian()
    y = {"two_class": (codes == codes.max()).astype(int)}.get(kind, codes)
    return MAKERS[kind](kernel=kernel, factor=factor, **given).fit(x, y)


@pytest.mark.parametrize(("name", "kind"), COMPOSED)
def test_rescaled_kernel_is_still_a_kernel(name, kind):
    x, y = three_clouds(60)
    machine = fitted(name, kind, x, np.unique(y, return_inverse=True)[1])

    gram = machine.kernel_(x, x)
    for c in machine.factor_at(x).T:
        assert c.min() > 0
        assert np.linalg.eigvalsh(rescaled(gram, c, c)).min() > -1e-10 * np.square(c).max()


@pytest.mark.parametrize(("name", "kind"), COMPOSED)
def test_no_pass_is_the_plain_machine(name, kind):
    x, y = three_clouds(60)
    codes = np.unique(y, return_inverse=True)[1]
    none = fitted(name, kind, x, codes, passes=0)
    plain = MAKERS[kind](kernel=none.kernel)
    plain.fit(x, {"two_class": (codes == codes.max()).astype(int)}.get(kind, codes))

    np.testing.assert_array_equal(none.decision_function(x), plain.decision_function(x))
    np.testing.assert_array_equal(none.factor_at(x), 1.0)


@settings(max_examples=25, deadline=None)
@given(
    x=arrays(np.float64, (12, 2), elements=st.sampled_from([-1e3, -1.0, 0.0, 0.5, 1.0, 50.0])),
    n_positive=st.integers(1, 11),
    composed=st.sampled_from(COMPOSED),
)
def test_c_is_finite_and_positive_with_duplicates_constants_and_single_rows(x, n_positive, composed):
    codes = (np.arange(12) < n_positive).astype(int)
    machine = fitted(*composed, x, codes, passes=2)
    far = np.vstack([x, [[1e6, -1e6]]])

    c = machine.factor_at(far)

    assert np.isfinite(c).all()
    assert np.all(c >= FLOOR * machine.factor_at(x).max(axis=0) * (1 - 1e-9))
    assert np.isfinite(machine.decision_function(far)).all()


@pytest.mark.parametrize("width", [0.0, -1.0, float("inf")])
def test_width_out_of_range_is_refused(width):
    with pytest.raises(ValueError, match="width"):
        MarginDensity(width=width)


def test_one_class_factor_has_root_mean_square_one_over_training_rows():
    x, _ = two_clouds(80)
    machine = OneClassSVM(nu=0.2, factor=MarginDensity()).fit(x)
    assert np.sqrt(np.mean(np.square(machine.factor_at(x)))) == pytest.approx(1.0)


def first_stage(x: np.ndarray, y: np.ndarray, new: np.ndarray):
    """Decisions at new rows and, a class, its machine's support vectors and their labels."""
    plain = MultiClassSVM(Gaussian(0.5), C=5.0).fit(x, y)
    used = [coefficients != 0 for coefficients in plain.dual_coef_]
    vectors = [plain.support_vectors_[each] for each in used]
    own = [y[plain.support_][each] == name for each, name in zip(used, plain.classes_, strict=True)]
    return plain.decision_function(new), vectors, own


def feature_distances(new: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return 2.0 - 2.0 * np.exp(-0.5 * np.square(new[:, None] - vectors).sum(axis=-1))


def test_class_decay_weighted_is_equations_16_17_and_19():
    x, y = three_clouds(90)
    new = np.random.default_rng(1).normal(size=(20, 2)) * 2
    decisions, vectors, _ = first_stage(x, y, new)
    inverse = np.array([np.sum(y == name) for name in "abc"], float) ** -2
    rates = [
        w * feature_distances(new, each).mean(axis=1)
        for w, each in zip(inverse / inverse.sum(), vectors, strict=True)
    ]
    every = np.exp(-np.abs(decisions) * np.column_stack(rates))

    machine = MultiClassSVM(Gaussian(0.5), C=5.0, factor=ClassDecay("weighted")).fit(x, y)
    apart = MultiClassSVM(Gaussian(0.5), C=5.0, factor=ClassDecay("weighted", per_class=True)).fit(x, y)

    expected = every[np.arange(20), decisions.argmax(axis=1)]
    np.testing.assert_allclose(machine.factor_at(new)[:, 0], expected, rtol=1e-9)
    np.testing.assert_allclose(apart.factor_at(new), every, rtol=1e-9)


def test_local_decay_of_no_reach_gives_k_back():
    x, y = three_clouds(60)
    plain = MultiClassSVM(Gaussian(0.5)).fit(x, y)
    machine = MultiClassSVM(Gaussian(0.5), factor=ClassDecay("local", Q=1e-12)).fit(x, y)

    np.testing.assert_allclose(machine.decision_function(x), plain.decision_function(x), atol=1e-9)


@pytest.mark.parametrize(
    ("factor", "machine", "scheme", "kernel", "sides"),
    [
        (ClassDecay(), "two_class", None, "gaussian", ("class_decay", "two_class")),
        (MarginDensity(), "one_class", None, "laplacian", ("margin_density", "laplacian")),
        (MarginDensity(), "multi_class", "crammer_singer", "gaussian", ("crammer_singer", "margin_density")),
        (ClassDecay(), "multi_class", "one_vs_one", "gaussian", ("class_decay", "one_vs_one")),
        (Bumps(), "two_class", None, "laplacian", ("bumps", "laplacian")),
        (AdaptiveBumps(), "one_class", None, "laplacian", ("adaptive_bumps", "one_class")),
        (DistanceDecay(), "multi_class", "simplified", "gaussian", ("simplified", "distance_decay")),
    ],
)
def test_refusals_name_both_sides(factor, machine, scheme, kernel, sides):
    reason = why_not(factor, machine, scheme, kernel)
    assert [side in str(reason) for side in sides] == [True, True]


@pytest.mark.parametrize("factor", FACTORS.values(), ids=list(FACTORS))
def test_factors_are_frozen_values_that_can_be_imported_by_name(factor):
    assert factor() == factor()
    assert hash(factor()) == hash(factor())
    assert getattr(factors, factor.__name__) is factor
    assert factor.scope in ("output", "joint")


@pytest.mark.parametrize("n_features", [2, 30])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_input_distances_are_exact_far_from_the_origin(n_features, offset):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(15, n_features)) + offset, rng.normal(size=(9, n_features)) + offset
    gaps = x[:, None] - z

    np.testing.assert_allclose(input_distances(x, z, 2), np.square(gaps).sum(axis=-1), rtol=1e-9)
    np.testing.assert_allclose(input_distances(x, z, 1), np.abs(gaps).sum(axis=-1), rtol=1e-12)
    np.testing.assert_array_equal(np.diagonal(input_distances(x, x, 2)), 0.0)


@pytest.mark.parametrize("gamma", ["scale*", "scale*-1", "auto", 0.0, -1.0, float("nan"), True])
def test_gamma_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma"):
        Gaussian(gamma)


@pytest.mark.parametrize("kernel", [Gaussian("scale*0.5"), Laplacian("scale*2")])
def test_relative_gamma_makes_kernels_free_of_the_unit(kernel):
    x, _ = two_clouds(20)
    here, there = kernel.resolved(x), kernel.resolved(1000 * x)
    np.testing.assert_allclose(there(1000 * x, 1000 * x), here(x, x), rtol=1e-9)
