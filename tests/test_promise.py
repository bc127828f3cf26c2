"""The promise: the threshold chosen on out-of-fold scores does on unseen rows what its interval says.

Machines of scikit-learn with the mathematics of ours, so that 200 cohorts take seconds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, OneClassSVM

from screening.operating_point import Rule, choose
from screening.statistics.placement import place

COHORTS, N_ROWS, N_POSITIVE, FEATURES, FOLDS = 200, 300, 30, 6, 5

MACHINES = {
    "svm": lambda: SVC(C=1),
    "svm with C = 100": lambda: SVC(C=100),
    "logistic": lambda: LogisticRegression(),
    "one class": lambda: OneClassSVM(nu=0.1),
}


def patients(rng: np.random.Generator, n_positive: int, n_negative: int) -> np.ndarray:
    x = rng.normal(size=(n_positive + n_negative, FEATURES))
    x[:n_positive, :3] += 1.1
    return x


def scorer(name: str, x: np.ndarray, y: np.ndarray):
    """Fit, and return the score: higher is more suspicious, one-class decisions with sum of alphas 1."""
    machine = MACHINES[name]()
    one_class = name == "one class"
    learned = x[~y] if one_class else x
    machine.fit(learned, y[~y] if one_class else y)
    scale = -1 / (machine.nu * len(learned)) if one_class else 1.0
    return lambda rows: scale * machine.decision_function(rows)


def promised_and_true(name: str, seed: int):
    """An operating point chosen as training does, and the final model's sensitivity on fresh positives."""
    rng = np.random.default_rng(seed)
    x, y = patients(rng, N_POSITIVE, N_ROWS - N_POSITIVE), np.arange(N_ROWS) < N_POSITIVE
    one_class = name == "one class"
    final = scorer(name, x, y)
    reference = final(x)
    placed = np.empty(N_ROWS)
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        fold = scorer(name, x[train], y[train])
        own, known = fold(x[train]), y[train]
        unlearned = (y[test], reference[test]) if one_class else None
        placed[test], _ = place(
            fold(x[test]), own[~known], reference[~y], own[known], reference[y], unlearned=unlearned
        )
    point = choose(placed, y, Rule("min_sensitivity", 0.9))
    fresh = final(patients(rng, 1000, 0))
    return point.sensitivity_low, point.sensitivity_high, np.mean(fresh >= point.threshold)


@pytest.mark.parametrize("name", MACHINES)
def test_the_interval_covers_the_final_models_sensitivity_and_its_mean_keeps_the_promise(name):
    low, high, truth = np.array([promised_and_true(name, seed) for seed in range(COHORTS)]).T

    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.98
    # Two standard errors of a mean over so many cohorts.
    assert truth.mean() >= 0.9 - 2 * truth.std() / np.sqrt(COHORTS)
