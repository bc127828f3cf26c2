"""Approval of a model: the responsible person, and what is known before the outcome."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from screening.errors import UsageError
from screening.report.model_attention import with_attention
from screening.report.verdict import approval_words, usefulness_of
from screening.schemas.model import Approval, KnownBefore, ModelDocument, TrainingFacts
from screening.spelling import command_line, did_you_mean, first_of, joined

# What was answered for an earlier model is proposed for the next one, unless a column's
# AUROC alone rose by more than this, or its share of missing values changed by that.
_MAX_RISE = 0.05
_MAX_MORE_MISSING = 0.1
# Names of features in a message.
_MAX_NAMES = 5


def approve(
    model: ModelDocument,
    by: str,
    date: datetime.date,
    reason: str | None = None,
    known_before: Sequence[str] = (),
) -> ModelDocument:
    """Approve a model: return its document with an approval.

    Another threshold or training makes it a draft again.

    Parameters
    ----------
    model : ModelDocument
        As it is stored, with its digest.
    by : str
        Who approves it.
    date : date
    reason : str, optional
        Required if the verdict of its validation is "no".
    known_before : sequence of str
        Columns that are known at the hour of the night. The strongest one of each block
        that carries the ranking is required, unless the contract declares it, and each
        column with an unknown answer in the contract. The first of several that are the
        same measurement counts for all.

    Raises
    ------
    UsageError
        If no name is given, a reason is required, or it is not declared for such a
        column whether it is known before the outcome.
    """
    if not by.strip():
        raise UsageError(
            "`by`: give the name of the person who approves the model",
            parameters=["by"],
        )
    stripped_reason = (reason or "").strip() or None
    draft = model.replace(approval=None)
    if known_before:
        _refuse_unknown(model, known_before)
        answer = KnownBefore(
            columns=list(dict.fromkeys(known_before)),
            by=by.strip(),
            date=date.isoformat(),
        )
        draft = draft.replace(known_before=[*draft.known_before, answer])
        draft = with_attention(draft)
    _refuse_unanswered(draft)
    if stripped_reason is None and usefulness_of(draft).verdict == "no":
        raise UsageError(
            "`reason`: by its validation this model is not fit for use; give the "
            "reason for using it",
            parameters=["reason"],
        )
    approval = Approval(by=by.strip(), date=date.isoformat(), reason=stripped_reason)
    drafts = _drafts_before(model, approval, known_before)
    return with_attention(draft.replace(approval=approval.replace(drafts=drafts)))


def _drafts_before(
    model: ModelDocument, approval: Approval, known_before: Sequence[str]
) -> list[str]:
    """Return the digests under which a model was known before an approval.

    The same approval again adds none.
    """
    earlier = model.approval
    if earlier is None:
        return [model.sha256]
    drafts = list(earlier.drafts)
    if known_before or earlier != approval.replace(drafts=earlier.drafts):
        drafts.append(model.sha256)
    return drafts


def _refuse_unknown(model: ModelDocument, columns: Sequence[str]) -> None:
    """Raise UsageError for a column that is not a feature of the model."""
    features = model.contract["features"]
    for name in columns:
        if name not in features:
            hint = did_you_mean(name, features)
            raise UsageError(
                f"`known_before`: the model has no feature '{name}'{hint}",
                parameters=["known_before"],
            )


def _refuse_unanswered(document: ModelDocument) -> None:
    """Raise UsageError if a block that carries the ranking may come afterwards."""
    blocks = []
    for columns in document.unanswered:
        # As the option takes them: one that has a comma is in quotes.
        names = [joined([name]) for name in columns]
        blocks.append(first_of(names, _MAX_NAMES))
    if blocks:
        raise UsageError(
            "`known_before`: state whether these columns are known at the hour of "
            f"the night: {'; '.join(blocks)}. If they are, name the first column "
            "of each block. If a column is known only afterwards, set "
            'available = "after" in the contract, and train the model again',
            parameters=["known_before"],
        )


def answers_to_repeat(
    model: ModelDocument, earlier: ModelDocument
) -> list[KnownBefore]:
    """Return what was answered for an earlier model about columns of this one.

    Only about columns that approval asks for, and that are as they were: of the same
    type and unit, without a sign that is new, missing as often, with a median that was
    usual before, and ranking no better alone. The last answers are first.
    """
    proposed = {
        name for name, *_ in model.unanswered if _is_as_before(name, model, earlier)
    }
    answers = []
    for answer in reversed(earlier.known_before):
        columns = [name for name in answer.columns if name in proposed]
        if columns:
            answers.append(answer.replace(columns=columns))
            proposed.difference_update(columns)
    return answers


def _is_as_before(name: str, model: ModelDocument, earlier: ModelDocument) -> bool:
    """Return True if a column is in this training as it was in an earlier one."""
    now, before = model.training, earlier.training
    if name not in now.alone or name not in before.alone:
        return False
    declared, declared_before = model.declared(name), earlier.declared(name)
    has_new_sign = name in _with_signs(now) - _with_signs(before)
    more_missing = abs(now.missing[name] - before.missing[name])
    return (
        now.alone[name] - before.alone[name] <= _MAX_RISE
        and more_missing <= _MAX_MORE_MISSING
        and declared.type == declared_before.type
        and declared.unit == declared_before.unit
        and not has_new_sign
        and _has_usual_median(name, now, before)
    )


def _with_signs(training: TrainingFacts) -> set[str]:
    """Return the columns with a sign that they may come after the outcome."""
    return {name for leak in training.leaks for name in leak.asked}


def _has_usual_median(name: str, now: TrainingFacts, before: TrainingFacts) -> bool:
    """Return True unless a number's median lies outside the range seen before."""
    medians = {feature.name: feature.median for feature in now.features}
    ranges = {feature.name: feature.seen for feature in before.features}
    median = medians.get(name)
    seen = ranges.get(name)
    if seen is None or not isinstance(median, float):
        return True
    low, high = seen
    return (low is None or median >= low) and (high is None or median <= high)


def approval_of(before: ModelDocument, after: ModelDocument) -> dict[str, object]:
    """Return what the ledger records of an approval.

    Digests before and after, the approver, date and reason, and the columns declared to
    be known before the outcome.
    """
    approval = after.approval
    assert approval is not None
    known_before: list[str] = []
    for answer in after.known_before[len(before.known_before) :]:
        known_before += answer.columns
    return {
        "model_before": before.sha256,
        "model_after": after.sha256,
        "by": approval.by,
        "date": approval.date,
        "reason": approval.reason,
        "known_before": known_before,
    }


def refuse_draft(model: ModelDocument, name: object) -> None:
    """Raise UsageError if the model is not approved."""
    if model.approval is None:
        approve_it = command_line("approve", name, *approval_words(model))
        raise UsageError(f"{name} is a draft; approve it first with {approve_it}")
