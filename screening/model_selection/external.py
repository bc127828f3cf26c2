"""External validation: a model tried on a cohort of which no row took part in its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort, joined, labels_of
from screening.data.dependence import dependence, reasons
from screening.errors import UsageError
from screening.io.opening import Readable
from screening.io.readers import Source
from screening.metrics.intervals import independent_difference
from screening.metrics.performance import prevalence_range, rates
from screening.model_selection.judge import chosen, judge
from screening.model_selection.scores import Fixed, HeldOutScores
from screening.model_selection.task import (
    NAMED_ROWS,
    Task,
    known_labels,
    refuse_unlabelled,
)
from screening.registry import optional
from screening.report.page import render_validation
from screening.report.rules import of_validation
from screening.schemas.base import FORMAT_VERSION
from screening.schemas.comparison import ClassElsewhere, ExternalValidation, Promise
from screening.schemas.figures import OperatingPoint, Ranking, Rule, Threshold
from screening.schemas.model import ModelDocument, SourceFacts
from screening.schemas.run import RunModel
from screening.schemas.validation import OperatingPointFacts
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
    """Try a model's thresholds and chances on another cohort, and say what its rule would choose there.

    Parameters
    ----------
    model : Model
        As `load_model` or `train` returns it.
    cohort : Cohort, path, URL, Database, or a pandas, polars or Arrow table
        Rows that took no part in training, with labels; read by the model's contract. A Cohort must have
        been read by it.
    label : str, optional
        Column that says who was a case; the contract's by default.
    positive : str, optional
        Label value of a case (or several, "A+B"), where this cohort writes it otherwise than training did.
    prevalence : float, optional
        Share of cases, 0 to 1, where the model would be used, if it is another than among these rows.
    command : str, optional
        The command line, to be stated on the page.

    Returns
    -------
    ExternalValidation
        The content of `validation.json`, not yet written; see `write_validation`.

    Raises
    ------
    CohortError
        The table breaks the model's contract, a row has no label, or one that training never met.
    UsageError
        Rows of the training are among these, a class is missing altogether, or a prevalence is given for
        several classes.
    ModelError
        The model was to be trained again by now.

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
    column = (
        label
        or (cohort.contract.label if isinstance(cohort, Cohort) else None)
        or facts.task.label
    )
    source, batches, refused, notes = _batches(model, cohort, column)
    if not batches:
        raise UsageError("the cohort has no rows that can be scored")
    rows = joined(batches)
    refuse_trained_on(model, rows, source)
    task, target, cases = _truth(model, rows, column, positive)
    if prevalence is not None and len(task.watched) > 1:
        raise UsageError(
            "--prevalence: several classes are watched, and it would be of one of them"
        )
    scored = np.concatenate([score_batch(model, batch).decisions for batch in batches])
    by_class = facts.validation.class_chances or {}
    chances = [by_class[name] for name in facts.task.classes if name in by_class]
    promised = [
        point for point in facts.operating_points if point.label in task.watched
    ]
    held = HeldOutScores.of_decisions(
        scored[None],
        task,
        target,
        rows.group,
        chances,
        recipe=facts.recipe.name,
        subgroups=rows.subgroups,
        shares={
            name: prevalence_range(target == code, rows.group)
            for name, code in zip(task.watched, task.watched_codes, strict=True)
        },
        prevalence=prevalence,
        fixed=Fixed(
            np.array([point.threshold for point in promised]),
            facts.validation.calibration,
        ),
    )
    lesions = (
        None
        if model.lesions is None
        else optional("lesions").lesions_elsewhere(model, held, rows)
    )
    judgement = judge(held, [point.rule for point in promised], facts.training.seed)
    points = [
        promise.replace(**vars(point), lesions=lesions and lesions[0])
        for promise, point in zip(promised, judgement.points, strict=True)
    ]
    classes = {
        point.label: _class_elsewhere(
            facts,
            promise,
            point,
            judgement.figures.summary[point.label],
            held,
            lesions and lesions[1],
        )
        for promise, point in zip(promised, points, strict=True)
    }
    validation = ExternalValidation(
        model=RunModel.from_dict(
            model.sealed | {"id": model.id, "digest": model.digest}
        ),
        source=SourceFacts.from_dict(source.to_dict()),
        label=column,
        positive=cases,
        prevalence=prevalence,
        n_refused=sum(refused.values()),
        notes=notes,
        operating_points=points,
        figures=judgement.figures,
        classes=classes,
        attention=(),
        command=command,
        versions=versions(),
        format_version=FORMAT_VERSION,
        sha256="",
    )
    signs = reasons(dependence(source, rows.contract))
    return validation.replace(attention=[*of_validation(validation), *signs])


def write_validation(
    validation: ExternalValidation, folder: Path, templates: Path | None = None
) -> None:
    """Write `validation.json` and `report.html`, the page by a site's own templates."""
    document, content = written(validation.to_dict())
    (folder / "validation.json").write_bytes(content)
    (folder / "report.html").write_bytes(
        render_validation(document, templates).encode()
    )


def _batches(
    model: Model, cohort: Cohort | Readable, label: str
) -> tuple[Source, list[Cohort], Mapping[str, int], list[str]]:
    """The rows as the model reads them, a patient's together where it counts lesions."""
    if not isinstance(cohort, Cohort):
        stream = model.opened(cohort, label=label)
        return stream.source, list(stream), stream.refused, list(stream.notes)
    own, wanted = cohort.contract.features, model.contract.features
    if {name: own.get(name) for name in wanted} != dict(wanted):
        raise UsageError(
            "the cohort was read by another contract than the model's; read it with "
            "read_cohort(source, model.contract, label=...), or give its file"
        )
    rows = replace(cohort, values={name: cohort.values[name] for name in wanted})
    batches = [rows]
    if model.lesions is not None:
        names = np.asarray(rows.group)
        batches = [rows.take(names == name) for name in np.unique(names)]
    return cohort.source, batches, cohort.refused, list(cohort.notes)


def refuse_trained_on(model: Model, rows: Cohort, source: Source) -> None:
    """UsageError where rows, or their patients, are among those that the model was trained on."""
    trained_on = {file.sha256 for file in model.facts.training.source.files}
    same_file = any(file.sha256 in trained_on for file in source.files)
    trained_on_rows = np.zeros(rows.n_rows, dtype=bool)
    for name, named in (
        ("id", same_file or model.contract.id),
        ("group", model.contract.group),
    ):
        values = getattr(rows, name)
        if named and values is not None and name in model.held_out:
            trained_on_rows |= pd.Index(values).isin(model.held_out[name])
    if not trained_on_rows.any():
        return
    numbers = rows.rows[trained_on_rows].tolist()
    what = (
        "from a file that it was trained on"
        if same_file
        else "of ids or groups that it was trained on"
    )
    raise UsageError(
        f"{len(numbers)} of {rows.n_rows} rows are {what} (rows {first_of(numbers, NAMED_ROWS)}): figures "
        "would be too good. Leave them out; if they are other people who happen to bear the same names, put "
        "the place's name before theirs"
    )


def _truth(
    model: Model, rows: Cohort, column: str, positive: str | None
) -> tuple[Task, np.ndarray, list[str]]:
    """The question with the watched classes that occur, the rows' classes, and which labels are cases."""
    task = Task.of(model.facts.task)
    label = labels_of(rows)
    refuse_unlabelled(label, column)
    if positive is not None and task.kind != "binary":
        raise UsageError(
            "--positive: the model tells several classes apart; label them as in training"
        )
    if positive is not None:
        labelled = replace(rows, contract=rows.contract.with_roles(label=column))
        cases, target = list(labelled.positives(positive)), labelled.y(positive)
    else:
        cases = list(task.positive or task.watched)
        remedy = "correct them, or say which are cases with --positive"
        target = task.target(known_labels(model.facts, model.contract, rows, remedy))
    present = [
        np.isin(code, target) and not (target == code).all()
        for code in task.watched_codes
    ]
    if not any(present):
        raise UsageError(
            f"column '{column}': these rows are all cases, or none is; there must be some of both"
        )
    watched = tuple(
        name for name, occurs in zip(task.watched, present, strict=True) if occurs
    )
    return task.replace(watched=watched), target, cases


def _class_elsewhere(
    facts: ModelDocument,
    promise: OperatingPointFacts,
    point: OperatingPointFacts,
    ranking: Ranking,
    held: HeldOutScores,
    by_lesions: float | None,
) -> ClassElsewhere:
    """Promise and finding of one watched class, and the point that its rule chooses from these scores."""
    past = facts.validation.summary[promise.label]
    local, reason = None, None
    try:
        local = _local(held, promise, facts.training.seed, by_lesions)
    except UsageError as error:
        reason = str(error)
    pairs = {
        "sensitivity": (point.sensitivity, promise.sensitivity),
        "specificity": (point.specificity, promise.specificity),
        "auroc": (ranking.auroc, past.auroc),
    }
    if point.lesions is not None and promise.lesions is not None:
        pairs["lesions"] = (point.lesions.sensitivity, promise.lesions.sensitivity)
    return ClassElsewhere(
        promise=Promise(
            rule=promise.rule,
            threshold=promise.threshold,
            prevalence=point.prevalence,
            lesions=promise.lesions,
            auroc=past.auroc,
            **rates(promise.sensitivity, promise.specificity, point.prevalence),
        ),
        differences={
            name: independent_difference(*pair) for name, pair in pairs.items()
        },
        local=local,
        local_reason=reason,
    )


def _local(
    held: HeldOutScores,
    promise: OperatingPointFacts,
    seed: int,
    by_lesions: float | None,
) -> OperatingPoint:
    """The operating point that the model's rule chooses here; UsageError where it keeps none."""
    rule: Rule = replace(promise.rule, prevalence=held.prevalence)
    if promise.lesions is not None:
        if by_lesions is None:
            share = promise.lesions.asked
            raise UsageError(
                f"too few lesions to promise that {share:g} of new ones are found"
            )
        rule = Threshold(by_lesions, prevalence=held.prevalence)
    elif isinstance(rule, Threshold):
        raise UsageError(
            "the model's threshold was given by hand, not chosen by a rule"
        )
    return chosen(held, held.task.watched.index(promise.label), rule, seed)
