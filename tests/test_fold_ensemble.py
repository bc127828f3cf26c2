"""The folds' machines as one: the mean of what each says, whatever rows they share."""

import gc
import weakref

import numpy as np
import pytest
from machines_cohort import two_clouds

from screening import build
from screening.estimators.ensembles import FoldEnsemble, oriented_decisions

METHODS = (
    "svm", "svm_weighted", "williams", "maratea", "liu_he", "wu_amari", "amari_wu", "act_input_space",
    "act_feature_space", "one_class", "one_class_conformal",
)  # fmt: skip


def kind(name: str) -> str:
    return "one_class" if name.startswith("one_class") else "two_class"


def machines(name: str):
    """Three machines on overlapping rows, a third of which stand there twice with either label."""
    x, y = two_clouds(90)
    x[60:] = x[:30]
    y[60:75] = 1 - y[:15]
    parts = [np.flatnonzero(np.arange(90) % 3 != k) for k in range(3)]
    if kind(name) == "one_class":
        parts = [part[y[part] == 0] for part in parts]
    return [build(name).scaled_to(x).fit(x[part], y[part]) for part in parts]


@pytest.mark.parametrize("name", METHODS)
def test_the_mean_of_machines_with_repeated_rows_is_the_mean_of_their_decisions(name):
    ensemble = FoldEnsemble(machines(name), kind(name), 1)
    new = two_clouds(40, seed=1)[0]

    each = [oriented_decisions(machine, new, kind(name), 1) for machine in ensemble.machines]

    expected = np.mean(each, axis=0)
    np.testing.assert_allclose(ensemble.decisions(new), expected, rtol=0, atol=1e-4 * np.ptp(expected))


@pytest.mark.parametrize("name", ["svm", "williams", "act_input_space"])
def test_rows_are_let_go_as_soon_as_they_are_scored(name):
    """A night of ten million rows would else hold half of them until garbage is looked for."""
    ensemble = FoldEnsemble(machines(name), "two_class", 1)
    x = np.random.default_rng(1).normal(size=(300, 3))
    held = weakref.ref(x)
    gc.disable()
    try:
        ensemble.decisions(x)
        del x
        assert held() is None
    finally:
        gc.enable()
