"""What a search maximises on held-out rows."""

from __future__ import annotations

import numpy as np

from screening.errors import RecipeError
from screening.recipes.recipe import CRITERIA
from screening.statistics.ranking import auroc, average_precision
from screening.statistics.tally import Tally

RULES = ("min_sensitivity", "max_flag_rate", "miss_cost")
"""Rules of an operating point that are criteria too, written `min_sensitivity=0.9` or `miss_cost=20@0.03`."""

# One rank among few positives is noise: the specificity at a sensitivity is averaged this far around it.
AROUND = 0.05


def criterion(name: str, decisions: np.ndarray, target: np.ndarray) -> float:
    """Score decisions, one column or one a class, against their labels; higher is better.

    "g_mean" judges the machine's own boundary (0, or the largest decision), "best_g_mean" the best threshold
    on these rows; with several classes each is averaged over one class against the rest. "min_sensitivity=s"
    is the specificity around sensitivity s, "max_flag_rate=f" the sensitivity at that flag rate,
    "miss_cost=k" minus the least cost a row; "@p" re-weighs to the prevalence p. RecipeError where no
    criterion has this name.
    """
    if name not in CRITERIA and name.partition("=")[0] not in RULES:
        raise RecipeError(f"no criterion {name!r}; there are {', '.join(CRITERIA)}")
    if decisions.ndim == 1 or decisions.shape[1] == 1:
        return _binary(name, decisions.ravel(), target == 1)
    if name == "g_mean" or name == "balanced_accuracy":
        predicted = decisions.argmax(axis=1)
        recalls = [float(np.mean(predicted[target == m] == m)) for m in np.unique(target)]
        return float(np.mean(recalls))
    return float(np.mean([_binary(name, decisions[:, m], target == m) for m in np.unique(target)]))


def _binary(name: str, decision: np.ndarray, positive: np.ndarray) -> float:
    if positive.all() or not positive.any():
        return 0.5
    if name == "auroc":
        return auroc(decision, positive)
    if name == "average_precision":
        return average_precision(decision, positive)
    if name == "best_g_mean":
        false, hit = _roc(decision, positive)
        return float(np.sqrt(hit * (1 - false)).max())
    if name not in CRITERIA:
        return _by_rule(name, *_roc(decision, positive), float(positive.mean()))
    flagged = decision > 0
    sensitivity, specificity = flagged[positive].mean(), 1 - flagged[~positive].mean()
    if name == "balanced_accuracy":
        return float((sensitivity + specificity) / 2)
    return float(np.sqrt(sensitivity * specificity))


def _roc(decision: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - specificity and sensitivity at every threshold, from the one that flags nobody downwards."""
    hits, alarms = Tally(decision, positive, None, np.unique(decision)).counts
    return np.append(0, alarms[::-1]) / alarms[0], np.append(0, hits[::-1]) / hits[0]


def _by_rule(name: str, false: np.ndarray, hit: np.ndarray, prevalence: float) -> float:
    """What a rule is worth on the ROC curve of these rows, at its best threshold."""
    rule, _, text = name.partition("=")
    value, _, share = text.partition("@")
    aim, prevalence = float(value), float(share) if share else prevalence
    if rule == "min_sensitivity":
        around = np.linspace(max(aim - AROUND, 0.0), min(aim + AROUND, 1.0), 11)
        return float(np.mean(1 - false[np.searchsorted(hit, around - 1e-9)]))
    if rule == "max_flag_rate":
        return float(np.interp(aim, prevalence * hit + (1 - prevalence) * false, hit))
    return -float(np.min(prevalence * (aim * (1 - hit) + hit) + (1 - prevalence) * false))
