"""The promise: fold machines do on unseen rows, by their mean, what their operating point says.

Machines of scikit-learn with the mathematics of ours, so that 200 cohorts take seconds.
"""

from pathlib import Path

import flow_cohorts
import numpy as np
import pytest
from faults.amounts import LONG
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, OneClassSVM

from screening import read_cohort
from screening.metrics.operating_point import choose
from screening.metrics.predictive_intervals import variance_inflation
from screening.metrics.ranking import delong
from screening.model_selection.folds import plan_study
from screening.model_selection.held_out import Resources, held_out_by
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import infer_task
from screening.recipes.building import load_recipe
from screening.schemas.figures import MinSensitivity

# Half of them in the quick suite; all with `make faults`.
COHORTS = 200 if LONG else 100
N_ROWS, N_POSITIVE, FEATURES, FOLDS = 300, 30, 6, 5

MACHINES = {
    "weighted svm with C = 100": lambda: SVC(C=100, class_weight="balanced"),
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
    """An operating point chosen as training does, and what the fold machines do to fresh rows."""
    rng = np.random.default_rng(seed)
    x, y = patients(rng, N_POSITIVE, N_ROWS - N_POSITIVE), np.arange(N_ROWS) < N_POSITIVE
    fresh, scores, fold = patients(rng, 800, 1500), np.empty(N_ROWS), np.empty(N_ROWS, int)
    deal = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    machines = []
    for k, (train, test) in enumerate(deal.split(x, y)):
        machines.append(scorer(name, x[train], y[train]))
        scores[test], fold[test] = machines[k](x[test]), k
    point = choose(scores, y, MinSensitivity(0.9), fold=fold)
    flagged = np.mean([machine(fresh) for machine in machines], axis=0) >= point.threshold
    ends = [point.sensitivity.low, point.sensitivity.high, point.specificity.low, point.specificity.high]
    return [*ends, flagged[:800].mean(), 1 - flagged[800:].mean()]


@pytest.mark.parametrize("name", MACHINES)
def test_intervals_hold_for_the_mean_of_the_fold_machines_and_the_promise_is_kept(name):
    trials = np.array([promised_and_true(name, seed) for seed in range(COHORTS)]).T
    (se_low, se_high, sp_low, sp_high), (sensitivity, specificity) = trials[:4], trials[4:]

    # With 30 positives in 300 rows the mean of support vector machines finds 2 in 100 positives more than one
    # machine does, and the truth is above the interval in 9 of 100 cohorts. Below it is what hurts.
    assert 0.88 <= np.mean((se_low <= sensitivity) & (sensitivity <= se_high)) <= 0.995
    assert np.mean(sensitivity < se_low) <= 0.04
    assert 0.88 <= np.mean((sp_low <= specificity) & (specificity <= sp_high)) <= 0.995
    # Two standard errors of a mean over so many cohorts.
    assert sensitivity.mean() >= 0.9 - 2 * sensitivity.std() / np.sqrt(COHORTS)


PERMUTATIONS = 8


def interval(folder: Path, recipe: str, seed: int, *, permuted: bool) -> tuple[float, float]:
    """The AUROC interval that a model of these patients would print, three settings tried."""
    frame = flow_cohorts.patients(120, 0.2, seed)
    rng = np.random.default_rng(seed)
    frame["ill"] = rng.permutation(frame["ill"]) if permuted else frame["ill"]
    frame.to_csv(folder / "past.csv", index=False)
    cohort = read_cohort(folder / "past.csv", label="ill", positive="yes", id="patient", need_label=True)
    study = plan_study(cohort, infer_task(cohort, False)[0], 5, 1, seed, search=3)
    held_out = held_out_by(study, load_recipe(recipe), resources=Resources(jobs=1))
    validation = HeldOutScores.of(held_out, study)
    wider = variance_inflation(validation.n_settings)
    return delong(validation.scores[:, 0], validation.watched[:, 0], variance_inflation=wider)


@pytest.mark.parametrize("recipe", ["logistic", "svm_weighted", "one_class"])
def test_with_permuted_labels_intervals_hold_one_half_and_with_the_true_ones_they_do_not(recipe, tmp_path):
    blind = np.array([interval(tmp_path, recipe, seed, permuted=True) for seed in range(PERMUTATIONS)])
    low, _ = interval(tmp_path, recipe, 0, permuted=False)

    # Each may miss once in twenty; two of eight would be one chance in twenty more.
    assert np.sum((blind[:, 0] <= 0.5) & (blind[:, 1] >= 0.5)) >= PERMUTATIONS - 1
    assert low > 0.5
