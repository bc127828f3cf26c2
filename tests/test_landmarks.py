"""Training on landmarks: rows that stand for all, near what training on all gives,
whatever the classes.
"""

import numpy as np
import pytest
from flow_cohorts import patients
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel

from screening import MultiClassSVM, OneClassSVM, TwoClassSVM, train
from screening.estimators import landmarks
from screening.estimators.remedies import Smote, UnequalCosts
from screening.estimators.schemes import SCHEMES
from screening.factors import AdaptiveBumps, Bumps, ClassDecay, MarginDecay
from screening.kernels import Gaussian
from screening.model_selection import preparing

KERNEL = Gaussian(0.3)


def cloud(n=3000, seed=0, share=0.05):
    rng = default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    noise = rng.normal(size=(n, 3))
    return noise + 1.8 * y[:, None], y


def everywhere(first):
    return np.ones(3000, bool)


def test_every_row_of_a_class_is_stood_for_and_the_rare_class_is_whole():
    """A class rarer than a fifth weighs a fifth."""
    x, y = cloud(share=0.25)
    chosen = landmarks.choose_landmarks(x, y, 1800, everywhere, seed=0)
    weights = chosen.weights
    labels = y[chosen.rows]
    rarer, of_rarer = cloud()
    few = landmarks.choose_landmarks(rarer, of_rarer, 600, everywhere, seed=0)
    rare = few.weights[of_rarer[few.rows] == 1].sum()

    assert len(chosen.rows) == len(np.unique(chosen.rows)) == 1800
    assert weights[labels == 1] == pytest.approx(1.0)
    for label in (0, 1):
        rows_of_label = (y == label).sum()
        assert weights[labels == label].sum() == pytest.approx(rows_of_label)
    assert rare == pytest.approx((of_rarer == 1).sum())
    assert rare / few.weights.sum() == pytest.approx(landmarks.RARE_SHARE)


def test_landmarks_go_by_what_the_rows_hold_and_not_by_their_order():
    x, y = cloud()
    order = default_rng(7).permutation(len(x))
    moved = x[order]
    one = landmarks.choose_landmarks(x, y, 400, lambda _: x[:, 0] > 1.0, seed=0)
    other = landmarks.choose_landmarks(
        moved, y[order], 400, lambda _: moved[:, 0] > 1.0, seed=0
    )
    same_rows = np.sort(order[other.rows])
    assert_array_equal(same_rows, one.rows)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"factor": AdaptiveBumps()},
        {"remedies": (UnequalCosts("balanced"),)},
        {"remedies": (Smote(),)},
    ],
    ids=["plain", "factor", "costs", "smote"],
)
def test_two_class_landmarks_rank_unseen_rows_as_training_on_all_does(given):
    x, y = cloud()
    z, of_z = cloud(6000, seed=1)
    plain = TwoClassSVM(KERNEL, **given).fit(x, y)
    exact = plain.decision_function(z)
    machine = TwoClassSVM(
        KERNEL, approximation="landmarks", n_landmarks=600, **given
    ).fit(x, y)
    assert (
        roc_auc_score(of_z, machine.decision_function(z))
        > roc_auc_score(of_z, exact) - 0.005
    )


@pytest.mark.parametrize(
    "given", [{}, {"factor": Bumps(h="alpha")}], ids=["plain", "factor"]
)
def test_one_class_landmarks_enclose_the_share_asked_for(given):
    x, _ = cloud(share=0.0)
    z, of_z = cloud(6000, seed=1)
    exact = OneClassSVM(KERNEL, nu=0.1, **given).fit(x)
    machine = OneClassSVM(
        KERNEL, nu=0.1, approximation="landmarks", n_landmarks=1500, **given
    ).fit(x)
    theirs = -exact.decision_function(z)
    ours = -machine.decision_function(z)

    is_outside = machine.decision_function(x) < 0
    is_alike = (ours > 0) == (theirs > 0)
    assert is_outside.mean() == pytest.approx(0.1, abs=0.03)
    assert is_alike.mean() > 0.97
    assert roc_auc_score(of_z, ours) > roc_auc_score(of_z, theirs) - 0.01


def test_landmarks_too_many_rows(monkeypatch):
    """Too many rows are trained on landmarks and the model says what it cost."""
    monkeypatch.setattr(preparing, "_MAX_ROWS_BY_ROWS", 300)
    settings = {
        "params": {"n_landmarks": 200},
        "search": 1,
        "folds": 2,
        "forward": False,
        "beside": (),
    }
    model = train(
        patients(700, share=0.2),
        "svm",
        label="ill",
        positive="yes",
        id="patient",
        **settings,
    )

    training = model.document["training"]
    cost = training["approximation"]
    assert model.document["recipe"]["parameters"]["approximation"] == "landmarks"
    assert training["n_rows_used"] == 700
    assert cost["n_landmarks"] == 200
    assert abs(cost["exact"] - cost["landmarks"]) < 0.1
    assert cost["note"] in training["notes"]
    assert len(model.ensemble.machines) == 6
    for machine in model.ensemble.machines:
        assert len(machine.support_) <= 200


def three_clouds(n, seed=0):
    rng = default_rng(seed)
    y = rng.choice(3, n, p=[0.56, 0.4, 0.04])
    middles = np.array(
        [
            [0.0, 0.0, 0.0],
            [3.0, 0.5, 0.0],
            [0.0, 3.0, 2.0],
        ]
    )
    noise = rng.normal(size=(n, 3))
    return noise + middles[y], y


@pytest.mark.parametrize("cost_ratio", [1.0, "balanced"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_row_that_stands_for_two_is_two_rows(scheme, cost_ratio):
    x, y = three_clouds(150)
    counts = 1 + np.arange(150) % 2
    again = np.repeat(np.arange(150), counts)

    def decided(rows, weights):
        posed = SCHEMES[scheme](y[rows], 3, weights, 2.0, cost_ratio, 1e-6)
        gram = KERNEL(x[rows], x[rows].copy())
        ones = np.ones((len(rows), 1))
        (dual,) = posed.solve(gram, [ones])
        gram = KERNEL(x, x[rows])
        return gram @ dual.weights + dual.intercept

    once = decided(np.arange(150), counts.astype(float))
    twice = decided(again, np.ones(len(again)))
    assert_allclose(once, twice, atol=1e-4)


@pytest.mark.parametrize(
    "given",
    [*({"scheme": scheme} for scheme in SCHEMES), {"factor": ClassDecay("weighted")}],
    ids=[*SCHEMES, "factor"],
)
def test_multi_class_landmarks(given):
    """Multi-class landmarks are right as often as training on all and repeatable."""
    x, y = three_clouds(3000)
    z, of_z = three_clouds(6000, seed=1)
    exact = MultiClassSVM(KERNEL, **given).fit(x, y).predict(z)
    machine = MultiClassSVM(KERNEL, approximation="landmarks", n_landmarks=800, **given)
    found = machine.fit(x, y).class_scores(z)
    again = machine.fit(x, y).class_scores(z)

    accuracy = np.mean(found.argmax(axis=1) == of_z)
    exact_accuracy = np.mean(exact == of_z)
    assert np.array_equal(found, again)
    assert accuracy > exact_accuracy - 0.01
    assert len(machine.support_) <= 800
    assert_array_equal(x[machine.support_], machine.support_vectors_)
    everything = machine.set_params(n_landmarks=3000).fit(x, y)
    assert np.array_equal(everything.predict(z), exact)


def test_a_machine_in_the_span_of_some_rows_is_the_best_there_is():
    """What has a factor or one class spans nothing."""
    decay = {"approximation": "nystroem", "factor": MarginDecay(kappa=0.5)}
    for machine in (OneClassSVM(approximation="nystroem"), TwoClassSVM(**decay)):
        with pytest.raises(ValueError, match="nystroem"):
            machine.check_parameters()
    TwoClassSVM(**decay, passes=0).check_parameters()
    rng = default_rng(1)
    x = rng.normal(size=(700, 4))
    y = x[:, 0] ** 2 + x[:, 1] > 2.0
    machine = TwoClassSVM(
        gamma=0.2, class_weight="balanced", approximation="nystroem", n_landmarks=60
    ).fit(x, y)

    assert len(machine.support_) == 60
    n_cases = y.sum()
    n_others = len(y) - n_cases
    costs = len(y) / (2 * np.where(y, n_cases, n_others))
    signs = np.where(y, 1.0, -1.0)
    lost = signs - machine.decision_function(x)
    spanning = rbf_kernel(machine.support_vectors_, machine.support_vectors_, gamma=0.2)
    across = rbf_kernel(x, machine.support_vectors_, gamma=0.2)
    pulled = spanning @ machine.dual_coef_[0]
    # Of w'Kw / 2 + sum of costs times squared errors: what shrinks is what the errors
    # pull.
    expected = 2 * across.T @ (costs * lost)
    close = 1e-6 * np.abs(pulled).max()
    assert_allclose(pulled, expected, atol=close)
