"""Train a model from a labelled cohort, in stages with a type between each.

A study is planned (`Study`), all folds are fitted (`Fits`), the method's held-out
scores (`ScoredMethod`) get the facts they are judged by, they are judged (`Judgement`),
and card and machines become a model.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import ClassifierMixin

from screening.cluster import open_cluster
from screening.data.cohort import Cohort
from screening.data.dependence import reasons
from screening.data.ids import row_number_ids
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.model_selection.fits import (
    plan_training,
    recipes_to_compare,
    scores_to_judge,
)
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions
from screening.model_selection.importance import importance_of
from screening.model_selection.judge import (
    Judgement,
    attainable,
    judge,
    refuse_too_few,
)
from screening.model_selection.leakage import reliance_of
from screening.model_selection.model_card import describe_table, model_document
from screening.model_selection.plans import run_plan, split_progress
from screening.model_selection.preparing import prepare_study, read_labelled_cohort
from screening.model_selection.scores import (
    HeldOutScores,
    ScoredMethod,
    stored_rows,
    validation_table,
)
from screening.option_groups import groups_from
from screening.recipes.building import as_recipe, load_recipe
from screening.recipes.encoders import (
    RowEncoder,
    has_columns,
    is_summed,
    score_of_rows,
    with_scores,
)
from screening.recipes.recipe import Recipe
from screening.registry import faults_so_far, optional
from screening.report.model_attention import attention_of_model
from screening.schemas.figures import DEFAULT_RULE, Rule
from screening.schemas.model import ModelDocument
from screening.schemas.reasons import reasons_of_left_out
from screening.settings import Resources, Search, TableOptions, Validation, as_search
from screening.store.model import Model

# Rows that the trained machines decide on at a time.
AT_ONCE = 100_000
# Shares of a training's time: reading and preparing, fitting, judging.
PROGRESS_SHARES = (0.1, 0.75, 0.15)


def train(
    cohort: Cohort | Readable,
    recipe: Recipe | str | ClassifierMixin = "auto",
    *,
    rule: Rule = DEFAULT_RULE,
    validation: Validation | None = None,
    search: Search | int | None = None,
    resources: Resources | None = None,
    table: TableOptions | None = None,
    command: str | None = None,
    **settings: Any,
) -> Model:
    """Train a model: hold out every row, choose setting and threshold on these scores.

    The machines of the folds are the model: a new row's score is the mean of their
    decisions.

    Parameters
    ----------
    cohort : Cohort, path, URL, Database, or a pandas, polars or Arrow table
        With labels; a one-class recipe needs none.
    recipe : Recipe, str or classifier
        A recipe, its name, the path of a recipe file, or a classifier of scikit-learn.
    rule : Rule
        How the threshold is chosen from the held-out scores.
    validation : Validation, optional
        Folds, repeats, seed, and the methods to compare with on the same folds.
    search : Search or int, optional
        The fixed parameters of the recipe, and how many settings of the others compete
        on the held-out rows. A number is that of the settings, 1 for no search. By
        default it is the recipe's, with several classes as many as a budget of work
        allows. A factor is tried in half as many settings again.
    resources : Resources, optional
        Cores, memory and workers; the result does not depend on them.
    table : TableOptions, optional
        How a cohort is read that is not a `Cohort` yet.
    command : str, optional
        The command line, to be stated on the card.
    **settings
        Fields of these groups by their names, such as ``folds=10``, ``jobs=4`` or
        ``label="infected"``.

    Returns
    -------
    Model
        Not yet written; see `save_model`.

    Raises
    ------
    UsageError
        Rows are surely of the same patients and no group says which; no labels, one
        class only, too few cases for two folds, or too many rows.
    RecipeError
        The recipe or a parameter cannot be built.
    PromiseError
        There are too few cases for the rule's promise, or the model does not do what
        it would promise.

    Examples
    --------
    >>> from screening import MinSensitivity, train
    >>> from importlib.resources import files
    >>> samples = files("screening.sample_cohorts")
    >>> past = samples / "nosocomial_past.csv"
    >>> contract = samples / "nosocomial.toml"
    >>> model = train(past, "logistic", contract=contract, rule=MinSensitivity(0.9))
    >>> model.operating_points[0]["figures"]["sensitivity"]["value"] >= 0.9
    True
    """
    validation, tuning, resources, table = groups_from(
        settings,
        (Validation, validation),
        (Search, as_search(search)),
        (Resources, resources),
        (TableOptions, table),
    )
    preparing, fitting, judging = split_progress(resources.progress, PROGRESS_SHARES)
    if not isinstance(rule, Rule):
        raise UsageError(
            f"rule must be a rule, such as MinSensitivity(0.9), not {rule!r}"
        )
    recipe = as_recipe(recipe)
    compared = map(load_recipe, validation.beside or ())
    cohort = _read_past(cohort, [recipe, *compared], table)
    preparing(1, 2)
    recipe.refuse_if_not_persistable()
    if validation.independent:
        cohort = _noted_as_independent(cohort)
    unit: CountedUnit = ByRow()
    if validation.lesions:
        unit = optional("lesions").ByLesion()
    unit.check(cohort, rule, validation.repeats)
    validation = replace(
        validation,
        repeats=validation.repeats or unit.repeats,
        forward=validation.forward and unit.is_compared,
    )
    study = prepare_study(cohort, recipe, rule, validation, tuning)
    study = replace(study, rule=unit.rule(study))
    others = recipes_to_compare(recipe, study) if unit.is_compared else []
    preparing(1, 1)
    as_read = _as_read_by_model(study)
    plan = plan_training(study, recipe, others, resources.memory)
    # Beside the fits, for which this process waits.
    with ThreadPoolExecutor(1) as thread:
        described = thread.submit(describe_table, as_read)
        with open_cluster(resources.cluster) as workers:
            fits = run_plan(plan, replace(resources, progress=fitting, cluster=workers))
    scored = unit.scored(as_read, fits.method, resources.jobs)
    prevalence = rule.prevalence or cohort.contract.prevalence
    scores = scores_to_judge(as_read, scored.scores, fits, prevalence)
    judging(1, 2)
    rules = [scored.rule] * len(study.task.watched)
    judgement = judge(scores, rules, validation.seed, refuse=validation.refuse)
    judgement.compute(resources.jobs)
    judging(1, 1)
    card = model_document(
        as_read, fits.method, scored, judgement, described.result(), command
    )
    return _model(as_read, fits.method, judgement, card)


def _read_past(
    cohort: Cohort | Readable, recipes: Sequence[Recipe], table: TableOptions
) -> Cohort:
    """Read the labelled cohort that a method, the first of `recipes`, learns from.

    It has the scores of recipes that are tables of points.
    """
    method = recipes[0]
    past = read_labelled_cohort(
        cohort, recipes, table, label_optional=method.machine == "one_class"
    )
    if method.machine == "given":
        past, recipes = _with_comparable(past, recipes)
    # Its nights must be able to take the row of a unit by the same score.
    score_of_rows(method, past.contract)
    return with_scores(past, recipes)


def _with_comparable(
    past: Cohort, recipes: Sequence[Recipe]
) -> tuple[Cohort, list[Recipe]]:
    """Return a cohort and the recipes that it has columns for, the first in any case.

    A note says which recipes are left out: often a table has an id, a score and the
    outcome, and nothing that another method could learn from.
    """
    contract = past.contract
    comparable = [recipes[0]]
    notes = []
    for other in recipes[1:]:
        if has_columns(other, contract):
            comparable.append(other)
        else:
            notes.append(
                f"{other.name} is not compared: the table does not have its columns"
            )
    if not any(name != contract.score for name in contract.features):
        notes.append(
            "the table has no column but the score: no other method is compared with it"
        )
    return replace(past, notes=[*past.notes, *notes]), comparable


def _as_read_by_model(study: Study) -> Study:
    """Return a study with the columns that its model needs, and no others."""
    return replace(
        study,
        cohort=study.cohort.with_features(study.contract),
        sample=study.sample.with_features(study.contract),
    )


def _noted_as_independent(cohort: Cohort) -> Cohort:
    """Return a cohort with the note that no column says which patient a row is of."""
    if cohort.group is not None:
        return cohort
    note = "every row counts as a different patient (`independent`)"
    return replace(cohort, notes=[*cohort.notes, note])


class CountedUnit(Protocol):
    """Unit that a threshold flags and the rule counts."""

    repeats: int | None
    """Repeats if the caller asks for none; None for the study's own number."""
    is_compared: bool
    """Other methods, and what comes after a cut in time, are judged as well."""

    def check(self, cohort: Cohort, rule: Rule, repeats: int | None) -> None:
        """Raise UsageError if the cohort, the rule or the repeats do not allow it."""

    def rule(self, study: Study) -> Rule:
        """Return a study's rule; raise PromiseError if its cases are too few for it.

        If the study refuses nothing, it is the rule that so few cases allow.
        """

    def scored(self, study: Study, method: HeldOutDecisions, jobs: int) -> ScoredMethod:
        """Return the scores that the threshold is chosen on."""


class ByRow:
    """Rows are flagged and counted."""

    repeats: int | None = None
    is_compared = True

    def check(self, cohort: Cohort, rule: Rule, repeats: int | None) -> None:
        """Allow every cohort."""

    def rule(self, study: Study) -> Rule:
        """Return a study's rule; raise PromiseError if its cases are too few for it."""
        n_cases = study.watched.sum(axis=0)
        if not study.validation.refuse:
            return attainable(int(n_cases.min()), study.rule)
        watched = study.task.watched
        is_guess = study.task.kind == "multi" and not study.task.positive
        guess = watched if is_guess else ()
        for name, n_of_class in zip(watched, n_cases, strict=True):
            refuse_too_few(name, int(n_of_class), study.rule, guess=guess)
        return study.rule

    def scored(self, study: Study, method: HeldOutDecisions, jobs: int) -> ScoredMethod:
        """Return held-out scores, and what their ranking rests on."""
        reliance = None
        if not is_summed(method.recipe):
            reliance = reliance_of(study, jobs)
        importance = importance_of(study, method)
        decisions = []
        x = method.encoded.x
        for start in range(0, len(x), AT_ONCE):
            decisions.append(method.model.decisions(x[start : start + AT_ONCE]))
        trained = np.concatenate(decisions)[:, study.task.watched_columns]
        scores = replace(HeldOutScores.of(method, study), trained=trained)
        return ScoredMethod(scores, study.rule, reliance, importance)


def _model(
    study: Study, method: HeldOutDecisions, judgement: Judgement, card: ModelDocument
) -> Model:
    """Return the trained model, with its attention reasons and validation table."""
    attention = [
        *attention_of_model(card),
        *study.cohort.doubts,
        *reasons([*study.signs]),
        *row_number_ids(study.cohort),
        *reasons_of_left_out(faults_so_far()),
    ]
    return Model(
        document=card.replace(attention=attention).to_dict(),
        recipe=method.recipe,
        contract=study.cohort.contract,
        encoder=method.encoder,
        ensemble=method.model,
        calibration=judgement.held.calibration(judgement.thresholds),
        held_out=validation_table(
            judgement.held,
            judgement.thresholds,
            study.sample,
            study.groups,
            stored_rows(method),
        ),
        selftest=_self_test(method.encoder, study.sample),
        trained=datetime.datetime.now(),
    )


def _self_test(encoder: RowEncoder, sample: Cohort) -> np.ndarray:
    """Return a few encoded rows whose scores are compared at each loading.

    Each is the mean of two, so that none is a patient's.
    """
    rows = np.linspace(0, sample.n_rows - 1, min(sample.n_rows, 32)).astype(int)
    encoded = encoder.transform(sample.take(rows).values)
    return (encoded + encoded[::-1]) / 2
