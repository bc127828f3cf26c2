"""One matrix of held-out decisions: folds times settings. The machines of the folds are the model.

Every row is decided on by machines that have not seen it, at every setting. The setting, the operating point
and all figures are read from this one matrix; nothing is fitted again. A blend is held out by its members on
the same folds, each with its own search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs

from screening.cohort.cohort import Cohort, labels_of
from screening.cohort.encoding import Encoder
from screening.documents.validation import SearchFacts
from screening.errors import RecipeError, UsageError
from screening.kernels import kernel_cache
from screening.machines.ensembles import BlendedEnsemble, FoldEnsemble, Pooling
from screening.parallel import Cluster
from screening.recipes.building import build
from screening.recipes.loading import members_for, tells_apart
from screening.recipes.recipe import ALWAYS, Recipe
from screening.validation.fold_fits import EncodedCohort, FoldFit, fit_folds
from screening.validation.folds import Plan
from screening.validation.search import Parameters, candidates_of, choose_setting, rows_held
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
    search: SearchFacts  # what was tuned, on what, and which settings could not be used
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
    most = kernel_cache.side_by_side(rows_held(candidates, cohort.n_rows), effort.memory)
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
    at = candidates.index(dict(search.chosen))
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


def held_out_by(
    sample: Cohort,
    recipe: Recipe,
    task: Task,
    plan: Plan,
    *,
    params: Mapping[str, object],
    search: int | None,
    seed: int = 0,
    effort: Effort = EFFORT,
) -> HeldOut:
    """Hold every row out by a recipe, its settings drawn from its search; see `hold_out`.

    `params` are fixed by the caller; of a blend only what every kernel machine takes (landmarks). `search`
    settings compete, of every member of a blend; the recipe's own number if None. RecipeError or UsageError
    where the recipe, or every member of a blend, cannot be fitted on this cohort.
    """
    if recipe.machine != "blend":
        candidates = candidates_of(recipe, dict(params), search, seed)
        return hold_out(sample, recipe, task, plan, candidates, effort)
    for name in params:
        if name not in ALWAYS:
            build(recipe, **{name: params[name]})
    n_positive = int((task.target(labels_of(sample)) == 1).sum())
    parts: list[HeldOut] = []
    notes = []
    members = members_for(recipe, tells_apart(recipe, sample), n_positive)
    encode_all = any(each.machine != "one_class" for each in members)
    encoded = effort.encoded(sample, recipe if encode_all else members[0], task, plan)
    for j, member in enumerate(members):
        own = {name: value for name, value in params.items() if name in member.names}
        candidates = candidates_of(member, own, search, seed)
        step = None if effort.progress is None else _part(effort.progress, j, len(members))
        # However the rows were encoded, for this member they stay so.
        own_effort = replace(effort, progress=step, like=replace(encoded, recipe=member))
        try:
            parts.append(hold_out(sample, member, task, plan, candidates, own_effort))
        except (RecipeError, UsageError) as error:
            notes.append(f"member {member.name} left out: {error}")
    if not parts:
        raise RecipeError(f"recipe {recipe.name}: no member can be used; " + "; ".join(notes))
    return blended(recipe, encoded, parts, tuple(notes))


def blended(
    recipe: Recipe, encoded: EncodedCohort, parts: Sequence[HeldOut], notes: tuple[str, ...]
) -> HeldOut:
    """The weighted mean of the log odds that members' held-out decisions stand for, and of their machines.

    Members that learned from one class alone know no odds: their standardised decisions weigh alike.
    """
    repeats = min(len(part.decisions) for part in parts)
    decisions = np.stack([part.decisions[:repeats] for part in parts], axis=-2)
    # One output looks for the second class; several look for a class each.
    codes = np.arange(decisions.shape[-1]) if decisions.shape[-1] > 1 else np.array([1])
    known = any(part.recipe.machine != "one_class" for part in parts)
    positive = encoded.target[:, None] == codes if known else None
    pooling = Pooling.of(decisions.mean(axis=0, dtype=float), positive)
    widest = max(parts, key=lambda part: part.search.n_candidates)
    return HeldOut(
        decisions=pooling.pooled(decisions),
        fold=parts[0].fold[:repeats],
        ensemble=BlendedEnsemble([part.first_repeats(repeats) for part in parts], pooling),
        recipe=recipe,
        encoded=encoded,
        # Settings compete within a member only: the member that tried most says what choosing is worth.
        search=SearchFacts(
            criterion=recipe.search.criterion,
            n_candidates=widest.search.n_candidates,
            chosen={},
            candidates=[{}] * widest.search.n_candidates,
            scores=[None],
            dropped=[None],
        ),
        sv_share=None,
        seconds=(
            float(np.sum([part.seconds[0] for part in parts])),
            float(np.sum([part.seconds[1] for part in parts])),
        ),
        parts=tuple(parts),
        notes=notes,
    )


def _part(progress: Progress, number: int, of: int) -> Progress:
    """The progress of one member as a share of all."""
    return lambda done, total: progress(number * total + done, of * total)
