"""From a labelled cohort to a model: plan folds, hold every row out, choose a threshold, write the card."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from screening.cohort.cohort import Cohort, labels_of
from screening.cohort.dependence import dependence, reasons, refuse_dependent
from screening.cohort.encoding import Encoder
from screening.cohort.id_hash import row_number_ids
from screening.documents.attention import of_model
from screening.documents.shape import plain
from screening.machines.ensembles import BlendedEnsemble
from screening.parallel import Cluster
from screening.recipes.loading import load_recipe
from screening.recipes.recipe import Recipe
from screening.sources.columns import Columns
from screening.statistics.operating_point import Rule
from screening.statistics.performance import prevalence_range
from screening.storage.model import Model
from screening.training import card as record
from screening.training.beside import baselines, recipes_of
from screening.training.lesions import by_lesions, refuse_without_lesions
from screening.training.planning import Groundwork, laid
from screening.training.revising import HELD, held_rows
from screening.training.temporal_validation import past_and_later
from screening.training.too_good import named_after, too_good
from screening.validation.checks import refuse_too_few
from screening.validation.held_out import Effort, HeldOut, Progress, held_out_by
from screening.validation.judge import HeldOutScores, Judgement, Member, judge
from screening.validation.stored_scores import columns_of
from screening.validation.task import Task
from screening.validation.validation import Validation, calibration_of

DEFAULT_RULE = Rule("min_sensitivity", 0.9)


def train(
    cohort: Cohort,
    recipe: Recipe | str = "auto",
    *,
    rule: Rule = DEFAULT_RULE,
    folds: int = 5,
    repeats: int | None = None,
    search: int | None = None,
    params: dict[str, object] | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    jobs: int = -1,
    memory: int | None = None,
    progress: Progress | None = None,
    command: str | None = None,
    forward: bool = True,
    beside: Sequence[str] | None = (),
    lesions: bool = False,
    cluster: Cluster | None = None,
    kept: Path | None = None,
    independent: bool = False,
) -> Model:
    """Hold every row of a cohort out, choose setting and operating point on the held-out scores.

    The machines of the folds are the model: a new row's score is the mean of their decisions.

    Parameters
    ----------
    cohort : Cohort
        With labels.
    recipe : Recipe or str
        A recipe, its name, or the path of a recipe file.
    rule : Rule
        How the threshold is chosen from the held-out scores.
    folds : int
        Fewer where there are fewer groups, or fewer rows of the rarer class.
    repeats : int, optional
        How often the folds are dealt, at the chosen setting; by default three times where fits are cheap.
    search : int, optional
        Settings that compete on the held-out rows; the recipe's own number by default, 1 for none.
    params : dict, optional
        Parameters fixed by the caller; they are taken out of the search.
    max_rows : int, optional
        Train on a stratified sub-sample of this many rows.
    seed : int
        Deals the folds, the sub-sample and the candidates.
    jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    memory : int, optional
        Bytes for kernel matrices: a Gram that does not fit is computed by rows.
    progress : callable, optional
        Called with (fits finished, fits in all).
    command : str, optional
        The command line, to be stated on the card.
    forward : bool
        Also train on the past alone and test on what came after, where the contract names a time column.
    beside : sequence of str, optional
        Recipes to compare the method with on the same folds; None for those that `screen train` takes.
    lesions : bool
        Of voxels: `rule` counts lesions, connected voxels that are positive; how maps of scores are smoothed
        and which clusters are too small is chosen with the threshold. Other methods, which are judged voxel
        by voxel, are not compared with then.
    cluster : Cluster, optional
        Workers that fit the folds (`screen train --cluster`); the result does not depend on it.
    kept : Path, optional
        Private folder where what they fitted waits: a training that was killed goes on from there.
    independent : bool
        Every row is a patient of its own, whatever the table looks like.

    Returns
    -------
    Model
        Not yet written; see `save_model`.

    Raises
    ------
    UsageError
        Rows are surely of the same patients and no group says which; no labels, one class only, too few cases
        for the rule's promise or for two folds, or too many rows.
    RecipeError
        The recipe or a parameter cannot be built, or its model does not do what it would promise.

    Examples
    --------
    >>> from screening import Rule, read_cohort, train
    >>> from importlib.resources import files
    >>> samples = files("screening.sample_cohorts")
    >>> cohort = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> model = train(cohort, "logistic", rule=Rule("min_sensitivity", 0.9), search=1)
    >>> model.operating_points[0]["sensitivity"] >= 0.9
    True
    """
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    recipe.refuse_if_not_persistable()
    signs = [] if independent else dependence(cohort.source, cohort.contract)
    refuse_dependent(signs)
    if independent and cohort.contract.group is None:
        said = "every row is taken for a patient of its own (--independent)"
        cohort = replace(cohort, notes=[*cohort.notes, said])
    prevalence = rule.prevalence or cohort.contract.prevalence
    if lesions:
        refuse_without_lesions(cohort, rule, repeats)
        repeats, beside, forward = 1, (), False
    ground = laid(
        cohort, recipe, rule, params or {}, folds=folds, repeats=repeats, max_rows=max_rows, seed=seed
    )
    sample, task, rule = ground.sample, ground.task, ground.rule
    n_watched = len(task.watched)
    if not lesions:  # of which there may be more than rows of voxels tell
        refuse_too_few(task, task.is_watched(labels_of(sample)), [rule] * n_watched)
    others = recipes_of(beside, recipe, task, sample.n_rows)
    effort = Effort(jobs, memory, progress, cluster, kept)

    def past_alone(rows: Cohort) -> tuple[Groundwork, HeldOut]:
        own = laid(rows, recipe, rule, params or {}, folds=min(folds, 3), repeats=1, max_rows=None, seed=seed)
        return own, held_out_by(
            own.sample, recipe, own.task, own.plan, params=own.params, search=search, seed=seed,
            effort=Effort(jobs),
        )  # fmt: skip

    # The machines of the folds are the model: holding rows out is the training.
    held_out = held_out_by(
        sample, recipe, task, ground.plan, params=ground.params, search=search, seed=seed, effort=effort
    )
    chosen = by_lesions(ground, held_out, seed) if lesions else None
    rule = chosen.rule if chosen else rule
    validation = Validation.of(chosen.held_out if chosen else held_out, sample, task, ground.plan.groups)
    if not lesions:  # whose scores are of maps
        leaks = [*named_after(sample, task), *too_good(sample, task, ground.plan, validation, seed)]
        ground = replace(
            ground,
            suspects=[*ground.suspects, *leaks],
            notes=[*ground.notes, *(leak.said for leak in leaks)],
        )
    everyone = task.is_watched(labels_of(ground.cohort))
    dated = forward and sample.time is not None
    scores = HeldOutScores(
        recipe=held_out.recipe.name,
        task=task,
        validation=validation,
        trained=validation.scores if lesions else _trained(held_out, task),
        target=task.target(labels_of(sample)),
        one_class=held_out.one_class,
        subgroups=sample.subgroups,
        shares={
            name: prevalence_range(everyone[:, m], ground.cohort.group)
            for m, name in enumerate(task.watched)
        },
        prevalence=prevalence,
        members=_members(held_out, sample, task, ground.plan.groups),
        baselines=baselines(
            sample, task, others, held_out, ground.plan,
            search=search, params=ground.params, seed=seed, effort=effort,
        ),
        later=past_and_later(sample, task, validation.groups, past_alone) if dated else None,
    )  # fmt: skip
    judgement = judge(scores, [rule] * n_watched, seed)
    document = record.model_document(
        ground, held_out, judgement, seed=seed, max_rows=max_rows, command=command
    )
    if chosen:
        (point,) = document.operating_points
        document = replace(document, operating_points=[replace(point, lesions=chosen.facts)])
    attention = [*of_model(document), *reasons(signs), *row_number_ids(ground.cohort)]
    return Model(
        document=plain(replace(document, attention=attention)),
        recipe=held_out.recipe,
        contract=ground.cohort.contract,
        encoder=held_out.encoder,
        ensemble=held_out.ensemble,
        calibration=calibration_of(validation, judgement.thresholds),
        held_out=_table(scores, judgement, sample, held_rows(held_out)),
        selftest=_self_test(held_out.encoder, sample),
        trained=datetime.datetime.now(),
    )


def _trained(held_out: HeldOut, task: Task) -> np.ndarray:
    """Scores of the rows by the machines that are stored, (n_rows, n_watched)."""
    return held_out.ensemble.decisions(held_out.encoded.x)[:, task.watched_columns]


def _members(held_out: HeldOut, sample: Cohort, task: Task, groups: np.ndarray | None) -> list[Member]:
    """The members of a blend, each by itself."""
    blend, columns = held_out.ensemble, task.watched_columns
    if not isinstance(blend, BlendedEnsemble):
        return []
    return [
        Member(
            part.recipe.name,
            part.recipe.title,
            Validation.of(part, sample, task, groups),
            *blend.pooling.of_member(m, columns),
        )
        for m, part in enumerate(held_out.parts)
    ]


def _table(scores: HeldOutScores, judgement: Judgement, sample: Cohort, held: np.ndarray) -> Columns:
    """`validation.parquet`: a line a row, in an order that does not depend on the table's."""
    table: dict[str, np.ndarray] = {"id": sample.id}
    if sample.group is not None:
        table["group"] = sample.group
    groups = scores.validation.groups
    if groups is not None and groups is not sample.group:
        table["unit"] = groups
    table |= {HELD: held, "label": labels_of(sample)}
    return Columns(table | columns_of(scores, judgement.thresholds), sample.n_rows)


def _self_test(encoder: Encoder, sample: Cohort) -> np.ndarray:
    """A few encoded rows, blended so that none is a patient's, whose scores are compared at each loading."""
    rows = np.linspace(0, sample.n_rows - 1, min(sample.n_rows, 32)).astype(int)
    encoded = encoder.transform(sample.take(rows))
    return (encoded + encoded[::-1]) / 2
