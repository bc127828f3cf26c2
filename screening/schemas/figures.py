"""Rules that choose a threshold, and figures with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from screening.schemas.base import Document, PopulationFigures

RuleName = Literal[
    "min_sensitivity", "max_flag_rate", "miss_cost", "g_mean", "threshold"
]

GridName = Literal["recipe", "paper"]
"""Grid that settings are drawn from: the recipe's, or the one that its paper prints."""


@dataclass(frozen=True)
class Rule:
    """A rule that chooses a threshold; each kind of rule is a type of its own.

    `prevalence` is the proportion of positives where the model will be used, for PPV,
    NPV, workload and cost; that of the cohort if None.
    """

    name: ClassVar[RuleName]
    # Largest value, where it must be above 0.
    most: ClassVar[float | None] = None
    value: float | None = field(default=None, init=False, repr=False)
    confidence: float | None = field(default=None, init=False, repr=False)
    prevalence: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("value", "confidence", "prevalence"):
            number = getattr(self, name)
            is_number = isinstance(number, Real) and not isinstance(number, bool)
            if number is not None and not is_number:
                raise ValueError(f"{name} must be a number, got {number!r}")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.name} must be a finite number, got {self.value}")
        self._check_range()
        for name in ("confidence", "prevalence"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise ValueError(
                    f"{name} must be between 0 and 1, got {_describe_share(share)}"
                )

    def _check_range(self) -> None:
        """Raise ValueError unless the value is above 0 and at most `most`."""
        if self.most is None or 0 < (self.value or 0) <= self.most:
            return
        at_most = "" if math.isinf(self.most) else f" and at most {self.most:g}"
        raise ValueError(
            f"{self.name} must be above 0{at_most}, got {_describe_share(self.value)}"
        )


@dataclass(frozen=True)
class MinSensitivity(Rule):
    """Find at least this share of the cases, with as few flags as that takes.

    Parameters
    ----------
    value : float
        Share of new cases that is to be flagged, above 0 to 1.
    confidence : float, optional
        Probability, 0 to 1, that the sensitivity on new rows is at least `value`; where
        absent it is so in expectation.
    prevalence : float, optional
        Share of cases, 0 to 1, where the model will be used; the cohort's if None.

    Raises
    ------
    ValueError
        A value is out of its range.

    Examples
    --------
    >>> from screening import MinSensitivity
    >>> MinSensitivity(0.9, confidence=0.95)
    MinSensitivity(value=0.9, confidence=0.95, prevalence=None)
    """

    name = "min_sensitivity"
    most = 1.0
    value: float = 0.9
    confidence: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class MaxFlagRate(Rule):
    """Flag at most this share of the rows, those with the highest scores.

    Parameters
    ----------
    value : float
        Largest share of rows that may be flagged, above 0 to 1.
    prevalence : float, optional
        Share of cases, 0 to 1, where the model will be used; the cohort's if None.

    Raises
    ------
    ValueError
        A value is out of its range.

    Examples
    --------
    >>> from screening import MaxFlagRate
    >>> MaxFlagRate(0.1).value
    0.1
    """

    name = "max_flag_rate"
    most = 1.0
    value: float = field()


@dataclass(frozen=True)
class MissCost(Rule):
    """Spend least, where one missed case costs as much as so many reviews.

    Parameters
    ----------
    value : float
        Reviews that one missed case is worth, above 0.
    prevalence : float, optional
        Share of cases, 0 to 1, where the model will be used; the cohort's if None.

    Raises
    ------
    ValueError
        A value is out of its range.

    Examples
    --------
    >>> from screening import MissCost
    >>> MissCost(20.0, prevalence=0.05)
    MissCost(value=20.0, prevalence=0.05)
    """

    name = "miss_cost"
    most = math.inf
    value: float = field()


@dataclass(frozen=True)
class GMean(Rule):
    """The largest geometric mean of sensitivity and specificity.

    Parameters
    ----------
    prevalence : float, optional
        Share of cases, 0 to 1, where the model will be used; the cohort's if None.

    Raises
    ------
    ValueError
        The prevalence is out of its range.

    Examples
    --------
    >>> from screening import GMean
    >>> GMean()
    GMean(prevalence=None)
    """

    name = "g_mean"


@dataclass(frozen=True)
class Threshold(Rule):
    """A threshold given by hand: rows that score as much or more are flagged.

    Parameters
    ----------
    value : float
        On the scale of the model's scores.
    prevalence : float, optional
        Share of cases, 0 to 1, where the model will be used; the cohort's if None.

    Raises
    ------
    ValueError
        It is not a finite number.

    Examples
    --------
    >>> from screening import Threshold
    >>> Threshold(0.5).value
    0.5
    """

    name = "threshold"
    value: float = field()


RULE_TYPES: dict[str, type[Rule]] = {
    kind.name: kind
    for kind in (MinSensitivity, MaxFlagRate, MissCost, GMean, Threshold)
}

DEFAULT_RULE = MinSensitivity()


def rule_named(name: str, **numbers: float | None) -> Rule:
    """Return the rule with a name and its numbers; None is not stated.

    Raises
    ------
    ValueError
        The rule is unknown, does not take such a number, or needs one.
    """
    if name not in RULE_TYPES:
        raise ValueError(
            f"{name!r} is not a rule; choose one of {', '.join(RULE_TYPES)}"
        )
    kind = RULE_TYPES[name]
    stated = {key: number for key, number in numbers.items() if number is not None}
    accepted = {field.name for field in fields(kind) if field.init}
    if "confidence" in stated.keys() - accepted:
        raise ValueError(f"confidence needs min_sensitivity, not {name}")
    if "value" in stated.keys() ^ accepted:
        determiner = "a" if "value" in accepted else "no"
        raise ValueError(f"{name} takes {determiner} value")
    return kind(**stated)


class RuleFacts(Document):
    """A rule in a document: its name and numbers, null for those it does not have."""

    name: RuleName
    value: float | None
    confidence: float | None
    prevalence: float | None


def _from_facts(stored: object) -> object:
    """Return the rule of its stored facts; anything else as it is."""
    if not isinstance(stored, Mapping):
        return stored
    return rule_named(**RuleFacts.model_validate(stored).to_dict())


def _to_facts(rule: Rule) -> RuleFacts:
    """Return the facts by which a rule is stored."""
    return RuleFacts.model_validate(rule, from_attributes=True)


StoredRule = Annotated[
    InstanceOf[Rule], BeforeValidator(_from_facts), PlainSerializer(_to_facts)
]
"""A rule as a field of a document."""


def _describe_share(share: float | None) -> str:
    """Describe an invalid share, and the share that a percentage means."""
    if share and 1 < share < 100:
        return f"{share:g}; did you mean {share / 100:g}?"
    return f"{share}"


# A threshold beyond this means none: the operating point flags every row.
BEYOND_SCORES = 1e11


NO_CASE_SEEN = "unknown: no case has been seen"
"""Words of documents and pages for figures that need a case, without cases."""


class AtPrevalence(PopulationFigures):
    """Figures of a population, and the prevalence at which it has predictive values.

    It is None where no case has been seen.
    """

    prevalence: float | None


class OfRule(Document):
    """Base of figures for the rule and threshold of one watched class."""

    rule: StoredRule
    threshold: float


class JudgedPopulation(AtPrevalence):
    """Figures of rows of both classes, and how many rows they are.

    `n_groups` is the number of groups if rows are grouped.
    """

    n_positive: int
    n_negative: int
    n_groups: int | None


class OperatingPoint(JudgedPopulation):
    """A threshold, and its performance on new rows.

    New rows are scored by the mean of the machines that scored the held-out rows.
    `sensitivity` is the one expected of new positives, 1 - (misses + 1) / (m + 1), a
    little less than the share of the m positives above the threshold; `specificity` is
    the share of negatives below it. `ppv`, `npv`, `nne` (reviews per case found) and
    `flag_rate` are those at `prevalence`; their intervals include its uncertainty
    unless it was stated.

    Of a model trained without cases (`WithoutCases`) the promise is the specificity,
    the expected share of rows like those of training that is not flagged. Known cases
    only judge: `sensitivity` is the observed share of them. Without any, sensitivity
    and predictive values are undefined, and `flag_rate` is that of rows like these.
    """

    threshold: float
    rule: StoredRule
    misses: int | None
    notes: Sequence[str]

    @property
    def flags_everything(self) -> bool:
        """True if the threshold flags every row."""
        return self.threshold <= -BEYOND_SCORES


class LabelledCounts(Document):
    """Rows by label and flag: a 2 x 2 table."""

    true_positive: int
    false_negative: int
    false_positive: int
    true_negative: int


class Observed(JudgedPopulation, LabelledCounts):
    """Performance of a threshold chosen elsewhere on rows with labels.

    `prevalence` is the share of positives among them.
    """

    threshold: float
