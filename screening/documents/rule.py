"""The rule by which a threshold is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

RuleName = Literal["min_sensitivity", "max_flag_rate", "miss_cost", "g_mean", "threshold"]


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

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: RuleName = "min_sensitivity"
    value: float | None = None
    confidence: float | None = None
    prevalence: float | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(RuleName):
            raise ValueError(f"no rule {self.name!r}; there are {', '.join(get_args(RuleName))}")
        if (self.value is None) != (self.name == "g_mean"):
            raise ValueError(f"{self.name} takes {'no value' if self.name == 'g_mean' else 'a value'}")
        if self.value is not None and not math.isfinite(self.value):
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
