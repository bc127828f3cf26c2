"""Changes of a trained model by its held-out scores: threshold and erasure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from screening.errors import ModelError, UsageError
from screening.io.columns import count_rows
from screening.metrics.operating_point import overall
from screening.model_selection.judge import judge
from screening.model_selection.scores import HELD, held_out_scores
from screening.model_selection.without_cases import (
    notes_without_cases,
    refuse_few_rows,
)
from screening.report.model_attention import with_attention
from screening.schemas.figures import Rule
from screening.schemas.model import (
    ChangedClass,
    ModelDocument,
    Profile,
    TextProfile,
    ThresholdRevision,
    TrainingFacts,
)
from screening.schemas.validation import OperatingPointFacts
from screening.spelling import first_of
from screening.store.model import Model

# Names of features in a note.
_MAX_NAMES = 5


def set_threshold(
    model: Model, rule: Rule, reason: str, watched: str | None = None
) -> Model:
    """Set other operating points of a model; its machines do not change.

    Parameters
    ----------
    model : Model
    rule : Rule
        If it names no prevalence, that of the model is kept.
    reason : str
        Every page shows it.
    watched : str, optional
        Class for which the operating point changes; all by default.

    Raises
    ------
    UsageError
        If the reason is empty, the class is not watched, or the model has an operating
        point by lesions.
    ModelError
        If the model has no held-out scores.
    """
    _refuse_threshold(model, reason, watched)
    facts = model.facts
    scores = held_out_scores(model)
    if rule.prevalence is not None:
        population = replace(scores.population, prevalence=rule.prevalence)
        scores = replace(scores, population=population)
    rules = []
    for point in facts.operating_points:
        if watched in (None, point.label):
            prevalence = rule.prevalence or point.rule.prevalence
            rules.append(replace(rule, prevalence=prevalence))
        else:
            rules.append(point.rule)
    judgement = judge(scores, rules, facts.training.seed)
    points = []
    for point, chosen in zip(
        facts.operating_points, judgement.operating_points, strict=True
    ):
        if watched not in (None, point.label):
            points.append(point)
            continue
        revised = OperatingPointFacts(
            label=point.label,
            chosen_by="screen threshold",
            reason=reason.strip(),
            **vars(chosen),
        )
        points.append(revised)
    document = facts.replace(
        operating_points=points,
        training=_training_by_rule(facts, rule),
        validation=facts.validation.replace(**judgement.facts),
        blend=judgement.members or (),
        approval=None,  # the new operating point is not approved
        thresholds_before=_with_revision(model, points, reason.strip()),
    )
    thresholds = judgement.thresholds
    return replace(
        model,
        document=with_attention(document).to_dict(),
        calibration=scores.calibration(thresholds),
        held_out={**model.held_out, "score": overall(scores.scores, thresholds)},
        directory=None,
    )


def _refuse_threshold(model: Model, reason: str, watched: str | None) -> None:
    """Raise UsageError if a model cannot get another threshold."""
    if not reason.strip():
        raise UsageError(
            "`reason`: give the reason in a few words, which every page shows",
            parameters=["reason"],
        )
    if model.lesions is not None:
        raise UsageError(
            "the threshold of this model was chosen by lesions, whose maps are not "
            "kept; train it again with `lesions` and another `min_sensitivity`",
            parameters=["lesions", "min_sensitivity"],
        )
    if watched is not None and watched not in model.watched:
        raise UsageError(
            f"`watched` {watched}: the model watches {', '.join(model.watched)}",
            parameters=["watched"],
        )


def _training_by_rule(facts: ModelDocument, rule: Rule) -> TrainingFacts:
    """Return the facts of training, with what another rule means without cases.

    Raise UsageError if no rank among so few rows keeps the new flag rate.
    """
    validation = facts.validation
    if validation.without_cases is None:
        return facts.training
    n_cases = validation.n_positive or 0
    refuse_few_rows(validation.n_rows - n_cases, rule)
    notes = []
    (before,) = facts.operating_points
    outdated = notes_without_cases(validation.without_cases, before.rule, n_cases)
    for note in facts.training.notes:
        if note not in outdated:
            notes.append(note)
    notes += notes_without_cases(validation.without_cases, rule, n_cases)
    return facts.training.replace(notes=notes)


def _with_revision(
    model: Model, points: Sequence[OperatingPointFacts], reason: str
) -> list[ThresholdRevision]:
    """Return the changes of a model's threshold, with one to other operating points.

    The same threshold for the same reason is not a change, unless it takes an approval
    away.
    """
    facts = model.facts
    revisions = list(facts.thresholds_before)
    classes = []
    for old, new in zip(facts.operating_points, points, strict=True):
        if old != new:
            changed = ChangedClass(
                label=new.label,
                threshold_before=old.threshold,
                threshold_after=new.threshold,
                rule_before=old.rule,
                rule_after=new.rule,
            )
            classes.append(changed)
    if classes or facts.approval is not None:
        revision = ThresholdRevision(
            model_before=model.digest,
            reason=reason,
            classes=classes,
            approval=facts.approval,
        )
        revisions.append(revision)
    return revisions


def change_of(before: ModelDocument, after: ModelDocument) -> dict[str, object]:
    """Return what the ledger records of a change of thresholds.

    Digests, thresholds and rules before and after, and the reason.
    """
    revision = after.thresholds_before[-1]
    return {
        "model_before": before.sha256,
        "model_after": after.sha256,
        "reason": revision.reason,
        "classes": [changed.to_dict() for changed in revision.classes],
    }


# Columns of held-out scores that name a patient.
_PATIENT_COLUMNS = ("id", "group", "unit")


def without_patient(
    model: Model, name: str, retrain_by: datetime.date, today: datetime.date
) -> Model | None:
    """Return the model without a patient's held-out scores.

    Its figures stay as they were measured; p-values are ranks among the other rows.

    Parameters
    ----------
    model : Model
    name : str
        Id or group of the patient.
    retrain_by : date
        Day by which the model must be trained again if its machines store the patient's
        rows, or if a category that it names may be the patient's alone; an earlier day
        that was set before is kept.
    today : date

    Returns
    -------
    Model or None
        None if its held-out scores do not name the patient.

    Raises
    ------
    ModelError
        If there are no other patients.
    """
    table = model.held_out
    is_patient = _rows_of_patient(model, name)
    if not is_patient.any():
        return None
    if is_patient.all():
        raise ModelError(
            "its held-out scores contain no other patient; remove the model"
        )
    note = (
        f"the held-out scores of a patient were erased on {today}; the figures "
        "still include them"
    )
    facts = model.facts
    notes = [*facts.training.notes, note]
    rare = _features_of_few(facts.training.profile, int(is_patient.sum()))
    if rare:
        notes.append(
            f"a category of {first_of(rare, _MAX_NAMES)} may have been the erased "
            "patient's alone; training the model again removes it"
        )
    document = facts.replace(training=facts.training.replace(notes=notes))
    if rare or table[HELD][is_patient].any():
        document = document.replace(retrain_by=_earlier_day(facts, retrain_by))
    held_out = {column: values[~is_patient] for column, values in table.items()}
    # Its self-test rows are made of two patients' rows each: without them
    # `Model.arrays` writes noise.
    remaining = replace(
        model,
        document=with_attention(document).to_dict(),
        held_out=held_out,
        selftest=None,
        directory=None,
    )
    scores = held_out_scores(remaining)
    return replace(remaining, calibration=scores.calibration(remaining.thresholds))


def stores_rows(model: Model) -> bool:
    """Return True if some machine stores copies of rows that it learned from."""
    ensembles = getattr(model.ensemble, "members", [model.ensemble])
    return any(getattr(ensemble, "kernel_machines", ()) for ensemble in ensembles)


def rows_of_patient_stored(model: Model, name: str) -> bool:
    """Return True if held-out scores say that a machine stores a row of a patient."""
    is_patient = _rows_of_patient(model, name)
    return bool(model.held_out[HELD][is_patient].any())


def _rows_of_patient(model: Model, name: str) -> np.ndarray:
    """Return the mask of held-out scores that name a patient, (n_rows,)."""
    table = model.held_out
    is_patient = np.zeros(count_rows(table), dtype=bool)
    for column in _PATIENT_COLUMNS:
        if column in table:
            is_patient |= (table[column] == name).astype(bool)
    return is_patient


def _earlier_day(facts: ModelDocument, retrain_by: datetime.date) -> str:
    """Return the day by which to train a model again, or the one set before."""
    day = retrain_by.isoformat()
    return min(day, facts.retrain_by or day)


def to_train_again(model: Model, retrain_by: datetime.date) -> Model:
    """Return a recalibrated model with a day by which to train it again.

    The source model of its ranking contains a row of an erased patient.
    """
    note = (
        "the source model of the ranking contains a row of an erased patient; train "
        "that model again, and recalibrate it here"
    )
    facts = model.facts
    training = facts.training.replace(notes=[*facts.training.notes, note])
    due = _earlier_day(facts, retrain_by)
    document = with_attention(facts.replace(training=training, retrain_by=due))
    return replace(model, document=document.to_dict(), directory=None)


def _features_of_few(profile: Profile | None, n_rows: int) -> list[str]:
    """Return the features with a category that no more than `n_rows` rows had."""
    if profile is None:
        return []
    features = []
    for name, counted in profile.features.items():
        counts = counted.counts if isinstance(counted, TextProfile) else {}
        if any(count <= n_rows for count in counts.values()):
            features.append(name)
    return features
