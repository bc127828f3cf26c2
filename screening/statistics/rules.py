"""The rules by which a threshold is chosen."""

from __future__ import annotations

import numpy as np

from screening.documents.rule import Rule

FLAG_EVERYTHING = -1e12
"""Threshold below the scores of every machine, for promises that no finite rank can keep."""

RULES = (
    *(Rule("min_sensitivity", s) for s in (0.8, 0.9, 0.95)),
    *(Rule("max_flag_rate", f) for f in (0.05, 0.1, 0.2)),
    *(Rule("miss_cost", k) for k in (10.0, 20.0, 50.0)),
    Rule("g_mean"),
)
"""Rules of the table of operating points."""


def pick(
    rule: Rule, hits: np.ndarray, alarms: np.ndarray, design: float, allowed: np.ndarray | bool = True
) -> np.ndarray:
    """Column of the threshold that a rule chooses: counts (..., n_thresholds) in, columns (...) out.

    Column 0 flags everything, unseen rows included, and is left to promises that no rank keeps. `allowed`
    says which of the others may be chosen.
    """
    m, n = hits[..., :1], alarms[..., :1]
    share = m / (m + n) if rule.prevalence is None else rule.prevalence
    hit, false = hits / m, alarms / n
    value = rule.value or 0.0
    if rule.name == "min_sensitivity":
        if rule.confidence is None:
            kept = m - hits + design <= (1 - value) * (m + design) + 1e-9
        else:
            from scipy.special import betainc

            # Clopper-Pearson's lower bound is at least s when Beta(hits, misses + 1) is below s seldom
            # enough.
            sizes = np.maximum(hits, 1e-9) / design, (m - hits) / design + 1
            kept = betainc(*sizes, value) <= 1 - rule.confidence + 1e-12
        kept = kept & allowed
        kept[..., 0] = True
        return kept.shape[-1] - 1 - kept[..., ::-1].argmax(axis=-1)
    if rule.name == "max_flag_rate":
        few = share * hit + (1 - share) * false <= value + 1e-12
        return 1 + (few & allowed)[..., 1:].argmax(axis=-1)
    if rule.name == "miss_cost":
        cost = share * (value * (1 - hit) + hit) + (1 - share) * false
        return 1 + np.where(allowed, np.round(cost, 12), np.inf)[..., 1:].argmin(axis=-1)
    return 1 + np.where(allowed, np.round(hit * (1 - false), 12), -1.0)[..., 1:].argmax(axis=-1)
