"""Decision values of the recipes against implementations written from the equations
alone.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from independent import duals, methods
from machines_cohort import three_clouds, two_clouds
from numpy.random import default_rng

from screening import build
from screening.estimators.remedies.over_sampling import ESmote
from screening.estimators.training import Training

C = 3.0
GAMMA = 0.4


def unseen(x: np.ndarray, n_rows: int = 40) -> np.ndarray:
    rng = default_rng(1)
    noise = rng.normal(size=(n_rows, x.shape[1]))
    spread = 1.5 * x.std(axis=0)
    return x.mean(axis=0) + spread * noise


def built(name: str, **given):
    """The recipe, solved tighter than by default so that what differs is the method."""
    estimator = build(name, **given)
    return (
        estimator.set_params(tol=1e-9) if "tol" in estimator.get_params() else estimator
    )


def apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference, as a share of the range."""
    assert ours.shape == theirs.shape
    difference = np.abs(ours - theirs).max()
    return float(difference / np.ptp(theirs))


TWO_CLASS: list[tuple[str, Callable, dict]] = [
    ("svm", methods.svm, {}),
    ("svm_weighted", methods.svm_weighted, {"cost_ratio": "balanced"}),
    ("svm_weighted", methods.svm_weighted, {"cost_ratio": 4.0}),
    ("amari_wu", methods.amari_wu, {}),
    ("amari_wu", methods.amari_wu, {"passes": 2}),
    ("wu_amari", methods.wu_amari, {}),
    ("wu_amari", methods.wu_amari, {"M": 5, "passes": 2}),
    ("act_input_space", methods.act, {"distance": "input"}),
    ("act_input_space", methods.act, {"distance": "input", "norm": 1}),
    ("act_input_space", methods.act, {"distance": "input", "passes": 3}),
    ("act_feature_space", methods.act, {"distance": "feature"}),
    ("act_feature_space", methods.act, {"distance": "feature", "norm": 1}),
    ("act_feature_space", methods.act, {"distance": "feature", "passes": 3}),
    ("act_feature_space", methods.act, {"distance": "feature_both"}),
    ("act_feature_space", methods.act, {"distance": "feature_both", "passes": 3}),
    ("williams", methods.williams, {}),
    ("williams", methods.williams, {"k": 3.0, "passes": 2}),
    ("maratea", methods.maratea, {}),
    ("maratea", methods.maratea, {"k": 3.0, "passes": 2}),
    ("liu_he", methods.liu_he, {}),
    ("liu_he", methods.liu_he, {"passes": 2}),
]


def test_moved_boundary_is_the_plain_machine_shifted():
    x, y = two_clouds(n_rows=80)
    z = unseen(x)
    machine = built("svm_moved_boundary", C=C, gamma=GAMMA)
    ours = machine.fit(x, y).decision_function(z)
    shift = ours - methods.svm(x, y, z, C=C, gamma=GAMMA)
    assert np.ptp(shift) < 1e-4
    assert np.abs(shift).max() > 1e-3


@pytest.mark.parametrize("nu", [0.1, 0.3])
@pytest.mark.parametrize("passes", [0, 1, 2])
def test_one_class_conformal_recipe_is_equation_15(nu, passes):
    x = two_clouds(n_rows=90)[0]
    z = unseen(x)
    machine = built(
        "one_class_conformal",
        nu=nu,
        gamma=0.05,
        passes=passes,
        width=1.0,
    )
    ours = machine.fit(x).decision_function(z)
    theirs = methods.one_class_conformal(x, z, nu, 0.05, passes)
    ours = ours / np.ptp(ours)
    assert apart(ours, theirs / np.ptp(theirs)) < 1e-4


MULTI_CLASS: list[tuple[str, Callable, dict]] = [
    ("one_vs_rest", methods.one_vs_rest, {}),
    ("shao_weighted", methods.shao, {}),
    ("shao_local", methods.shao, {"Q": 1.0}),
    ("shao_local", methods.shao, {"Q": 0.2}),
    ("shao_local", methods.shao, {"Q": 0.2, "empty": "nearest"}),
    ("amari_wu_multiclass", partial(methods.each_alone, methods.amari_wu), {}),
    ("williams_multiclass", partial(methods.each_alone, methods.williams), {}),
    ("maratea_multiclass", partial(methods.each_alone, methods.maratea), {}),
    (
        "act_one_per_class",
        partial(methods.each_alone, methods.act),
        {"distance": "feature"},
    ),
    (
        "wu_amari_multiclass",
        partial(methods.wu_amari_all_vectors, kernel=duals.gaussian),
        {},
    ),
    ("one_vs_one", methods.one_vs_one, {}),
    ("crammer_singer", methods.crammer_singer_machine, {}),
    ("simplified_multiclass", methods.simplified, {}),
]


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("n_remove", [0, 4])
def test_pruning_recipe_removes_what_its_criterion_says(rule, n_remove):
    x, y = two_clouds(n_rows=80)
    z = unseen(x)
    ours = (
        built("sv_pruning", C=C, gamma=GAMMA, n_remove=n_remove, rule=rule)
        .fit(x, y)
        .decision_function(z)
    )
    theirs, removed = methods.sv_pruning(
        x,
        y,
        z,
        C=C,
        gamma=GAMMA,
        n_remove=n_remove,
        rule=rule,
    )
    assert len(set(removed)) == n_remove
    assert apart(ours, theirs) < 1e-4


@pytest.mark.parametrize("seed", [0, 1])
def test_oversampling_recipe_is_the_machine_on_interpolated_images(seed):
    x, y = two_clouds(n_rows=60, seed=seed)
    z = unseen(x)
    kernel = duals.gaussian(x, x, GAMMA)
    ones = np.ones(len(x))
    drawn = ESmote(k=5, seed=seed).draw(
        Training(kernel, 2 * y - 1, ones, C * ones, 1e-9)
    )
    given = {
        "parents": drawn.first,
        "neighbours": drawn.second,
        "gaps": drawn.gap,
        "C": C,
        "gamma": GAMMA,
    }
    machine = built("e_smote_svm", C=C, gamma=GAMMA, seed=seed)
    ours = machine.fit(x, y).decision_function(z)
    theirs = methods.e_smote_interpolated(x, y, z, **given)

    assert apart(ours, theirs) < 1e-4


def test_oversampling_balance():
    """Oversampling balances with every minority row in turn and its five nearest."""
    x, y = two_clouds(n_rows=70)
    ones = np.ones(len(x))
    gram = duals.gaussian(x, x, GAMMA)
    training = Training(gram, 2 * y - 1, ones, ones, 1e-3)
    drawn = ESmote(k=5, seed=3).draw(training)
    positive = np.flatnonzero(y == 1)
    found = methods.nearest_in_feature_space(x, y, GAMMA)
    nearest = dict(zip(positive, found, strict=True))
    often = np.bincount(drawn.first, minlength=len(x))[positive]

    n_negative = (y == 0).sum()
    n_positive = (y == 1).sum()
    assert len(drawn.first) == n_negative - n_positive
    assert often.max() - often.min() <= 1
    assert all(
        second in nearest[first]
        for first, second in zip(drawn.first, drawn.second, strict=True)
    )
    assert drawn.gap.min() >= 0
    assert drawn.gap.max() <= 1


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("rows", "name", "independent", "given"),
    [(two_clouds, *case) for case in TWO_CLASS]
    + [(three_clouds, *case) for case in MULTI_CLASS],
)
def test_recipe_is_its_equations(rows, name, independent, given, seed):
    x, labels = rows(n_rows=80, seed=seed)
    codes = np.unique(labels, return_inverse=True)[1]
    z = unseen(x)
    machine = built(name, C=C, gamma=GAMMA, **given)
    ours = machine.fit(x, labels).decision_function(z)
    theirs = independent(
        x,
        codes,
        z,
        C=C,
        gamma=GAMMA,
        **given,
    )
    assert apart(ours, theirs) < 1e-4
