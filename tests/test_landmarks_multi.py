"""Landmarks of several classes: the rarest whole, every row stood for, and as right as all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from screening import MultiClassSVM
from screening.factors import ClassDecay
from screening.kernels import Gaussian
from screening.machines.schemes import SCHEMES

KERNEL = Gaussian(0.3)


def three_clouds(n, seed=0):
    """Three classes, the last one row in 25."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.56, 0.4, 0.04])
    middles = np.array([[0.0, 0.0, 0.0], [3.0, 0.5, 0.0], [0.0, 3.0, 2.0]])
    return rng.normal(size=(n, 3)) + middles[y], y


@pytest.mark.parametrize("cost_ratio", [1.0, "balanced"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_row_that_stands_for_two_is_two_rows(scheme, cost_ratio):
    x, y = three_clouds(150)
    counts = 1 + np.arange(150) % 2
    again = np.repeat(np.arange(150), counts)
    c = np.ones((150, 1))

    once = SCHEMES[scheme](y, 3, counts.astype(float), 2.0, cost_ratio, 1e-6)
    (dual,) = once.solve(KERNEL(x, x), [c])
    twice = SCHEMES[scheme](y[again], 3, np.ones(len(again)), 2.0, cost_ratio, 1e-6)
    (repeated,) = twice.solve(KERNEL(x[again], x[again].copy()), [np.ones((len(again), 1))])

    there = KERNEL(x, x[again]) @ repeated.weights + repeated.intercept
    np.testing.assert_allclose(KERNEL(x, x) @ dual.weights + dual.intercept, there, atol=1e-4)


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_landmarks_of_thirty_thousand_rows_rank_and_name_three_classes_as_all_of_them_do(scheme):
    x, y = three_clouds(30_000)
    z, of_z = three_clouds(6000, seed=1)
    machine = MultiClassSVM(KERNEL, scheme=scheme, cost_ratio="balanced")
    exact = machine.fit(x, y).class_scores(z)

    found = machine.set_params(approximation="landmarks", n_landmarks=4000).fit(x, y).class_scores(z)

    for m in range(3):
        own = of_z == m
        assert roc_auc_score(own, found[:, m]) > roc_auc_score(own, exact[:, m]) - 0.01
        assert (found[own].argmax(axis=1) == m).mean() > (exact[own].argmax(axis=1) == m).mean() - 0.01
    np.testing.assert_array_equal(x[machine.support_], machine.support_vectors_)


@pytest.mark.parametrize(
    "given",
    [*({"scheme": scheme} for scheme in SCHEMES), {"factor": ClassDecay("weighted")}],
    ids=[*SCHEMES, "factor"],
)
def test_multi_class_landmarks_are_right_as_often_as_training_on_all_and_repeatable(given):
    x, y = three_clouds(3000)
    z, of_z = three_clouds(6000, seed=1)
    exact = MultiClassSVM(KERNEL, **given).fit(x, y).predict(z)
    machine = MultiClassSVM(KERNEL, approximation="landmarks", n_landmarks=800, **given)

    found, again = machine.fit(x, y).class_scores(z), machine.fit(x, y).class_scores(z)

    assert np.array_equal(found, again)
    assert (found.argmax(axis=1) == of_z).mean() > (exact == of_z).mean() - 0.01
    assert len(machine.support_) <= 800
    everything = machine.set_params(n_landmarks=3000).fit(x, y)
    assert np.array_equal(everything.predict(z), exact)


def test_a_multi_class_model_trained_on_landmarks_says_what_they_cost(tmp_path):
    from flow_cohorts import voxels, written

    from screening.cohort.reading import read_cohort
    from screening.training import train as training

    path = written(voxels(8, 100), tmp_path / "past.csv")
    cohort = read_cohort(path, label="tissue", group="patient")
    asked = {"approximation": "landmarks", "n_landmarks": 150}

    model = training.train(cohort, "one_vs_rest", search=1, params=asked, folds=2, forward=False)

    told = model.document["training"]["approximation"]
    assert told["n_landmarks"] == 150
    assert abs(told["auroc_exact"] - told["auroc_landmarks"]) < 0.05
    assert "weighed" not in told["note"]
    assert len(model.ensemble.machines) == 6
    assert all(len(machine.support_) <= 150 for machine in model.ensemble.machines)
