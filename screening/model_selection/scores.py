"""Held-out scores of the watched classes, by which a model is judged and stored.

`HeldOutScores.columns` makes them columns of `validation.parquet`, and
`held_out_scores` restores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.data.cohort import Cohort
from screening.errors import ModelError
from screening.estimators.ensembles import FoldEnsemble, Pooling
from screening.io.columns import Columns, count_rows
from screening.metrics.calibration import group_maxima, likeliest
from screening.metrics.groups import codes_of, group_codes
from screening.metrics.intervals import share_range
from screening.metrics.operating_point import ThresholdSelector, overall
from screening.metrics.rank_threshold import RankSelector
from screening.metrics.ties import hashed
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions
from screening.model_selection.task import Task
from screening.schemas.base import Estimate
from screening.schemas.figures import OperatingPoint, Rule
from screening.schemas.model import Importance, Reliance
from screening.schemas.validation import (
    Beside,
    Calibration,
    Forward,
    LesionFacts,
    Platt,
)
from screening.store.model import Model

# The fold of rows that no machine of the past was trained on.
AFTER = -1
# Prefixes of the names of columns of `validation.parquet`.
PAST = "past:"
TRAINED = "trained:"
SUBGROUP = "subgroup:"
HELD = "held"
"""Column of held-out scores: some machine stores a copy of the row."""
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class FrozenOperatingPoints:
    """Choices made before these rows were seen; nothing is chosen by the rows.

    Parameters
    ----------
    thresholds : ndarray of shape (n_watched,)
    calibration : dict of str to Calibration
    """

    thresholds: np.ndarray
    calibration: Mapping[str, Calibration]


@dataclass(frozen=True)
class Population:
    """Facts about the rows that a study knows, and no method.

    Parameters
    ----------
    shares : dict of str to Estimate
        Share of each watched class in the whole table; rows may be a sample of it.
    prevalence : float, optional
        As the caller or the contract states it.
    subgroups : dict of str to ndarray of shape (n_rows,), optional
        Text.
    suppress : int
        Rows, or groups, below which a figure of a subgroup is withheld.
    """

    shares: Mapping[str, Estimate] = field(default_factory=dict)
    prevalence: float | None = None
    subgroups: Columns | None = None
    suppress: int = 5


def shares_of(
    task: Task, target: np.ndarray, groups: np.ndarray | None
) -> dict[str, Estimate]:
    """Return the share of each watched class, unknown without a case.

    Parameters
    ----------
    task : Task
    target : int ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
    """
    codes = group_codes(groups)
    shares = {}
    for name, code in zip(task.watched, task.watched_codes, strict=True):
        is_class = target == code
        shares[name] = Estimate()
        if is_class.any():
            shares[name] = share_range(is_class, codes)
    return shares


@dataclass(frozen=True)
class OtherMethods:
    """Scores of other methods on the same folds.

    Parameters
    ----------
    scores : dict of str to HeldOutScores
        By recipe: members of the blend, and baselines.
    members : dict of str to str
        Titles of the members of a blend, by recipe.
    pooling : Pooling, optional
        How members are blended.
    baselines : sequence of Beside, optional
        Facts, without figures; None if no comparison was asked for.
    """

    scores: Mapping[str, HeldOutScores] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    pooling: Pooling | None = None
    baselines: Sequence[Beside] | None = None


@dataclass(frozen=True)
class TemporalValidation:
    """Scores of machines of the past alone.

    Parameters
    ----------
    facts : Forward, optional
        The cut in time, without figures, or why there is none; None without dates in
        the table.
    scores : HeldOutScores, optional
        Rows that came after the cut are of fold `AFTER`. It may watch fewer classes.
    """

    facts: Forward | None = None
    scores: HeldOutScores | None = None


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of every row by machines that had not seen it, and facts to judge them by.

    Parameters
    ----------
    task : Task
    target : int ndarray of shape (n_rows,)
        Class codes.
    repeats : ndarray of shape (n_repeats, n_rows, n_watched)
        Scores of each dealing of the folds.
    fold : int ndarray of shape (n_rows,)
        Fold that a row was held out in, in the first repeat.
    groups : ndarray of shape (n_rows,), optional
        Groups that no fold splits, best as numbers: names are numbered at every use.
    recipe : str
    predicted : int ndarray of shape (n_rows,), optional
        Class with the highest chance; None for a binary task.
    n_settings : int
        Settings that competed on these rows.
    alike : int ndarray of shape (n_rows,), optional
        A number for each distinct row.
    largest : int ndarray of shape (n_rows,), optional
        Class with the largest decision; None for a binary task.
    trained : ndarray of shape (n_rows, n_watched), optional
        Scores by the stored machines, which have seen the rows.
    population : Population
    others : OtherMethods
    temporal_validation : TemporalValidation
    frozen : FrozenOperatingPoints, optional
        Of another cohort than the model's: what the model had chosen.
    source_calibration : dict of str to Calibration, optional
        Of a model from another site; only its ranking is kept here.
    without_cases : bool
        Thresholds are ranks among rows that are not known cases, which only judge.
    """

    task: Task
    target: np.ndarray
    repeats: np.ndarray
    fold: np.ndarray
    groups: np.ndarray | None
    recipe: str = ""
    predicted: np.ndarray | None = None
    n_settings: int = 1
    alike: np.ndarray | None = None
    largest: np.ndarray | None = None
    trained: np.ndarray | None = None
    population: Population = Population()
    others: OtherMethods = OtherMethods()
    temporal_validation: TemporalValidation = TemporalValidation()
    frozen: FrozenOperatingPoints | None = None
    source_calibration: Mapping[str, Calibration] | None = None
    without_cases: bool = False

    @cached_property
    def scores(self) -> np.ndarray:
        """Mean over the repeats, shape (n_rows, n_watched)."""
        return self.repeats.mean(axis=0)

    @cached_property
    def codes(self) -> np.ndarray | None:
        """Number of each row's group, (n_rows,); None if rows are independent."""
        return group_codes(self.groups)

    @cached_property
    def watched(self) -> np.ndarray:
        """True classes of the rows, bool of (n_rows, n_watched)."""
        return self.target[:, None] == np.asarray(self.task.watched_codes)

    @property
    def at_own_boundary(self) -> np.ndarray | None:
        """Rows flagged at the machine's own boundary, bool of (n_rows, n_watched).

        The boundary is a decision of 0, or the largest decision of several; None if
        decisions of several classes are not known.
        """
        if self.task.kind == "binary":
            return self.scores > 0
        if self.largest is None:
            return None
        return self.largest[:, None] == np.asarray(self.task.watched_codes)

    @classmethod
    def of(cls, held_out: HeldOutDecisions, study: Study) -> HeldOutScores:
        """Return the scores of a method that was held out."""
        return cls.of_decisions(
            held_out.decisions.astype(float),
            study.task,
            study.target,
            held_out.encoded.groups,
            held_out.class_chances,
            fold=held_out.fold[0],
            recipe=held_out.recipe.name,
            n_settings=held_out.search.n_candidates,
            alike=held_out.encoded.distances.ties,
            without_cases=study.without_cases is not None,
        )

    @classmethod
    def of_decisions(
        cls,
        decisions: np.ndarray,
        task: Task,
        target: np.ndarray,
        groups: np.ndarray | None,
        chances: Sequence[Platt],
        fold: np.ndarray | None = None,
        **others: Any,
    ) -> HeldOutScores:
        """Return scores from decisions by machines that had not seen the rows.

        Parameters
        ----------
        decisions : ndarray of shape (n_repeats, n_rows, n_outputs)
        task : Task
        target : int ndarray of shape (n_rows,)
        groups : ndarray of shape (n_rows,), optional
        chances : sequence of Platt
            Of each class, if there are several.
        fold : int ndarray of shape (n_rows,), optional
            None for rows that took no part in any training.
        **others
            Further fields.
        """
        mean = decisions.mean(axis=0)
        if fold is None:
            fold = np.zeros(len(mean), dtype=int)
        predicted = None
        largest = None
        if task.kind == "multi":
            predicted = likeliest(chances, mean)
            largest = mean.argmax(axis=1)
        return cls(
            task,
            target,
            repeats=decisions[:, :, task.watched_columns],
            fold=fold,
            groups=groups,
            predicted=predicted,
            largest=largest,
            **others,
        )

    def take(self, rows: np.ndarray) -> HeldOutScores:
        """Take some rows, by their numbers; groups as texts, as they are stored."""
        taken: dict[str, Any] = {}
        for name in ("groups", "predicted", "largest", "alike", "trained"):
            values = getattr(self, name)
            if values is not None:
                taken[name] = np.asarray(values)[rows]
        if "groups" in taken:
            taken["groups"] = taken["groups"].astype(str).astype(object)
        return replace(
            self,
            target=self.target[rows],
            repeats=self.repeats[:, rows],
            fold=self.fold[rows],
            **taken,
        )

    def selector(self, m: int, seed: int) -> ThresholdSelector:
        """Return the selector of thresholds of a watched class, by its number."""
        kind = RankSelector if self.without_cases else ThresholdSelector
        return kind.of(
            self.scores[:, m],
            self.watched[:, m],
            self.groups,
            seed,
            self.fold,
            self.repeats[:, :, m],
            self.alike,
        )

    def operating_point(self, m: int, rule: Rule, seed: int) -> OperatingPoint:
        """Return the threshold of a watched class by a rule, with its performance."""
        return self.selector(m, seed).point(rule)

    def calibration(self, thresholds: np.ndarray) -> np.ndarray:
        """Return the scores of known negatives, ascending, in which p-values are ranks.

        There is one a row or, if rows have groups, one a group: that of its highest
        negative row. Then a row's rank is valid whatever else is in its group.
        """
        negative = ~self.watched.any(axis=1)
        scores = overall(self.scores[negative], thresholds)
        if self.groups is None:
            return np.sort(scores)
        return group_maxima(scores, self.groups[negative])

    def columns(self, thresholds: np.ndarray) -> Arrays:
        """Return everything as columns of `validation.parquet`, (n_rows,) each.

        Parameters
        ----------
        thresholds : ndarray of shape (n_watched,)
            Those in use; with several watched classes `score` is the largest excess
            over them.
        """
        columns = {"fold": self.fold, "score": overall(self.scores, thresholds)}
        columns |= self._columns("")
        for recipe, scores in self.others.scores.items():
            columns |= scores._columns(f"method:{recipe}:")
        later = self.temporal_validation.scores
        if later is not None:
            columns |= {f"{PAST}fold": later.fold} | later._columns(PAST)
            if later.groups is not None:
                columns[f"{PAST}unit"] = later.groups
        for name, values in (self.population.subgroups or {}).items():
            columns[f"{SUBGROUP}{name}"] = values
        return columns

    def _columns(self, prefix: str) -> Arrays:
        """Return the columns of this method alone.

        These are the mean scores, those of each repeat if there are several, and those
        of the stored machines.
        """
        columns = self._score_columns(prefix, "", self.scores)
        if len(self.repeats) > 1:
            for number, scores in enumerate(self.repeats):
                columns |= self._score_columns(prefix, f"@{number}", scores)
        for name in ("predicted", "largest", "alike"):
            if getattr(self, name) is not None:
                columns[f"{prefix}{name}"] = getattr(self, name)
        if self.trained is not None:
            columns |= self._score_columns(f"{prefix}{TRAINED}", "", self.trained)
        return columns

    def _score_columns(self, prefix: str, suffix: str, scores: np.ndarray) -> Arrays:
        """Return the columns of scores, (n_rows, n_watched), by name."""
        return {
            f"{prefix}{name}{suffix}": np.ascontiguousarray(column)
            for name, column in zip(self.task.score_columns, scores.T, strict=True)
        }


@dataclass(frozen=True)
class ScoredMethod:
    """Held-out scores of a method, before it is compared and judged.

    Parameters
    ----------
    scores : HeldOutScores
        With those of the stored machines.
    rule : Rule
        Of the threshold.
    reliance : Reliance, optional
        What the ranking rests on.
    importance : sequence of Importance
        What the ranking uses.
    lesions : LesionFacts, optional
        How maps of scores are made, if lesions are counted.
    """

    scores: HeldOutScores
    rule: Rule
    reliance: Reliance | None = None
    importance: Sequence[Importance] = ()
    lesions: LesionFacts | None = None


def stored_rows(held_out: HeldOutDecisions) -> np.ndarray:
    """Return the mask of training rows that some machine stores, (n_rows,).

    All rows, if synthetic rows are stored.
    """
    is_stored = np.zeros(len(held_out.encoded.x), dtype=bool)
    for method in held_out.members or (held_out,):
        ensemble = method.ensemble
        if not isinstance(ensemble, FoldEnsemble) or not ensemble.kernel_machines:
            continue
        rows, _ = ensemble.union
        hashes = hashed(method.encoded.x)
        stored = hashed(rows)
        if np.isin(stored, hashes).all():
            is_stored |= np.isin(hashes, stored)
        else:
            is_stored[:] = True
    return is_stored


def validation_table(
    held: HeldOutScores,
    thresholds: np.ndarray,
    sample: Cohort,
    groups: np.ndarray | None,
    is_stored: np.ndarray,
) -> Columns:
    """Return `validation.parquet`: a line a row, in the order of the sample.

    Parameters
    ----------
    held : HeldOutScores
    thresholds : ndarray of shape (n_watched,)
        Those in use.
    sample : Cohort
    groups : ndarray of shape (n_rows,), optional
        Groups that no fold split.
    is_stored : bool ndarray of shape (n_rows,)
        Rows that some machine stores.
    """
    table: dict[str, np.ndarray] = {"id": sample.id}
    if sample.group is not None:
        table["group"] = sample.group
    if groups is not None and groups is not sample.group:
        table["unit"] = groups
    table |= {HELD: is_stored, "label": sample.labels}
    return table | held.columns(thresholds)


def held_out_scores(model: Model) -> HeldOutScores:
    """Return the held-out scores that a stored model was judged by.

    ModelError if it has none.
    """
    table = model.held_out
    facts = model.facts
    task = Task.of(facts.task)
    validation = facts.validation
    if not count_rows(table) or not set(task.score_columns) <= set(table):
        raise ModelError(
            "the model has no held-out scores to choose from; train it again"
        )
    groups = None
    if validation.grouped:
        groups = codes_of(table["unit" if "unit" in table else "group"])
    return replace(
        _from_columns("", table, task, groups),
        recipe=facts.recipe.name,
        n_settings=validation.search.n_candidates,
        without_cases=validation.without_cases is not None,
        population=_population(model, task),
        others=_other_methods(model, task, groups),
        temporal_validation=_temporal_validation(model, task),
    )


def _population(model: Model, task: Task) -> Population:
    """Return the facts about the rows that a model's document states."""
    validation = model.facts.validation
    predictive = validation.predictive.get(task.watched[0])
    prevalence = None
    if predictive is not None and predictive.source == "given":
        prevalence = predictive.rows[1].prevalence
    subgroups = {
        name.removeprefix(SUBGROUP): values
        for name, values in model.held_out.items()
        if name.startswith(SUBGROUP)
    }
    return Population(
        validation.prevalence, prevalence, subgroups or None, model.contract.suppress
    )


def _other_methods(model: Model, task: Task, groups: np.ndarray | None) -> OtherMethods:
    """Return the stored scores of a model's members and baselines."""
    blend = model.facts.blend
    comparison = model.facts.validation.comparison
    baselines = None
    if comparison is not None:
        baselines = comparison.beside
    n_settings = {member.recipe: 1 for member in blend}
    for baseline in baselines or ():
        if baseline.reason is None:
            n_settings[baseline.recipe] = baseline.n_candidates or 1
    scores = {}
    for recipe, n in n_settings.items():
        columns = _from_columns(f"method:{recipe}:", model.held_out, task, groups)
        scores[recipe] = replace(columns, recipe=recipe, n_settings=n)
    return OtherMethods(
        scores=scores,
        members={member.recipe: member.title for member in blend},
        pooling=getattr(model.ensemble, "pooling", None),
        baselines=baselines,
    )


def _temporal_validation(model: Model, task: Task) -> TemporalValidation:
    """Return the stored scores of a model's temporal validation."""
    table = model.held_out
    facts = model.facts.validation.forward
    if facts is not None:
        facts = facts.replace(classes=None)
    watched = []
    for name, column in zip(task.watched, task.score_columns, strict=True):
        if f"{PAST}{column}" in table:
            watched.append(name)
    if not watched:
        return TemporalValidation(facts)
    groups = table.get(f"{PAST}unit")
    scores = _from_columns(PAST, table, task.replace(watched=watched), groups)
    return TemporalValidation(facts, scores)


def _from_columns(
    prefix: str, table: Columns, task: Task, groups: np.ndarray | None
) -> HeldOutScores:
    """Return the scores of one method from what `HeldOutScores._columns` wrote.

    Another method than the model's has the folds of the model.
    """

    def matrix(prefix: str, suffix: str = "") -> np.ndarray:
        try:
            return np.column_stack(
                [table[f"{prefix}{name}{suffix}"] for name in task.score_columns]
            )
        except KeyError as missing:
            raise ModelError(
                f"validation.parquet has no column {missing}; train the model again"
            ) from None

    first = task.score_columns[0]
    n_repeats = sum(name.startswith(f"{prefix}{first}@") for name in table)
    repeats = [matrix(prefix, f"@{number}") for number in range(n_repeats)]
    if not repeats:
        repeats = [matrix(prefix)]
    prefix_of_trained = f"{prefix}{TRAINED}"
    trained = None
    if f"{prefix_of_trained}{first}" in table:
        trained = matrix(prefix_of_trained)
    return HeldOutScores(
        task=task,
        target=task.target(table["label"]),
        repeats=np.stack(repeats),
        fold=table.get(f"{prefix}fold", table["fold"]),
        groups=groups,
        predicted=table.get(f"{prefix}predicted"),
        largest=table.get(f"{prefix}largest"),
        alike=table.get(f"{prefix}alike"),
        trained=trained,
    )
