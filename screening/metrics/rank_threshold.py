"""Thresholds by ranks among rows that are not known cases, for models without cases.

What can be promised of exchangeable new rows is the share of them that is flagged.
Known cases, if any, choose nothing: they judge the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.metrics.figures import Rates, evaluate_rates, figures_in
from screening.metrics.groups import units_of
from screening.metrics.intervals import design_effect, exact_interval
from screening.metrics.operating_point import ThresholdSelector, notes_on_ties
from screening.metrics.predictive_intervals import predictive
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import (
    NO_CASE_SEEN,
    MaxFlagRate,
    OperatingPoint,
    Rule,
    Threshold,
)

RULES = (
    MaxFlagRate(0.01),
    MaxFlagRate(0.02),
    MaxFlagRate(0.05),
    MaxFlagRate(0.1),
    MaxFlagRate(0.2),
)
"""Rules of the table of operating points."""
# Tolerance for rounding in comparisons of counts.
_COUNT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RankSelector(ThresholdSelector):
    """Held-out scores from which thresholds are chosen by a share of flags.

    "Rows" are those that are not known cases, n in number.

    Notes
    -----
    With `MaxFlagRate(R)` the threshold is the ceil((1 - R)(n + 1))-th smallest of their
    scores. If n is large enough that there is such a rank, the share of exchangeable
    new rows above it is distributed as Beta(n + 1 - k, k) with k the rank: its mean is
    at most R, for any distribution of the scores. A threshold among equal scores is
    moved above them. If rows come in groups, rows count as n / d with d the design
    effect of the share, and the condition "flagged <= R (n + 1)" becomes "flagged - 1 +
    d <= R (n + d)".
    """

    needs_cases: ClassVar[bool] = False
    usual_rules: ClassVar[Sequence[Rule]] = RULES

    @property
    def _chooses(self) -> np.ndarray:
        """Mask of the rows, without cases, with scores that may become thresholds."""
        return ~self.positive

    def threshold(self, rule: Rule) -> tuple[float, float]:
        """Return a rule's threshold and the design effect of the share above it."""
        rows = self.new_scores[~self.positive]
        if not isinstance(rule, MaxFlagRate):
            assert isinstance(rule, Threshold)
            threshold = float(rule.value)
            return threshold, self._design_of_rows(rows >= threshold)
        # The design effect is that of the rank at which the promise would cut.
        is_above = rows > np.quantile(rows, 1 - rule.value)
        design = self._design_of_rows(is_above)
        flagged = self.counts.counts[1]
        most = rule.value * (len(rows) + design) + _COUNT_TOLERANCE
        is_kept = self._allowed & (flagged - 1 + design <= most)
        # The last threshold is above all scores.
        is_kept[-1] = True
        threshold = self.counts.thresholds[is_kept.argmax()]
        return float(threshold), design

    def _design_of_rows(self, flagged: np.ndarray) -> float:
        """Return the design effect of the share of rows that is flagged."""
        if self.codes is None:
            return 1.0
        return design_effect(flagged, self.codes[~self.positive])

    def point(self, rule: Rule) -> OperatingPoint:
        """Return the operating point of a rule, with intervals and notes."""
        threshold, design = self.threshold(rule)
        flagged = self.new_scores >= threshold
        n_cases = int(self.positive.sum())
        n_rows = len(self.scores) - n_cases
        n_flagged = int((flagged & ~self.positive).sum())
        share = self._expected_share(n_flagged, n_rows, design, rule)
        evidence = self.evidence(threshold)
        low, high = evidence.flag_share_range()
        low = min(low, share)
        high = max(high, share)
        specificity = Estimate(1 - share, 1 - high, 1 - low)
        sensitivity = self._sensitivity(flagged)
        prevalence = rule.prevalence
        if prevalence is None and n_cases:
            prevalence = n_cases / len(self.scores)
        expected = UNDEFINED if prevalence is None else self.expected_prevalence(rule)
        rates = Rates(sensitivity, specificity, expected)
        figures = evaluate_rates(rates, figures_in("operating_point"))
        if sensitivity.value is not None and prevalence is not None:
            values = predictive(prevalence, sensitivity.value, share)
            figures |= self.predictive_figures(evidence, rule, values)
        point = OperatingPoint(
            threshold=threshold,
            rule=rule,
            prevalence=prevalence,
            misses=int((~flagged & self.positive).sum()),
            notes=(),
            n_positive=n_cases,
            n_negative=n_rows,
            n_groups=self.n_groups,
            figures=figures,
        )
        return point.replace(notes=self._notes(point))

    @staticmethod
    def _expected_share(
        n_flagged: int, n_rows: int, design: float, rule: Rule
    ) -> float:
        """Return the expected share of new rows that is flagged."""
        if isinstance(rule, Threshold):
            return n_flagged / n_rows
        # The row at the threshold is at its rank, not above it.
        return (max(n_flagged, 1) - 1 + design) / (n_rows + design)

    def _sensitivity(self, flagged: np.ndarray) -> Estimate:
        """Return the observed share of known cases that is flagged.

        Its interval is exact, for as many rows as there are groups of cases.
        """
        n_cases = int(self.positive.sum())
        if not n_cases:
            return UNDEFINED
        share = float(flagged[self.positive].mean())
        n_units = units_of(self.positive, self.codes)
        return Estimate(share, *exact_interval(share * n_units, n_units))

    def _notes(self, point: OperatingPoint) -> list[str]:
        """Return what a reader should know about an operating point."""
        n_cases = point.n_positive
        if n_cases:
            n_found = n_cases - (point.misses or 0)
            notes = [f"{n_found} of {n_cases} known cases are flagged"]
        else:
            notes = [f"sensitivity and predictive values are {NO_CASE_SEEN}"]
        if point["flag_rate"].value == 0:
            notes.append("none of these rows is flagged")
        atom = self.atom(point.threshold)
        return notes + notes_on_ties(atom)
