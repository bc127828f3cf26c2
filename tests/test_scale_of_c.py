"""Whatever the factor and the number of features: decisions are finite and spread, nu is kept, costs too."""

import numpy as np
import pytest
from independent.duals import certificate

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM
from screening.estimators.remedies import UnequalCosts
from screening.factors import FACTORS
from screening.kernels import FLOOR, Gaussian
from screening.solvers import Problem, smo

N_FEATURES = (2, 50)
PASSES = 2
COMPOSED = [(name, kind) for name, factor in FACTORS.items() for kind in sorted(factor.machines)]
MAKERS = {"one_class": OneClassSVM, "two_class": TwoClassSVM, "multi_class": MultiClassSVM}


def rows(n_features: int, n_rows: int = 150) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_features)
    codes = np.arange(n_rows) % 3
    return rng.normal(size=(n_rows, n_features)) + 0.7 * codes[:, None], codes


@pytest.mark.parametrize("n_features", N_FEATURES)
@pytest.mark.parametrize(("name", "kind"), COMPOSED)
def test_decisions_are_finite_and_spread_after_every_pass(name, kind, n_features):
    x, codes = rows(n_features)
    y = {"two_class": codes == 2}.get(kind, codes)
    machine = MAKERS[kind](factor=FACTORS[name](), passes=PASSES).fit(x, y)

    for passes in range(PASSES + 1):
        decisions = machine._passes.decisions(x, upto=passes)
        assert np.isfinite(decisions).all()
        # Where every row of a large c is of one class, f is rightly 1 there and all but 1 elsewhere.
        moved = (
            decisions - {True: 0.0, False: machine._passes.chain[passes].dual.intercept}[kind == "one_class"]
        )
        assert np.all(np.ptp(moved, axis=0) > 1e-9 * np.abs(moved).max(axis=0))


@pytest.mark.parametrize("n_features", N_FEATURES)
@pytest.mark.parametrize("nu", [0.05, 0.5])
@pytest.mark.parametrize("name", [name for name, kind in COMPOSED if kind == "one_class"])
def test_share_outside_is_nu_after_every_pass(name, nu, n_features):
    x = np.random.default_rng(0).normal(size=(300, n_features))
    machine = OneClassSVM(nu=nu, factor=FACTORS[name](), passes=PASSES).fit(x)

    for passes, one in enumerate(machine._passes.chain):
        outside = (machine._passes.decisions(x, upto=passes) < 0).mean()
        # Free support vectors are on the boundary, to the tolerance: they may lie on either side of it.
        assert abs(outside - nu) <= 0.03 + one.dual.margin.mean()


def test_one_class_problem_of_twelve_decades_of_c_is_solved_to_its_own_level():
    rng = np.random.default_rng(0)
    n = 300
    c = 10.0 ** rng.uniform(-12, 0, n)
    gram = Gaussian(0.1)(x := rng.normal(size=(n, 6)), x)
    problem = Problem(gram, np.ones(n), c, np.zeros(n), np.full(n, 1 / (0.2 * n)), 1.0)

    solution = smo.solve(problem, 1e-3)

    gradient = problem.gradient(solution.alphas)
    level = gradient @ solution.alphas
    free = problem.free(solution.alphas)
    at_bound = solution.alphas >= 0.999 * problem.upper
    assert level < 1e-15
    assert certificate(problem, solution.alphas)[1] <= 1.1e-3
    assert np.abs(gradient[free] + solution.intercept).max(initial=0.0) <= 1e-3 * level
    assert (gradient[at_bound & ~free] + solution.intercept).max() <= 1e-3 * level
    assert (gradient[solution.alphas == 0] + solution.intercept).min() >= -1e-3 * level


@pytest.mark.parametrize("height", [1e-9, 0.03, 10.0])
def test_a_constant_in_c_is_a_constant_in_the_costs(height, monkeypatch):
    # K~ times s^2 with C is K~ with C s^2.
    x, codes = rows(4)
    y = codes == 2
    factor = FACTORS["margin_decay"]
    plain = TwoClassSVM(Gaussian(0.2), C=height**2 * 3.0, tol=1e-6).fit(x, y)
    log_c = np.log(height)
    monkeypatch.setattr(factor, "log_at", lambda self, first, _: np.full(len(first.x), log_c))
    machine = TwoClassSVM(Gaussian(0.2), C=3.0, factor=factor(kappa=0.0), tol=1e-6).fit(x, y)

    decisions = plain.decision_function(x)
    np.testing.assert_allclose(machine.decision_function(x), decisions, atol=1e-4 * np.ptp(decisions))


# A large c is a large cost, and an SVM of classes that overlap takes for ever at a cost of e^200.
@pytest.mark.parametrize(
    ("kind", "size"),
    [(kind, size) for kind in MAKERS for size in (-3e4, -50.0)] + [("one_class", 200.0), ("one_class", 3e4)],
)
def test_logs_beyond_every_exponent_still_give_finite_machines(kind, size, monkeypatch):
    x, codes = rows(3)
    y = {"two_class": codes == 2}.get(kind, codes)
    factor = FACTORS["margin_decay"]
    monkeypatch.setattr(factor, "log_at", lambda self, first_pass, _: size + first_pass.x[:, 0])
    machine = MAKERS[kind](factor=factor(), passes=PASSES).fit(x, y)

    c = machine.factor_at(np.vstack([x, 1e3 + x]))

    assert np.isfinite(c).all()
    assert c.min() >= 0.9 * FLOOR * c[: len(x)].max()
    assert np.isfinite(machine.decision_function(1e3 + x)).all()


def balanced(x: np.ndarray, y: np.ndarray, cost: float) -> float:
    machine = TwoClassSVM(C=cost, remedies=(UnequalCosts("balanced"),), tol=1e-6)
    return float(machine.fit(x, y).intercept_[0])


@pytest.mark.parametrize("cost", [1e-4, 1e-3, 1e-2])
def test_intercept_of_balanced_costs_does_not_flip_between_subsets(cost):
    rng = np.random.default_rng(0)
    y = np.arange(150) % 7 == 0
    x = rng.normal(size=(150, 5)) + y[:, None]
    subsets = [np.sort(rng.permutation(150)[:size]) for size in range(100, 130)]

    intercepts = [balanced(x[part], y[part], cost) for part in subsets]

    # All alphas are at their bounds: anything from -1 to 1 meets the conditions, the middle is near 0.
    assert np.abs(intercepts).max() < 0.2
