"""Factors: what the papers print, positive everywhere, recomputed from the row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from machines_cohort import three_clouds, two_clouds

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
        MarginDecay(kappa=0.0), MarginDecay(k=1e-9), OneSidedMarginDecay(kappa=0.0),
        OneSidedMarginDecay(kappa_pos=0.0, kappa_neg=0.0),
    ],
    ids=repr,
)  # fmt: skip
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
        (MarginDecay, {"kappa": -1.0}, "kappa"), (MarginDecay, {"kappa": "scale"}, "kappa"),
        (MarginDecay, {"k": float("inf")}, "k must"), (OneSidedMarginDecay, {"kappa_neg": -1.0}, "kappa_neg"),
        (DistanceDecay, {"empty": "far"}, "empty"), (Bumps, {"h": "two"}, "h must"),
        (Bumps, {"width": 0.0}, "width"), (MarginDensity, {"width": float("inf")}, "width"),
        (LocalBumps, {"M": 0}, "M must"), (AdaptiveBumps, {"distance": "both"}, "distance"),
        (AdaptiveBumps, {"norm": 3}, "norm"),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(factor, given, word):
    with pytest.raises(ValueError, match=word):
        factor(**given)
