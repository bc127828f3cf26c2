"""A cohort as the numbers its machines learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.cohort.encoding import Encoder
from screening.kernels import shared
from screening.machines.base import Estimator, KernelMachine
from screening.machines.fold_ensemble import oriented, oriented_decisions
from screening.machines.passes import decisions_of
from screening.recipes.building import Builder
from screening.recipes.recipe import Recipe
from screening.validation.candidates import Parameters, by_shared_work
from screening.validation.task import Task


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows that the machines of a recipe learn from."""

    recipe: Recipe
    n_classes: int
    x: np.ndarray  # (n_rows, n_encoded)
    target: np.ndarray
    groups: np.ndarray | None  # kept whole by remedies that validate inside the fit
    # between all rows, made once for all folds, settings and methods where memory allows
    distances: shared.Distances

    def to_travel(self) -> EncodedRows:
        """The same for workers: what stands together is told by numbers, and no name travels."""
        groups = None if self.groups is None else np.unique(self.groups, return_inverse=True)[1]
        return EncodedRows(self.recipe, self.n_classes, self.x, self.target, groups, self.distances)

    def learnable(self, rows: np.ndarray) -> np.ndarray:
        """Those of some rows that a machine learns from."""
        return rows[self.target[rows] == 0] if self.recipe.machine == "one_class" else rows

    def estimator(self, parameters: Parameters) -> Estimator:
        """The recipe's estimator, its gamma a number: the same in every fold, whatever rows a fold holds."""
        estimator = self._builder.estimator(parameters)
        return estimator.scaled_to(self._learnable_x) if hasattr(estimator, "scaled_to") else estimator

    @cached_property
    def _builder(self) -> Builder:
        return Builder(self.recipe)

    @cached_property
    def _learnable_x(self) -> np.ndarray:
        return self.x[self.learnable(np.arange(len(self.x)))]

    def tried(
        self, rows: np.ndarray, settings: Sequence[Parameters], asked: np.ndarray | None
    ) -> tuple[list[Estimator], list[np.ndarray]]:
        """The recipe fitted to some of the rows at each of the settings, and what each decides elsewhere.

        Neighbours share their work, also where they decide: the decisions are those of ``decisions``, but in
        float64 throughout, which moves them by 3e-5 of the largest at most. `asked` are the encoded rows to
        decide on; with None nothing is decided.
        """
        rows = self.learnable(rows)
        x, target = np.ascontiguousarray(self.x[rows]), self.target[rows]
        known = {}
        if self.recipe.machine in ("two_class", "multi_class"):
            known = {"groups": None if self.groups is None else self.groups[rows]}
        machines: dict[int, Estimator] = {}
        decided: dict[int, np.ndarray] = {}
        part = partial(self.distances.part, rows)
        with shared.using(shared.Shared(x, self.distances.memory, part, asked)):
            ordered = by_shared_work(settings)
            for family in self._builder.families([settings[at] for at in ordered]):
                numbers = [ordered[place] for place in family]
                fitted = self._fitted([settings[at] for at in numbers], x, target, known)
                machines |= zip(numbers, fitted, strict=True)
                if asked is not None:
                    decided |= zip(numbers, self._decisions_of(fitted, asked), strict=True)
        return [machines[at] for at in sorted(machines)], [decided[at] for at in sorted(decided)]

    def _fitted(
        self, family: Sequence[Parameters], x: np.ndarray, target: np.ndarray, known: dict[str, Any]
    ) -> list[Estimator]:
        """Machines of settings that differ in their factors alone."""
        first = self.estimator(family[0])
        if len(family) == 1:
            fitted = [first.fit(x, target, **known)]
        else:
            fitted = first.fit_each([self._builder.factor(each) for each in family], x, target, **known)
        return [each.relative() for each in fitted] if self.recipe.machine == "one_class" else fitted

    def _decisions_of(self, machines: Sequence[Estimator], x: np.ndarray) -> list[np.ndarray]:
        """``decisions`` of machines that were fitted together."""
        kernel_machines = [each for each in machines if isinstance(each, KernelMachine)]
        if len(kernel_machines) < len(machines):
            return [self.decisions(each, x) for each in machines]
        found = decisions_of([each.passes_kept for each in kernel_machines], x)
        return [
            oriented(each.scores_from(own), each, self.recipe.machine, self.n_classes)
            for each, own in zip(kernel_machines, found, strict=True)
        ]

    def decisions(self, machine: Estimator, x: np.ndarray) -> np.ndarray:
        """Of encoded rows, higher for more suspicious, shape (n_rows, 1) or (n_rows, n_classes)."""
        return oriented_decisions(machine, x, self.recipe.machine, self.n_classes)


@dataclass(frozen=True)
class EncodedCohort(EncodedRows):
    """A cohort as the numbers its machines learn from: one encoder, fitted once without a label.

    A one-class machine learns from negatives alone, and so does its encoder: positives stretch the scale.
    """

    encoder: Encoder

    @classmethod
    def of(
        cls, cohort: Cohort, recipe: Recipe, task: Task,
        groups: np.ndarray | None = None, memory: int | None = None,
    ) -> EncodedCohort:  # fmt: skip
        """Encode a cohort's rows."""
        target = task.target(labels_of(cohort))
        learned = cohort.take(target == 0) if recipe.machine == "one_class" else cohort
        encoder = Encoder(cohort.contract).fit(learned)
        x = np.ascontiguousarray(encoder.transform(cohort), dtype=np.float64)
        distances = shared.Distances(x, memory)
        return cls(recipe, len(task.classes), x, target, groups, distances, encoder)

    def by(self, recipe: Recipe) -> EncodedCohort | None:
        """The same rows for another recipe; None where it encodes them by others."""
        one_class = [each.machine == "one_class" for each in (self.recipe, recipe)]
        return replace(self, recipe=recipe) if one_class[0] == one_class[1] else None
