"""One matrix of held-out decisions: folds times settings. The machines of the folds are the model.

Every row is decided on by machines that have not seen it, at every setting. The setting, the operating point
and all figures are read from this one matrix; nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs

from screening.cohort.cohort import Cohort
from screening.cohort.encoding import Encoder
from screening.documents.validation import SearchFacts
from screening.kernels import shared
from screening.machines.blend import BlendedEnsemble
from screening.machines.fold_ensemble import FoldEnsemble
from screening.parallel import Cluster
from screening.recipes.recipe import Recipe
from screening.validation.candidates import Parameters, rows_held
from screening.validation.choice import Search, choose_setting
from screening.validation.encoded import EncodedCohort
from screening.validation.fold_fits import FoldFit, fit_folds
from screening.validation.folds import Plan
from screening.validation.task import Task

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Effort:
    """How the work of holding rows out is done; none of it changes a figure."""

    jobs: int = -1  # threads; -1 for one a core
    # bytes for kernel matrices: fewer fits run side by side where two would take more
    memory: int | None = None
    progress: Progress | None = None  # called with (fits finished, fits in all)
    cluster: Cluster | None = None  # workers that fit in place of the threads
    kept: Path | None = None  # private folder where what they fitted waits until all is done
    # Of the same cohort for another recipe: its encoding and distances are used again where they serve.
    like: EncodedCohort | None = None

    def encoded(self, cohort: Cohort, recipe: Recipe, task: Task, plan: Plan) -> EncodedCohort:
        """The cohort's rows as a recipe learns from them."""
        known = None if self.like is None else self.like.by(recipe)
        return known or EncodedCohort.of(cohort, recipe, task, plan.groups, self.memory)


EFFORT = Effort()


@dataclass(frozen=True)
class HeldOut:
    """What the folds of a recipe say of rows they had not seen, and the machines that said it."""

    # (n_repeats, n_rows, n_outputs), at the chosen setting, of the machine whose fold held the row out
    decisions: np.ndarray
    fold: np.ndarray  # int, (n_repeats, n_rows)
    # the machines of all folds and repeats at the chosen setting: the model
    ensemble: FoldEnsemble | BlendedEnsemble
    recipe: Recipe  # the settings are of
    encoded: EncodedCohort  # the rows as the machines saw them
    search: Search
    # support vectors of a machine as a share of the rows it learned from; None for a baseline
    sv_share: float | None
    seconds: tuple[float, float]  # of fitting one machine, and of scoring a thousand rows by it
    parts: tuple[HeldOut, ...] = ()  # the members of a blend
    notes: tuple[str, ...] = ()  # what was left out

    @property
    def one_class(self) -> bool:
        """Whether nothing was learned from positives."""
        recipes = [part.recipe for part in self.parts] or [self.recipe]
        return all(recipe.machine == "one_class" for recipe in recipes)

    def searched(self) -> SearchFacts:
        """What was tuned, on what, and which settings could not be used."""
        return SearchFacts(
            criterion=self.recipe.search.criterion,
            n_candidates=len(self.search.candidates),
            chosen=self.search.chosen,
            candidates=self.search.candidates,
            scores=self.search.scores,
            dropped=self.search.dropped,
        )

    def first_repeats(self, repeats: int) -> FoldEnsemble:
        """The machines of the first so many repeats."""
        assert isinstance(self.ensemble, FoldEnsemble)
        kept = len(self.ensemble.machines) // len(self.fold) * repeats
        return FoldEnsemble(self.ensemble.machines[:kept], self.ensemble.kind, self.ensemble.n_classes)

    @property
    def encoder(self) -> Encoder:
        """Learned once, on all rows (of one class: on the negatives)."""
        return self.encoded.encoder


def hold_out(
    cohort: Cohort,
    recipe: Recipe,
    task: Task,
    plan: Plan,
    candidates: Sequence[Parameters],
    effort: Effort = EFFORT,
) -> HeldOut:
    """Decide on every row by machines that have not seen it, at every setting, and choose the setting.

    The settings compete in the first repeat, the first candidate being the default; further repeats are
    fitted at the chosen setting alone. RecipeError where no setting is fit to be used (`choose_setting`).
    """
    encoded = effort.encoded(cohort, recipe, task, plan)
    most = shared.side_by_side(rows_held(candidates, cohort.n_rows), effort.memory)
    jobs, progress = min(effective_n_jobs(effort.jobs), most), effort.progress
    total = plan.folds * (len(candidates) + len(plan.fold) - 1)
    finished = 0

    def run(deal: int, settings: Sequence[Parameters]) -> list[FoldFit]:
        nonlocal finished
        fits = fit_folds(encoded, plan.fold[deal], settings, jobs, effort.cluster, effort.kept)
        results = []
        for result in fits:
            results.append(result)
            finished += len(settings)
            if progress is not None:
                progress(finished, total)
        return results

    first = run(0, candidates)
    matrix = np.stack([_in_row_order(first, at) for at in range(len(candidates))])
    search = choose_setting(
        recipe.search.criterion, recipe.name, candidates, matrix, encoded.target, plan.fold[0]
    )
    at = search.number
    machines = [each.machines[at] for each in first]
    decisions = [matrix[at] if len(candidates) == 1 else _by_themselves(encoded, first, at)]
    repeat = plan.asked or FoldEnsemble(machines, recipe.machine, len(task.classes)).averages
    if not repeat and progress is not None:
        progress(finished, finished)
    for deal in range(1, len(plan.fold)) if repeat else ():
        again = run(deal, [candidates[at]])
        decisions.append(_in_row_order(again, 0))
        machines += [each.machines[0] for each in again]
    dealt = plan.fold[: len(decisions)]
    ensemble = FoldEnsemble(machines, recipe.machine, len(task.classes))
    learned = encoded.learnable(np.arange(cohort.n_rows))
    return HeldOut(
        decisions=np.stack(decisions),
        fold=dealt,
        ensemble=ensemble,
        recipe=recipe,
        encoded=encoded,
        search=search,
        sv_share=ensemble.support_share(
            [int(np.sum(fold[learned] != k)) for fold in dealt for k in range(plan.folds)]
        ),
        seconds=tuple(float(np.mean([each.seconds[i] for each in first])) for i in (0, 1)),  # type: ignore[arg-type]
    )


def _by_themselves(encoded: EncodedCohort, folds: Sequence[FoldFit], at: int) -> np.ndarray:
    """What the machines of one setting say of the rows held out, to the bit as they will say it again."""
    return _placed(
        folds,
        [encoded.decisions(each.machines[at], np.ascontiguousarray(encoded.x[each.rows])) for each in folds],
    )


def _in_row_order(folds: Sequence[FoldFit], at: int) -> np.ndarray:
    return _placed(folds, [each.decisions[at] for each in folds])


def _placed(folds: Sequence[FoldFit], decisions: Sequence[np.ndarray]) -> np.ndarray:
    parts = np.concatenate(decisions)
    whole = np.empty_like(parts)
    whole[np.concatenate([each.rows for each in folds])] = parts
    return whole
