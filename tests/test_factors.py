"""Factors: what the papers print, positive everywhere, recomputed from the row."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import three_clouds, two_clouds
from sklearn.base import clone

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
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


def test_one_class_factor_has_root_mean_square_one_over_training_rows():
    x, _ = two_clouds(80)
    machine = OneClassSVM(nu=0.2, factor=MarginDensity()).fit(x)
    assert np.sqrt(np.mean(np.square(machine.factor_at(x)))) == pytest.approx(1.0)


@pytest.mark.parametrize("n_features", [2, 30])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_input_distances_are_exact_far_from_the_origin(n_features, offset):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(15, n_features)) + offset, rng.normal(size=(9, n_features)) + offset
    gaps = x[:, None] - z

    np.testing.assert_allclose(input_distances(x, z, 2), np.square(gaps).sum(axis=-1), rtol=1e-9)
    np.testing.assert_allclose(input_distances(x, z, 1), np.abs(gaps).sum(axis=-1), rtol=1e-12)
    np.testing.assert_array_equal(np.diagonal(input_distances(x, x, 2)), 0.0)


@pytest.mark.parametrize("kernel", [Gaussian("scale*0.5"), Laplacian("scale*2")])
def test_relative_gamma_makes_kernels_free_of_the_unit(kernel):
    x, _ = two_clouds(20)
    here, there = kernel.resolved(x), kernel.resolved(1000 * x)
    np.testing.assert_allclose(there(1000 * x, 1000 * x), here(x, x), rtol=1e-9)


KERNEL = Laplacian(0.4)
NEW = np.random.default_rng(1).normal(size=(25, 3)) * 1.5


def squares(x, z):
    return np.square(x[:, None] - z).sum(axis=-1)


def liu_and_he(one):
    """By the mean distance to the near support vectors across, or to the nearest where none is near."""
    distances, means = 2.0 - 2.0 * np.exp(-one.apart / (2 * 1.2**2)), []
    for row, across in zip(distances, one.labels != np.sign(one.f)[:, None], strict=True):
        near = row[across & (row < (row.min() + row.max()) / 2)]
        means.append(near.mean() if len(near) else row[across].min())
    return np.exp(-np.abs(one.f) * means)


# What no recipe sets; what recipes do is held to independent implementations (`test_agreement.py`).
OPTIONS = {
    Bumps(h="alpha"): lambda one: np.exp(-one.apart / (2 * 1.2**2 / 3)) @ one.alphas,
    LocalBumps(M=500, drop_wrong_side=False): lambda one: np.exp(-one.apart / one.reach).sum(axis=1),
    MarginDecay(kappa=0.7): lambda one: np.exp(-0.7 * one.f**2),
    OneSidedMarginDecay(kappa_pos=0.1, kappa_neg=0.9): (
        lambda one: np.exp(-np.where(one.f >= 0, 0.1, 0.9) * one.f**2)
    ),
    DistanceDecay("nearest"): liu_and_he,
}


@pytest.mark.parametrize("factor", OPTIONS, ids=repr)
def test_options_are_their_formulas_of_the_first_pass(factor):
    x, y = two_clouds(80)
    machine = TwoClassSVM(Gaussian.from_sigma(1.2), C=3.0).fit(x, y)
    vectors = machine.support_vectors_
    one = SimpleNamespace(
        f=machine.decision_function(NEW), apart=squares(NEW, vectors), alphas=np.abs(machine.dual_coef_[0]),
        labels=np.where(y == 1, 1, -1)[machine.support_],
        reach=squares(vectors, vectors).sum(axis=1) / (len(vectors) - 1),
    )  # fmt: skip

    c = TwoClassSVM(machine.kernel, C=3.0, factor=factor).fit(x, y).factor_at(NEW)[:, 0]

    np.testing.assert_allclose(c, OPTIONS[factor](one), rtol=1e-8)


LIMITS = [
    *(
        TwoClassSVM(KERNEL, factor=factor, passes=3)
        for factor in (
            MarginDecay(kappa=0.0), MarginDecay(k=1e-9), OneSidedMarginDecay(kappa=0.0),
            OneSidedMarginDecay(kappa_pos=0.0, kappa_neg=0.0),
        )
    ),
    MultiClassSVM(Gaussian(0.5), factor=ClassDecay("local", Q=1e-12)),
    # Bumps without end are constant; divided by their root mean square they are 1.
    TwoClassSVM(Gaussian(0.3), factor=Bumps(width=1e7), passes=2, normalise=True),
    OneClassSVM(Gaussian(0.3), factor=Bumps(width=1e7), passes=2),
]  # fmt: skip


@pytest.mark.parametrize("machine", LIMITS, ids=lambda machine: f"{machine.name}-{machine.factor!r}")
def test_limit_of_a_factor_gives_k_back(machine):
    x, y = {"multi_class": three_clouds}.get(machine.name, two_clouds)()
    machine = machine.set_params(tol=1e-8).fit(x, y)
    plain = clone(machine).set_params(passes=0).fit(x, y)

    np.testing.assert_allclose(machine.decision_function(x), plain.decision_function(x), atol=1e-5)


def test_factor_of_a_class_is_that_of_its_own_two_class_machine():
    x, y = three_clouds()
    several = MultiClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), passes=2).fit(x, y)
    pairs = MultiClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), scheme="one_vs_one").fit(x, y)
    alone = TwoClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), passes=2).fit(x, (y == "b").astype(int))
    two = np.flatnonzero(y != "a")
    pair = TwoClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps()).fit(x[two], (y[two] == "c").astype(int))

    np.testing.assert_allclose(several.factor_at(x)[:, 1], alone.factor_at(x)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(pairs.factor_at(x)[:, 2], pair.factor_at(x)[:, 0], rtol=1e-6)
