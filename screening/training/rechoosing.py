"""Another operating point for a trained model, from the held-out scores it was validated with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.cohort.identity import said_of_ids
from screening.documents.attention import of_model
from screening.documents.history import ChangedClass
from screening.documents.shape import plain
from screening.errors import ModelError, UsageError
from screening.statistics.operating_point import Rule, overall
from screening.storage.model import Model
from screening.training.card import in_use
from screening.validation.task import Task
from screening.validation.validation import Validation, calibration_of


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
    before, task = model.facts, Task.of(model.facts.task)
    validation, seed = stored_validation(model, task), before.training.seed or 0
    points, facts = list(before.operating_points), before.validation
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        if watched not in (None, name):
            continue
        asked = rule if rule.prevalence is not None else replace(rule, prevalence=point.rule.prevalence)
        chosen = validation.operating_point(m, asked, seed)
        points[m] = in_use(name, chosen, "screen threshold", reason.strip())
        if chosen.prevalence != point.prevalence:
            curve = validation.curve(m, chosen.prevalence, seed)
            rows = validation.points(m, chosen.prevalence, seed)
            facts = replace(facts, curves={**facts.curves, name: curve}, points={**facts.points, name: rows})
    document = replace(before, operating_points=points, validation=facts)
    document = replace(document, attention=[*of_model(document), *said_of_ids(before)])
    thresholds = np.array([point.threshold for point in points])
    return replace(
        model,
        document=plain(document),
        calibration=calibration_of(validation, thresholds),
        held_out=model.held_out.but({"score": overall(validation.scores, thresholds)}),
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


def stored_validation(model: Model, task: Task) -> Validation:
    """The held-out scores a model was validated with.

    Raises
    ------
    ModelError
        The model holds none.
    """
    table, facts = model.held_out, model.facts.validation
    names = task.score_columns
    if not table.n_rows or not set(names) <= set(table):
        raise ModelError("the model holds no held-out scores to choose from; train it again")
    repeats = sum(name.startswith(f"{names[0]}@") for name in table)
    columns = [[f"{name}@{repeat}" for name in names] for repeat in range(repeats)] or [names]
    scores = np.column_stack([table[name] for name in names])
    return Validation(
        scores=scores,
        repeats=np.stack([np.column_stack([table[name] for name in each]) for each in columns]),
        fold=table["fold"],
        watched=task.is_watched(table["label"]),
        own=scores > 0,
        predicted=None,
        groups=table["unit" if "unit" in table else "group"] if facts.grouped else None,
        n_settings=facts.search.n_candidates,
        alike=table.get("alike"),
    )
