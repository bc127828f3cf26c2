"""Threads of the compiled loops: how many, shared out between fits, and the same scores by any number."""

import numpy as np
import pytest
from flow_cohorts import patients, written

from screening import TwoClassSVM, read_cohort
from screening.errors import UsageError
from screening.kernels import Gaussian
from screening.kernels.threads import available_cores, limit_threads, n_threads, with_share_of_cores
from screening.recipes.loading import load_recipe
from screening.validation import fold_fits, held_out
from screening.validation.folds import planned
from screening.validation.task import ask


@pytest.mark.parametrize("jobs", [0, -2])
def test_a_number_of_threads_that_is_none_is_refused(jobs):
    with pytest.raises(UsageError, match=f"--jobs {jobs}"), limit_threads(jobs):
        pass


def test_scores_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 3))
    machine = TwoClassSVM(Gaussian(0.3)).fit(x[:200], x[:200, 0] > 0.4)
    found = []
    for jobs in (1, 2):
        with limit_threads(jobs):
            assert n_threads() == jobs
            found.append(machine.decision_function(x))

    assert np.array_equal(*found)


def test_fits_side_by_side_share_the_cores_and_give_them_back():
    before = n_threads()

    inside = with_share_of_cores(2, n_threads)

    assert inside == max(1, available_cores() // 2)
    assert with_share_of_cores(10_000, n_threads) == 1
    assert n_threads() == before


def test_folds_held_out_side_by_side_do_not_nest_threads(monkeypatch, tmp_path):
    seen = []
    fold = fold_fits.fit_fold
    monkeypatch.setattr(fold_fits, "fit_fold", lambda *given: seen.append(n_threads()) or fold(*given))
    path = written(patients(60, share=0.3), tmp_path / "past.csv")
    cohort = read_cohort(path, label="ill", id="patient", need_label=True)
    task = ask(cohort, False)
    study = planned(cohort, task, 3, 2, 0)

    held_out.hold_out(study, load_recipe("svm"), [{}], held_out.Resources(jobs=2))

    assert seen == [max(1, available_cores() // 2)] * 6
