"""The plan of a comparison: what all methods share on a cohort, one unit of work a method and cohort, and
those that are finished while it is still running, so that a killed one goes on where it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.errors import ModelError, UsageError
from screening.files import digest_of_json
from screening.parallel import Cluster, in_parallel
from screening.recipes.loading import tells_apart
from screening.recipes.recipe import Recipe
from screening.sources.readers import Source
from screening.statistics.operating_point import Rule
from screening.storage import finished
from screening.storage.publishing import write_whole
from screening.training.planning import LARGEST_WHOLE, sample_rows
from screening.validation.folds import Plan, planned, units
from screening.validation.held_out import Effort, Progress, held_out_by
from screening.validation.outcome import Outcome, outcome_of
from screening.validation.task import Task, ask, watchable
from screening.validation.validation import Validation

_SETTINGS = "settings.json"


class Checkpoints:
    """A private folder (0700) with one file a finished fold.

    `folder`: made if absent.
    `settings`: all that the kept numbers depend on but the methods themselves; plain JSON values.
    Raises UsageError: the folder keeps folds of a comparison with other settings.
    """

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, wanted = folder / _SETTINGS, json.loads(json.dumps(settings, sort_keys=True))
        if place.exists():
            try:
                kept = json.loads(place.read_bytes())
            except ValueError:
                kept = {}
            differing = sorted(key for key in {*kept, *wanted} if kept.get(key) != wanted.get(key))
            if differing:
                raise UsageError(
                    f"an unfinished comparison in {folder} has another {', '.join(differing)}; "
                    "ask for the same to go on with it, or delete that folder to start anew"
                )
        write_whole(place, json.dumps(wanted, sort_keys=True).encode())

    def take(self, key: str) -> Outcome | None:
        """The outcome kept under `key`, or None where there is none that can be read."""
        arrays = finished.take(self.folder / f"{key}.npz")
        try:
            return None if arrays is None else Outcome.from_arrays(arrays)
        except ModelError:
            return None

    def keep(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome; the file appears whole or not at all."""
        finished.keep(self.folder / f"{key}.npz", outcome.arrays())


@dataclass(frozen=True)
class Ground:
    """The rows, folds and rule that all methods share on one cohort."""

    name: str
    sample: Cohort
    rule: Rule
    plan: Plan
    notes: list[str]

    @property
    def groups(self) -> np.ndarray | None:
        return self.plan.groups

    def to_travel(self) -> Ground:
        """The same for workers, which need not know where the rows come from."""
        return replace(self, sample=replace(self.sample, source=Source([]), display=None))


@dataclass(frozen=True)
class Unit:
    """One method on one cohort: what is computed, and kept, as a whole.

    `task` is what the method is trained for, `end_point` what it is judged on: the same for all methods.
    """

    ground: Ground
    recipe: Recipe
    task: Task
    end_point: Task
    search: int | None
    key: str

    @property
    def work(self) -> int:
        """About how long it takes, in no unit: kernel machines grow with the square of the rows."""
        return 1 + self.ground.sample.n_rows**2 * (self.search or self.recipe.search.candidates) // 1000


def task_of(cohort: Cohort, recipe: Recipe) -> Task:
    return ask(cohort, tells_apart(recipe, cohort))


def common_ground(
    name: str,
    cohort: Cohort,
    control: Recipe,
    rule: Rule,
    folds: int,
    repeats: int | None,
    max_rows: int | None,
    seed: int,
) -> Ground:
    task = task_of(cohort, control)
    sample, rule, notes = sample_rows(cohort, task, rule, max_rows, seed, LARGEST_WHOLE)
    target = task.target(labels_of(sample))
    kept = units(sample, target, folds)
    plan = planned(sample, target, kept, repeats, seed)
    return Ground(name, sample, rule, plan, [*notes, *task.notes, *kept.notes])


def units_of(ground: Ground, place: int, methods: Sequence[Recipe], search: int | None) -> list[Unit]:
    """Every method on a cohort, all judged on the same watched classes; `place` is the cohort's number.

    The predicted class is judged too where every method tells all classes apart.
    """
    tasks = [_watchable(task_of(ground.sample, recipe), ground) for recipe in methods]
    end_point = next((task for task in tasks if task.kind == "binary"), tasks[0])
    found = []
    for recipe, task in zip(methods, tasks, strict=True):
        found.append(Unit(ground, recipe, task, end_point, search, f"{place}-{_mark(recipe)}"))
    return found


def _watchable(task: Task, ground: Ground) -> Task:
    return watchable(task, task.target(labels_of(ground.sample)), ground.groups, ground.plan.folds)


def _mark(recipe: Recipe) -> str:
    """A recipe's name, text and parameters as part of a file name."""
    mark = digest_of_json([recipe.text, recipe.parameters])[:12]
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', recipe.name)}-{mark}"


def judged(ground: Ground, recipe: Recipe, task: Task, search: int | None, seed: int) -> Outcome:
    """Every row held out by a method, its setting and its thresholds chosen as `train` chooses them.

    Raises RecipeError: no setting of the method can be used.
    """
    held_out = held_out_by(
        ground.sample, recipe, task, ground.plan,
        params={}, search=search, seed=seed, effort=Effort(jobs=1),
    )  # fmt: skip
    validation = Validation.of(held_out, ground.sample, task, ground.groups)
    points = [validation.operating_point(m, ground.rule, seed) for m in range(validation.scores.shape[1])]
    return outcome_of(validation, points, held_out)


def work_through(
    plan: Sequence[Unit],
    *,
    seed: int,
    jobs: int,
    cluster: Cluster | None,
    checkpoints: Checkpoints | None,
    progress: Progress | None,
) -> dict[str, Outcome]:
    """Every unit's outcome by its key: what is kept is read, the rest computed and kept."""
    kept = {unit.key: checkpoints.take(unit.key) for unit in plan} if checkpoints else {}
    found = {key: outcome for key, outcome in kept.items() if outcome is not None}
    total = sum(unit.work for unit in plan)
    done = sum(unit.work for unit in plan if unit.key in found)
    if progress is not None:
        progress(done, total)
    work = {unit.key: unit.work for unit in plan}
    waiting = [unit for unit in plan if unit.key not in found]
    grounds = {id(unit.ground): unit.ground for unit in waiting}
    if cluster is not None:
        cluster.check(rows_travel=True)
        grounds = {key: ground.to_travel() for key, ground in grounds.items()}
    given = [
        (unit.key, grounds[id(unit.ground)], unit.recipe, unit.task, unit.search, seed) for unit in waiting
    ]
    shared = list(grounds.values())
    for key, outcome in in_parallel(_judged, given, jobs=jobs, cluster=cluster, shared=shared, ordered=False):
        if checkpoints is not None:
            checkpoints.keep(key, outcome)
        found[key] = outcome
        done += work[key]
        if progress is not None:
            progress(done, total)
    return found


def _judged(key: str, *given: Any) -> tuple[str, Outcome]:
    """Which it was: the first that is done comes first."""
    return key, judged(*given)
