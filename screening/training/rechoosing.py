"""Another operating point for a trained model, from the held-out scores it was validated with."""

from __future__ import annotations

from dataclasses import replace

from screening.cohort.id_hash import said_of_ids
from screening.documents.attention import of_model
from screening.documents.history import ChangedClass
from screening.documents.shape import plain
from screening.errors import UsageError
from screening.statistics.operating_point import Rule, overall
from screening.storage.model import Model
from screening.training.card import in_use
from screening.validation.judge import judge
from screening.validation.stored_scores import held_out_scores
from screening.validation.validation import calibration_of


def rechoose(model: Model, rule: Rule, reason: str, watched: str | None = None) -> Model:
    """Return the model with another operating point; its machine stays as it is.

    Parameters
    ----------
    model : Model
    rule : Rule
        The prevalence in use is kept where it names none.
    reason : str
        Why, in words; shown on every page from now on.
    watched : str, optional
        Only this class; all watched classes by default.

    Raises
    ------
    UsageError
        The reason is empty, or the class is not watched.
    ModelError
        The model holds no held-out scores to choose from.
    """
    if not reason.strip():
        raise UsageError("--reason: say why in a few words; every page will show it")
    if model.lesions is not None:
        raise UsageError(
            "the operating point of this model is one by lesions, whose maps are not kept; train it again "
            "with --lesions and another --min-sensitivity"
        )
    if watched is not None and watched not in model.watched:
        raise UsageError(f"--class {watched}: the model watches {', '.join(model.watched)}")
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
        in_use(point.label, chosen, "screen threshold", reason.strip())
        if watched in (None, point.label)
        else point
        for point, chosen in zip(before.operating_points, judgement.points, strict=True)
    ]
    document = replace(
        before,
        operating_points=points,
        validation=replace(before.validation, **judgement.figures),
        blend=judgement.members or (),
        approval=None,  # of another operating point nobody has approved yet
    )
    document = replace(document, attention=[*of_model(document), *said_of_ids(before)])
    thresholds = judgement.thresholds
    return replace(
        model,
        document=plain(document),
        calibration=calibration_of(scores.validation, thresholds),
        held_out=model.held_out.but({"score": overall(scores.validation.scores, thresholds)}),
        directory=None,
    )


def change_of(before: Model, after: Model) -> dict[str, object]:
    """What the ledger keeps of a change: digests, thresholds and rules before and after, and the reason."""
    pairs = zip(before.facts.operating_points, after.facts.operating_points, strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    return {
        "model_before": before.digest,
        "model_after": after.digest,
        "reason": changed[0][1].reason if changed else None,
        "classes": [
            plain(
                ChangedClass(
                    label=new.label,
                    threshold_before=old.threshold,
                    threshold_after=new.threshold,
                    rule_before=old.rule,
                    rule_after=new.rule,
                )
            )
            for old, new in changed
        ],
    }
