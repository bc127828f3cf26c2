"""Cells of a comparison, a method on a cohort each, judged by processes that read the cohort themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from screening.cluster import Cluster
from screening.cohort.reading import reread
from screening.comparison.checkpoints import Checkpoints
from screening.comparison.plan import Finisher, Unit, common_ground, judged, units_of
from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.files import digest_of_json
from screening.kernels.threads import limit_threads
from screening.recipes.recipe import Recipe
from screening.sources.parts import Part
from screening.sources.pieces import refuse_unseen
from screening.sources.source_files import Source
from screening.statistics.operating_point import Rule
from screening.storage.finished import keep
from screening.validation.outcome import Outcome


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a worker is told of a cohort: where it lies, how it is read, and how folds are dealt.

    Parameters
    ----------
    parts : sequence of Part
    contract : Contract
        Complete: it names the features.
    need_label : bool
        Whether rows without a label were left out.
    n_rows : int
        That must be found.
    name, place
        Of the cohort in the comparison.
    methods : sequence of Recipe
        All of them, the control first: what they are judged on depends on each.
    rule, folds, repeats, max_rows, search, seed
        As `compare` takes them.
    """

    parts: Sequence[Part]
    contract: Contract
    need_label: bool
    n_rows: int
    name: str
    place: int
    methods: Sequence[Recipe]
    rule: Rule
    folds: int
    repeats: int | None
    max_rows: int | None
    search: int | None
    seed: int

    @cached_property
    def mark(self) -> str:
        """The same for the same, so that a worker reads a cohort once for all its cells."""
        told = [
            [part.sha256 for part in self.parts], self.contract.to_dict(), self.place,
            [[recipe.text, recipe.parameters] for recipe in self.methods], str(self.rule), self.need_label,
            self.folds, self.repeats, self.max_rows, self.search, self.seed,
        ]  # fmt: skip
        return digest_of_json(told)

    def __hash__(self) -> int:
        return hash(self.mark)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assignment) and other.mark == self.mark

    def units(self) -> list[Unit]:
        """Every method on the cohort, read again.

        Raises
        ------
        CohortError
            It is not what it was.
        """
        cohort = reread(Source(self.parts), self.contract, self.need_label)
        if cohort.n_rows != self.n_rows:
            raise CohortError(f"{self.name}: a worker reads {cohort.n_rows} rows, not {self.n_rows}")
        ground = common_ground(
            self.name, cohort, self.methods[0], self.rule, self.folds, self.repeats, self.max_rows, self.seed
        )
        return units_of(ground, self.place, self.methods, self.search)


@dataclass(frozen=True)
class Cell:
    """A method on a cohort, by its key, and the file that its outcome is written to."""

    assignment: Assignment
    key: str
    threads: int
    out: str


def judge_cell(cell: Cell) -> None:
    """Judge a method on a cohort, and write the outcome."""
    with limit_threads(cell.threads):
        unit = next(each for each in _units(cell.assignment) if each.key == cell.key)
        keep(Path(cell.out), judged(unit, cell.assignment.seed).arrays())


@lru_cache(1)
def _units(assignment: Assignment) -> list[Unit]:
    return assignment.units()


def shared_checkpoints(
    cluster: Cluster, assignments: Sequence[Assignment], kept: Path | None, settings: dict[str, Any]
) -> Checkpoints:
    """Checkpoints that workers write to.

    Raises
    ------
    UsageError
        A cohort is no file that workers can read, they do not see it, or there is no folder for checkpoints.
    """
    if kept is None:
        raise UsageError("--cluster: name a folder for finished methods, which workers write to (kept)")
    parts = [part for each in assignments for part in each.parts]
    for part in parts:
        refuse_unseen(part)
    cluster.check([*(path for part in parts for path in part.paths), kept.parent])
    return Checkpoints(kept, settings)


def by_workers(cluster: Cluster, assignments: Sequence[Assignment], checkpoints: Checkpoints) -> Finisher:
    """Have units finished by workers, which write checkpoints."""
    cohorts = {each.name: each for each in assignments}

    def finish(waiting: Sequence[Unit]) -> Iterator[tuple[Unit, Outcome]]:
        cells = [
            Cell(
                cohorts[unit.ground.name],
                unit.key,
                cluster.threads,
                str(checkpoints.place(unit.key).resolve()),
            )
            for unit in waiting
        ]
        for unit, _ in zip(waiting, cluster.map(judge_cell, cells), strict=True):
            outcome = checkpoints.take(unit.key)
            if outcome is None:
                raise UsageError(f"{checkpoints.folder} was changed while it was needed; start again")
            yield unit, outcome

    return finish
