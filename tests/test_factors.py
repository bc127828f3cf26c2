"""Factors: what the papers print, positive everywhere, finite at any scale, recomputed
from the row.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from independent.duals import certificate
from machines_cohort import three_clouds, two_clouds
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.remedies import UnequalCosts
from screening.factors import (
    FACTORS,
    Bumps,
    ClassDecay,
    DistanceDecay,
    LocalBumps,
    MarginDecay,
    MarginDensity,
    OneSidedMarginDecay,
)
from screening.kernels import FLOOR, Gaussian, Laplacian, input_distances, rescaled
from screening.solvers import Problem, smo

MACHINES = {
    "one_class": OneClassSVM,
    "two_class": TwoClassSVM,
    "multi_class": MultiClassSVM,
}
COMPOSED = [
    (name, kind) for name, factor in FACTORS.items() for kind in sorted(factor.machines)
]


def fitted(
    name: str,
    kind: str,
    x: np.ndarray,
    codes: np.ndarray,
    **given,
):
    factor = FACTORS[name]()
    kernel = Gaussian() if "gaussian" in factor.kernels else Laplacian()
    machine = MACHINES[kind](kernel=kernel, factor=factor, **given)
    return machine.fit(x, labels(kind, codes))


def labels(kind: str, codes: np.ndarray) -> np.ndarray:
    """Return the class codes, or whether a row is of the last class of three."""
    return codes == 2 if kind == "two_class" else codes


@pytest.mark.parametrize(("name", "kind"), COMPOSED)
def test_rescaled_kernel_is_still_a_kernel(name, kind):
    """Without a pass it is the plain machine."""
    x, y = three_clouds(60)
    codes = np.unique(y, return_inverse=True)[1]
    machine = fitted(name, kind, x, codes, passes=1)
    none = fitted(name, kind, x, codes, passes=0)
    plain = MACHINES[kind](kernel=none.kernel)
    plain.fit(x, labels(kind, codes))

    gram = machine.kernel_(x, x)
    for c in machine.factor_at(x).T:
        assert c.min() > 0
        eigenvalues = np.linalg.eigvalsh(rescaled(gram, c, c))
        assert eigenvalues.min() > -1e-10 * np.square(c).max()
    expected = plain.decision_function(x)
    assert_array_equal(none.decision_function(x), expected)
    assert_array_equal(none.factor_at(x), 1.0)


@pytest.mark.parametrize("n_features", [2, 30])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_input_distances_are_exact_far_from_the_origin(n_features, offset):
    rng = default_rng(0)
    x = rng.normal(size=(15, n_features)) + offset
    z = rng.normal(size=(9, n_features)) + offset
    gaps = x[:, None] - z
    squared = np.square(gaps).sum(axis=-1)
    absolute = np.abs(gaps).sum(axis=-1)
    own = input_distances(x, x, 2)
    assert_allclose(input_distances(x, z, 2), squared, rtol=1e-9)
    assert_allclose(input_distances(x, z, 1), absolute, rtol=1e-12)
    assert_array_equal(np.diagonal(own), 0.0)


@pytest.mark.parametrize("kernel", [Gaussian("scale*0.5"), Laplacian("scale*2")])
def test_relative_gamma_makes_kernels_free_of_the_unit(kernel):
    """And the factor of one class has a root mean square of one."""
    x, _ = two_clouds(80)
    here = kernel.resolved(x)
    there = kernel.resolved(1000 * x)
    machine = OneClassSVM(nu=0.2, factor=MarginDensity())
    c = machine.fit(x).factor_at(x)
    expected = here(x, x)
    assert_allclose(there(1000 * x, 1000 * x), expected, rtol=1e-9)
    root_mean_square = np.sqrt(np.mean(np.square(c)))
    assert root_mean_square == pytest.approx(1.0)


KERNEL = Laplacian(0.4)
NEW = default_rng(1).normal(size=(25, 3)) * 1.5


def squares(x, z):
    gaps = x[:, None] - z
    return np.square(gaps).sum(axis=-1)


def liu_and_he(one):
    """By the mean distance to the near support vectors across, or to the nearest where
    none is near.
    """
    distances = 2.0 - 2.0 * np.exp(-one.apart / (2 * 1.2**2))
    is_across = one.labels != np.sign(one.f)[:, None]
    means = []
    for row, across in zip(distances, is_across, strict=True):
        reach = (row.min() + row.max()) / 2
        near = row[across & (row < reach)]
        means.append(near.mean() if len(near) else row[across].min())
    return np.exp(-np.abs(one.f) * means)


def bumps(one):
    tau_squared = 1.2**2 / 3
    return np.exp(-one.apart / (2 * tau_squared)) @ one.alphas


def local_bumps(one):
    return np.exp(-one.apart / one.reach).sum(axis=1)


def margin_decay(one):
    return np.exp(-0.7 * one.f**2)


def one_sided_decay(one):
    kappa = np.where(one.f >= 0, 0.1, 0.9)
    return np.exp(-kappa * one.f**2)


# What no recipe sets; what recipes do is held to independent implementations
# (`test_agreement.py`).
OPTIONS = {
    Bumps(h="alpha"): bumps,
    LocalBumps(M=500, drop_wrong_side=False): local_bumps,
    MarginDecay(kappa=0.7): margin_decay,
    OneSidedMarginDecay(kappa_pos=0.1, kappa_neg=0.9): one_sided_decay,
    DistanceDecay("nearest"): liu_and_he,
}


@pytest.mark.parametrize("factor", OPTIONS, ids=repr)
def test_options_are_their_formulas_of_the_first_pass(factor):
    x, y = two_clouds(80)
    machine = TwoClassSVM(Gaussian.from_sigma(1.2), C=3.0).fit(x, y)
    vectors = machine.support_vectors_
    among = squares(vectors, vectors)
    signs = np.where(y == 1, 1, -1)
    one = SimpleNamespace(
        f=machine.decision_function(NEW),
        apart=squares(NEW, vectors),
        alphas=np.abs(machine.dual_coef_[0]),
        labels=signs[machine.support_],
        reach=among.sum(axis=1) / (len(vectors) - 1),
    )
    second = TwoClassSVM(machine.kernel, C=3.0, factor=factor)
    c = second.fit(x, y).factor_at(NEW)[:, 0]

    expected = OPTIONS[factor](one)
    assert_allclose(c, expected, rtol=1e-8)


WITHOUT_DECAY = [
    MarginDecay(kappa=0.0),
    MarginDecay(k=1e-9),
    OneSidedMarginDecay(kappa=0.0),
    OneSidedMarginDecay(kappa_pos=0.0, kappa_neg=0.0),
]
LIMITS = [
    *(TwoClassSVM(KERNEL, factor=factor, passes=3) for factor in WITHOUT_DECAY),
    MultiClassSVM(Gaussian(0.5), factor=ClassDecay("local", Q=1e-12)),
    # Bumps without end are constant; divided by their root mean square they are 1.
    TwoClassSVM(Gaussian(0.3), factor=Bumps(width=1e7), passes=2, normalise=True),
    OneClassSVM(Gaussian(0.3), factor=Bumps(width=1e7), passes=2),
]


@pytest.mark.parametrize(
    "machine", LIMITS, ids=lambda machine: f"{machine.name}-{machine.factor!r}"
)
def test_limit_of_a_factor_gives_k_back(machine):
    if machine.name == "multi_class":
        x, y = three_clouds()
    else:
        x, y = two_clouds()
    machine = machine.set_params(tol=1e-8).fit(x, y)
    plain = clone(machine).set_params(passes=0)
    expected = plain.fit(x, y).decision_function(x)
    decisions = machine.decision_function(x)
    assert_allclose(decisions, expected, atol=1e-5)


N_FEATURES = (2, 50)
PASSES = 2


def rows(n_features: int, n_rows: int = 150) -> tuple[np.ndarray, np.ndarray]:
    rng = default_rng(n_features)
    codes = np.arange(n_rows) % 3
    noise = rng.normal(size=(n_rows, n_features))
    return noise + 0.7 * codes[:, None], codes


@pytest.mark.parametrize("n_features", N_FEATURES)
@pytest.mark.parametrize(("name", "kind"), COMPOSED)
def test_decisions_are_finite_and_spread_after_every_pass(name, kind, n_features):
    x, codes = rows(n_features)
    machine = MACHINES[kind](factor=FACTORS[name](), passes=PASSES)
    machine.fit(x, labels(kind, codes))

    expansion = machine._expansion
    for passes in range(PASSES + 1):
        decisions = expansion.decisions(x, upto=passes)
        assert np.isfinite(decisions).all()
        # Where every row of a large c is of one class, f is rightly 1 there and all but
        # 1 elsewhere.
        constant = 0.0
        if kind != "one_class":
            constant = expansion.chain[passes].dual.intercept
        moved = decisions - constant
        spread = np.ptp(moved, axis=0)
        largest = np.abs(moved).max(axis=0)
        assert np.all(spread > 1e-9 * largest)


@pytest.mark.parametrize("n_features", N_FEATURES)
@pytest.mark.parametrize("nu", [0.05, 0.5])
@pytest.mark.parametrize(
    "name", [name for name, kind in COMPOSED if kind == "one_class"]
)
def test_share_outside_is_nu_after_every_pass(name, nu, n_features):
    x = default_rng(0).normal(size=(300, n_features))
    machine = OneClassSVM(nu=nu, factor=FACTORS[name](), passes=PASSES)
    machine.fit(x)
    expansion = machine._expansion
    for passes, one in enumerate(expansion.chain):
        decisions = expansion.decisions(x, upto=passes)
        outside = np.mean(decisions < 0)
        # Free support vectors are on the boundary, to the tolerance: they may lie on
        # either side of it.
        assert abs(outside - nu) <= 0.03 + one.dual.margin.mean()


def test_one_class_wide_range_of_c():
    """One class problem of twelve decades of c is solved to its own level."""
    rng = default_rng(0)
    n = 300
    c = 10.0 ** rng.uniform(-12, 0, n)
    x = rng.normal(size=(n, 6))
    gram = Gaussian(0.1)(x, x)
    ones = np.ones(n)
    upper = ones / (0.2 * n)
    problem = Problem(gram, ones, c, 0.0 * ones, upper, 1.0)

    solution = smo.solve(problem, 1e-3)

    alphas = solution.alphas
    gradient = problem.gradient(alphas)
    level = gradient @ alphas
    free = problem.free(alphas)
    at_bound = alphas >= 0.999 * upper
    slack = gradient + solution.intercept
    assert level < 1e-15
    assert certificate(problem, alphas)[1] <= 1.1e-3
    assert np.abs(slack[free]).max(initial=0.0) <= 1e-3 * level
    assert slack[at_bound & ~free].max() <= 1e-3 * level
    assert slack[alphas == 0].min() >= -1e-3 * level


@pytest.mark.parametrize("height", [1e-9, 0.03, 10.0])
def test_a_constant_in_c_is_a_constant_in_the_costs(height, monkeypatch):
    # K~ times s^2 with C is K~ with C s^2.
    x, codes = rows(4)
    y = codes == 2
    factor = FACTORS["margin_decay"]
    kernel = Gaussian(0.2)
    plain = TwoClassSVM(kernel, C=height**2 * 3.0, tol=1e-6)
    plain.fit(x, y)
    log_c = np.log(height)
    monkeypatch.setattr(
        factor, "log_at", lambda self, first, _: np.full(len(first.x), log_c)
    )
    machine = TwoClassSVM(kernel, C=3.0, factor=factor(kappa=0.0), tol=1e-6)
    machine.fit(x, y)

    expected = plain.decision_function(x)
    close = 1e-4 * np.ptp(expected)
    decisions = machine.decision_function(x)
    assert_allclose(decisions, expected, atol=close)


# A large c is a large cost, and an SVM of classes that overlap takes for ever at a cost
# of e^200.
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *((kind, size) for kind in MACHINES for size in (-3e4, -50.0)),
        ("one_class", 200.0),
        ("one_class", 3e4),
    ],
)
def test_logs_beyond_every_exponent_still_give_finite_machines(kind, size, monkeypatch):
    x, codes = rows(3)
    factor = FACTORS["margin_decay"]
    monkeypatch.setattr(
        factor, "log_at", lambda self, first_pass, _: size + first_pass.x[:, 0]
    )
    machine = MACHINES[kind](factor=factor(), passes=PASSES)
    machine.fit(x, labels(kind, codes))
    far = 1e3 + x
    c = machine.factor_at(np.vstack([x, far]))

    assert np.isfinite(c).all()
    largest = c[: len(x)].max()
    assert c.min() >= 0.9 * FLOOR * largest
    assert np.isfinite(machine.decision_function(far)).all()


def balanced(x: np.ndarray, y: np.ndarray, cost: float) -> float:
    remedies = (UnequalCosts("balanced"),)
    machine = TwoClassSVM(C=cost, remedies=remedies, tol=1e-6)
    return float(machine.fit(x, y).intercept_[0])


@pytest.mark.parametrize("cost", [1e-4, 1e-3, 1e-2])
def test_intercept_of_balanced_costs_does_not_flip_between_subsets(cost):
    rng = default_rng(0)
    y = np.arange(150) % 7 == 0
    x = rng.normal(size=(150, 5)) + y[:, None]
    intercepts = []
    for size in range(100, 130):
        subset = np.sort(rng.permutation(150)[:size])
        intercepts.append(balanced(x[subset], y[subset], cost))
    # All alphas are at their bounds: anything from -1 to 1 meets the conditions, the
    # middle is near 0.
    assert np.abs(intercepts).max() < 0.2
