"""Each factor against its paper's equation, written out from the fitted attributes of the plain machine."""

from __future__ import annotations

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.factors import (
    AdaptiveBumps,
    Bumps,
    DistanceDecay,
    LocalBumps,
    MarginDecay,
    OneSidedMarginDecay,
)
from screening.kernels import Gaussian, Laplacian

KERNEL = Laplacian(0.4)
NEW = np.random.default_rng(1).normal(size=(25, 3)) * 1.5


class Plain:
    """The first pass, reckoned from public attributes alone."""

    def __init__(self, kernel, n_rows: int = 80):
        self.x, self.y = two_clouds(n_rows)
        self.machine = TwoClassSVM(kernel, C=3.0).fit(self.x, self.y)
        self.vectors = self.machine.support_vectors_
        self.labels = np.where(self.y == 1, 1, -1)[self.machine.support_]
        self.alphas = np.abs(self.machine.dual_coef_[0])
        self.right = self.labels * self.machine.decision_function(self.vectors) >= 0

    def features(self, x, z):
        return 2.0 - 2.0 * self.machine.kernel_(x, z)

    def factor(self, factor, x=NEW):
        return TwoClassSVM(self.machine.kernel, C=3.0, factor=factor).fit(self.x, self.y).factor_at(x)[:, 0]


def squares(x, z):
    return np.square(x[:, None] - z).sum(axis=-1)


@pytest.mark.parametrize("h", ["one", "alpha"])
def test_bumps_are_amari_and_wus(h):
    plain = Plain(Gaussian.from_sigma(1.2))
    heights = {"one": np.ones(len(plain.alphas)), "alpha": plain.alphas}[h]
    expected = np.exp(-squares(NEW, plain.vectors) / (2 * 1.2**2 / 3)) @ heights

    np.testing.assert_allclose(plain.factor(Bumps(h=h)), expected, rtol=1e-9)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("m", [1, 3, 500])
def test_local_bumps_are_as_wide_as_their_neighbours_are_near(m, drop):
    plain = Plain(KERNEL)
    vectors = plain.vectors[plain.right | (not drop)]
    among = np.sort(squares(vectors, vectors), axis=1)[:, 1 : m + 1]
    expected = np.exp(-squares(NEW, vectors) / among.mean(axis=1)).sum(axis=1)

    np.testing.assert_allclose(plain.factor(LocalBumps(M=m, drop_wrong_side=drop)), expected, rtol=1e-8)


def test_margin_decay_is_williams():
    plain = Plain(KERNEL)
    f = plain.machine.decision_function(NEW)
    largest = np.abs(plain.machine.decision_function(plain.x)).max()

    np.testing.assert_allclose(plain.factor(MarginDecay(k=2.0)), np.exp(-2.0 * f**2 / largest**2), rtol=1e-9)
    np.testing.assert_allclose(plain.factor(MarginDecay(kappa=0.7)), np.exp(-0.7 * f**2), rtol=1e-9)


def test_one_sided_margin_decay_is_marateas():
    plain = Plain(KERNEL)
    f = plain.machine.decision_function(NEW)
    share = plain.y.mean()
    by_class = np.exp(-np.where(f >= 0, 0.7 * 2 * share, 0.7 * 2 * (1 - share)) * f**2)
    given = np.exp(-np.where(f >= 0, 0.1, 0.9) * f**2)

    np.testing.assert_allclose(plain.factor(OneSidedMarginDecay(kappa=0.7)), by_class, rtol=1e-9)
    np.testing.assert_allclose(
        plain.factor(OneSidedMarginDecay(kappa_pos=0.1, kappa_neg=0.9)), given, rtol=1e-9
    )


@pytest.mark.parametrize("empty", ["zero", "nearest"])
def test_distance_decay_is_liu_and_hes(empty):
    plain = Plain(KERNEL)
    f = plain.machine.decision_function(NEW)
    distances = plain.features(NEW, plain.vectors)
    expected = []
    for value, row in zip(f, distances, strict=True):
        opposite = row[plain.labels != np.sign(value)]
        near = opposite[opposite < (row.min() + row.max()) / 2]
        alone = {"zero": 0.0, "nearest": opposite.min()}[empty]
        expected.append(np.exp(-abs(value) * (near.mean() if len(near) else alone)))

    np.testing.assert_allclose(plain.factor(DistanceDecay(empty)), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "factor",
    [
        MarginDecay(kappa=0.0),
        MarginDecay(k=1e-9),
        OneSidedMarginDecay(kappa=0.0),
        OneSidedMarginDecay(kappa_pos=0.0, kappa_neg=0.0),
    ],
    ids=repr,
)
def test_no_decay_gives_k_back(factor):
    x, y = two_clouds()
    plain = TwoClassSVM(KERNEL, tol=1e-8).fit(x, y).decision_function(NEW)
    machine = TwoClassSVM(KERNEL, tol=1e-8, factor=factor, passes=3).fit(x, y)

    np.testing.assert_allclose(machine.decision_function(NEW), plain, atol=1e-5)


@pytest.mark.parametrize("maker", [TwoClassSVM, OneClassSVM])
def test_a_constant_c_gives_k_back(maker):
    # Bumps without end are constant; divided by their root mean square they are 1.
    x, y = two_clouds()
    normalised = {TwoClassSVM: {"normalise": True}, OneClassSVM: {}}[maker]
    plain = maker(Gaussian(0.3), tol=1e-8).fit(x, y).decision_function(NEW)
    machine = maker(Gaussian(0.3), tol=1e-8, factor=Bumps(width=1e7), passes=2, **normalised).fit(x, y)

    np.testing.assert_allclose(machine.decision_function(NEW), plain, atol=1e-5)


def test_factor_of_a_class_is_that_of_its_own_two_class_machine():
    x, y = three_clouds()
    several = MultiClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), passes=2).fit(x, y)
    pairs = MultiClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), scheme="one_vs_one").fit(x, y)
    alone = TwoClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps(), passes=2).fit(x, (y == "b").astype(int))
    two = np.flatnonzero(y != "a")
    pair = TwoClassSVM(KERNEL, C=3.0, factor=AdaptiveBumps()).fit(x[two], (y[two] == "c").astype(int))

    np.testing.assert_allclose(several.factor_at(x)[:, 1], alone.factor_at(x)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(pairs.factor_at(x)[:, 2], pair.factor_at(x)[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("factor", "given", "word"),
    [
        (MarginDecay, {"kappa": -1.0}, "kappa"),
        (MarginDecay, {"kappa": "scale"}, "kappa"),
        (MarginDecay, {"k": float("inf")}, "k must"),
        (OneSidedMarginDecay, {"kappa_neg": -1.0}, "kappa_neg"),
        (DistanceDecay, {"empty": "far"}, "empty"),
        (Bumps, {"h": "two"}, "h must"),
        (Bumps, {"width": 0.0}, "width"),
        (LocalBumps, {"M": 0}, "M must"),
        (AdaptiveBumps, {"distance": "both"}, "distance"),
        (AdaptiveBumps, {"norm": 3}, "norm"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(factor, given, word):
    with pytest.raises(ValueError, match=word):
        factor(**given)
