"""Another operating point for a trained model, from the held-out scores it was validated with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from screening.cohort.identity import said_of_ids
from screening.documents.attention import of_model
from screening.documents.stored import model_in
from screening.errors import ModelError, UsageError
from screening.statistics.operating_point import OperatingPoint, Rule, curve, overall, points
from screening.storage.model import Model
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
    task = Task.from_dict(model.document["task"])
    validation, seed = stored_validation(model, task), int(model.document["training"]["seed"] or 0)
    document = model.document | {
        "operating_points": list(model.operating_points),
        "validation": dict(model.document["validation"]),
    }
    for m, name in enumerate(task.watched):
        if watched not in (None, name):
            continue
        before = OperatingPoint.from_dict(model.operating_points[m])
        asked = rule if rule.prevalence is not None else replace(rule, prevalence=before.rule.prevalence)
        point = validation.operating_point(m, asked, seed)
        document["operating_points"][m] = {
            "class": name, "chosen_by": "screen threshold", "reason": reason.strip(),
        } | point.to_dict()  # fmt: skip
        if point.prevalence != before.prevalence:
            of_class = validation.of_class(m)
            shown = curve(
                of_class["scores"], of_class["y"], validation.groups, seed=seed, prevalence=point.prevalence
            )
            facts = document["validation"]
            facts["curves"] = facts["curves"] | {name: shown}
            facts["points"] = facts["points"] | {
                name: points(**of_class, seed=seed, prevalence=point.prevalence)
            }
    kept = said_of_ids(document)
    document["attention"] = [each.to_dict() for each in [*of_model(model_in(document)), *kept]]
    thresholds = np.array([point["threshold"] for point in document["operating_points"]], dtype=float)
    return replace(
        model,
        document=document,
        calibration=calibration_of(validation, thresholds),
        validation=model.validation.assign(score=overall(validation.scores, thresholds)),
        directory=None,
    )


def change_of(before: Model, after: Model) -> dict[str, Any]:
    """What the ledger keeps of a change: digests, thresholds and rules before and after, and the reason."""
    pairs = zip(before.operating_points, after.operating_points, strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    return {
        "model_before": before.digest,
        "model_after": after.digest,
        "reason": changed[0][1]["reason"] if changed else None,
        "classes": [
            {
                "class": new["class"],
                "threshold_before": old["threshold"],
                "threshold_after": new["threshold"],
                "rule_before": old["rule"],
                "rule_after": new["rule"],
            }
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
    table, facts = model.validation, model.document["validation"]
    names = ["score"] if task.kind == "binary" else [f"score_{name}" for name in task.watched]
    if table.empty or not set(names) <= set(table.columns):
        raise ModelError("the model holds no held-out scores to choose from; train it again")
    if model.document.get("format") == 1 and facts["repeats"] > 1:
        raise ModelError("the model is of an older format, with repeated folds; train it again")
    repeats = sum(name.startswith(f"{names[0]}@") for name in table.columns)
    columns = [[f"{name}@{repeat}" for name in names] for repeat in range(repeats)] or [names]
    scores = table[names].to_numpy(dtype=float)
    return Validation(
        scores=scores,
        repeats=np.stack([table[each].to_numpy(dtype=float) for each in columns]),
        fold=table["fold"].to_numpy(),
        watched=task.is_watched(table["label"].to_numpy(dtype=object)),
        own=scores > 0,
        predicted=None,
        groups=table["unit" if "unit" in table else "group"].to_numpy() if facts["grouped"] else None,
        n_settings=int(facts["search"]["n_candidates"]),
    )
