"""Encode rows, fit machines on all folds but one, and decide on the rows held out."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from screening.data.cohort import Cohort
from screening.data.encoding import Bundles
from screening.errors import RecipeError, ScreenError, UsageError
from screening.estimators.base import Estimator, WeightedClassifier
from screening.estimators.ensembles import oriented
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.landmarks import RARE_SHARE
from screening.estimators.passes import decisions_at, under
from screening.files import digest_of_json
from screening.kernels import kernel_cache
from screening.metrics.groups import codes_of
from screening.model_selection.folds import sub_sample
from screening.model_selection.search import (
    Parameters,
    by_shared_work,
    rows_held,
)
from screening.parallel import in_parallel
from screening.recipes.building import RecipeComponents, build
from screening.recipes.encoders import RowEncoder, learned_encoding
from screening.recipes.plugins import plugins_needed
from screening.recipes.recipe import Recipe
from screening.settings import Resources
from screening.store.checkpoints import keep_piece, read_piece

# Fewer rows are fitted here in less time than processes take to start.
MIN_ROWS_FOR_PROCESSES = 2_000
# Rows by which gamma is scaled.
MAX_SCALED_ROWS = 20_000
# More decisions than this are stored as float32: they are ranked, and compared to seven
# digits.
MAX_FLOAT64_DECISIONS = 20_000_000


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows that the machines of a recipe learn from.

    Parameters
    ----------
    recipe : Recipe
    n_outputs : int
        Columns of decisions.
    distances : Distances
        The rows, and the distances among them, which all folds, settings and methods
        share as far as memory allows.
    target : int ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
        Kept whole by remedies that validate within a fit.
    weight : ndarray of float, shape (n_rows,), optional
        How much each row counts; None for all alike.
    encoder : RowEncoder, optional
        Made the rows of a cohort; workers need none.
    """

    recipe: Recipe
    n_outputs: int
    distances: kernel_cache.Distances
    target: np.ndarray
    groups: np.ndarray | None
    weight: np.ndarray | None = None
    encoder: RowEncoder | None = None

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        recipe: Recipe,
        target: np.ndarray,
        n_outputs: int,
        groups: np.ndarray | None = None,
        memory: int | None = None,
    ) -> EncodedRows:
        """Encode a cohort by an encoder that is fitted once, on all its rows."""
        if groups is not None:
            # Tasks and figures sort them: numbers take less time than names.
            groups = codes_of(groups)
        encoder, x = learned_encoding(recipe, cohort, target)
        x = np.ascontiguousarray(x, dtype=np.float64)
        return cls(
            recipe,
            n_outputs,
            kernel_cache.Distances(x, memory),
            target,
            groups,
            cohort.weight,
            encoder,
        )

    def __sizeof__(self) -> int:
        # Dask sends large arguments to a worker once.
        return int(self.x.nbytes)

    @property
    def x(self) -> np.ndarray:
        """The encoded rows, shape (n_rows, n_encoded)."""
        return self.distances.rows

    def of_rows(self, x: np.ndarray) -> EncodedRows:
        """Return the same rows in another encoding, x."""
        return replace(self, distances=kernel_cache.Distances(x, self.distances.memory))

    def take(self, rows: np.ndarray) -> EncodedRows:
        """Take some of the rows, by their numbers."""
        groups = None if self.groups is None else self.groups[rows]
        weight = None if self.weight is None else self.weight[rows]
        taken = self.of_rows(np.ascontiguousarray(self.x[rows]))
        return replace(taken, target=self.target[rows], groups=groups, weight=weight)

    def learnable(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some row numbers that a machine learns from."""
        if self.recipe.machine == "one_class":
            return rows[self.target[rows] == 0]
        return rows

    def estimator(self, parameters: Parameters) -> Estimator:
        """Return the recipe's estimator, its gamma a number.

        The number is the same in every fold, whatever rows are in a fold.
        """
        estimator = self._components.estimator(parameters)
        if hasattr(estimator, "scaled_to"):
            estimator = estimator.scaled_to(self._scaled_rows)
        return estimator

    def description(self, parameters: Parameters) -> str:
        """Return a text that is equal for equal machines, whatever recipe names them.

        A machine that declines its factor is the one that has none.
        """
        estimator = self._components.estimator(parameters)
        values = estimator.get_params(deep=False)
        if isinstance(estimator, KernelMachine) and not estimator.n_rescalings:
            declined = {"factor": None, "passes": 0, "normalise": False, "stop": ""}
            values |= {name: declined[name] for name in declined if name in values}
        return repr(
            [type(estimator).__name__, sorted(values.items(), key=itemgetter(0))]
        )

    @property
    def bundles(self) -> Bundles | None:
        """The columns of each category as one, for a machine that learns as much."""
        if self.encoder is None or not self._components.estimator({}).supports_bundles:
            return None
        return self.encoder.bundles()

    @cached_property
    def _components(self) -> RecipeComponents:
        return RecipeComponents(self.recipe)

    @cached_property
    def _scaled_rows(self) -> np.ndarray:
        """The first rows that a machine learns from, by which gamma is scaled."""
        return self.x[self.learnable(np.arange(len(self.x)))[:MAX_SCALED_ROWS]]

    def fit_settings(
        self,
        rows: np.ndarray,
        settings: Sequence[Parameters],
        held_out: np.ndarray | None,
    ) -> tuple[list[Estimator], list[np.ndarray]]:
        """Fit the recipe to some of the rows at several settings, and decide elsewhere.

        Settings of one kernel share their work, also where they decide: the decisions
        are those of ``decisions``, but in float64 throughout, which moves them by 3e-5
        of the largest at most.

        Parameters
        ----------
        rows : int ndarray of shape (n_fitted,)
            Numbers of the rows to learn from.
        settings : sequence of dict
        held_out : ndarray of shape (n, n_encoded), optional
            Encoded rows to decide on; with None nothing is decided.

        Returns
        -------
        machines : list of Estimator
            One a setting.
        decisions : list of ndarray of shape (n, n_outputs)
            One a setting, or empty.
        """
        rows = self.learnable(rows)
        max_rows = self._components.estimator(settings[0]).max_rows
        if len(rows) > max_rows:
            rows = rows[
                sub_sample(self.target[rows], None, max_rows, RARE_SHARE, seed=0)
            ]
        learned = self.take(rows)
        cache = kernel_cache.KernelCache(
            learned.x,
            self.distances.memory,
            partial(self.distances.part, rows),
            held_out,
        )
        machines: dict[int, Estimator] = {}
        decisions: dict[int, np.ndarray] = {}
        order = by_shared_work(settings)
        for family in self._components.families([settings[number] for number in order]):
            numbers = [order[position] for position in family]
            fitted = self._fit_family(
                [settings[number] for number in numbers], learned, cache
            )
            machines |= zip(numbers, fitted, strict=True)
            if held_out is not None:
                decided = self._decisions_at(held_out, fitted, cache)
                decisions |= zip(numbers, decided, strict=True)
        return (
            [machines[number] for number in sorted(machines)],
            [decisions[number] for number in sorted(decisions)],
        )

    def _fit_family(
        self,
        settings: Sequence[Parameters],
        learned: EncodedRows,
        cache: kernel_cache.KernelCache,
    ) -> Sequence[Estimator]:
        """Fit machines with settings that differ in the factor alone.

        Another machine than a kernel machine has no factor, so one setting.
        """
        first = self.estimator(settings[0])
        if not isinstance(first, KernelMachine):
            if learned.weight is None:
                return [first.fit(learned.x, learned.target)]
            if not isinstance(first, WeightedClassifier):
                raise RecipeError(
                    f"method {self.recipe.name} does not support sample_weight here; "
                    "leave it out, or name a recipe that does, such as logistic"
                )
            return [first.fit(learned.x, learned.target, learned.weight)]
        factors = [first.factor]
        for setting in settings[1:]:
            factors.append(self._components.estimator(setting).factor)
        cache.trained = []
        machines = first.fit_each(
            factors, learned.x, learned.target, learned.groups, cache, learned.weight
        )
        if self.recipe.machine == "one_class":
            return [machine.relative() for machine in machines]
        return machines

    def _decisions_at(
        self,
        held_out: np.ndarray,
        machines: Sequence[Estimator],
        cache: kernel_cache.KernelCache,
    ) -> list[np.ndarray]:
        """Return ``decisions`` of machines that were fitted together."""
        kernel_machines = [
            machine for machine in machines if isinstance(machine, KernelMachine)
        ]
        if not kernel_machines:
            return [self.decisions(machine, held_out) for machine in machines]
        decided = decisions_at(
            cache,
            [machine.passes_kept for machine in kernel_machines],
            held_out,
            kernel_machines[0].has_log_scores,
        )
        scores = []
        for machine, decisions in zip(kernel_machines, decided, strict=True):
            score = machine.scores_from(decisions)
            scores.append(oriented(score, machine, self.recipe.machine, self.n_outputs))
        return scores

    def decisions(self, machine: Estimator, x: np.ndarray) -> np.ndarray:
        """Return decisions on encoded rows, higher for more suspicious.

        Shape (n_rows, n_outputs).
        """
        return oriented(machine.decide(x), machine, self.recipe.machine, self.n_outputs)


@dataclass(frozen=True)
class FoldFit:
    """Machines of one fold, one a setting, and their decisions on the rows held out.

    Parameters
    ----------
    numbers : sequence of int
        Of its settings, among all that compete.
    rows : int ndarray of shape (n_held_out,)
        Numbers of the rows held out.
    machines : list of Estimator
        One a setting; empty if the task keeps none.
    decisions : list of ndarray of shape (n_held_out, n_outputs)
        One a setting, to choose by, see `EncodedRows.fit_settings`; if one setting
        alone competes, what its machine decides by itself.
    seconds : tuple of float
        Of fitting one machine, and of deciding too where several settings compete;
        and of scoring a thousand rows by the first machine.
    """

    numbers: Sequence[int]
    rows: np.ndarray
    machines: list[Estimator]
    decisions: list[np.ndarray]
    seconds: tuple[float, float]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as arrays without objects."""
        arrays = {"rows": self.rows, "seconds": np.array(self.seconds)}
        for position, of_setting in enumerate(self.decisions):
            arrays[f"{position}/decisions"] = of_setting
        for position, machine in enumerate(self.machines):
            for name, value in machine.state().items():
                arrays[f"{position}/machine/{name}"] = value
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], task: FoldTask) -> FoldFit:
        """Return the fit of a task from what ``arrays`` returned."""
        machines = []
        decisions = []
        for position, number in enumerate(task.numbers):
            decisions.append(arrays[f"{position}/decisions"])
            if task.keeps_machines:
                machine = build(task.rows.recipe, **task.settings[number])
                machines.append(machine.restore(under(arrays, f"{position}/machine/")))
        seconds = (arrays["seconds"][0], arrays["seconds"][1])
        return cls(task.numbers, arrays["rows"], machines, decisions, seconds)


@dataclass(frozen=True)
class FoldTask:
    """One fold to be fitted at some of the settings that are tried.

    Parameters
    ----------
    rows : EncodedRows
        Without their encoder, which workers do not need.
    fold_of_row : int ndarray of shape (n_rows,)
        Fold that each row is held out in.
    fold : int
    numbers : sequence of int
        Of the settings to fit.
    settings : sequence of dict
        All that compete.
    keeps_machines : bool
        False where the decisions alone are wanted: machines of many rows take longer to
        travel between processes than to fit.
    """

    rows: EncodedRows
    fold_of_row: np.ndarray
    fold: int
    numbers: Sequence[int]
    settings: Sequence[Parameters]
    keeps_machines: bool

    @property
    def work(self) -> int:
        """Rows times settings."""
        return len(self.fold_of_row) * len(self.numbers)

    @property
    def expected_time(self) -> float:
        """Time that the fit will take, roughly, in no unit."""
        estimator = self.rows.recipe.estimator
        relative_time = 1.0 if estimator is None else estimator.relative_time
        return self.work * relative_time

    @property
    def n_gram_rows(self) -> int:
        """Rows of the largest kernel matrix of the fit; 0 for a machine without one."""
        if not self.rows.recipe.has_kernel:
            return 0
        n_rows = int(np.count_nonzero(self.fold_of_row != self.fold))
        return rows_held(self.own_settings, n_rows)

    @property
    def own_settings(self) -> list[Parameters]:
        """The settings to fit."""
        return [self.settings[number] for number in self.numbers]

    def fit(self) -> FoldFit:
        """Fit the machines of the fold, and decide on the rows held out."""
        is_held_out = self.fold_of_row == self.fold
        rows = np.flatnonzero(is_held_out)
        x = np.ascontiguousarray(self.rows.x[rows])
        is_alone = len(self.settings) == 1
        competing = None if is_alone else x
        began = time.perf_counter()
        machines, decisions = self.rows.fit_settings(
            np.flatnonzero(~is_held_out), self.own_settings, competing
        )
        fitted = time.perf_counter()
        # For its time; kept only where no other setting competes.
        decided_alone = self.rows.decisions(machines[0], x)
        scored = time.perf_counter()
        if is_alone:
            decisions = [decided_alone]
        n_decisions = len(self.fold_of_row) * decided_alone.shape[1]
        if n_decisions * len(self.settings) > MAX_FLOAT64_DECISIONS:
            decisions = [of_setting.astype(np.float32) for of_setting in decisions]
        seconds_a_fit = (fitted - began) / len(self.numbers)
        seconds_a_thousand = 1000 * (scored - fitted) / max(len(rows), 1)
        return FoldFit(
            self.numbers,
            rows,
            machines if self.keeps_machines else [],
            decisions,
            (seconds_a_fit, seconds_a_thousand),
        )


def fit_tasks(
    tasks: Sequence[FoldTask], resources: Resources
) -> Iterator[FoldFit | ScreenError]:
    """Yield the fits of tasks, in their order; the error where a fit was refused.

    Tasks of several recipes that fit the same machines are fitted once: without a
    factor, all recipes of one kernel have the same machine.
    """
    keys = _keys(tasks)
    distinct: dict[str, FoldTask] = {}
    for key, task in zip(keys, tasks, strict=True):
        distinct.setdefault(key, task)
    fits = _fit_distinct(distinct, resources)
    n_uses = Counter(keys)
    shared: dict[str, FoldFit | ScreenError] = {}
    for key, task in zip(keys, tasks, strict=True):
        if key not in shared:
            shared[key] = next(fits)
        result = shared[key]
        n_uses[key] -= 1
        if not n_uses[key]:
            del shared[key]
        if isinstance(result, FoldFit):
            result = replace(result, numbers=task.numbers)
        yield result


def _keys(tasks: Sequence[FoldTask]) -> list[str]:
    """Return a key of everything that a task's fit depends on, equal for equal fits."""
    digests: dict[int, str] = {}

    def digest(array: np.ndarray | None) -> str | None:
        if array is None:
            return None
        # The arrays live as long as the tasks, so their addresses identify them.
        if id(array) not in digests:
            contents = np.ascontiguousarray(array).data
            digests[id(array)] = hashlib.sha256(contents).hexdigest()
        return digests[id(array)]

    keys = []
    for task in tasks:
        rows = task.rows
        arrays = (rows.x, rows.target, rows.groups, rows.weight, task.fold_of_row)
        depends_on = [
            list(map(digest, arrays)),
            rows.x.shape[1],
            rows.n_outputs,
            rows.distances.memory,
            task.fold,
            task.keeps_machines,
            len(task.settings) == 1,
            [plugin.to_dict() for plugin in plugins_needed(rows.recipe)],
            [rows.description(setting) for setting in task.own_settings],
        ]
        keys.append(digest_of_json(depends_on))
    return keys


def _fit_distinct(
    tasks: Mapping[str, FoldTask], resources: Resources
) -> Iterator[FoldFit | ScreenError]:
    """Yield the fits of tasks, in their order, from checkpoints where they are kept."""
    files = _checkpoints(tasks, resources.kept)
    kept = {}
    for key, file in files.items():
        arrays = read_piece(file)
        if arrays:
            kept[key] = FoldFit.from_arrays(arrays, tasks[key])
    waiting = [task for key, task in tasks.items() if key not in kept]
    results = in_parallel(
        _fit,
        # Large arrays are arguments by themselves, so that processes share them.
        [tuple(vars(task).values()) for task in waiting],
        jobs=_n_jobs(waiting, resources),
        cluster=resources.workers,
    )
    for key in tasks:
        if key in kept:
            yield kept.pop(key)
            continue
        result = next(results)
        if key in files and isinstance(result, FoldFit):
            keep_piece(files[key], result.arrays())
        yield result


def _checkpoints(tasks: Mapping[str, FoldTask], kept: Path | None) -> dict[str, Path]:
    """Return the checkpoint of each task with storable machines, by its key."""
    if kept is None:
        return {}
    return {
        key: kept / f"{key[:24]}.npz"
        for key, task in tasks.items()
        if task.rows.recipe.persistable
    }


def _n_jobs(tasks: Sequence[FoldTask], resources: Resources) -> int:
    """Return how many tasks to run at a time; 1 if they are little work."""
    n_rows = max((len(task.fold_of_row) for task in tasks), default=0)
    if n_rows < MIN_ROWS_FOR_PROCESSES:
        return 1
    n_gram_rows = max(task.n_gram_rows for task in tasks)
    within_memory = kernel_cache.n_concurrent_fits(n_gram_rows, resources.memory)
    return min(effective_n_jobs(resources.jobs), within_memory)


def _fit(*fields_of_task: Any) -> FoldFit | ScreenError:
    """Fit a task; an error that concerns its method alone is its result."""
    try:
        return FoldTask(*fields_of_task).fit()
    except (RecipeError, UsageError) as error:
        return error
