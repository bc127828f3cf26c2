"""Plans of a training: what is fitted together, and what is waited for."""

from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng

from screening import load_recipe
from screening.errors import RecipeError
from screening.kernels.kernel_cache import Distances
from screening.model_selection.fold_fits import EncodedRows, fit_tasks
from screening.model_selection.plans import Round, fitted, fold_tasks, side_by_side
from screening.settings import Resources


@dataclass(frozen=True)
class NamedTask:
    """Task that a plan is known by."""

    name: str
    work: int = 10


def plan_of(name, n_rounds):
    """Plan some rounds of one task each, and return the fits of all."""
    fits = []
    for number in range(n_rounds):
        later_work = 10 * (n_rounds - 1 - number)
        fits += yield from fitted([NamedTask(f"{name}{number}")], later_work)
    return fits


def refused():
    yield Round([NamedTask("refused0")], later_work=10)
    raise RecipeError("it cannot be fitted")


def rounds_of(plan):
    """Run a plan whose fits are the names of tasks; return its rounds and outcome."""
    rounds = []
    results = None
    while True:
        try:
            current = next(plan) if results is None else plan.send(results)
        except StopIteration as end:
            return rounds, end.value
        results = [task.name for task in current.tasks]
        rounds.append((sorted(results), current.later_work))


def test_last_rounds_of_all_plans_are_fitted_together():
    """The long fits of a plan of one round are not waited for by one of three."""
    plans = [plan_of("boosting", 1), plan_of("svm", 3), plan_of("logistic", 2)]

    rounds, outcomes = rounds_of(side_by_side(plans))

    assert [names for names, _ in rounds] == [
        ["logistic0", "svm0"],
        ["svm1"],
        ["boosting0", "logistic1", "svm2"],
    ]
    assert outcomes == [
        ["boosting0"],
        ["svm0", "svm1", "svm2"],
        ["logistic0", "logistic1"],
    ]


def test_work_that_waits_is_work_that_follows():
    plans = [plan_of("boosting", 1), plan_of("svm", 2)]

    rounds, _ = rounds_of(side_by_side(plans))

    assert [later_work for _, later_work in rounds] == [20, 0]


def test_plans_within_plans_wait_for_the_same_last_round():
    blend = side_by_side([plan_of("forest", 1), plan_of("svm", 2)])

    rounds, _ = rounds_of(side_by_side([blend, plan_of("baseline", 1)]))

    names = [names for names, _ in rounds]
    assert names == [["svm0"], ["baseline0", "forest0", "svm1"]]


def test_error_of_one_plan_is_its_outcome():
    rounds, (error, fits) = rounds_of(side_by_side([refused(), plan_of("svm", 1)]))

    assert isinstance(error, RecipeError)
    assert fits == ["svm0"]
    assert len(rounds) == 2


def test_fits_for_their_decisions_alone_keep_no_machine(tmp_path):
    """Also those that a command which was killed has left."""
    x = default_rng(0).normal(size=(90, 3))
    y = (x[:, 0] > 1).astype(int)
    fold = np.arange(90) % 3
    recipe = load_recipe("svm_weighted")
    rows = EncodedRows(recipe, 1, Distances(x), y, None)
    settings = [{"C": 1.0}, {"C": 10.0}, {"C": 1.0, "gamma": 2.0}]

    def fits(keeps_machines, kept=None):
        tasks = fold_tasks(rows, fold[None], settings, keeps_machines=keeps_machines)
        return list(fit_tasks(tasks, Resources(jobs=1, kept=kept)))

    whole = fits(True)
    bare = fits(False)
    fits(False, tmp_path)
    resumed = fits(False, tmp_path)

    assert [len(fit.machines) for fit in whole] == [1, 2] * 3
    assert [*tmp_path.iterdir()]
    for found in (bare, resumed):
        assert [fit.machines for fit in found] == [[]] * 6
        for with_machines, without in zip(whole, found, strict=True):
            np.testing.assert_array_equal(with_machines.decisions, without.decisions)
