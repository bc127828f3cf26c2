"""The rule of a threshold, and figures with their intervals: what a threshold does, how scores rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from screening.documents.base import PART, Document, Estimate

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

    __pydantic_config__: ClassVar = PART

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
            raise ValueError(f"{self.name} must be above 0 and at most 1, got {_meant(self.value)}")
        if self.name == "miss_cost" and not (self.value or 0) > 0:
            raise ValueError(f"miss_cost must be above 0, got {self.value}")
        if self.confidence is not None and self.name != "min_sensitivity":
            raise ValueError(f"confidence goes with min_sensitivity, not with {self.name}")
        for name in ("confidence", "prevalence"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise ValueError(f"{name} must be between 0 and 1, got {_meant(share)}")


def _meant(share: float | None) -> str:
    """A share that is none as an error names it, and what was meant where it is a percentage."""
    return f"{share:g}; did you mean {share / 100:g}?" if share and 1 < share < 100 else f"{share}"


# A threshold beyond this stands for none: the operating point flags every row.
BEYOND_SCORES = 1e11


class Rates(Document):
    """What a threshold does to either class: shares, 0 to 1, with 95 % intervals; None is undefined."""

    sensitivity: Estimate
    specificity: Estimate


class PredictiveValues(Document):
    """What a flag means at a prevalence, and what it costs, with 95 % intervals; None is undefined."""

    prevalence: float
    ppv: Estimate
    npv: Estimate
    nne: Estimate
    flag_rate: Estimate


class Area(Document):
    """The area under the ROC curve with its 95 % interval; None is undefined."""

    auroc: Estimate


class OfRule(Document):
    """What figures are of: the rule of one watched class, and the threshold that it chose."""

    rule: Rule
    threshold: float


class Sizes(Document):
    """Rows of either class, and groups where rows come in groups."""

    n_positive: int
    n_negative: int
    n_groups: int | None


class OperatingPoint(Rates, PredictiveValues, Sizes):
    """A threshold and what it does on unseen rows, scored by the mean of the machines that judged these.

    `sensitivity` is the one expected of new positives, 1 - (misses + 1) / (m + 1), which is a little less
    than the share of the m positives seen above the threshold; `specificity` is the share of negatives below
    it. `ppv`, `npv`, `nne` (reviews per case found) and `flag_rate` hold at `prevalence`, whose own
    uncertainty their intervals hold unless it was stated.
    """

    threshold: float
    rule: Rule
    misses: int | None
    notes: Sequence[str]

    @property
    def flags_everything(self) -> bool:
        """Whether the threshold stands for none at all."""
        return self.threshold <= -BEYOND_SCORES


class Ranking(Area, Sizes):
    """How well held-out scores rank, whatever the threshold; `prevalence` is the share of positives."""

    prevalence: float
    average_precision: Estimate


class Observed(Area, PredictiveValues, Rates, Sizes):
    """What a threshold chosen elsewhere did to rows whose labels are known."""

    threshold: float
    true_positive: int
    false_negative: int
    false_positive: int
    true_negative: int
    accuracy: float | None
    f1: float | None
    g_mean: float | None
    min_sensitivity: float | None
    average_precision: Estimate
