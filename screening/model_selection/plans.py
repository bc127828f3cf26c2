"""Plans of a training: which folds are to be fitted, and the fits of all at once.

A plan is a generator. It yields the tasks that it needs next, receives their fits, and
returns its outcome. Several plans become one, whose tasks are one flat list; only
choosing a setting, which needs the fits of all settings, divides a plan into rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np

from screening.errors import RecipeError, ScreenError, UsageError
from screening.model_selection.fold_fits import (
    EncodedRows,
    FoldFit,
    FoldTask,
    fit_tasks,
)
from screening.model_selection.search import Parameters, by_shared_work, kernel_of
from screening.recipes.building import RecipeComponents
from screening.recipes.recipe import Recipe
from screening.settings import Progress, Resources
from screening.threads import limit_threads

Result = TypeVar("Result")
# Settings that differ in the factor alone are divided into tasks of at most so many:
# processes would wait for one long task.
MAX_FACTORS_OF_TASK = 4
# Steps in which progress is counted.
PROGRESS_STEPS = 1000


@dataclass(frozen=True)
class Round:
    """Tasks that a plan needs next.

    Parameters
    ----------
    tasks : list of FoldTask
    later_work : int
        Work of the rounds that may follow, in rows times settings.
    """

    tasks: list[FoldTask]
    later_work: int = 0

    @property
    def work(self) -> int:
        """Work of its tasks, in rows times settings."""
        return sum(task.work for task in self.tasks)


Plan = Generator[Round, list[FoldFit | ScreenError], Result]


def fold_tasks(
    encoded: EncodedRows,
    folds: np.ndarray,
    settings: Sequence[Parameters],
    *,
    keeps_machines: bool = True,
) -> list[FoldTask]:
    """Return the tasks of all folds of some repeats, in their order.

    Settings that share their kernel are fitted together.

    Parameters
    ----------
    encoded : EncodedRows
    folds : int ndarray of shape (n_repeats, n_rows)
        Fold that each row is held out in.
    settings : sequence of dict
    keeps_machines : bool
        See ``FoldTask``.
    """
    rows = replace(encoded, encoder=None)
    numbers_of_tasks = _by_kernel(encoded.recipe, settings)
    tasks: list[FoldTask] = []
    for fold_of_row in folds:
        for fold in range(int(fold_of_row.max()) + 1):
            tasks += [
                FoldTask(rows, fold_of_row, fold, numbers, settings, keeps_machines)
                for numbers in numbers_of_tasks
            ]
    return tasks


def _by_kernel(recipe: Recipe, settings: Sequence[Parameters]) -> list[list[int]]:
    """Return the numbers of settings that are fitted together.

    Those of one kernel go on from each other's solutions. If all of them differ in the
    factor alone, they share no more than a first pass, and are divided.
    """
    if not recipe.has_kernel:
        return [[number] for number in range(len(settings))]
    components = RecipeComponents(recipe)
    order = by_shared_work(settings)
    together = []
    for _, group in groupby(order, key=lambda number: kernel_of(settings[number])):
        numbers = [*group]
        most = len(numbers)
        if len(components.families([settings[number] for number in numbers])) == 1:
            most = MAX_FACTORS_OF_TASK
        for start in range(0, len(numbers), most):
            together.append(numbers[start : start + most])
    return together


def fitted(tasks: list[FoldTask], later_work: int = 0) -> Plan[list[FoldFit]]:
    """Return the plan of one round; RecipeError or UsageError if a task raised it."""
    results = yield Round(tasks, later_work)
    return raise_errors(results)


def raise_errors(results: Sequence[Result | ScreenError]) -> list[Result]:
    """Return results without errors; raise the first error."""
    outcomes = []
    for result in results:
        if isinstance(result, ScreenError):
            raise result
        outcomes.append(result)
    return outcomes


def side_by_side(
    plans: Sequence[Plan[Result]],
) -> Plan[list[Result | ScreenError]]:
    """Return one plan of several, whose outcomes are a list.

    Plans with further rounds go first, and the last rounds of all are one, so that the
    longest fits are waited for once. The outcome of a plan that raises RecipeError or
    UsageError is the error.
    """
    outcomes: dict[int, Result | ScreenError] = {}
    rounds: dict[int, Round] = {}

    def resume(number: int, results: list[FoldFit | ScreenError] | None) -> None:
        rounds.pop(number, None)
        plan = plans[number]
        try:
            rounds[number] = next(plan) if results is None else plan.send(results)
        except StopIteration as end:
            outcomes[number] = end.value
        except (RecipeError, UsageError) as error:
            outcomes[number] = error

    for number in range(len(plans)):
        resume(number, None)
    while rounds:
        with_more = {
            number: of_plan for number, of_plan in rounds.items() if of_plan.later_work
        }
        current = with_more or dict(rounds)
        tasks: list[FoldTask] = []
        later_work = 0
        for number, of_plan in rounds.items():
            later_work += of_plan.later_work
            if number in current:
                tasks += of_plan.tasks
            else:
                later_work += of_plan.work
        results = yield Round(tasks, later_work)
        for number, of_plan in current.items():
            n_tasks = len(of_plan.tasks)
            resume(number, results[:n_tasks])
            results = results[n_tasks:]
    return [outcomes[number] for number in range(len(plans))]


def run_plan(plan: Plan[Result], resources: Resources) -> Result:
    """Fit what a plan needs, round by round, and return its outcome.

    The longest fits of a round begin first, so that no process waits for them at its
    end.
    """
    finished = 0
    results: list[FoldFit | ScreenError] | None = None
    while True:
        try:
            with limit_threads(resources.jobs):
                current = next(plan) if results is None else plan.send(results)
        except StopIteration as end:
            resources.progress(1, 1)
            outcome: Result = end.value
            return outcome
        total = finished + current.work + current.later_work
        by_time = sorted(
            range(len(current.tasks)),
            key=lambda number: current.tasks[number].expected_time,
            reverse=True,
        )
        fits = fit_tasks([current.tasks[number] for number in by_time], resources)
        fit_of: dict[int, FoldFit | ScreenError] = {}
        for number, fit in zip(by_time, fits, strict=True):
            fit_of[number] = fit
            finished += current.tasks[number].work
            resources.progress(finished, total)
        results = [fit_of[number] for number in range(len(by_time))]


def split_progress(progress: Progress, weights: Sequence[float]) -> Iterator[Progress]:
    """Split a progress callback over several pieces of work.

    `weights` are how much work each is.
    """
    shares = np.zeros(len(weights))

    def step(number: int, done: int, total: int) -> None:
        shares[number] = done / total
        share = float(np.average(shares, weights=weights))
        progress(round(PROGRESS_STEPS * share), PROGRESS_STEPS)

    for number in range(len(weights)):
        yield partial(step, number)
