"""The rules by which a threshold is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLAG_EVERYTHING = -1e12
"""Threshold below the scores of every machine, for promises that no finite rank can keep."""

_NAMES = ("min_sensitivity", "max_flag_rate", "miss_cost", "g_mean", "threshold")


@dataclass(frozen=True)
class Rule:
    """How a threshold is chosen.

    Parameters
    ----------
    name : {"min_sensitivity", "max_flag_rate", "miss_cost", "g_mean", "threshold"}
        What is asked of the threshold.
    value : float, optional
        Least sensitivity or largest flag rate (0 to 1); reviews that one missed case is worth (> 0); the
        threshold itself; None for "g_mean".
    confidence : float, optional
        With "min_sensitivity": probability (0 to 1) that the sensitivity on new rows is at least `value`.
    prevalence : float, optional
        Share of positives where the model will be used, for PPV, NPV, workload and cost; the cohort's if
        None.

    Raises
    ------
    ValueError
        A value is out of its range, or given where the rule has none.

    Examples
    --------
    >>> from screening import Rule
    >>> Rule("min_sensitivity", 0.9, confidence=0.95)
    Rule(name='min_sensitivity', value=0.9, confidence=0.95, prevalence=None)
    """

    name: str = "min_sensitivity"
    value: float | None = None
    confidence: float | None = None
    prevalence: float | None = None

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise ValueError(f"no rule {self.name!r}; there are {', '.join(_NAMES)}")
        if (self.value is None) != (self.name == "g_mean"):
            raise ValueError(f"{self.name} takes {'no value' if self.name == 'g_mean' else 'a value'}")
        if self.value is not None and not np.isfinite(self.value):
            raise ValueError(f"{self.name} must be a finite number, got {self.value}")
        if self.name in ("min_sensitivity", "max_flag_rate") and not 0 < (self.value or 0) <= 1:
            raise ValueError(f"{self.name} must be above 0 and at most 1, got {self.value}")
        if self.name == "miss_cost" and not (self.value or 0) > 0:
            raise ValueError(f"miss_cost must be above 0, got {self.value}")
        if self.confidence is not None and self.name != "min_sensitivity":
            raise ValueError(f"confidence goes with min_sensitivity, not with {self.name}")
        for name in ("confidence", "prevalence"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} must be between 0 and 1, got {share}")


RULES = (
    *(Rule("min_sensitivity", s) for s in (0.8, 0.9, 0.95)),
    *(Rule("max_flag_rate", f) for f in (0.05, 0.1, 0.2)),
    *(Rule("miss_cost", k) for k in (10.0, 20.0, 50.0)),
    Rule("g_mean"),
)
"""Rules of the table of operating points."""


def pick(rule: Rule, hits: np.ndarray, alarms: np.ndarray, design: float) -> np.ndarray:
    """Column of the threshold that a rule chooses: counts (..., n_thresholds) in, columns (...) out.

    Column 0 flags everything, unseen rows included, and is left to promises that no rank keeps.
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
        kept[..., 0] = True
        return kept.shape[-1] - 1 - kept[..., ::-1].argmax(axis=-1)
    if rule.name == "max_flag_rate":
        return 1 + (share * hit + (1 - share) * false <= value + 1e-12)[..., 1:].argmax(axis=-1)
    if rule.name == "miss_cost":
        cost = share * (value * (1 - hit) + hit) + (1 - share) * false
        return 1 + np.round(cost, 12)[..., 1:].argmin(axis=-1)
    return 1 + np.round(hit * (1 - false), 12)[..., 1:].argmax(axis=-1)
