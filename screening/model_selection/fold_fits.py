"""Encode rows, fit machines on all folds but one, and decide on rows held out."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from screening.cluster import Cluster
from screening.data.cohort import Cohort, labels_of
from screening.data.encoding import Bundles
from screening.errors import RecipeError, ScreenError, UsageError
from screening.estimators.base import Estimator, WeightedClassifier
from screening.estimators.ensembles import oriented, oriented_decisions
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.landmarks import RARE_SHARE
from screening.estimators.passes import decisions_at, under
from screening.files import digest_of_json
from screening.kernels import kernel_cache
from screening.metrics.ties import number_ties
from screening.model_selection.folds import sub_sample
from screening.model_selection.search import (
    Parameters,
    by_shared_work,
    kernel_of,
    rows_held,
)
from screening.model_selection.task import Task
from screening.parallel import in_parallel
from screening.recipes.building import RecipeComponents, build
from screening.recipes.encoders import RowEncoder, learned_encoding
from screening.recipes.recipe import Recipe
from screening.store.checkpoints import keep_piece, read_piece

# Fewer rows are fitted here in less time than processes take to start.
MIN_ROWS_FOR_PROCESSES = 2_000
# Rows by which gamma is scaled.
MOST_SCALED = 20_000


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows that the machines of a recipe learn from."""

    recipe: Recipe
    n_outputs: int  # columns of decisions
    # the rows, and what lies between them, made once for all folds, settings and
    # methods where memory allows
    distances: kernel_cache.Distances
    target: np.ndarray
    groups: np.ndarray | None  # kept whole by remedies that validate inside the fit
    weight: np.ndarray | None = None  # how much each row counts; None for all alike
    encoder: RowEncoder | None = None  # what made them of a cohort; workers need none

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        recipe: Recipe,
        task: Task,
        groups: np.ndarray | None = None,
        memory: int | None = None,
    ) -> EncodedRows:
        """Return a cohort as the numbers that machines learn from.

        There is one encoder, fitted once.
        """
        target = task.target(labels_of(cohort))
        encoder, x = learned_encoding(recipe, cohort, target)
        x = np.ascontiguousarray(x, dtype=np.float64)
        return cls(
            recipe,
            task.n_outputs,
            kernel_cache.Distances(x, memory),
            target,
            groups,
            cohort.weight,
            encoder,
        )

    @property
    def x(self) -> np.ndarray:
        """(n_rows, n_encoded)."""
        return self.distances.rows

    def of_rows(self, x: np.ndarray) -> EncodedRows:
        """Return the same rows in another encoding."""
        return replace(self, distances=kernel_cache.Distances(x, self.distances.memory))

    def part(self, rows: np.ndarray) -> EncodedRows:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        weight = None if self.weight is None else self.weight[rows]
        part = self.of_rows(np.ascontiguousarray(self.x[rows]))
        return replace(part, target=self.target[rows], groups=groups, weight=weight)

    def to_travel(self) -> EncodedRows:
        """Return the same for workers, with groups as numbers and not as names."""
        groups = (
            None
            if self.groups is None
            else np.unique(self.groups, return_inverse=True)[1]
        )
        return replace(self, groups=groups, encoder=None)

    def learnable(self, rows: np.ndarray) -> np.ndarray:
        """Those of some rows that a machine learns from."""
        return (
            rows[self.target[rows] == 0] if self.recipe.machine == "one_class" else rows
        )

    def estimator(self, parameters: Parameters) -> Estimator:
        """Return the recipe's estimator, with the same numeric gamma in every fold."""
        estimator = self._parts.estimator(parameters)
        return (
            estimator.scaled_to(self._learnable_x)
            if hasattr(estimator, "scaled_to")
            else estimator
        )

    def description(self, parameters: Parameters) -> str:
        """Return a text that is equal for equal machines, whatever recipe names them.

        A machine that declines its factor is the one that has none.
        """
        estimator = self._parts.estimator(parameters)
        values = estimator.get_params(deep=False)
        if isinstance(estimator, KernelMachine) and not estimator.n_rescalings:
            declined = {"factor": None, "passes": 0, "normalise": False, "stop": ""}
            values |= {name: declined[name] for name in declined if name in values}
        return repr(
            [type(estimator).__name__, sorted(values.items(), key=itemgetter(0))]
        )

    @property
    def bundles(self) -> Bundles | None:
        """Return bundles of categories' columns where the recipe allows it."""
        if self.encoder is None or not self._parts.estimator({}).bundled:
            return None
        return self.encoder.bundles()

    @cached_property
    def _parts(self) -> RecipeComponents:
        return RecipeComponents(self.recipe)

    @cached_property
    def _learnable_x(self) -> np.ndarray:
        return self.x[self.learnable(np.arange(len(self.x)))[:MOST_SCALED]]

    @cached_property
    def alike(self) -> np.ndarray | None:
        """A number for each distinct row, (n_rows,), where one stands for many."""
        return number_ties(self.x)

    def tried(
        self,
        rows: np.ndarray,
        settings: Sequence[Parameters],
        held_out: np.ndarray | None,
    ) -> tuple[list[Estimator], list[np.ndarray]]:
        """Fit the recipe to some rows at each setting, and decide on other rows.

        Neighbours share their work, also where they decide: the decisions are those of
        ``decisions``, but in float64 throughout, which moves them by 3e-5 of the
        largest at most. `asked` are the encoded rows to decide on; with None nothing is
        decided.
        """
        rows = self.learnable(rows)
        most = self._parts.estimator(settings[0]).most_rows
        if len(rows) > most:
            rows = rows[sub_sample(self.target[rows], None, most, RARE_SHARE, seed=0)]
        x, target = np.ascontiguousarray(self.x[rows]), self.target[rows]
        groups = None if self.groups is None else self.groups[rows]
        weight = None if self.weight is None else self.weight[rows]
        machines: dict[int, Estimator] = {}
        decided: dict[int, np.ndarray] = {}
        part = partial(self.distances.part, rows)
        cache = kernel_cache.KernelCache(x, self.distances.memory, part, held_out)
        ordered = by_shared_work(settings)
        for family in self._parts.families([settings[at] for at in ordered]):
            numbers = [ordered[at] for at in family]
            fitted = self._fitted(
                [settings[at] for at in numbers], target, groups, weight, cache
            )
            machines |= zip(numbers, fitted, strict=True)
            if held_out is not None:
                decided |= zip(
                    numbers, self._decisions_at(held_out, fitted, cache), strict=True
                )
        return [machines[at] for at in sorted(machines)], [
            decided[at] for at in sorted(decided)
        ]

    def _fitted(
        self,
        family: Sequence[Parameters],
        target: np.ndarray,
        groups: np.ndarray | None,
        weight: np.ndarray | None,
        cache: kernel_cache.KernelCache,
    ) -> Sequence[Estimator]:
        """Fit machines of settings that differ in their factors alone."""
        first = self.estimator(family[0])
        if not isinstance(first, KernelMachine):
            if weight is None:
                return [first.fit(cache.rows, target)]
            if not isinstance(first, WeightedClassifier):
                raise RecipeError(
                    f"method {self.recipe.name} takes no sample_weight here: leave it "
                    "out, or name a recipe whose method is weighted, such as logistic"
                )
            return [first.fit(cache.rows, target, weight)]
        factors = [
            first.factor,
            *(self._parts.estimator(setting).factor for setting in family[1:]),
        ]
        cache.trained = []
        fitted = first.fit_each(factors, cache.rows, target, groups, cache, weight)
        return (
            [machine.relative() for machine in fitted]
            if self.recipe.machine == "one_class"
            else fitted
        )

    def _decisions_at(
        self,
        held_out: np.ndarray,
        machines: Sequence[Estimator],
        cache: kernel_cache.KernelCache,
    ) -> list[np.ndarray]:
        """``decisions`` of machines that were fitted together."""
        kernel_machines = [
            machine for machine in machines if isinstance(machine, KernelMachine)
        ]
        if len(kernel_machines) < len(machines):
            return [self.decisions(machine, held_out) for machine in machines]
        decided = decisions_at(
            cache,
            [machine.passes_kept for machine in kernel_machines],
            held_out,
            kernel_machines[0].has_log_scores,
        )
        return [
            oriented(
                machine.scores_from(own), machine, self.recipe.machine, self.n_outputs
            )
            for machine, own in zip(kernel_machines, decided, strict=True)
        ]

    def decisions(self, machine: Estimator, x: np.ndarray) -> np.ndarray:
        """Of encoded rows, higher for more suspicious, shape (n_rows, n_outputs)."""
        return oriented_decisions(machine, x, self.recipe.machine, self.n_outputs)


# Decisions kept beyond this number are float32: they are ranked, and compared to seven
# digits.
MOST_IN_FULL = 20_000_000


@dataclass(frozen=True)
class FoldFit:
    """Machines of one fold, one a setting, and their decisions on the rows held out."""

    settings: Sequence[int]  # which of all that are tried
    rows: np.ndarray
    machines: list[Estimator]
    # to choose by, as `EncodedRows.tried` has them; of one setting, what its machine
    # says by itself
    decisions: list[np.ndarray]
    seconds: tuple[
        float, float
    ]  # of fitting one machine, and of scoring a thousand rows by it

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without objects."""
        arrays = {"rows": self.rows, "seconds": np.array(self.seconds)}
        for at, (machine, decisions) in enumerate(
            zip(self.machines, self.decisions, strict=True)
        ):
            arrays[f"{at}/decisions"] = decisions
            arrays |= {
                f"{at}/machine/{name}": value for name, value in machine.state().items()
            }
        return arrays

    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, np.ndarray],
        recipe: Recipe,
        lot: Sequence[int],
        tried: Sequence[Parameters],
    ) -> FoldFit:
        """Inverse of ``arrays``; the fit is of a lot of those tried."""
        machines = [
            build(recipe, **tried[number]).restore(under(arrays, f"{at}/machine/"))
            for at, number in enumerate(lot)
        ]
        decisions = [arrays[f"{at}/decisions"] for at in range(len(lot))]
        return cls(
            lot,
            arrays["rows"],
            machines,
            decisions,
            (arrays["seconds"][0], arrays["seconds"][1]),
        )


Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Resources:
    """How folds are fitted; none of it changes a figure.

    Parameters
    ----------
    jobs : int
        Fits at a time; -1 for one per core.
    memory : int, optional
        Bytes for kernel matrices: fewer fits run at a time if they would take more.
    progress : callable
        Called with (work done, work in all).
    cluster : Cluster, optional
        Workers that fit instead of this machine.
    kept : Path, optional
        Private folder where fits wait until all are done, for a command that is killed.
    """

    jobs: int = -1
    memory: int | None = None
    progress: Progress = silent
    cluster: Cluster | None = None
    kept: Path | None = None


DEFAULT_RESOURCES = Resources()


@dataclass(frozen=True)
class FoldTask:
    """One fold to be fitted at some of the settings that are tried.

    Parameters
    ----------
    rows : EncodedRows
        As they travel, see ``EncodedRows.to_travel``.
    dealt : int ndarray of shape (n_rows,)
        Fold that each row is held out in.
    fold : int
    lot : sequence of int
        Numbers of the settings.
    settings : sequence of dict
        All that are tried.
    """

    rows: EncodedRows
    dealt: np.ndarray
    fold: int
    lot: Sequence[int]
    settings: Sequence[Parameters]

    @property
    def work(self) -> int:
        """Rows times settings."""
        return len(self.dealt) * len(self.lot)

    @property
    def expected_time(self) -> float:
        """Time that the fit will take, roughly, in no unit."""
        estimator = self.rows.recipe.estimator
        relative_time = 1.0 if estimator is None else estimator.relative_time
        return self.work * relative_time

    @property
    def arrays_by_row(self) -> list[np.ndarray]:
        """What a fit depends on beside the encoded rows, (n_rows,) each."""
        rows = self.rows
        arrays = [rows.target, self.dealt]
        for optional in (rows.groups, rows.weight):
            if optional is not None:
                arrays.append(optional)
        return arrays

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of ``_fit``; large ones are the same objects in many tasks."""
        rows = self.rows
        shared = rows.distances, rows.target, rows.groups, rows.weight, self.dealt
        place = self.fold, self.lot, self.settings
        return rows.recipe, rows.n_outputs, *shared, *place

    @property
    def n_gram_rows(self) -> int:
        """Rows of the largest kernel matrix of the fit; 0 for a machine without one."""
        if not self.rows.recipe.has_kernel:
            return 0
        n_rows = int(np.count_nonzero(self.dealt != self.fold))
        settings = [self.settings[number] for number in self.lot]
        return rows_held(settings, n_rows)


def tasks_of(
    encoded: EncodedRows, dealt: np.ndarray, settings: Sequence[Parameters]
) -> list[FoldTask]:
    """Return the tasks of all folds, in the order of the folds.

    Settings that share their kernel are fitted together.

    Parameters
    ----------
    encoded : EncodedRows
    dealt : int ndarray of shape (n_rows,)
        Fold that each row is held out in.
    settings : sequence of dict
    """
    rows = encoded.to_travel()
    tasks = []
    for fold in range(int(dealt.max()) + 1):
        for lot in _lots(encoded.recipe, settings):
            tasks.append(FoldTask(rows, dealt, fold, lot, settings))
    return tasks


def fit_tasks(
    tasks: Sequence[FoldTask], resources: Resources
) -> Iterator[FoldFit | ScreenError]:
    """Yield the fits of tasks, in their order; the error where a fit was refused.

    Tasks of several recipes that fit the same machines are fitted once: without a
    factor, all recipes of one kernel have the same machine.
    """
    contents = _contents(tasks)
    first_with: dict[str, int] = {}
    for number, content in enumerate(contents):
        first_with.setdefault(content, number)
    distinct = [*first_with.values()]
    fits = _fit_distinct([tasks[number] for number in distinct], resources)
    n_uses = Counter(contents)
    shared: dict[str, FoldFit | ScreenError] = {}
    for number, content in enumerate(contents):
        if first_with[content] == number:
            result = next(fits)
        else:
            result = shared[content]
            if isinstance(result, FoldFit):
                result = replace(result, settings=tasks[number].lot)
        n_uses[content] -= 1
        if n_uses[content]:
            shared[content] = result
        else:
            shared.pop(content, None)
        yield result


def _contents(tasks: Sequence[FoldTask]) -> list[str]:
    """Return a text for each task that is equal for equal fits of the same rows."""
    digests: dict[tuple[int, ...], str] = {}
    contents = []
    for task in tasks:
        rows = task.rows
        arrays = task.arrays_by_row
        # The arrays live as long as the tasks, so their addresses tell them apart.
        key = tuple([id(array) for array in arrays])
        if key not in digests:
            digest = hashlib.sha256()
            for array in arrays:
                digest.update(array.tobytes())
            digests[key] = digest.hexdigest()
        machines = [rows.description(task.settings[number]) for number in task.lot]
        is_alone = len(task.settings) == 1
        place = id(rows.distances), digests[key], rows.n_outputs, task.fold, is_alone
        contents.append(repr([place, machines]))
    return contents


def _fit_distinct(
    tasks: Sequence[FoldTask], resources: Resources
) -> Iterator[FoldFit | ScreenError]:
    """Yield the fits of tasks, in their order, from checkpoints where they are kept."""
    files: Sequence[Path | None] = [None] * len(tasks)
    if resources.kept is not None:
        files = _checkpoints(resources.kept, tasks)
    finished: dict[int, FoldFit] = {}
    for number, file in enumerate(files):
        fit = _read_fit(file, tasks[number])
        if fit is not None:
            finished[number] = fit
    waiting = [number for number in range(len(tasks)) if number not in finished]
    results = in_parallel(
        _fit,
        [tasks[number].arguments for number in waiting],
        jobs=_n_jobs([tasks[number] for number in waiting], resources),
        cluster=resources.cluster,
    )
    for number in range(len(tasks)):
        if number in finished:
            yield finished[number]
            continue
        result = next(results)
        file = files[number]
        if file is not None and isinstance(result, FoldFit):
            keep_piece(file, result.arrays())
        yield result


def _n_jobs(tasks: Sequence[FoldTask], resources: Resources) -> int:
    """Return how many tasks to run at a time; 1 if they are little work."""
    if max((len(task.dealt) for task in tasks), default=0) < MIN_ROWS_FOR_PROCESSES:
        return 1
    n_gram_rows = max(task.n_gram_rows for task in tasks)
    within_memory = kernel_cache.n_concurrent_fits(n_gram_rows, resources.memory)
    return min(effective_n_jobs(resources.jobs), within_memory)


def _fit(
    recipe: Recipe,
    n_outputs: int,
    distances: kernel_cache.Distances,
    target: np.ndarray,
    groups: np.ndarray | None,
    weight: np.ndarray | None,
    dealt: np.ndarray,
    fold: int,
    lot: Sequence[int],
    settings: Sequence[Parameters],
) -> FoldFit | ScreenError:
    """Fit a task; an error that concerns its method alone is its result."""
    encoded = EncodedRows(recipe, n_outputs, distances, target, groups, weight)
    try:
        return fit_fold(encoded, dealt, fold, lot, settings)
    except (RecipeError, UsageError) as error:
        return error


def fit_fold(
    encoded: EncodedRows,
    dealt: np.ndarray,
    fold: int,
    lot: Sequence[int],
    settings: Sequence[Parameters],
) -> FoldFit:
    """Fit a fold at a lot of the settings that are tried."""
    held_out = dealt == fold
    rows = np.flatnonzero(held_out)
    x = np.ascontiguousarray(encoded.x[rows])
    alone = len(settings) == 1
    tried = [settings[number] for number in lot]
    compared = None if alone else x
    began = time.perf_counter()
    machines, decisions = encoded.tried(np.flatnonzero(~held_out), tried, compared)
    fitted = time.perf_counter()
    own = encoded.decisions(machines[0], x)
    scored = time.perf_counter() - fitted
    if alone:
        decisions = [own]
    if encoded.x.shape[0] * own.shape[1] * len(settings) > MOST_IN_FULL:
        decisions = [of_setting.astype(np.float32) for of_setting in decisions]
    seconds = (fitted - began) / len(tried), 1000 * scored / max(len(rows), 1)
    return FoldFit(lot, rows, machines, decisions, seconds)


def _lots(recipe: Recipe, settings: Sequence[Parameters]) -> list[list[int]]:
    """Return groups of settings to fit together, by number: they share a kernel."""
    if not recipe.has_kernel:
        return [[at] for at in range(len(settings))]
    order = by_shared_work(settings)
    return [
        list(lot) for _, lot in groupby(order, key=lambda at: kernel_of(settings[at]))
    ]


def _checkpoints(kept: Path, tasks: Sequence[FoldTask]) -> list[Path | None]:
    """Return the file of each fit, named by everything that the fit depends on.

    None for a machine that cannot be stored.
    """
    digests: dict[tuple[int, int], str] = {}
    files: list[Path | None] = []
    for task in tasks:
        rows = task.rows
        if not rows.recipe.persistable:
            files.append(None)
            continue
        key = id(rows.distances), id(task.dealt)
        if key not in digests:
            digest = hashlib.sha256(rows.x.tobytes())
            for array in task.arrays_by_row:
                digest.update(array.tobytes())
            digests[key] = digest.hexdigest()
        depends_on = [
            digests[key],
            rows.recipe.text,
            rows.recipe.parameters,
            rows.n_outputs,
            rows.distances.memory,
            len(task.settings),
            task.fold,
            [task.settings[number] for number in task.lot],
        ]
        files.append(kept / f"{digest_of_json(depends_on)[:24]}.npz")
    return files


def _read_fit(file: Path | None, task: FoldTask) -> FoldFit | None:
    """Return the fit of a task that a file holds, None if it holds none."""
    arrays = None if file is None else read_piece(file)
    if not arrays:
        return None
    return FoldFit.from_arrays(arrays, task.rows.recipe, task.lot, task.settings)
