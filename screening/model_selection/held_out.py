"""Held-out decisions of a method: one matrix of folds times settings.

Every row is decided on by machines that have not seen it, at every setting. The
setting, the operating point and all figures are read from this one matrix. The machines
of the folds are the model: nothing is fitted again. A blend is held out by its members
on the same folds, each with its own search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from screening.errors import PromiseError
from screening.estimators.base import Estimator
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble, Pooling
from screening.estimators.landmarks import RARE_SHARE
from screening.metrics.calibration import fit_platt
from screening.metrics.ranking import area_under_roc
from screening.model_selection.fold_fits import EncodedRows, FoldFit
from screening.model_selection.folds import Study, sub_sample
from screening.model_selection.plans import Plan, fitted, fold_tasks, side_by_side
from screening.model_selection.search import (
    Parameters,
    SettingSearch,
    choose_setting,
    n_settings_within_budget,
)
from screening.recipes.building import may_span
from screening.recipes.drawing import SettingSpace
from screening.recipes.encoders import RowEncoder, is_encoded_alike
from screening.recipes.recipe import (
    ALWAYS,
    ENOUGH_POSITIVES,
    Recipe,
    members_for,
    refuse_overrides,
)
from screening.schemas.validation import Platt, SearchFacts

# With more rows than this, settings compete on a sub-sample, and the chosen one learns
# from all rows.
MANY_ROWS = 5_000
# The same for members of a blend, which depends less on the setting of each.
MAX_COMPETING_ROWS = 1_000
# Landmarks (Nystroem) in each fold of the two-class kernel machines of a blend of over
# MANY_ROWS rows.
N_LANDMARKS = 300
# Forests of a blend have few trees a fold, because those of all folds rank new rows. Of
# many rows the trees are smaller too: they draw from so many that they are better in
# sum.
FOREST_BASELINES = ("random_forest", "balanced_forest")
FOREST: Parameters = {"n_estimators": 40}
SMALL_FOREST: Parameters = FOREST | {"min_samples_leaf": 8}
# Weight of a member of a blend of over MANY_ROWS rows, below which it is dropped.
MIN_MEMBER_WEIGHT = 0.1


@dataclass(frozen=True)
class FactorContrast:
    """Held-out decisions with a factor and without it, all else the same.

    Parameters
    ----------
    setting : dict
        With the factor: the chosen setting, or if it has no factor the best one that
        has.
    decisions, without : ndarray of shape (n_rows, n_outputs)
        At the setting, and at the same setting without the factor.
    target : int ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
    """

    setting: Parameters
    decisions: np.ndarray
    without: np.ndarray
    target: np.ndarray
    groups: np.ndarray | None


@dataclass(frozen=True)
class HeldOutDecisions:
    """Decisions of a method on rows that its machines had not seen.

    Parameters
    ----------
    decisions : ndarray of shape (n_repeats, n_rows, n_outputs)
        At the chosen setting, of the machine for which the row was held out.
    fold : int ndarray of shape (n_repeats, n_rows)
    ensemble : FoldEnsemble or BlendedEnsemble
        Machines of all folds and repeats at the chosen setting.
    recipe : Recipe
    encoded : EncodedRows
        The rows as the machines saw them.
    search : SearchFacts
        What was tuned, on which settings, and which of them could not be used.
    sv_share : float or None
        Support vectors of a machine as a share of its training rows.
    seconds : tuple of float
        Of fitting one machine, and of scoring a thousand rows by it.
    members : tuple of HeldOutDecisions
        Of a blend.
    dropped : tuple of HeldOutDecisions
        Members that the blend does not keep.
    notes : tuple of str
    factor : FactorContrast, optional
        None for a method without a factor, and for one that may not decline it.
    """

    decisions: np.ndarray
    fold: np.ndarray
    ensemble: FoldEnsemble | BlendedEnsemble
    recipe: Recipe
    encoded: EncodedRows
    search: SearchFacts
    sv_share: float | None
    seconds: tuple[float, float]
    members: tuple[HeldOutDecisions, ...] = ()
    dropped: tuple[HeldOutDecisions, ...] = ()
    notes: tuple[str, ...] = ()
    factor: FactorContrast | None = None

    @property
    def one_class(self) -> bool:
        """True if nothing was learned from positives."""
        learners = self.members or (self,)
        return all(learner.recipe.machine == "one_class" for learner in learners)

    def first_repeats(self, repeats: int) -> FoldEnsemble:
        """Return the ensemble of the first so many repeats."""
        ensemble = self.ensemble
        assert isinstance(ensemble, FoldEnsemble)
        n_machines = len(ensemble.machines) // len(self.fold) * repeats
        return replace(ensemble, machines=ensemble.machines[:n_machines])

    @cached_property
    def class_chances(self) -> list[Platt]:
        """Chance of each of several classes, at its share of these rows."""
        decisions = self.decisions.mean(axis=0, dtype=float)
        n_outputs = decisions.shape[1]
        if n_outputs == 1:
            return []
        target = self.encoded.target
        weight = np.ones(len(target))
        return [
            fit_platt(decisions[:, code], target == code, weight)
            for code in range(n_outputs)
        ]

    @cached_property
    def model(self) -> FoldEnsemble | BlendedEnsemble:
        """The machines that score new rows."""
        return self.ensemble.condensed(int(self.fold.max()) + 1)

    @property
    def encoder(self) -> RowEncoder:
        """Fitted once, on all rows (of one class: on the negatives)."""
        assert self.encoded.encoder is not None
        return self.encoded.encoder


def hold_out(
    study: Study,
    recipe: Recipe,
    search: SettingSearch,
    whole: EncodedRows,
    max_competing: int = MANY_ROWS,
) -> Plan[HeldOutDecisions]:
    """Decide on every row by machines that have not seen it, and choose the setting.

    The settings compete in the first repeat, on a sub-sample if there are many rows.
    The rest is fitted at the chosen setting alone.

    Parameters
    ----------
    study : Study
    recipe : Recipe
    search : SettingSearch
    whole : EncodedRows
        The sample, encoded for the recipe.
    max_competing : int
        Rows that the settings compete on at most.

    Raises
    ------
    RecipeError
        If no setting can be used, see ``choose_setting``.
    """
    bundles = None
    if study.sample.n_rows > MANY_ROWS:
        bundles = whole.bundles
    encoded = whole if bundles is None else whole.of_rows(bundles.of(whole.x))
    competing, fold = _competing_rows(study, encoded, search, max_competing)
    is_whole = competing is encoded
    n_later = len(study.fold) - is_whole
    later_work = study.sample.n_rows * study.folds * n_later
    competition = yield from _compete(
        competing, fold, search, later_work, keeps_machines=is_whole
    )
    facts = competition.choose(recipe, study)
    chosen = dict(facts.chosen)
    if is_whole:
        repeats = [competition.first_repeat(chosen)]
    else:
        later_work -= study.sample.n_rows * study.folds
        repeats = yield from _plan_repeats(encoded, study.fold[:1], chosen, later_work)
    ensemble = FoldEnsemble(
        repeats[0].machines, recipe.machine, study.task.n_outputs, bundles
    )
    if study.repeats_are_needed or ensemble.is_averageable:
        repeats += yield from _plan_repeats(encoded, study.fold[1:], chosen)
        machines = [machine for repeat in repeats for machine in repeat.machines]
        ensemble = replace(ensemble, machines=machines)
    dealt_folds = study.fold[: len(repeats)]
    return HeldOutDecisions(
        decisions=np.stack([repeat.decisions for repeat in repeats]),
        fold=dealt_folds,
        ensemble=ensemble,
        recipe=recipe,
        encoded=whole,
        search=facts,
        sv_share=ensemble.support_share(_n_learned(encoded, dealt_folds)),
        seconds=repeats[0].seconds,
        factor=competition.contrast(search.space, facts),
    )


def _competing_rows(
    study: Study, encoded: EncodedRows, search: SettingSearch, most: int
) -> tuple[EncodedRows, np.ndarray]:
    """Return the rows that the settings compete on, and their folds.

    Those are all rows, or a sub-sample if there are more than `most`.
    """
    fold = study.fold[0]
    if study.sample.n_rows <= most or len(search.settings) <= 1:
        return encoded, fold
    seed = study.validation.seed
    few = sub_sample(encoded.target, study.groups, most, RARE_SHARE, seed)
    return encoded.take(few), fold[few]


class _Repeat(NamedTuple):
    """Machines of a repeat at one setting, by fold, and their held-out decisions.

    Decisions have shape (n_rows, n_outputs); the seconds are means of `FoldFit`'s.
    """

    machines: list[Estimator]
    decisions: np.ndarray
    seconds: tuple[float, float]


def _plan_repeats(
    encoded: EncodedRows, folds: np.ndarray, chosen: Parameters, later_work: int = 0
) -> Plan[list[_Repeat]]:
    """Plan repeats at one setting; `folds` are theirs, (n_repeats, n_rows)."""
    if not len(folds):
        return []
    fits = yield from fitted(fold_tasks(encoded, folds, [chosen]), later_work)
    n_folds = len(fits) // len(folds)
    repeats = []
    for start in range(0, len(fits), n_folds):
        of_repeat = fits[start : start + n_folds]
        (decisions,) = _decisions_of(of_repeat, 1)
        machines = _machines_at(of_repeat, 0)
        repeats.append(_Repeat(machines, decisions, _mean_seconds(of_repeat)))
    return repeats


@dataclass(frozen=True)
class _Competition:
    """Held-out decisions at all settings that competed.

    Parameters
    ----------
    settings : list of dict
    fits : list of FoldFit
        Their numbers are indices of `settings`.
    decisions : ndarray of shape (n_settings, n_rows, n_outputs)
    rows : EncodedRows
    fold : int ndarray of shape (n_rows,)
    """

    settings: list[Parameters]
    fits: list[FoldFit]
    decisions: np.ndarray
    rows: EncodedRows
    fold: np.ndarray

    def choose(self, recipe: Recipe, study: Study) -> SearchFacts:
        """Choose the best setting; RecipeError if no setting can be used."""
        # Only one-class scores tie far from what was learned.
        rule = study.rule if recipe.machine == "one_class" else None
        facts = choose_setting(
            recipe.search.criterion,
            recipe.name,
            self.settings,
            self.decisions,
            self.rows.target,
            self.fold,
            rule,
            refuse=study.validation.refuse,
        )
        return facts.replace(asked=study.n_settings or 0, grid=study.grid)

    def first_repeat(self, chosen: Parameters) -> _Repeat:
        """Return the repeat on which settings competed, at one of them.

        Each machine decides by itself, as it will on new rows.
        """
        number = self.settings.index(chosen)
        machines = _machines_at(self.fits, number)
        decisions = self.decisions[number]
        if len(self.settings) > 1:
            # Machines that were fitted together decide to fewer digits: the model must
            # repeat its held-out decisions to the bit.
            decisions = decisions.copy()
            for number_of_fold, machine in enumerate(machines):
                rows = np.flatnonzero(self.fold == number_of_fold)
                x = np.ascontiguousarray(self.rows.x[rows])
                decisions[rows] = self.rows.decisions(machine, x)
        return _Repeat(machines, decisions, _mean_seconds(self.fits))

    def contrast(
        self, space: SettingSpace, facts: SearchFacts
    ) -> FactorContrast | None:
        """Return decisions with and without the factor, None if either is missing."""
        number = self.settings.index(dict(facts.chosen))
        if facts.chosen.get("passes") == 0:
            worths = []
            for setting, score in zip(self.settings, facts.scores, strict=True):
                worth = -np.inf
                if setting.get("passes") != 0 and score is not None:
                    worth = score
                worths.append(worth)
            number = int(np.argmax(worths))
        setting = self.settings[number]
        plain = space.machine_of(setting)
        if plain is None or plain == setting or plain not in self.settings:
            return None
        return FactorContrast(
            setting=setting,
            decisions=self.decisions[number],
            without=self.decisions[self.settings.index(plain)],
            target=self.rows.target,
            groups=self.rows.groups,
        )


def _compete(
    rows: EncodedRows,
    fold: np.ndarray,
    search: SettingSearch,
    later_work: int,
    keeps_machines: bool,
) -> Plan[_Competition]:
    """Fit all settings: those of the machine, then a factor on the best of them.

    Parameters
    ----------
    rows : EncodedRows
        Those that the settings compete on.
    fold : int ndarray of shape (n_rows,)
    search : SettingSearch
    later_work : int
        Work of the rounds that follow, see ``Round``.
    keeps_machines : bool
        See ``FoldTask``.
    """
    settings = search.settings
    later_work += len(fold) * (int(fold.max()) + 1) * search.n_with_factor
    tasks = fold_tasks(rows, fold[None], settings, keeps_machines=keeps_machines)
    fits = yield from fitted(tasks, later_work)
    decisions = _decisions_of(fits, len(settings))
    with_factor = search.second_round(decisions, rows.target, fold)
    if with_factor:
        tasks = fold_tasks(rows, fold[None], with_factor, keeps_machines=keeps_machines)
        later_fits = yield from fitted(tasks, later_work)
        later = _decisions_of(later_fits, len(with_factor))
        decisions = np.concatenate([decisions, later])
        for fit in later_fits:
            numbers = [number + len(settings) for number in fit.numbers]
            fits.append(replace(fit, numbers=numbers))
    return _Competition([*settings, *with_factor], fits, decisions, rows, fold)


def _decisions_of(fits: Sequence[FoldFit], n_settings: int) -> np.ndarray:
    """Return held-out decisions of all folds, (n_settings, n_rows, n_outputs)."""
    n_rows = sum(len(fit.rows) for fit in fits if 0 in fit.numbers)
    of_setting = fits[0].decisions[0]
    decisions = np.empty((n_settings, n_rows, of_setting.shape[1]), of_setting.dtype)
    for fit in fits:
        for number, of_setting in zip(fit.numbers, fit.decisions, strict=True):
            decisions[number, fit.rows] = of_setting
    return decisions


def _machines_at(fits: Sequence[FoldFit], number: int) -> list[Estimator]:
    """Return the machines of a setting, by fold."""
    return [
        fit.machines[fit.numbers.index(number)] for fit in fits if number in fit.numbers
    ]


def _n_learned(encoded: EncodedRows, folds: np.ndarray) -> list[int]:
    """Return how many rows each machine of some repeats, (n_repeats, n_rows), fits."""
    learnable = encoded.learnable(np.arange(folds.shape[1]))
    numbers = []
    for fold in folds:
        for number in range(int(folds.max()) + 1):
            numbers.append(int(np.sum(fold[learnable] != number)))
    return numbers


def _mean_seconds(fits: Sequence[FoldFit]) -> tuple[float, float]:
    """Return the mean times of fits, weighted by their numbers of settings."""
    weights = [len(fit.numbers) for fit in fits]
    means = np.average([fit.seconds for fit in fits], axis=0, weights=weights)
    return float(means[0]), float(means[1])


def encode(study: Study, recipe: Recipe, memory: int | None = None) -> EncodedRows:
    """Encode the sample's rows for a recipe.

    `memory` is the number of bytes for kernel matrices.
    """
    learner = _recipe_that_encodes(study, recipe)
    return EncodedRows.of(
        study.sample,
        learner,
        study.target,
        study.task.n_outputs,
        study.groups,
        memory,
    )


def _encode_for(study: Study, recipe: Recipe, encoded: EncodedRows) -> EncodedRows:
    """Encode the sample's rows for another recipe than they were encoded for.

    Encoding and distances are used again where they serve.
    """
    learner = _recipe_that_encodes(study, recipe)
    if not is_encoded_alike(encoded.recipe, learner):
        return encode(study, learner, encoded.distances.memory)
    return replace(
        encoded, recipe=learner, target=study.target, n_outputs=study.task.n_outputs
    )


def _recipe_that_encodes(study: Study, recipe: Recipe) -> Recipe:
    """Return a recipe, or the first member of a blend that learns from one class."""
    if recipe.machine == "blend":
        members = _members(study, recipe)
        if all(member.machine == "one_class" for member in members):
            return members[0]
    return recipe


def _members(study: Study, recipe: Recipe) -> Sequence[Recipe]:
    n_positive = int((study.target == 1).sum())
    return members_for(recipe, study.task.kind, n_positive)


def plan_method(
    study: Study, recipe: Recipe, encoded: EncodedRows
) -> Plan[HeldOutDecisions]:
    """Plan to hold out every row by a recipe; ``run_plan`` runs the plan.

    Settings are drawn from the recipe's search, in a blend as many for each member. A
    parameter that the study fixes is passed on to those members that take it.

    Parameters
    ----------
    study : Study
    recipe : Recipe
    encoded : EncodedRows
        The sample, encoded for this recipe or another one.

    Raises
    ------
    RecipeError, UsageError
        If the recipe, or every member, cannot be fitted here.
    """
    if recipe.machine == "blend":
        return (yield from _plan_blend(study, recipe, encoded))
    n_rows = min(study.sample.n_rows, MANY_ROWS)
    n_settings = n_settings_within_budget(
        recipe, n_rows, study.task.n_outputs, study.folds
    )
    search = SettingSearch.of(recipe, study, n_settings)
    encoded = _encode_for(study, recipe, encoded)
    return (yield from hold_out(study, recipe, search, encoded))


def _plan_blend(
    study: Study, recipe: Recipe, encoded: EncodedRows
) -> Plan[HeldOutDecisions]:
    """Plan the members of a blend side by side, and blend those that can be used."""
    for_all = {
        name: value for name, value in study.params.items() if name not in ALWAYS
    }
    refuse_overrides(recipe, for_all)
    members = _members(study, recipe)
    encoded = _encode_for(study, recipe, encoded)
    if not study.repeats_are_needed:
        # Trees do not average to a single machine, and members have equal repeats.
        study = replace(study, fold=study.fold[:1])
    notes = []
    plans = []
    for member in members:
        params, note = _member_params(study, member)
        notes += note
        search = SettingSearch.of(
            member, replace(study, params=params), member.search.candidates
        )
        # All members share the encoded rows.
        rows = replace(encoded, recipe=member)
        plans.append(hold_out(study, member, search, rows, MAX_COMPETING_ROWS))
    outcomes = yield from side_by_side(plans)
    held_out = []
    for member, outcome in zip(members, outcomes, strict=True):
        if isinstance(outcome, HeldOutDecisions):
            held_out.append(outcome)
        else:
            notes.append(f"member {member.name} left out: {outcome}")
    if not held_out:
        raise PromiseError(
            f"recipe {recipe.name}: no member can be used; " + "; ".join(notes)
        )
    return blended(recipe, encoded, held_out, tuple(notes))


def _member_params(study: Study, member: Recipe) -> tuple[Parameters, list[str]]:
    """Return what is fixed for a member of a blend, with notes."""
    params = {
        name: value for name, value in study.params.items() if name in member.names
    }
    notes: list[str] = []
    is_large = study.sample.n_rows > MANY_ROWS
    if member.baseline in FOREST_BASELINES:
        params = (SMALL_FOREST if is_large else FOREST) | params
    if is_large and "approximation" not in params and may_span(member):
        params = {"n_landmarks": N_LANDMARKS} | params | {"approximation": "nystroem"}
        landmarks = f"{params['n_landmarks']} landmarks (Nystroem) in each fold"
        notes.append(f"member {member.name}: {landmarks}")
    return params, notes


def blended(
    recipe: Recipe,
    encoded: EncodedRows,
    members: Sequence[HeldOutDecisions],
    notes: tuple[str, ...],
) -> HeldOutDecisions:
    """Return the weighted mean of members' held-out decisions, and of their machines.

    Members that learned from one class alone give no probabilities and weigh alike.
    With many rows, members that add nothing are dropped.
    """
    decisions = _joint_decisions(members)
    repeats = len(decisions)
    mean = decisions.mean(axis=0, dtype=float)
    positive = None
    if not all(member.one_class for member in members):
        positive = _positive_rows(encoded.target, decisions.shape[-1])
    # The weight of `scarce` members falls linearly to 0 at ENOUGH_POSITIVES cases, so
    # that no case more changes the blend abruptly.
    is_scarce = np.array([member.recipe.name in recipe.scarce for member in members])
    n_cases = int((encoded.target == 1).sum())
    remaining = 1 - n_cases / ENOUGH_POSITIVES
    pooling = Pooling.of(mean, positive, np.where(is_scarce, remaining, 1.0))
    if len(encoded.x) > MANY_ROWS:
        reasons = _reasons_to_drop(mean, positive, pooling)
        if any(reasons) and not all(reasons):
            return _blended_without(recipe, encoded, members, notes, reasons)
    if is_scarce.any():
        share = pooling.weights[is_scarce].sum()
        note = (
            f"{n_cases} cases: methods that learn only from rows without the condition"
            f" have {100 * share:.0f} % of the weight"
        )
        notes = (*notes, note)
    seconds = np.sum([member.seconds for member in members], axis=0)
    machines = [member.first_repeats(repeats) for member in members]
    return HeldOutDecisions(
        decisions=pooling.pooled(decisions),
        fold=members[0].fold[:repeats],
        ensemble=BlendedEnsemble(machines, pooling),
        recipe=recipe,
        encoded=encoded,
        search=_search_of_blend(recipe, members),
        sv_share=None,
        seconds=(float(seconds[0]), float(seconds[1])),
        members=tuple(replace(member, encoded=encoded) for member in members),
        notes=notes,
    )


def _joint_decisions(members: Sequence[HeldOutDecisions]) -> np.ndarray:
    """Return the decisions of members in the repeats that all of them have.

    Shape (n_repeats, n_rows, n_members, n_outputs).
    """
    repeats = min(len(member.decisions) for member in members)
    return np.stack([member.decisions[:repeats] for member in members], axis=-2)


def _search_of_blend(
    recipe: Recipe, members: Sequence[HeldOutDecisions]
) -> SearchFacts:
    """Return what was tuned in a blend, which has no setting of its own.

    Settings compete within a member only: the member that tried most says what choosing
    is worth.
    """
    n_candidates = max(member.search.n_candidates for member in members)
    return SearchFacts(
        criterion=recipe.search.criterion,
        n_candidates=n_candidates,
        asked=members[0].search.asked,
        grid=members[0].search.grid,
        chosen={},
        candidates=[{}] * n_candidates,
        scores=[None],
        dropped=[None],
    )


def _positive_rows(target: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return which rows are positive for each output, shape (n_rows, n_outputs).

    One output looks for the second class; each of several looks for a class of its own.
    """
    codes = np.array([1]) if n_outputs == 1 else np.arange(n_outputs)
    positive: np.ndarray = target[:, None] == codes
    return positive


def _blended_without(
    recipe: Recipe,
    encoded: EncodedRows,
    members: Sequence[HeldOutDecisions],
    notes: tuple[str, ...],
    reasons: Sequence[str],
) -> HeldOutDecisions:
    """Blend the members that have no reason to be dropped; note the others."""
    kept = []
    dropped = []
    for member, reason in zip(members, reasons, strict=True):
        if reason:
            dropped.append(member)
            note = f"member {member.recipe.name} is not kept: it {reason}"
            notes = (*notes, note)
        else:
            kept.append(member)
    blend = blended(recipe, encoded, kept, notes)
    return replace(blend, dropped=(*blend.dropped, *dropped))


def _reasons_to_drop(
    mean: np.ndarray, positive: np.ndarray | None, pooling: Pooling
) -> list[str]:
    """Return why each member of a blend adds nothing; "" if it adds something.

    Parameters
    ----------
    mean : ndarray of shape (n_rows, n_members, n_outputs)
        Held-out decisions.
    positive : bool ndarray of shape (n_rows, n_outputs), optional
    pooling : Pooling
    """
    reasons = []
    for member, weights in enumerate(pooling.weights):
        reason = ""
        if positive is not None and _is_by_chance(mean[:, member], positive):
            reason = "ranks no better than chance"
        elif weights.max() < MIN_MEMBER_WEIGHT:
            reason = "adds next to nothing"
        reasons.append(reason)
    return reasons


def _is_by_chance(decisions: np.ndarray, positive: np.ndarray) -> bool:
    """Return True if no output's AUROC is more than two standard errors above 1/2.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows, n_outputs)
        Of one member.
    positive : bool ndarray of shape (n_rows, n_outputs)
    """
    n_cases = positive.sum(axis=0)
    error = np.sqrt((len(positive) + 1) / (12 * n_cases * (len(positive) - n_cases)))
    areas = []
    for output, cases in enumerate(positive.T):
        areas.append(area_under_roc(decisions[:, output], cases))
    return bool((np.array(areas) <= 0.5 + 2 * error).all())
