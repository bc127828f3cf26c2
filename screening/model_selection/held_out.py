"""One matrix of held-out decisions: folds times settings. The machines of the folds are the model.

Every row is decided on by machines that have not seen it, at every setting. The setting, the operating point
and all figures are read from this one matrix; nothing is fitted again. A blend is held out by its members on
the same folds, each with its own search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs

from screening.cluster import Cluster
from screening.data.encoding import Encoder
from screening.errors import RecipeError, UsageError
from screening.estimators.base import Estimator
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble, Pooling
from screening.estimators.landmarks import RARE_SHARE
from screening.kernels import kernel_cache
from screening.metrics.calibration import fit_platt
from screening.metrics.ranking import auroc
from screening.model_selection.fold_fits import EncodedRows, FoldFit, fit_folds
from screening.model_selection.folds import Study, sub_sample
from screening.model_selection.search import (
    Parameters,
    candidates_of,
    choose_setting,
    rows_held,
)
from screening.recipes.building import may_span
from screening.recipes.recipe import ALWAYS, Recipe, members_for, refuse_overrides
from screening.schemas.validation import Platt, SearchFacts

Progress = Callable[[int, int], None]

# With more rows than this settings compete on a sub-sample, and what is chosen learns from all of them; of
# a blend two-class machines learn in the span of some rows (`estimators.landmarks`), forests have fewer and
# smaller trees a fold (better ones in sum, where the trees of all folds draw from so many), light members go.
MANY_ROWS = 5_000
SPANNING = 300
FORESTS = ("random_forest", "balanced_forest")
FOREST: Parameters = {"n_estimators": 40, "min_samples_leaf": 8}
LEAST_WEIGHT = 0.1
PARTS = 1000  # in which progress is counted
T = TypeVar("T")


def silent(done: int, total: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Resources:
    """How the work of holding rows out is done; none of it changes a figure."""

    jobs: int = -1  # threads; -1 for one a core
    # bytes for kernel matrices: fewer fits run side by side where two would take more
    memory: int | None = None
    progress: Progress = silent  # called with (work done, work in all)
    cluster: Cluster | None = None  # workers that fit in place of the threads
    kept: Path | None = (
        None  # private folder where what they fitted waits until all is done
    )


ALONE = Resources()


@dataclass(frozen=True)
class HeldOut:
    """What the folds of a recipe say of rows they had not seen, and the machines that said it."""

    # (n_repeats, n_rows, n_outputs), at the chosen setting, of the machine whose fold held the row out
    decisions: np.ndarray
    fold: np.ndarray  # int, (n_repeats, n_rows)
    # the machines of all folds and repeats at the chosen setting: the model
    ensemble: FoldEnsemble | BlendedEnsemble
    recipe: Recipe  # the settings are of
    encoded: EncodedRows  # the rows as the machines saw them
    search: SearchFacts  # what was tuned, on what, and which settings could not be used
    # support vectors of a machine as a share of the rows it learned from; None for a baseline
    sv_share: float | None
    seconds: tuple[
        float, float
    ]  # of fitting one machine, and of scoring a thousand rows by it
    parts: tuple[HeldOut, ...] = ()  # the members of a blend
    dropped: tuple[HeldOut, ...] = ()  # those of its members that are not kept
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
        own = self.ensemble
        return FoldEnsemble(own.machines[:kept], own.kind, own.n_outputs, own.bundles)

    @cached_property
    def class_chances(self) -> list[Platt]:
        """Of several classes the chance of each against the rest, at its share of these rows."""
        decisions, target = (
            self.decisions.mean(axis=0, dtype=float),
            self.encoded.target,
        )
        if decisions.shape[1] == 1:
            return []
        own, weight = (
            target[:, None] == np.arange(decisions.shape[1]),
            np.ones(len(target)),
        )
        return [
            fit_platt(scores, cases, weight)
            for scores, cases in zip(decisions.T, own.T, strict=True)
        ]

    @property
    def encoder(self) -> Encoder:
        """Learned once, on all rows (of one class: on the negatives)."""
        assert self.encoded.encoder is not None
        return self.encoded.encoder


def hold_out(
    study: Study,
    recipe: Recipe,
    candidates: Sequence[Parameters],
    resources: Resources = ALONE,
    like: EncodedRows | None = None,
) -> HeldOut:
    """Decide on every row by machines that have not seen it, at every setting, and choose the setting.

    The settings compete in the first repeat, on a sub-sample where there are many rows, the first candidate
    being the default; what else there is to fit is fitted at the chosen setting alone. `like` are the same
    rows encoded for another recipe: its encoding and distances are used again where they serve. RecipeError
    where no setting is fit to be used (`choose_setting`).
    """
    whole = encoded_for(study, recipe, resources, like)
    n_rows, n_outputs = study.sample.n_rows, study.task.n_outputs
    bundles = whole.bundles if n_rows > MANY_ROWS else None
    encoded = whole if bundles is None else whole.of_rows(bundles.of(whole.x))
    most = kernel_cache.n_concurrent_fits(
        rows_held(candidates, n_rows), resources.memory
    )
    jobs, progress = min(effective_n_jobs(resources.jobs), most), resources.progress
    part, fold = encoded, study.fold[0]
    if n_rows > MANY_ROWS and len(candidates) > 1:
        few = sub_sample(
            encoded.target, study.groups, MANY_ROWS, RARE_SHARE, study.seed
        )
        part, fold = encoded.part(few), fold[few]
    # A fit is as much work as it has rows.
    total = study.folds * (
        len(candidates) * len(part.x) + n_rows * (len(study.fold) - (part is encoded))
    )
    finished = 0

    def run(
        rows: EncodedRows, fold: np.ndarray, settings: Sequence[Parameters]
    ) -> list[FoldFit]:
        nonlocal finished
        fits = []
        for fit in fit_folds(
            rows, fold, settings, jobs, resources.cluster, resources.kept
        ):
            fits.append(fit)
            finished += len(fit.settings) * len(rows.x)
            progress(finished, total)
        return fits

    first = run(part, fold, candidates)
    matrix = np.stack([_of_setting(first, at)[1] for at in range(len(candidates))])
    search = choose_setting(
        recipe.search.criterion, recipe.name, candidates, matrix, part.target, fold
    )
    chosen = dict(search.chosen)
    if part is not encoded:
        candidates, first = [chosen], run(encoded, study.fold[0], [chosen])
    machines, decided = _of_setting(first, candidates.index(chosen))
    for number, machine in enumerate(machines if len(candidates) > 1 else ()):
        # What each says by itself, to the bit as it will say it again.
        rows = np.flatnonzero(study.fold[0] == number)
        decided[rows] = encoded.decisions(
            machine, np.ascontiguousarray(encoded.x[rows])
        )
    decisions = [decided]
    repeat = (
        study.repeats_asked
        or FoldEnsemble(machines, recipe.machine, n_outputs).is_averageable
    )
    if not repeat:
        progress(finished, finished)
    for fold in study.fold[1:] if repeat else ():
        of_repeat, decided = _of_setting(run(encoded, fold, [chosen]), 0)
        decisions.append(decided)
        machines += of_repeat
    dealt = study.fold[: len(decisions)]
    ensemble = FoldEnsemble(machines, recipe.machine, n_outputs, bundles)
    learned = encoded.learnable(np.arange(n_rows))
    weights = [len(fit.settings) for fit in first]
    return HeldOut(
        decisions=np.stack(decisions),
        fold=dealt,
        ensemble=ensemble,
        recipe=recipe,
        encoded=whole,
        search=search,
        sv_share=ensemble.support_share(
            [
                int(np.sum(fold[learned] != k))
                for fold in dealt
                for k in range(study.folds)
            ]
        ),
        seconds=tuple(
            np.average([fit.seconds for fit in first], axis=0, weights=weights).tolist()
        ),
    )


def encoded_for(
    study: Study, recipe: Recipe, resources: Resources, like: EncodedRows | None
) -> EncodedRows:
    """The sample's rows as a recipe learns from them."""
    if like is None or (like.recipe.machine == "one_class") != (
        recipe.machine == "one_class"
    ):
        return EncodedRows.of(
            study.sample, recipe, study.task, study.groups, resources.memory
        )
    return replace(
        like, recipe=recipe, target=study.target, n_outputs=study.task.n_outputs
    )


def _of_setting(fits: Sequence[FoldFit], at: int) -> tuple[list[Estimator], np.ndarray]:
    """A setting's machines in the order of the folds, and their decisions in that of the rows."""
    own = [(fit, fit.settings.index(at)) for fit in fits if at in fit.settings]
    machines = [fit.machines[number] for fit, number in own]
    parts = np.concatenate([fit.decisions[number] for fit, number in own])
    return machines, parts[np.argsort(np.concatenate([fit.rows for fit, _ in own]))]


def held_out_by(
    study: Study,
    recipe: Recipe,
    *,
    resources: Resources = ALONE,
    like: EncodedRows | None = None,
) -> HeldOut:
    """Hold every row out by a recipe, its settings drawn from its search; see `hold_out`.

    Of a blend a study can fix only what every kernel machine takes (landmarks); as many settings of every
    member compete. RecipeError or UsageError where the recipe, or every member, cannot be fitted here.
    """
    params = study.params
    if recipe.machine != "blend":
        candidates = candidates_of(recipe, dict(params), study.search, study.seed)
        return hold_out(study, recipe, candidates, resources, like)
    refuse_overrides(
        recipe, {name: value for name, value in params.items() if name not in ALWAYS}
    )
    n_positive = int((study.target == 1).sum())
    notes = []
    members = members_for(recipe, study.task.kind, n_positive)
    encode_all = any(member.machine != "one_class" for member in members)
    encoded = encoded_for(study, recipe if encode_all else members[0], resources, like)
    tried: list[tuple[Recipe, list[Parameters]]] = []
    for member in members:
        own = {name: value for name, value in params.items() if name in member.names}
        if (
            study.sample.n_rows > MANY_ROWS
            and "approximation" not in own
            and may_span(member)
        ):
            own = {"n_landmarks": SPANNING} | own | {"approximation": "nystroem"}
            rows = f"{own['n_landmarks']} rows (Nystroem) of each fold's"
            notes.append(f"member {member.name}: in the span of {rows}")
        if study.sample.n_rows > MANY_ROWS and member.baseline in FORESTS:
            own = FOREST | own
        tried.append((member, candidates_of(member, own, study.search, study.seed)))
    steps = list(progress_of_parts(resources, [1.0] * len(tried)))

    def hold_member_out(number: int) -> HeldOut | str:
        member, candidates = tried[number]
        try:
            # However the rows were encoded, for this member they stay so.
            return hold_out(
                study,
                member,
                candidates,
                steps[number],
                replace(encoded, recipe=member),
            )
        except (RecipeError, UsageError) as error:
            return f"member {member.name} left out: {error}"

    ended = [*_side_by_side(hold_member_out, len(tried), resources.cluster)]
    parts = [part for part in ended if isinstance(part, HeldOut)]
    notes += [why for why in ended if isinstance(why, str)]
    if not parts:
        raise RecipeError(
            f"recipe {recipe.name}: no member can be used; " + "; ".join(notes)
        )
    return blended(recipe, encoded, parts, tuple(notes))


def blended(
    recipe: Recipe,
    encoded: EncodedRows,
    parts: Sequence[HeldOut],
    notes: tuple[str, ...],
) -> HeldOut:
    """The weighted mean of members' held-out decisions, and of their machines.

    Members that learned from one class alone know no odds and weigh alike.
    """
    repeats = min(len(part.decisions) for part in parts)
    decisions = np.stack([part.decisions[:repeats] for part in parts], axis=-2)
    # One output looks for the second class; several look for a class each.
    codes = np.arange(decisions.shape[-1]) if decisions.shape[-1] > 1 else np.array([1])
    labelled = any(part.recipe.machine != "one_class" for part in parts)
    positive = encoded.target[:, None] == codes if labelled else None
    mean = decisions.mean(axis=0, dtype=float)
    pooling = Pooling.of(mean, positive)
    why = np.where(
        pooling.weights.max(axis=1) < LEAST_WEIGHT, "adds next to nothing", ""
    ).astype(object)
    if positive is not None:
        why[_by_chance(mean, positive)] = "ranks no better than chance"
    if len(encoded.x) > MANY_ROWS and (why != "").any() and (why == "").any():
        named = [*zip(parts, why, strict=True)]
        left = [
            f"member {part.recipe.name} is not kept: it {reason}"
            for part, reason in named
            if reason
        ]
        kept, dropped = (
            [part for part, why in named if bool(why) == gone] for gone in (False, True)
        )
        rest = blended(recipe, encoded, kept, (*notes, *left))
        return replace(rest, dropped=(*rest.dropped, *dropped))
    # Settings compete within a member only: the member that tried most says what choosing is worth.
    n = max(part.search.n_candidates for part in parts)
    return HeldOut(
        decisions=pooling.pooled(decisions),
        fold=parts[0].fold[:repeats],
        ensemble=BlendedEnsemble(
            [part.first_repeats(repeats) for part in parts], pooling
        ),
        recipe=recipe,
        encoded=encoded,
        search=SearchFacts(
            criterion=recipe.search.criterion,
            n_candidates=n,
            chosen={},
            candidates=[{}] * n,
            scores=[None],
            dropped=[None],
        ),
        sv_share=None,
        seconds=tuple(np.sum([part.seconds for part in parts], axis=0).tolist()),
        parts=tuple(replace(part, encoded=encoded) for part in parts),
        notes=notes,
    )


def _by_chance(decisions: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Which members (n_rows, n_members, n_outputs) tell no output's cases: AUROC within two errors of 1/2."""
    n_cases = positive.sum(axis=0)
    error = np.sqrt((len(positive) + 1) / (12 * n_cases * (len(positive) - n_cases)))
    outputs = range(positive.shape[1])
    areas = [
        [auroc(member[:, k], positive[:, k]) for k in outputs]
        for member in decisions.swapaxes(0, 1)
    ]
    return (np.array(areas) <= 0.5 + 2 * error).all(axis=1)


def progress_of_parts(
    resources: Resources, weights: Sequence[float]
) -> Iterator[Resources]:
    """The resources of each of several parts, which are so much work, the progress of each a part of all."""
    shares = np.zeros(len(weights))

    def step(number: int, done: int, total: int) -> None:
        shares[number] = done / total
        resources.progress(
            round(PARTS * float(np.average(shares, weights=weights))), PARTS
        )

    return (
        replace(resources, progress=partial(step, number))
        for number in range(len(weights))
    )


def _side_by_side(
    function: Callable[[int], T], of: int, cluster: Cluster | None
) -> Iterator[T]:
    """What a function gives for each number: one after the other, or, where workers do the work, at once."""
    if cluster is None:
        yield from map(function, range(of))
        return
    with ThreadPoolExecutor(of) as pool:
        try:
            yield from pool.map(function, range(of))
        except BaseException:
            cluster.call_off()
            raise
