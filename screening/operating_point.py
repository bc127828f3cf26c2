"""The threshold: chosen by a rule from out-of-fold scores, with what it may be expected to do on unseen rows.

A row is flagged if and only if its score is at or above the threshold; higher scores are more suspicious.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.statistics.intervals import beta_quantile, design_effect, percentiles, shared_design
from screening.statistics.performance import checked, curve, performance, rates, summary
from screening.statistics.placement import CARRIED, place
from screening.statistics.rules import RULES, Rule, pick
from screening.statistics.tally import Tally, rate_bands, spaced_thresholds

__all__ = [
    "FLAG_EVERYTHING", "RULES", "OperatingPoint", "Rule",
    "choose", "curve", "performance", "place", "points", "summary",
]  # fmt: skip

FLAG_EVERYTHING = -1e12
"""Threshold below the scores of every machine, for promises that no finite rank can keep."""


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold and what it does: rates in 0 to 1 with 95 % intervals (None: undefined on this cohort).

    `sensitivity` and `specificity` are those of the validation rows; their intervals are for unseen rows and
    account for the threshold having been chosen on the same rows. `ppv`, `npv`, `nne` (reviews per case
    found)
    and `flag_rate` hold at `prevalence`.
    """

    threshold: float
    rule: Rule
    sensitivity: float | None
    sensitivity_low: float | None
    sensitivity_high: float | None
    specificity: float | None
    specificity_low: float | None
    specificity_high: float | None
    ppv: float | None
    ppv_low: float | None
    ppv_high: float | None
    npv: float | None
    npv_low: float | None
    npv_high: float | None
    nne: float | None
    flag_rate: float
    n_positive: int
    n_negative: int
    n_groups: int | None
    prevalence: float
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and mappings, as stored in `model.json`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> OperatingPoint:
        """Read back what `to_dict` wrote; keys that are no part of an operating point are left out."""
        known = {name: stored[name] for name in cls.__dataclass_fields__ if name in stored}
        return cls(**{**known, "rule": Rule(**known["rule"]), "notes": list(known.get("notes", []))})


def choose(
    scores, y, rule: Rule, groups=None, seed: int = 0, *, carried: tuple[float, float] = CARRIED, fold=None, repeats=None
) -> OperatingPoint:
    """Choose the threshold by `rule` and say what it promises on unseen rows.

    Parameters
    ----------
    scores : array_like of shape (n_rows,)
        Out-of-fold scores on the final model's scale, higher is more suspicious.
    y : array_like of shape (n_rows,)
        True or 1 for positives.
    rule : Rule
    groups : array_like of shape (n_rows,), optional
        What was kept whole in the folds (the patient of a voxel, the row of repeated folds).
    seed : int
        Of the bootstrap.
    carried : (float, float)
        Factors on the variance of sensitivity and specificity for carrying the threshold to the final model
        (`screening.statistics.placement`); (1, 1) where one and the same model scored all rows, unseen.

    Returns
    -------
    OperatingPoint

    Raises
    ------
    UsageError
        No positive or no negative row.
    ValueError
        Scores that are not finite.

    Notes
    -----
    With "min_sensitivity" s the threshold is the r-th smallest of the m positive scores,
    r = floor((1 - s)(m + 1)). Over new exchangeable positives the sensitivity above it is distributed as
    Beta(m - r + 1, r), whatever the scores' distribution: its mean is at least s and its quantiles are the
    interval. Where rows come in groups, d = design effect of the share below, rows count as m / d and the
    condition "below + 1 <= (1 - s)(m + 1)" becomes "below + d <= (1 - s)(m + d)"; the interval takes d from
    `shared_design` and is widened for the few groups that tell it.

    Other rules, and the specificity of groups, get the bootstrap that chooses again in every draw. The
    resample plays the cohort and the cohort plays the population: the interval is the observed rate plus the
    percentiles of (rate in the cohort - rate in the resample) at the resample's own threshold.
    """
    return _Choice(*checked(scores, y, groups, both=True), seed, carried).point(rule)


def points(
    scores,
    y,
    groups=None,
    seed: int = 0,
    prevalence: float | None = None,
    rules=RULES,
    *,
    carried: tuple[float, float] = CARRIED,
    fold=None,
    repeats=None,
) -> list[dict[str, Any]]:
    """Operating points of a fixed list of rules, each as a dict (see `OperatingPoint.to_dict`)."""
    choice = _Choice(*checked(scores, y, groups, both=True), seed, carried)
    return [choice.point(replace(rule, prevalence=prevalence)).to_dict() for rule in rules]


@dataclass(frozen=True)
class _Choice:
    """Labelled scores from which thresholds are chosen, with the resamples that all rules share."""

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    n_groups: int | None
    seed: int
    carried: tuple[float, float]

    @cached_property
    def exact(self) -> Tally:
        return self._tally(np.unique(self.scores))

    @cached_property
    def coarse(self) -> Tally:
        return self._tally(spaced_thresholds(self.scores, self.positive), smooth=True)

    def _tally(self, thresholds: np.ndarray, smooth: bool = False) -> Tally:
        lowest, highest = thresholds[0], thresholds[-1]
        ends = [min(FLAG_EVERYTHING, 2 * lowest)], [np.nextafter(highest, np.inf)]
        thresholds = np.concatenate([ends[0], thresholds, ends[1]])
        return Tally(self.scores, self.positive, self.codes, thresholds, self.seed, smooth)

    def _at(self, threshold: float) -> Tally:
        return Tally(self.scores, self.positive, self.codes, np.array([-np.inf, threshold]), self.seed)

    def point(self, rule: Rule) -> OperatingPoint:
        """The threshold of a rule, with rates, intervals and what a reader should know of them."""
        hits, alarms = self.exact.counts
        m, n = int(hits[0]), int(alarms[0])
        share = m / (m + n) if rule.prevalence is None else rule.prevalence
        everything, design = False, 1.0
        if rule.name == "threshold":
            threshold = float(rule.value or 0.0)
            fixed = self._at(threshold)
            hit, alarm = (int(count[1]) for count in fixed.counts)
            hits_in = [float(end[1]) for end in rate_bands(fixed, True)]
            alarms_in = [float(end[1]) for end in rate_bands(fixed, False)]
        else:
            design = self._design(rule)
            column = int(pick(rule, hits, alarms, design))
            everything = column == 0
            threshold = float(self.exact.thresholds[column])
            hit, alarm = int(hits[column]), int(alarms[column])
            hits_in, alarms_in = self._intervals(rule, column, design)
        sensitivity = _widened(hit / m, hits_in, self.carried[0])
        false, least, most = _widened(alarm / n, alarms_in, self.carried[1])
        figures = rates(sensitivity, (1 - false, 1 - most, 1 - least), share)
        counts: dict[str, Any] = {"n_positive": m, "n_negative": n, "n_groups": self.n_groups}
        point = OperatingPoint(threshold=threshold, rule=rule, prevalence=share, **figures, **counts)
        return replace(point, notes=_notes(point, design, everything))

    def _design(self, rule: Rule) -> float:
        """How many positive rows of one group tell as much as one independent row, at the rule's rank."""
        if self.codes is None or rule.name != "min_sensitivity":
            return 1.0
        ranked = np.sort(self.scores[self.positive])
        cut = ranked[min(int((1 - (rule.value or 0)) * len(ranked)), len(ranked) - 1)]
        return design_effect((self.scores < cut)[self.positive], self.codes[self.positive])

    def _intervals(self, rule: Rule, column: int, design: float) -> tuple[list[float], list[float]]:
        """Intervals of sensitivity and of 1 - specificity on unseen rows, the choice accounted for."""
        if column == 0:
            return [1.0, 1.0], [1.0, 1.0]
        if rule.name != "min_sensitivity":
            return self._chosen_again(rule, column, design, True), self._chosen_again(
                rule, column, design, False
            )
        if self.codes is None:
            # The threshold depends on the positives alone, so negatives judge it as fresh rows would.
            return self._ranked(column), [float(end[column]) for end in rate_bands(self.exact, False)]
        return self._ranked(column), self._chosen_again(rule, column, design, False)

    def _ranked(self, column: int) -> list[float]:
        """Where the sensitivity above a positive of this rank lies, on unseen positives."""
        hits = self.exact.counts[0]
        m, hit = hits[0], hits[column]
        size, tied = m, float(hit - hits[column + 1] > 1)
        if self.codes is not None:
            from scipy.special import ndtri, stdtrit

            here = self._at(self.exact.thresholds[column]).by_group(self.positive)
            whole = float(np.square(here[1]).sum() / m)
            effect = float(shared_design(*here)[1])
            size = m / effect
            # Rows wholly alike within their group are tied, independent ones are not; these lie between.
            tied = max(tied, (effect - 1) / max(whole - 1, 1e-9))
            # Few groups do not even tell the design effect well: Student's quantile, as Korn and Graubard.
            units = self.exact.n_units(self.positive)
            size = max(size * float(ndtri(0.975) / stdtrit(max(units - 1, 1), 0.975)) ** 2, 1.0)
        missed = (m - hit) / m * size
        low = beta_quantile(0.025, size - missed, missed + 1)
        high = beta_quantile(0.975, size - missed + tied, missed + 1 - tied)
        return [float(low), float(high)]

    def _chosen_again(self, rule: Rule, column: int, design: float, of_positives: bool) -> list[float]:
        """Observed share flagged, plus the percentiles of what choosing on a resample gets wrong."""
        (hits, alarms), drawn = self.coarse.counts, self.coarse.resampled
        usable = (drawn[0][:, 0] > 0) & (drawn[1][:, 0] > 0)
        again = pick(rule, drawn[0][usable], drawn[1][usable], design)
        side, whole = (0, hits) if of_positives else (1, alarms)
        part = drawn[side][usable]
        shown = np.take_along_axis(part, again[:, None], axis=1)[:, 0] / part[:, 0]
        units = self.exact.n_units(self.positive == of_positives)
        ends = percentiles(whole[again] / whole[0] - shown, units)
        count = self.exact.counts[side]
        return [float(end) for end in np.clip(np.add(count[column] / count[0], ends), 0, 1)]


def _widened(rate: float, ends: list[float], factor: float) -> tuple[float, float, float]:
    """Rate with its interval, `factor` times the variance wide; the observed rate is never outside."""
    low, high = (rate + factor**0.5 * (end - rate) for end in ends)
    return rate, min(max(low, 0.0), rate), max(min(high, 1.0), rate)


def _notes(point: OperatingPoint, design: float, everything: bool) -> list[str]:
    rule, m = point.rule, point.n_positive
    notes = []
    rows = (
        f"{m} positives"
        if design == 1
        else f"{m} positives that tell as much as {m / design:.0f} independent ones"
    )
    if everything:
        sure = "" if rule.confidence is None else f" with confidence {rule.confidence:g}"
        notes.append(f"sensitivity {rule.value:g}{sure} cannot be promised from {rows}: every row is flagged")
    elif point.flag_rate == 0:
        notes.append(
            "no threshold keeps the flag rate that low with a row flagged: none of these rows is flagged"
        )
    elif rule.name == "min_sensitivity" and rule.confidence is None:
        # Mean of the Beta distribution of the sensitivity above the chosen rank.
        misses = m * (1 - (point.sensitivity or 0)) / design
        notes.append(f"sensitivity expected on unseen positives: {1 - (misses + 1) / (m / design + 1):.3f}")
    aim = rule.value if rule.name == "min_sensitivity" else point.sensitivity
    reach = 1.96 * np.sqrt((aim or 0) * (1 - (aim or 0)) * design / m)
    if reach > 0.03 and not everything:
        notes.append(f"with {rows}, sensitivity {aim:.2f} is known to ± {reach:.2f}")
    if rule.prevalence is not None:
        notes.append(f"PPV, NPV, NNE and flag rate hold at the given prevalence {rule.prevalence:g}")
    return notes
