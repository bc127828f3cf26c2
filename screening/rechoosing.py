"""Another operating point for a trained model, from the out-of-fold scores it was validated with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from screening.errors import ModelError, UsageError
from screening.operating_point import OperatingPoint, Rule, choose, curve, points
from screening.store import Model
from screening.task import Task, overall


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
        The model holds no out-of-fold scores to choose from.
    """
    if not reason.strip():
        raise UsageError("--reason: say why in a few words; every page will show it")
    if watched is not None and watched not in model.watched:
        raise UsageError(f"--class {watched}: the model watches {', '.join(model.watched)}")
    task = Task.from_dict(model.document["task"])
    scores, label = _out_of_fold(model, task), model.validation["label"].to_numpy(dtype=object)
    together, seed = _clusters(model), int(model.document["training"]["seed"] or 0)
    is_watched = task.is_watched(label)
    document = model.document | {
        "operating_points": list(model.operating_points),
        "validation": dict(model.document["validation"]),
    }
    for m, name in enumerate(task.watched):
        if watched not in (None, name):
            continue
        before = OperatingPoint.from_dict(model.operating_points[m])
        asked = rule if rule.prevalence is not None else replace(rule, prevalence=before.rule.prevalence)
        point = choose(scores[:, m], is_watched[:, m], asked, together, seed)
        document["operating_points"][m] = {
            "class": name, "chosen_by": "screen threshold", "reason": reason.strip(),
        } | point.to_dict()  # fmt: skip
        if point.prevalence != before.prevalence:
            figures = (scores[:, m], is_watched[:, m], together)
            facts = document["validation"]
            facts["curves"] = facts["curves"] | {
                name: curve(*figures, seed=seed, prevalence=point.prevalence)
            }
            facts["points"] = facts["points"] | {name: points(*figures, prevalence=point.prevalence)}
    thresholds = np.array([point["threshold"] for point in document["operating_points"]], dtype=float)
    table = model.validation.assign(score=overall(scores, thresholds))
    return replace(
        model,
        document=document,
        calibration=_calibration(model, scores, thresholds, np.asarray(is_watched.any(axis=1))),
        validation=table,
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


def _out_of_fold(model: Model, task: Task) -> np.ndarray:
    """Out-of-fold scores, shape (n_scores, n_watched)."""
    names = ["score"] if task.kind == "binary" else [f"score_{name}" for name in task.watched]
    if model.validation.empty or not set(names) <= set(model.validation.columns):
        raise ModelError("the model holds no out-of-fold scores to choose from; train it again")
    return model.validation[names].to_numpy(dtype=float)


def _clusters(model: Model) -> np.ndarray | None:
    """What was one independent observation in validation: the group, or a row scored several times."""
    facts = model.document["validation"]
    if facts["grouped"]:
        return model.validation["group"].to_numpy()
    return model.validation["id"].to_numpy() if facts["repeats"] > 1 else None


def _calibration(
    model: Model, scores: np.ndarray, thresholds: np.ndarray, positive: np.ndarray
) -> np.ndarray:
    """Calibration scores on the scale of the new thresholds.

    One watched class keeps its scores. With several a score is the excess over the thresholds, which moved;
    of rows scored in several repeats the first counts, as in training.
    """
    if scores.shape[1] == 1:
        return model.calibration
    table = model.validation
    own = ["group", "id"] if "group" in table else ["id"]
    once = ~table.duplicated(own).to_numpy()
    negative = once & ~positive
    one = overall(scores[negative], thresholds)
    if model.document["validation"]["grouped"]:
        import pandas as pd

        one = pd.Series(one).groupby(table["group"].to_numpy()[negative]).max().to_numpy()
    return np.sort(one)
