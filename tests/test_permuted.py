"""Labels that mean nothing are not learned: the printed AUROC intervals hold one half."""

from pathlib import Path

import numpy as np
import pytest
from flow_cohorts import patients

from screening import read_cohort
from screening.metrics.predictive_intervals import variance_inflation
from screening.metrics.ranking import delong
from screening.model_selection.folds import plan_study
from screening.model_selection.held_out import Resources, held_out_by
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import infer_task
from screening.recipes.building import load_recipe

PERMUTATIONS = 8


def interval(folder: Path, recipe: str, seed: int, *, permuted: bool) -> tuple[float, float]:
    """The AUROC interval that a model of these patients would print, three settings tried."""
    frame = patients(120, 0.2, seed)
    rng = np.random.default_rng(seed)
    frame["ill"] = rng.permutation(frame["ill"]) if permuted else frame["ill"]
    frame.to_csv(folder / "past.csv", index=False)
    cohort = read_cohort(folder / "past.csv", label="ill", positive="yes", id="patient", need_label=True)
    study = plan_study(cohort, infer_task(cohort, False)[0], 5, 1, seed, search=3)
    held_out = held_out_by(study, load_recipe(recipe), resources=Resources(jobs=1))
    validation = HeldOutScores.of(held_out, study)
    return delong(
        validation.scores[:, 0],
        validation.watched[:, 0],
        variance_inflation=variance_inflation(validation.n_settings),
    )


@pytest.mark.parametrize("recipe", ["logistic", "svm_weighted", "one_class"])
def test_with_permuted_labels_intervals_hold_one_half_and_with_the_true_ones_they_do_not(recipe, tmp_path):
    blind = np.array([interval(tmp_path, recipe, seed, permuted=True) for seed in range(PERMUTATIONS)])
    low, _ = interval(tmp_path, recipe, 0, permuted=False)

    # Each may miss once in twenty; two of eight would be one chance in twenty more.
    assert np.sum((blind[:, 0] <= 0.5) & (blind[:, 1] >= 0.5)) >= PERMUTATIONS - 1
    assert low > 0.5
