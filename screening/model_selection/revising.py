"""A trained model changed afterwards, by its kept held-out scores: threshold, approval, a patient less."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from screening.data.dependence import CODE as ROWS_OF_ONE_PATIENT
from screening.data.ids import ROW_NUMBERS
from screening.errors import ModelError, UsageError
from screening.estimators.ensembles import FoldEnsemble
from screening.io.columns import count_rows
from screening.metrics.operating_point import overall
from screening.metrics.ties import hashed
from screening.model_selection.held_out import HeldOut
from screening.model_selection.judge import judge
from screening.model_selection.scores import held_out_scores
from screening.report.rules import of_model, usefulness_of
from screening.schemas.figures import Rule
from screening.schemas.history import ChangedClass
from screening.schemas.model import Approval, ModelDocument
from screening.schemas.validation import OperatingPointFacts
from screening.store.model import Model


def set_threshold(
    model: Model, rule: Rule, reason: str, watched: str | None = None
) -> Model:
    """The model with another operating point, of one class or of all; its machines stay as they are.

    The prevalence in use is kept where the rule names none. UsageError where the reason, which every page
    shows, is empty, or the class is not watched; ModelError where it holds no held-out scores.
    """
    if not reason.strip():
        raise UsageError("--reason: say why in a few words; every page will show it")
    if model.lesions is not None:
        raise UsageError(
            "the operating point of this model is one by lesions, whose maps are not kept; train it again "
            "with --lesions and another --min-sensitivity"
        )
    if watched is not None and watched not in model.watched:
        raise UsageError(
            f"--class {watched}: the model watches {', '.join(model.watched)}"
        )
    before, scores = model.facts, held_out_scores(model)
    if rule.prevalence is not None:
        scores = replace(scores, prevalence=rule.prevalence)
    rules = [
        replace(rule, prevalence=rule.prevalence or point.rule.prevalence)
        if watched in (None, point.label)
        else point.rule
        for point in before.operating_points
    ]
    judgement = judge(scores, rules, before.training.seed)
    points = [
        OperatingPointFacts(
            label=point.label,
            chosen_by="screen threshold",
            reason=reason.strip(),
            **vars(chosen),
        )
        if watched in (None, point.label)
        else point
        for point, chosen in zip(before.operating_points, judgement.points, strict=True)
    ]
    document = before.replace(
        operating_points=points,
        validation=before.validation.replace(**judgement.facts),
        blend=judgement.members or (),
        approval=None,  # of another operating point nobody has approved yet
    )
    document = _attended(document)
    thresholds = judgement.thresholds
    return replace(
        model,
        document=document.to_dict(),
        calibration=scores.calibration(thresholds),
        held_out={**model.held_out, "score": overall(scores.scores, thresholds)},
        directory=None,
    )


def _attended(document: ModelDocument) -> ModelDocument:
    """With what deserves attention now; what training said of the rows is as it was."""
    of_rows = [
        reason
        for reason in document.attention
        if reason.code in (ROW_NUMBERS, ROWS_OF_ONE_PATIENT)
    ]
    return document.replace(attention=[*of_model(document), *of_rows])


def change_of(before: Model, after: Model) -> dict[str, object]:
    """What the ledger keeps of a change: digests, thresholds and rules before and after, and the reason."""
    pairs = zip(
        before.facts.operating_points, after.facts.operating_points, strict=True
    )
    changed = [(old, new) for old, new in pairs if old != new]
    return {
        "model_before": before.digest,
        "model_after": after.digest,
        "reason": changed[0][1].reason if changed else None,
        "classes": [
            ChangedClass(
                label=new.label,
                threshold_before=old.threshold,
                threshold_after=new.threshold,
                rule_before=old.rule,
                rule_after=new.rule,
            ).to_dict()
            for old, new in changed
        ],
    }


def approve(
    model: Model, by: str, date: datetime.date, reason: str | None = None
) -> Model:
    """Return the model with somebody's approval; another threshold or training makes it a draft again.

    `by`: who answers for it.
    `reason`: required where the verdict of its validation is "no".
    Raises UsageError: nobody is named, or the verdict asks for a reason.
    """
    if not by.strip():
        raise UsageError("--by: name who approves the model")
    why = (reason or "").strip() or None
    draft = model.facts.replace(approval=None)
    if why is None and usefulness_of(draft).verdict == "no":
        raise UsageError(
            "--reason: validation says this model is not fit for use; say why it is used all the same"
        )
    document = draft.replace(
        approval=Approval(by=by.strip(), date=date.isoformat(), reason=why)
    )
    document = _attended(document)
    return replace(model, document=document.to_dict(), directory=None)


def approval_of(before: Model, after: Model) -> dict[str, object]:
    """What the ledger keeps of an approval: digests before and after, who, when and why."""
    approval = after.facts.approval
    assert approval is not None
    return {
        "model_before": before.digest,
        "model_after": after.digest,
        **approval.to_dict(),
    }


def refuse_draft(model: Model, name: object) -> None:
    """UsageError where nobody has approved the model."""
    if model.facts.approval is None:
        raise UsageError(
            f"{name} is a draft: approve it first with screen approve {name} --by NAME"
        )


HELD = "held"
NAMES = ("id", "group", "unit")


def held_rows(held_out: HeldOut) -> np.ndarray:
    """Which rows of training some machine keeps a copy of, shape (n_rows,); all, where over-sampled."""
    held = np.zeros(len(held_out.encoded.x), dtype=bool)
    for part in held_out.parts or (held_out,):
        if (
            not isinstance(part.ensemble, FoldEnsemble)
            or not part.ensemble.kernel_machines
        ):
            continue
        hashes, kept = hashed(part.encoded.x), hashed(part.ensemble.union[0])
        held |= np.isin(hashes, kept) if np.isin(kept, hashes).all() else True
    return held


def without_patient(
    model: Model, name: str, retrain_by: datetime.date, today: datetime.date
) -> Model | None:
    """The model without a patient (id or group); None where its held-out scores do not name that one.

    Its figures stay as they were measured. Where machines stand on the patient's rows, it is to be trained
    again by `retrain_by`, or an earlier day set before. ModelError where nobody else is in it.
    """
    table = model.held_out
    gone = np.zeros(count_rows(table), dtype=bool)
    for column in NAMES:
        if column in table:
            gone |= (table[column] == name).astype(bool)
    if not gone.any():
        return None
    if gone.all():
        raise ModelError("nobody else is in its held-out scores; remove the model")
    facts, rest = model.facts, {name: values[~gone] for name, values in table.items()}
    note = f"the held-out scores of a patient were erased on {today}; the figures are as they were with them"
    training = facts.training.replace(notes=[*facts.training.notes, note])
    document = facts.replace(training=training)
    if table[HELD][gone].any():
        document = document.replace(
            retrain_by=min(filter(None, (retrain_by.isoformat(), facts.retrain_by)))
        )
    document = _attended(document)
    # Its stored test rows are each made of two patients'; noise stands for them.
    fewer = replace(
        model, document=document.to_dict(), held_out=rest, selftest=None, directory=None
    )
    return replace(
        fewer, calibration=held_out_scores(fewer).calibration(fewer.thresholds)
    )
