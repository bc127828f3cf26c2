"""The sweep for accelerators, run on the arrays of every library that is installed."""

from __future__ import annotations

import numpy as np
import pytest
from flow_cohorts import patients, written

from screening import TwoClassSVM, read_cohort
from screening.errors import UsageError
from screening.factors import MarginDecay
from screening.kernels import Gaussian, Laplacian, placing
from screening.kernels.device import weighted_sum
from screening.recipes.loading import load_recipe
from screening.validation import held_out
from screening.validation.folds import planned, units
from screening.validation.task import ask

MAKERS = {"numpy": "asarray", "torch": "from_numpy", "cupy": "asarray"}


@pytest.fixture(params=sorted(MAKERS))
def made(request):
    """A function from numpy arrays to those of the library; skipped where it is not installed."""
    library = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return getattr(library, MAKERS[request.param])


@pytest.mark.parametrize("kernel", [Gaussian(0.2), Laplacian(0.1)], ids=repr)
def test_sum_on_library_arrays_is_that_of_numpy(made, kernel):
    rng = np.random.default_rng(0)
    x, centres, weights = rng.normal(size=(150, 5)), rng.normal(size=(40, 5)), rng.normal(size=(40, 2))

    found = weighted_sum(kernel, made(x), made(centres), made(weights), block=64)

    np.testing.assert_allclose(np.asarray(found), kernel(x, centres) @ weights, atol=1e-12)


def test_a_row_scores_the_same_bits_in_a_smaller_batch():
    rng = np.random.default_rng(0)
    x, centres, weights = rng.normal(size=(150, 20)), rng.normal(size=(40, 20)), rng.normal(size=(40, 1))

    whole = weighted_sum(Gaussian(0.1), x, centres, weights, block=64)

    assert np.array_equal(weighted_sum(Gaussian(0.1), x[:70], centres, weights, block=64), whole[:70])


def test_no_rows_give_no_scores():
    centres = np.ones((3, 2))

    assert weighted_sum(Gaussian(0.1), np.ones((0, 2)), centres, np.ones((3, 1))).shape == (0, 1)


@pytest.mark.parametrize("library", sorted(MAKERS))
def test_a_machine_scores_on_the_arrays_of_a_library_as_by_its_own_loops(library, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    machine = TwoClassSVM(Gaussian(0.3), factor=MarginDecay(0.3)).fit(x, x[:, 0] > 0.4)
    alone = machine.decision_function(x)

    monkeypatch.setattr(placing, "_library", lambda: library)
    with placing.placed(device="cuda"):
        there = machine.decision_function(x)

    np.testing.assert_allclose(there, alone, atol=1e-4 * np.abs(alone).max())


def test_an_accelerator_without_its_library_is_refused_in_words(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(placing, "import_module", missing)
    with pytest.raises(UsageError, match="needs CuPy or torch"), placing.placed(device="cuda"):
        pass


@pytest.mark.parametrize(("given", "named"), [({"jobs": 0}, "--jobs 0"), ({"device": "tpu"}, "--device tpu")])
def test_a_place_that_is_none_is_refused(given, named):
    with pytest.raises(UsageError, match=named), placing.placed(**given):
        pass


def test_scores_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 3))
    machine = TwoClassSVM(Gaussian(0.3)).fit(x[:200], x[:200, 0] > 0.4)
    found = []
    for jobs in (1, 2):
        with placing.placed(jobs=jobs):
            assert placing.threads() == jobs
            found.append(machine.decision_function(x))

    assert np.array_equal(*found)


def test_fits_side_by_side_share_the_cores_and_give_them_back():
    before = placing.threads()

    inside = placing.beside_others(2, placing.threads)

    assert inside == max(1, placing.available_cores() // 2)
    assert placing.beside_others(10_000, placing.threads) == 1
    assert placing.threads() == before


def test_folds_held_out_side_by_side_do_not_nest_threads(monkeypatch, tmp_path):
    seen = []
    fold = held_out.fit_fold
    monkeypatch.setattr(held_out, "fit_fold", lambda *given: seen.append(placing.threads()) or fold(*given))
    path = written(patients(60, share=0.3), tmp_path / "past.csv")
    cohort = read_cohort(path, label="ill", id="patient", need_label=True)
    task = ask(cohort, False)
    target = task.target(cohort.label)
    plan = planned(cohort, target, units(cohort, target, 3), 2, 0)

    held_out.hold_out(cohort, load_recipe("svm"), task, plan, [{}], held_out.Effort(jobs=2))

    assert seen == [max(1, placing.available_cores() // 2)] * 6
