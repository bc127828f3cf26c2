"""Encoded rows, what is fitted on all folds but one, and what it decides on the rows held out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path

import numpy as np

from screening.cluster import Cluster
from screening.data.cohort import Cohort, labels_of
from screening.data.encoding import Bundles, Encoder
from screening.estimators.base import Estimator
from screening.estimators.ensembles import oriented, oriented_decisions
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.landmarks import RARE_SHARE
from screening.estimators.passes import decisions_at, under
from screening.files import digest_of_json
from screening.kernels import kernel_cache
from screening.metrics.ties import number_ties
from screening.model_selection.folds import sub_sample
from screening.model_selection.search import Parameters, by_shared_work, kernel_of
from screening.model_selection.task import Task
from screening.parallel import in_parallel
from screening.recipes.building import RecipeComponents, build
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
    # the rows, and what lies between them, made once for all folds, settings and methods where memory allows
    distances: kernel_cache.Distances
    target: np.ndarray
    groups: np.ndarray | None  # kept whole by remedies that validate inside the fit
    encoder: Encoder | None = None  # what made them of a cohort; workers need none

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        recipe: Recipe,
        task: Task,
        groups: np.ndarray | None = None,
        memory: int | None = None,
    ) -> EncodedRows:
        """A cohort as the numbers that machines learn from: one encoder, fitted once without a label.

        A one-class machine learns from negatives alone, and so does its encoder: positives stretch the scale.
        """
        target = task.target(labels_of(cohort))
        encoder = Encoder(cohort.contract).fit(
            cohort.take(target == 0) if recipe.machine == "one_class" else cohort
        )
        x = np.ascontiguousarray(encoder.transform(cohort), dtype=np.float64)
        return cls(
            recipe,
            task.n_outputs,
            kernel_cache.Distances(x, memory),
            target,
            groups,
            encoder,
        )

    @property
    def x(self) -> np.ndarray:
        """(n_rows, n_encoded)."""
        return self.distances.rows

    def of_rows(self, x: np.ndarray) -> EncodedRows:
        """The same rows encoded otherwise."""
        return replace(self, distances=kernel_cache.Distances(x, self.distances.memory))

    def part(self, rows: np.ndarray) -> EncodedRows:
        """Some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        part = self.of_rows(np.ascontiguousarray(self.x[rows]))
        return replace(part, target=self.target[rows], groups=groups)

    def to_travel(self) -> EncodedRows:
        """The same for workers: what stands together is told by numbers, and no name travels."""
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
        """The recipe's estimator, its gamma a number: the same in every fold, whatever rows a fold holds."""
        estimator = self._parts.estimator(parameters)
        return (
            estimator.scaled_to(self._learnable_x)
            if hasattr(estimator, "scaled_to")
            else estimator
        )

    @property
    def bundles(self) -> Bundles | None:
        """The columns of a category as one, where the recipe's machine is as well served by it."""
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
        """The recipe fitted to some of the rows at each of the settings, and what each decides elsewhere.

        Neighbours share their work, also where they decide: the decisions are those of ``decisions``, but in
        float64 throughout, which moves them by 3e-5 of the largest at most. `asked` are the encoded rows to
        decide on; with None nothing is decided.
        """
        rows = self.learnable(rows)
        most = self._parts.estimator(settings[0]).most_rows
        if len(rows) > most:
            rows = rows[sub_sample(self.target[rows], None, most, RARE_SHARE, seed=0)]
        x, target = np.ascontiguousarray(self.x[rows]), self.target[rows]
        groups = None if self.groups is None else self.groups[rows]
        machines: dict[int, Estimator] = {}
        decided: dict[int, np.ndarray] = {}
        part = partial(self.distances.part, rows)
        cache = kernel_cache.KernelCache(x, self.distances.memory, part, held_out)
        ordered = by_shared_work(settings)
        for family in self._parts.families([settings[at] for at in ordered]):
            numbers = [ordered[at] for at in family]
            fitted = self._fitted(
                [settings[at] for at in numbers], target, groups, cache
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
        cache: kernel_cache.KernelCache,
    ) -> Sequence[Estimator]:
        """Machines of settings that differ in their factors alone, on the rows of the cache."""
        first = self.estimator(family[0])
        if not isinstance(first, KernelMachine):
            return [first.fit(cache.rows, target)]
        factors = [
            first.factor,
            *(self._parts.estimator(setting).factor for setting in family[1:]),
        ]
        cache.trained = []
        fitted = first.fit_each(factors, cache.rows, target, groups, cache)
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
            cache, [machine.passes_kept for machine in kernel_machines], held_out
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


# Decisions kept beyond this number are float32: they are ranked, and compared to seven digits.
MOST_IN_FULL = 20_000_000


@dataclass(frozen=True)
class FoldFit:
    """Machines of one fold, one a setting, and their decisions on the rows held out."""

    settings: Sequence[int]  # which of all that are tried
    rows: np.ndarray
    machines: list[Estimator]
    # to choose by, as `EncodedRows.tried` has them; of one setting, what its machine says by itself
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


def fit_folds(
    encoded: EncodedRows,
    dealt: np.ndarray,
    settings: Sequence[Parameters],
    jobs: int,
    cluster: Cluster | None = None,
    kept: Path | None = None,
) -> Iterator[FoldFit]:
    """Fit every fold at each setting, in the order of the folds.

    `dealt` (n_rows,) is the fold that each row is held out in. `jobs` folds are fitted side by side here;
    workers of a cluster take those settings of a fold that share their kernel, and what they fitted waits in
    the private folder `kept`, for a command that is killed.
    """
    rows, lots = encoded, [list(range(len(settings)))]
    if cluster is not None:
        rows, lots = encoded.to_travel(), _lots(encoded.recipe, settings)
    pieces = [(fold, lot) for fold in range(int(dealt.max()) + 1) for lot in lots]
    if kept is None or not encoded.recipe.persistable:
        files = []
    else:
        files = _places(kept, rows, dealt, pieces, settings)
    finished: dict[int, FoldFit] = {}
    for number, file in enumerate(files):
        if arrays := read_piece(file):
            finished[number] = FoldFit.from_arrays(
                arrays, encoded.recipe, pieces[number][1], settings
            )
    # Apart, for members of a blend have all but the recipe in common.
    shared = rows.distances, rows.target, rows.groups, dealt
    waiting = [
        (rows.recipe, rows.n_outputs, *shared, *piece, settings)
        for number, piece in enumerate(pieces)
        if number not in finished
    ]
    if len(rows.x) < MIN_ROWS_FOR_PROCESSES:
        jobs = 1
    results = in_parallel(_fit_part, waiting, jobs=jobs, cluster=cluster)
    for number in range(len(pieces)):
        fit = finished.get(number) or next(results)
        if files and number not in finished:
            keep_piece(files[number], fit.arrays())
        yield fit


def _fit_part(
    recipe: Recipe,
    n_outputs: int,
    distances: kernel_cache.Distances,
    target: np.ndarray,
    groups: np.ndarray | None,
    dealt: np.ndarray,
    fold: int,
    lot: Sequence[int],
    settings: Sequence[Parameters],
) -> FoldFit:
    return fit_fold(
        EncodedRows(recipe, n_outputs, distances, target, groups),
        dealt,
        fold,
        lot,
        settings,
    )


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
    alone, tried = len(settings) == 1, [settings[number] for number in lot]
    began = time.perf_counter()
    machines, decisions = encoded.tried(
        np.flatnonzero(~held_out), tried, None if alone else x
    )
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
    """Numbers of settings to be fitted together: those of one kernel go on from each other's solutions."""
    if recipe.machine == "baseline":
        return [[at] for at in range(len(settings))]
    order = by_shared_work(settings)
    return [
        list(lot) for _, lot in groupby(order, key=lambda at: kernel_of(settings[at]))
    ]


def _places(
    kept: Path,
    rows: EncodedRows,
    dealt: np.ndarray,
    pieces: Sequence[tuple[int, list[int]]],
    settings: Sequence[Parameters],
) -> list[Path]:
    """The file of each piece of a fold, by everything that it depends on."""
    content = hashlib.sha256(rows.x.tobytes() + rows.target.tobytes() + dealt.tobytes())
    content.update(b"" if rows.groups is None else rows.groups.tobytes())
    content_of_all = [
        content.hexdigest(),
        rows.recipe.text,
        rows.recipe.parameters,
        rows.n_outputs,
    ]
    content_of_all += [rows.distances.memory, len(settings)]
    names = [
        digest_of_json([*content_of_all, fold, [settings[at] for at in lot]])[:24]
        for fold, lot in pieces
    ]
    return [kept / f"{name}.npz" for name in names]
