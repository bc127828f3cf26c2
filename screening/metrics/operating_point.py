"""Operating points: a threshold chosen by a rule, with what to expect on unseen rows.

A row is flagged if and only if its score is at or above the threshold; higher scores
are more suspicious.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from screening.metrics.figures import Rates, evaluate_rates, figures_in
from screening.metrics.groups import codes_of
from screening.metrics.intervals import (
    design_effect,
    share_range,
    shared_design,
    student_size_factor,
)
from screening.metrics.performance import check_rows
from screening.metrics.predictive_intervals import (
    Evidence,
    between_folds,
    between_repeats,
    predictive,
)
from screening.metrics.tally import ThresholdCounts
from screening.metrics.ties import apart_from_ties, as_new, separates_ties
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    OperatingPoint,
    Rule,
    Threshold,
)

FLAG_EVERYTHING = -1e12
"""Threshold below the scores of every machine, for promises that no rank can keep."""

# Share of the negatives that a useful threshold does not flag.
_MIN_UNFLAGGED = 0.05
# Largest shortfall from the rule's sensitivity that a useful threshold may have.
_MAX_SHORTFALL = 0.1

RULES = (
    MinSensitivity(0.8),
    MinSensitivity(0.9),
    MinSensitivity(0.95),
    MaxFlagRate(0.05),
    MaxFlagRate(0.1),
    MaxFlagRate(0.2),
    MissCost(10.0),
    MissCost(20.0),
    MissCost(50.0),
    GMean(),
)
"""Rules of the table of operating points."""


# Share of negatives with one score near the threshold from which a note warns that
# specificity may change.
ATOM = 0.05
# Half-width of the interval of sensitivity from which a note states it.
_MAX_UNMENTIONED_ERROR = 0.03
# Scores within 1/50 of all ranks on either side of a threshold are near it.
_ATOM_REACH = 50
# Tolerances for rounding in comparisons of rates.
_RATE_TOLERANCE = 1e-12
_COUNT_TOLERANCE = 1e-9


def excess(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return how far each score is above its class's threshold; >= 0 is flagged.

    If the rule of a class can only be kept by flagging everything, its excess is 0.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_watched)
    thresholds : ndarray of shape (n_watched,)

    Returns
    -------
    ndarray of shape (n_rows, n_watched)
    """
    above = scores - thresholds
    above[:, thresholds <= FLAG_EVERYTHING] = 0.0
    return above


def overall(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return one score per row from one per watched class, shape (n_rows,).

    With one watched class it is that class's score; with several it is the largest
    excess over the class's own threshold, so that a row is flagged if it is >= 0.
    Parameters as for ``excess``.
    """
    if scores.shape[1] == 1:
        return scores[:, 0]
    return excess(scores, thresholds).max(axis=1)


def choose(
    scores: ArrayLike,
    y: ArrayLike,
    rule: Rule,
    groups: ArrayLike | None = None,
    seed: int = 0,
    *,
    fold: ArrayLike | None = None,
    repeats: ArrayLike | None = None,
    ties: ArrayLike | None = None,
) -> OperatingPoint:
    """Choose the threshold by a rule and estimate what it does on unseen rows.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Held-out, averaged over repeats; higher is more suspicious.
    y : array-like of shape (n_rows,)
        True or 1 for positive rows.
    rule : Rule
    groups : array-like of shape (n_rows,), optional
        Groups that the folds kept whole, such as the patient of a voxel.
    seed : int
        Of the draws behind the intervals of flag rate and predictive values.
    fold : array-like of shape (n_rows,), optional
        Fold in which a row was held out, in the first repeat. None adds no variance
        between folds to the interval of specificity.
    repeats : array-like of shape (n_repeats, n_rows), optional
        Scores of each repeat; their spread is added to that of the folds.
    ties : array-like of shape (n_rows,), optional
        Code that rows of equal values share (``ties.number_ties``); the threshold then
        separates no equal rows, and all figures are those of new rows like them.

    Raises
    ------
    UsageError
        If there are no positive or no negative rows.
    ValueError
        If shapes differ or a score is not finite.

    Notes
    -----
    With `MinSensitivity(s)` the threshold is the r-th smallest of the m positive
    scores, r = floor((1 - s)(m + 1)). Over new exchangeable positives the sensitivity
    above it is distributed as Beta(m - r + 1, r), for any distribution of the scores:
    its mean is at least s. If rows come in groups, d = design effect of the share
    below, rows count as m / d and the condition "below + 1 <= (1 - s)(m + 1)" becomes
    "below + d <= (1 - s)(m + d)"; intervals take d from `shared_design` and are widened
    for few groups. For the other rules r = misses + 1. For intervals see
    `metrics.predictive_intervals`.
    """
    selector = ThresholdSelector.of(scores, y, groups, seed, fold, repeats, ties)
    return selector.point(rule)


def pick(
    rule: Rule,
    hits: np.ndarray,
    false_positives: np.ndarray,
    design: float,
    allowed: np.ndarray | bool = True,
) -> np.ndarray:
    """Return the column of the threshold that a rule chooses.

    Column 0 flags everything, unseen rows included; it is chosen only if no other
    one keeps the promise of `MinSensitivity`.

    Parameters
    ----------
    rule : Rule
    hits, false_positives : ndarray of shape (..., n_thresholds)
        Positives and negatives at or above each threshold.
    design : float
        Design effect: so many positive rows of groups are worth one independent row.
    allowed : bool ndarray of shape (n_thresholds,)
        Thresholds that may be chosen.

    Returns
    -------
    int ndarray of shape (...)
    """
    if isinstance(rule, MinSensitivity):
        return _pick_min_sensitivity(rule, hits, design, allowed)
    m = hits[..., :1]
    n = false_positives[..., :1]
    share = m / (m + n) if rule.prevalence is None else rule.prevalence
    sensitivity = hits / m
    false_positive_rate = false_positives / n
    if isinstance(rule, MaxFlagRate):
        flag_rate = share * sensitivity + (1 - share) * false_positive_rate
        within_limit = flag_rate <= rule.value + _RATE_TOLERANCE
        is_eligible = within_limit & allowed
        return 1 + is_eligible[..., 1:].argmax(axis=-1)
    if isinstance(rule, MissCost):
        cost_of_positive = rule.value * (1 - sensitivity) + sensitivity
        cost = share * cost_of_positive + (1 - share) * false_positive_rate
        allowed_cost = np.where(allowed, np.round(cost, 12), np.inf)
        return 1 + allowed_cost[..., 1:].argmin(axis=-1)
    if isinstance(rule, GMean):
        squared = np.round(sensitivity * (1 - false_positive_rate), 12)
        allowed_squared = np.where(allowed, squared, -1.0)
        return 1 + allowed_squared[..., 1:].argmax(axis=-1)
    raise TypeError(f"no threshold can be chosen for the rule {rule!r}")


def _pick_min_sensitivity(
    rule: MinSensitivity,
    hits: np.ndarray,
    design: float,
    allowed: np.ndarray | bool,
) -> np.ndarray:
    """Return the highest column that keeps the promised sensitivity."""
    m = hits[..., :1]
    if rule.confidence is None:
        largest = (1 - rule.value) * (m + design) + _COUNT_TOLERANCE
        is_eligible = m - hits + design <= largest
    else:
        # Clopper-Pearson's lower bound is at least s if Beta(hits, misses + 1) is below
        # s rarely enough.
        a = np.maximum(hits, 1e-9) / design
        b = (m - hits) / design + 1
        below = betainc(a, b, rule.value)
        is_eligible = below <= 1 - rule.confidence + _RATE_TOLERANCE
    is_eligible = is_eligible & allowed
    is_eligible[..., 0] = True
    n_after_last = np.flip(is_eligible, axis=-1).argmax(axis=-1)
    return is_eligible.shape[-1] - 1 - n_after_last


@dataclass(frozen=True)
class ThresholdSelector:
    """Labelled held-out scores from which thresholds are chosen.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
    positive : bool ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,), optional
        Group of each row, None for independent rows.
    n_groups : int, optional
    seed, fold, repeats, ties
        As for ``choose``.
    """

    needs_cases: ClassVar[bool] = True
    usual_rules: ClassVar[Sequence[Rule]] = RULES

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    n_groups: int | None
    seed: int
    fold: np.ndarray | None
    repeats: np.ndarray | None
    ties: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None,
        seed: int,
        fold: ArrayLike | None,
        repeats: ArrayLike | None,
        ties: ArrayLike | None = None,
    ) -> Self:
        """Check the arguments of ``choose``; errors as there."""
        rows = check_rows(scores, y, groups, both=cls.needs_cases)
        if fold is not None:
            fold = np.asarray(fold)
        if repeats is not None:
            repeats = np.asarray(repeats, float)
        if ties is not None:
            ties = np.asarray(ties)
        selector = cls(*rows, seed=seed, fold=fold, repeats=repeats, ties=ties)
        for name in ("fold", "repeats", "ties"):
            array = getattr(selector, name)
            if array is not None and array.shape[-1:] != rows.scores.shape:
                raise ValueError(
                    f"{name} {array.shape} does not fit {len(rows.scores)} scores"
                )
        return selector

    def point(self, rule: Rule) -> OperatingPoint:
        """Return the operating point of a rule, with intervals and notes."""
        threshold, design = self.threshold(rule)
        flagged = self.new_scores >= threshold
        m = int(self.positive.sum())
        n = int((~self.positive).sum())
        misses = int((~flagged & self.positive).sum())
        false = int((flagged & ~self.positive).sum())
        everything = threshold <= FLAG_EVERYTHING
        sensitivity = 1.0 if everything else (m - misses) / (m + design)
        share = m / (m + n) if rule.prevalence is None else rule.prevalence
        evidence = self.evidence(threshold)
        rates = Rates(
            _with_range(sensitivity, evidence.sensitivity_range()),
            _with_range(1 - false / n, evidence.specificity_range()),
            self.expected_prevalence(rule),
        )
        figures = evaluate_rates(rates, figures_in("operating_point"))
        # These have other intervals, for which the prevalence is drawn too.
        figures |= self.predictive_figures(
            evidence, rule, predictive(share, sensitivity, false / n)
        )
        point = OperatingPoint(
            threshold=threshold,
            rule=rule,
            prevalence=share,
            misses=misses,
            notes=(),
            n_positive=m,
            n_negative=n,
            n_groups=self.n_groups,
            figures=figures,
        )
        return point.replace(notes=_notes(point, design, self.atom(threshold)))

    def predictive_figures(
        self, evidence: Evidence, rule: Rule, values: Mapping[str, np.ndarray]
    ) -> dict[str, Estimate]:
        """Return figures of ``predictive`` with intervals, of the prevalence too."""
        drawn = evidence.drawn(self.prevalence(rule), self.seed)
        figures = {}
        for name, figure in values.items():
            low, high = np.quantile(drawn[name], [0.025, 0.975])
            figures[name] = _with_range(float(figure), (low, high))
        return figures

    def points(
        self, prevalence: float | None, rules: Sequence[Rule] | None = None
    ) -> list[OperatingPoint]:
        """Return the operating points of several rules at one prevalence.

        By default the rules of the table of operating points.
        """
        rules = self.usual_rules if rules is None else rules
        return [self.point(replace(rule, prevalence=prevalence)) for rule in rules]

    @cached_property
    def new_scores(self) -> np.ndarray:
        """Scores as new rows have them, (n_rows,): equal rows have equal scores."""
        return self._as_new(self.scores)

    def _as_new(self, scores: np.ndarray) -> np.ndarray:
        return scores if self.ties is None else as_new(scores, self.ties)

    @cached_property
    def counts(self) -> ThresholdCounts:
        """Counts at every score, below all (flags everything), and above all."""
        distinct = np.unique(self.new_scores[self._chooses])
        below = min(FLAG_EVERYTHING, 2 * distinct[0])
        above = np.nextafter(distinct[-1], np.inf)
        if self.ties is not None:
            distinct = apart_from_ties(distinct, self.scores, self.ties)
        thresholds = np.concatenate([[below], distinct, [above]])
        return ThresholdCounts(self.new_scores, self.positive, None, thresholds)

    @cached_property
    def _allowed(self) -> np.ndarray:
        """Mask of the thresholds with rates that apply to new rows, (n_thresholds,)."""
        if self.ties is None:
            return np.ones(len(self.counts.thresholds), dtype=bool)
        return separates_ties(self.counts, self.scores, self.ties)

    @property
    def _chooses(self) -> np.ndarray:
        """Mask of the rows with scores that may become thresholds."""
        return np.ones(len(self.scores), dtype=bool)

    def threshold(self, rule: Rule) -> tuple[float, float]:
        """Return a rule's threshold and the design effect of the share below it.

        For `MinSensitivity` the effect is that at the rank of the promise, before ties
        or too few groups move the threshold.
        """
        if isinstance(rule, MinSensitivity):
            return self._min_sensitivity_threshold(rule)
        if isinstance(rule, Threshold):
            threshold = float(rule.value)
        else:
            column = pick(rule, *self.counts.counts, 1.0, self._allowed)
            threshold = float(self.counts.thresholds[column])
        return threshold, self._design(self.new_scores < threshold)

    def _min_sensitivity_threshold(self, rule: MinSensitivity) -> tuple[float, float]:
        counts = self.counts
        allowed = self._allowed
        positive_scores = np.sort(self.new_scores[self.positive])
        # The design effect is that of the rank at which the promise would cut.
        n_below = int((1 - rule.value) * len(positive_scores))
        rank = min(n_below, len(positive_scores) - 1)
        design = self._design(self.new_scores < positive_scores[rank])
        column = int(pick(rule, *counts.counts, design, allowed))
        if column == 0:
            # Too few groups for a promise about new ones: it is about further rows of
            # these groups. The expected sensitivity and its interval are estimates for
            # other groups.
            column = int(pick(rule, *counts.counts, 1.0, allowed))
        if self.ties is not None:
            column = _nearest_useful(counts, rule, column, allowed)
        return float(counts.thresholds[column]), design

    def _design(self, below: np.ndarray) -> float:
        """Return the design effect of a share of the positives."""
        if self.codes is None:
            return 1.0
        return design_effect(below[self.positive], self.codes[self.positive])

    def evidence(self, threshold: float) -> Evidence:
        """Return the independent rows on both sides, and how much folds differ."""
        flagged = self.new_scores >= threshold
        of_cases = flagged[self.positive]
        of_others = flagged[~self.positive]
        _, case_worth = self._worth(threshold, self.positive)
        effect, other_worth = self._worth(threshold, ~self.positive)
        return Evidence(
            hits=case_worth * float(of_cases.sum()),
            misses=case_worth * float((~of_cases).sum()),
            false=other_worth * float(of_others.sum()),
            clear=other_worth * float((~of_others).sum()),
            between=self._between(threshold, effect),
            everything=threshold <= FLAG_EVERYTHING,
        )

    def _worth(self, threshold: float, chosen: np.ndarray) -> tuple[float, float]:
        """Return the design effect of the flag rate, and independent rows per row."""
        if self.codes is None or not chosen.any():
            return 1.0, 1.0
        counts = ThresholdCounts(
            self.new_scores,
            self.positive,
            self.codes,
            np.array([-np.inf, threshold]),
            self.seed,
        )
        effect = float(shared_design(*counts.by_group(chosen))[1])
        # Few groups do not determine the design effect well either.
        worth = student_size_factor(counts.n_units(chosen)) / effect
        return effect, max(worth, 1 / chosen.sum())

    def _between(self, threshold: float, effect: float) -> float:
        """Return the variance of the specificity between repeats and between folds.

        All are judged at one threshold: what a repeat with a threshold of its own gains
        in specificity, new rows gain too.

        Parameters
        ----------
        threshold : float
        effect : float
            Design effect of the share of negatives below it.
        """
        variance = 0.0
        if self.repeats is not None and len(self.repeats) > 1:
            specificities = []
            for scores in self.repeats:
                clear = self._as_new(scores)[~self.positive] < threshold
                specificities.append(np.mean(clear))
            variance += between_repeats(np.array(specificities))
        if self.fold is None:
            return variance
        number = codes_of(self.fold[~self.positive])
        sizes = np.bincount(number)
        clear = self.new_scores[~self.positive] < threshold
        rate = float(clear.mean())
        sampling_variance = effect * rate * (1 - rate) / sizes
        rates = np.bincount(number, weights=clear) / sizes
        return variance + between_folds(rates, sampling_variance)

    def prevalence(self, rule: Rule) -> float | tuple[float, float]:
        """Return the rule's prevalence, or the independent positives and negatives."""
        if rule.prevalence is not None:
            return rule.prevalence
        worth = 1.0
        if self.codes is not None:
            factor = student_size_factor(int(self.codes.max()) + 1)
            worth = factor / design_effect(self.positive, self.codes)
        n_positive = float(self.positive.sum())
        n_negative = float((~self.positive).sum())
        return worth * n_positive, worth * n_negative

    def expected_prevalence(self, rule: Rule) -> Estimate:
        """Return the rule's prevalence, or that of these rows with its interval."""
        stated = rule.prevalence
        if stated is None:
            return share_range(self.positive, self.codes)
        return Estimate(stated, stated, stated)

    def atom(self, threshold: float) -> float:
        """Return the share of negatives near the threshold that have common scores.

        A common score is that of at least one negative in a hundred. Equal rows have
        one score in one fold, and nearly the same in another: scores of all negatives
        within 2 % of the ranks on either side of the threshold count.
        """
        scores = self.scores[~self.positive]
        if self.ties is not None:
            # All of a tie are flagged together, so these negatives change sides.
            # differs from the counts of some.
            new = self.new_scores[~self.positive]
            changes = (new >= threshold) != (scores >= threshold)
            return float(changes.mean())
        scores = np.sort(scores)
        step = 1e-9 * (scores[-1] - scores[0])
        number = np.cumsum(np.diff(scores, prepend=scores[0]) > step)
        rank = int(np.searchsorted(scores, threshold))
        reach = max(len(scores) // _ATOM_REACH, 1)
        near = np.unique(number[max(rank - reach, 0) : rank + reach])
        sizes = np.bincount(number)[near]
        is_common = sizes > max(0.01 * len(scores), 2)
        return float(sizes[is_common].sum()) / len(scores)


def _nearest_useful(
    counts: ThresholdCounts, rule: MinSensitivity, column: int, allowed: np.ndarray
) -> int:
    """Return the column, or the next useful one if it flags all but a few negatives.

    The next one must have nearly the promised sensitivity. Ties leave no threshold
    between some rates: 0.90 may become 0.88, or everything.
    """
    hits, alarms = counts.counts
    useful = alarms <= (1 - _MIN_UNFLAGGED) * alarms[0]
    if useful[column] or rule.confidence is not None:
        return column
    # With too few cases no threshold can be promised, with or without ties.
    if pick(rule, hits, alarms, 1.0) == 0:
        return column
    candidates = np.flatnonzero(allowed & useful)
    min_hits = (rule.value - _MAX_SHORTFALL) * hits[0]
    if candidates.size and hits[candidates[0]] >= min_hits:
        return int(candidates[0])
    return column if alarms[column] < alarms[0] else 0


def _with_range(value: float, ends: tuple[float, float]) -> Estimate:
    """Return a figure with an interval that contains it; undefined if not finite."""
    if not np.isfinite(value):
        return UNDEFINED
    return Estimate(value, min(ends[0], value), max(ends[1], value))


def _notes(point: OperatingPoint, design: float, atom: float) -> list[str]:
    """Return what a reader should know about an operating point."""
    rows = f"{point.n_positive} positives"
    if design != 1:
        n_independent = point.n_positive / design
        rows += f" that carry as much information as {n_independent:.0f} "
        "independent ones"
    everything = point.threshold <= FLAG_EVERYTHING
    notes = []
    if everything:
        notes.append(_note_on_everything(point.rule, rows))
    elif point["flag_rate"].value == 0:
        aim = ""
        if isinstance(point.rule, MaxFlagRate):
            aim = "no threshold that flags a row keeps the flag rate that low: "
        notes.append(f"{aim}none of these rows is flagged")
    if not everything:
        notes += _notes_on_promise(point, rows)
    notes += _notes_on_precision(point["sensitivity"], rows)
    if not everything:
        notes += notes_on_ties(atom)
    if point.rule.prevalence is not None:
        notes.append(
            "PPV, NPV, NNE and flag rate use the given prevalence "
            f"{point.rule.prevalence:g}"
        )
    return notes


def _notes_on_precision(sensitivity: Estimate, rows: str) -> list[str]:
    """Return a note if a sensitivity has a wide interval."""
    value, low, high = sensitivity.value_and_interval
    reach = ((high or 0) - (low or 0)) / 2
    if reach <= _MAX_UNMENTIONED_ERROR:
        return []
    return [f"with {rows}, sensitivity {value:.2f} is known to ± {reach:.2f}"]


def notes_on_ties(atom: float) -> list[str]:
    """Return a note if many negatives have common scores at the threshold."""
    if atom <= ATOM:
        return []
    return [
        f"{100 * atom:.0f} % of the negatives share a few scores at or next to the "
        "threshold; on unseen rows, specificity may differ by as much"
    ]


def _note_on_everything(rule: Rule, rows: str) -> str:
    aim = ""
    if isinstance(rule, MinSensitivity):  # pragma: no branch - only it flags every row
        confidence = ""
        if rule.confidence is not None:
            confidence = f" with confidence {rule.confidence:g}"
        aim = f"sensitivity {rule.value:g}{confidence} cannot be promised from {rows}: "
    return f"{aim}every row is flagged"


def _notes_on_promise(point: OperatingPoint, rows: str) -> list[str]:
    """Return a note if an expected sensitivity falls short of the rule's."""
    rule = point.rule
    if not isinstance(rule, MinSensitivity) or rule.confidence is not None:
        return []
    sensitivity = point["sensitivity"].value
    max_rank = (1 - rule.value) * (point.n_positive + 1)
    if (point.misses or 0) + 1 > max_rank + _COUNT_TOLERANCE:
        return [
            f"for sensitivity {rule.value:g}, nearly every row would be flagged: "
            "rows with equal values cannot be separated; the nearest threshold that "
            f"separates rows is expected to find {sensitivity:.2f}"
        ]
    if (sensitivity or 0) < rule.value - _COUNT_TOLERANCE:
        return [
            f"{rows} are too few groups to promise sensitivity {rule.value:g} for new "
            "ones: it is promised only for further rows of these groups; for new "
            f"ones, expect {sensitivity:.2f}"
        ]
    return []
