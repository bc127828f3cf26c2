"""External validation: a model on a cohort without rows of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort, concatenate
from screening.data.dependence import dependence, reasons
from screening.data.one_per_unit import one_row_per_unit
from screening.data.stream import CohortStream
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.io.readers import Source
from screening.metrics.chances import chance_at_threshold
from screening.metrics.groups import codes_of
from screening.metrics.intervals import independent_difference
from screening.metrics.performance import figures_at_prevalence
from screening.model_selection.judge import choose_point, judge, with_chance
from screening.model_selection.scores import (
    FrozenOperatingPoints,
    HeldOutScores,
    Population,
    shares_of,
)
from screening.model_selection.task import (
    NAMED_ROWS,
    Task,
    known_labels,
    refuse_no_outcome,
    refuse_unlabelled,
)
from screening.recipes.encoders import score_of_rows
from screening.registry import optional
from screening.report.page import render_validation
from screening.report.validation_attention import attention_of_validation
from screening.schemas.base import FORMAT_VERSION, Estimate
from screening.schemas.comparison import ClassElsewhere, ExternalValidation, Promise
from screening.schemas.figures import OperatingPoint, Rule, Threshold
from screening.schemas.model import ModelDocument, SourceFacts
from screening.schemas.run import RunModel
from screening.schemas.validation import Calibration, OperatingPointFacts
from screening.spelling import first_of
from screening.store.model import Model, score_batch
from screening.store.serialization import versions, written


def validate(
    model: Model,
    cohort: Cohort | Readable,
    *,
    label: str | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
    command: str | None = None,
) -> ExternalValidation:
    """Apply a model's thresholds and probabilities to another cohort.

    Also choose what the model's rule would choose there.

    Parameters
    ----------
    model : Model
        As `load_model` or `train` returns it.
    cohort : Cohort, path, URL, Database, or a pandas, polars or Arrow table
        Rows that took no part in training, with labels; read by the model's contract. A
        Cohort must have been read by it.
    label : str, optional
        Column that says who was a case; the contract's by default.
    positive : str, optional
        Label value of a case (or several, "A+B"), if this cohort writes it otherwise
        than training did.
    prevalence : float, optional
        Share of cases, 0 to 1, at the place of use, if it differs from that of these
        rows.
    command : str, optional
        The command line, to be stated on the page.

    Returns
    -------
    ExternalValidation
        The content of `validation.json`, not yet written; see `write_validation`.

    Raises
    ------
    CohortError
        If the table breaks the model's contract, or a row has no label or one that did
        not occur in training.
    UsageError
        If rows of the training are among these, a class is missing altogether, or a
        prevalence is given for several classes.
    ModelError
        If the model should have been trained again by now.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import read_cohort, train, validate
    >>> samples = files("screening.sample_cohorts")
    >>> past = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> model = train(past, "logistic", search=1)
    >>> outcome = validate(model, samples / "nosocomial_night_labelled.csv")
    >>> sorted(outcome.classes["yes"].differences)
    ['auroc', 'sensitivity', 'specificity']
    """
    model.refuse_overdue()
    facts = model.facts
    new = read_labelled(model, cohort, label, positive)
    watched = new.task.watched
    if prevalence is not None and len(watched) > 1:
        raise UsageError(
            "`prevalence` applies to one class, but several are watched; leave it out",
            parameters=["prevalence"],
        )
    promises = [point for point in facts.operating_points if point.label in watched]
    thresholds = np.array([promise.threshold for promise in promises])
    frozen = FrozenOperatingPoints(thresholds, facts.validation.calibration)
    held = new.scores(model, new.rows.group, prevalence, frozen=frozen)
    lesions = local_threshold = None
    if model.lesions is not None:
        lesions, local_threshold = optional("lesions").judge_lesions_elsewhere(
            model, held, new.rows
        )
    rules = [promise.rule for promise in promises]
    judgement = judge(held, rules, facts.training.seed)
    points = []
    classes = {}
    for m, promise in enumerate(promises):
        point = promise.replace(**vars(judgement.points[m]), lesions=lesions)
        points.append(point)
        observed = judgement.figures_of(m, "validate_differences")
        classes[point.label] = _class_elsewhere(
            facts, promise, point, observed, held, local_threshold
        )
    identified = model.sealed | {"id": model.id, "digest": model.digest}
    validation = ExternalValidation(
        model=RunModel.from_dict(identified),
        source=SourceFacts.from_dict(new.read.source.to_dict()),
        label=new.column,
        positive=new.cases,
        prevalence=prevalence,
        n_refused=sum(new.read.refused.values()),
        notes=list(new.read.notes),
        operating_points=points,
        figures=judgement.figures,
        classes=classes,
        attention=(),
        command=command,
        versions=versions(),
        format_version=FORMAT_VERSION,
        sha256="",
    )
    attention = attention_of_validation(validation)
    contract = new.rows.contract
    if contract.per_unit is None:
        attention += reasons(dependence(new.read.source, contract))
    return validation.replace(attention=attention)


def write_validation(
    validation: ExternalValidation, folder: Path, templates: Path | None
) -> None:
    """Write `validation.json` and `report.html`, the page by a site's own templates."""
    document, content = written(validation.to_dict())
    (folder / "validation.json").write_bytes(content)
    page = render_validation(document, templates)
    (folder / "report.html").write_bytes(page.encode())


@dataclass(frozen=True)
class ScoredCohort:
    """Rows of another cohort, scored by a model that was not trained on them.

    Parameters
    ----------
    read : Cohort or CohortStream
        Has their source, and which rows were refused.
    rows : Cohort
    column : str
        Of the labels.
    task : Task
        With the watched classes that occur.
    target : int ndarray of shape (n_rows,)
    cases : list of str
        Labels that are cases.
    decisions : ndarray of shape (n_rows, n_outputs)
    """

    read: Cohort | CohortStream
    rows: Cohort
    column: str
    task: Task
    target: np.ndarray
    cases: list[str]
    decisions: np.ndarray

    def scores(
        self,
        model: Model,
        groups: np.ndarray | None,
        prevalence: float | None,
        **others: Any,
    ) -> HeldOutScores:
        """Return the model's scores of these rows; ``others`` are further fields."""
        facts = model.facts
        rows = self.rows
        curves = facts.validation.class_chances or {}
        class_curves = [curves[name] for name in facts.task.classes if name in curves]
        return HeldOutScores.of_decisions(
            self.decisions[None],
            self.task,
            self.target,
            None if groups is None else codes_of(groups),
            class_curves,
            recipe=facts.recipe.name,
            population=Population(
                shares_of(self.task, self.target, rows.group),
                prevalence,
                rows.subgroups,
                rows.contract.suppress,
            ),
            **others,
        )


def read_labelled(
    model: Model, cohort: Cohort | Readable, label: str | None, positive: str | None
) -> ScoredCohort:
    """Read a labelled cohort by a model's contract, and score it.

    Parameters as for ``validate``.
    """
    column = label or model.facts.task.label
    read: Cohort | CohortStream
    if isinstance(cohort, Cohort):
        column = label or cohort.contract.label or column
        read = cohort
        batches = _as_read_by(model, cohort)
    else:
        read = model.opened(cohort, label=column, gates=model.gates())
        batches = list(read)
    if not batches:
        raise UsageError("the cohort has no rows that can be scored")
    rows = concatenate(batches)
    _refuse_trained_on(model, rows, read.source)
    task, target, cases = _true_classes(model, rows, column, positive)
    decisions = [score_batch(model, batch).decisions for batch in batches]
    return ScoredCohort(
        read, rows, column, task, target, cases, np.concatenate(decisions)
    )


def _as_read_by(model: Model, cohort: Cohort) -> list[Cohort]:
    """Return a cohort under the model's contract, one per patient if it counts lesions.

    UsageError for another contract.
    """
    features = cohort.contract.features
    wanted = model.contract.features
    same_names = {name: features.get(name) for name in wanted}
    if same_names != dict(wanted):
        raise UsageError(
            "the cohort was read with a contract other than the model's; use "
            "read_cohort(source, model.contract, label=...), or give its file"
        )
    cohort = one_row_per_unit(cohort, score_of_rows(model.recipe, cohort.contract))
    values = {name: cohort.values[name] for name in wanted}
    rows = replace(cohort, values=values)
    if model.lesions is None:
        return [rows]
    group = np.asarray(rows.group)
    return [rows.take(group == name) for name in np.unique(group)]


def _trained_rows(model: Model, rows: Cohort, same_file: bool) -> np.ndarray:
    """Return the mask of rows with an id or group of the training, (n_rows,)."""
    is_trained_on = np.zeros(rows.n_rows, dtype=bool)
    # Without an id column ids are row numbers, which mean something only in one file.
    if (same_file or model.contract.id) and "id" in model.held_out:
        is_trained_on |= pd.Index(rows.id).isin(model.held_out["id"])
    in_groups = bool(model.contract.group) and "group" in model.held_out
    if in_groups and rows.group is not None:
        is_trained_on |= pd.Index(rows.group).isin(model.held_out["group"])
    return is_trained_on


def _refuse_trained_on(model: Model, rows: Cohort, source: Source) -> None:
    """Raise UsageError if rows, or their patients, took part in training."""
    _refuse_file_of_ranking(model, source)
    trained_files = {file.sha256 for file in model.facts.training.source.files}
    same_file = any(file.sha256 in trained_files for file in source.files)
    is_trained_on = _trained_rows(model, rows, same_file)
    if not is_trained_on.any():
        return
    numbers = rows.rows[is_trained_on].tolist()
    if same_file:
        origin = "from a file that it was trained on"
    else:
        origin = "of ids or groups that it was trained on"
    raise UsageError(
        f"{len(numbers)} of {rows.n_rows} rows are {origin} (rows "
        f"{first_of(numbers, NAMED_ROWS)}), so figures would be too good. Leave them "
        "out. If they are other people with the same ids, put the site's name "
        "before each id"
    )


def _refuse_file_of_ranking(model: Model, source: Source) -> None:
    """Raise UsageError for rows of a file that the origin of a model learned from.

    It has no ids of these rows, since they stay at the place where it was trained.
    """
    origin = model.facts.origin
    if origin is None:
        return
    of_ranking = {file.sha256 for file in origin.source.files}
    if any(file.sha256 in of_ranking for file in source.files):
        raise UsageError(
            f"the ranking of this model comes from {origin.model}, which was trained "
            "on this file, so figures would be too good. Give rows that it was not "
            "trained on"
        )


def _true_classes(
    model: Model, rows: Cohort, column: str, positive: str | None
) -> tuple[Task, np.ndarray, list[str]]:
    """Return task, true classes and labels of cases, as in ``ScoredCohort``.

    CohortError or UsageError if labels are missing or unknown, or a class is missing.
    """
    task = Task.of(model.facts.task)
    refuse_unlabelled(rows.labels, column)
    if positive is None:
        cases = list(task.positive or task.watched)
        remedy = "correct them, or name the cases with `positive`"
        target = task.target(known_labels(model.facts, model.contract, rows, remedy))
    elif task.kind == "binary":
        refuse_no_outcome(model.facts, model.contract, rows)
        cases = list(rows.classes_named(positive))
        target = rows.y(positive)
    else:
        raise UsageError(
            "leave out `positive`: the model separates several classes; label the rows "
            "as in training",
            parameters=["positive"],
        )
    watched = []
    for name, code in zip(task.watched, task.watched_codes, strict=True):
        is_class = target == code
        if is_class.any() and not is_class.all():
            watched.append(name)
    if not watched:
        raise UsageError(
            f"column '{column}': either all rows or none are cases; some of both are "
            "needed"
        )
    return task.replace(watched=tuple(watched)), target, cases


def _class_elsewhere(
    facts: ModelDocument,
    promise: OperatingPointFacts,
    point: OperatingPointFacts,
    observed: Mapping[str, Estimate],
    held: HeldOutScores,
    local_threshold: float | None,
) -> ClassElsewhere:
    """Compare promise and observation of one watched class.

    Parameters
    ----------
    facts : ModelDocument
    promise : OperatingPointFacts
        Of the model.
    point : OperatingPointFacts
        The same threshold on these rows.
    observed : mapping of str to Estimate
        Figures of these rows that are compared with the promised ones.
    held : HeldOutScores
    local_threshold : float, optional
        Threshold by lesions that the rule chooses here.
    """
    summary = facts.validation.summary[promise.label]
    calibration = facts.validation.calibration.get(promise.label)
    promised = {**summary.figures, **promise.figures}
    prevalence = point.prevalence
    assert prevalence is not None
    local = None
    local_reason = None
    try:
        local = _local_point(
            held, promise, calibration, facts.training.seed, local_threshold
        )
    except UsageError as error:
        local_reason = str(error)
    differences = {
        name: independent_difference(figure, promised[name])
        for name, figure in observed.items()
        if name in promised
    }
    if point.lesions is not None and promise.lesions is not None:
        differences["lesions"] = independent_difference(
            point.lesions.sensitivity, promise.lesions.sensitivity
        )
    return ClassElsewhere(
        promise=Promise(
            rule=promise.rule,
            threshold=promise.threshold,
            prevalence=prevalence,
            lesions=promise.lesions,
            figures={
                **promised,
                **figures_at_prevalence(
                    promise["sensitivity"],
                    promise["specificity"],
                    prevalence,
                    chance_at_threshold(calibration, promise.threshold),
                ),
            },
        ),
        differences=differences,
        local=local,
        local_reason=local_reason,
    )


def _local_point(
    held: HeldOutScores,
    promise: OperatingPointFacts,
    calibration: Calibration | None,
    seed: int,
    local_threshold: float | None,
) -> OperatingPoint:
    """Return the operating point that the model's rule chooses for these rows.

    UsageError if no threshold keeps the rule. `calibration` is the model's.
    """
    rule: Rule = replace(promise.rule, prevalence=held.population.prevalence)
    if promise.lesions is not None:
        if local_threshold is None:
            raise UsageError(
                f"there are too few lesions to promise that {promise.lesions.asked:g} "
                "of new ones are found"
            )
        rule = Threshold(local_threshold, prevalence=held.population.prevalence)
    elif isinstance(rule, Threshold):
        raise UsageError("the model's threshold was set by hand, not chosen by a rule")
    m = held.task.watched.index(promise.label)
    point = choose_point(held, m, rule, seed)
    return with_chance(held, m, point, calibration)
