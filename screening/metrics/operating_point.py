"""The threshold: chosen by a rule from held-out scores, with what it may be expected to do on unseen rows.

A row is flagged if and only if its score is at or above the threshold; higher scores are more suspicious.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import betainc

from screening.metrics.intervals import design_effect, shared_design, students_share
from screening.metrics.performance import UNDEFINED, checked
from screening.metrics.predictive_intervals import (
    Evidence,
    between_folds,
    between_repeats,
    predictive,
)
from screening.metrics.tally import Tally
from screening.metrics.ties import as_new, between
from screening.schemas.base import Estimate
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
"""Threshold below the scores of every machine, for promises that no finite rank can keep."""

LEFT_ALONE, NEARLY = 0.05, 0.1
"""Negatives that a useful threshold leaves alone, and how far short of its rule one may fall to be useful."""

RULES = (
    *map(MinSensitivity, (0.8, 0.9, 0.95)),
    *map(MaxFlagRate, (0.05, 0.1, 0.2)),
    *map(MissCost, (10.0, 20.0, 50.0)),
    GMean(),
)
"""Rules of the table of operating points."""


ATOM = 0.05
"""Share of negatives with one score near the threshold from which it is said that specificity may jump."""


def excess(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """How far each score is above its class's threshold, shape (n_rows, n_watched); 0 or more is flagged.

    A class whose rule is only kept by flagging everything says nothing about a row: its excess is 0.
    """
    above = scores - thresholds
    above[:, thresholds <= FLAG_EVERYTHING] = 0.0
    return above


def overall(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """One score a row from one a watched class, shape (n_rows,).

    With one watched class it is that class's score; with several it is the largest excess over the
    class's own threshold, so that a row is flagged where it is 0 or more.
    """
    if scores.shape[1] == 1:
        return scores[:, 0]
    return excess(scores, thresholds).max(axis=1)


def choose(
    scores,
    y,
    rule: Rule,
    groups=None,
    seed: int = 0,
    *,
    fold=None,
    repeats=None,
    alike=None,
) -> OperatingPoint:
    """Choose the threshold by `rule` and say what it promises on unseen rows.

    `scores` (n_rows,) are held-out, averaged over repeats, and higher for more suspicious; `groups` are what
    was kept whole in the folds (the patient of a voxel). `fold` is the fold a row was held out in (of the
    first repeat); without it, specificity is taken to differ between folds by its rows alone. `repeats`
    (n_repeats, n_rows) hold each repeat's own scores; three or more tell the spread between deals better than
    folds do. `alike` numbers each distinct row: the threshold then parts no rows that are alike in
    every value. `seed` is of the draws behind the intervals of flag rate and predictive values.

    Raises UsageError where there is no positive or no negative row, ValueError where shapes differ or a score
    is not finite.

    Notes
    -----
    With `MinSensitivity(s)` the threshold is the r-th smallest of the m positive scores,
    r = floor((1 - s)(m + 1)). Over new exchangeable positives the sensitivity above it is distributed as
    Beta(m - r + 1, r), whatever the scores' distribution: its mean is at least s. Where rows come in groups,
    d = design effect of the share below, rows count as m / d and the condition "below + 1 <= (1 - s)(m + 1)"
    becomes "below + d <= (1 - s)(m + d)"; intervals take d from `shared_design` and are widened for the few
    groups that tell it. For the other rules r = misses + 1. Intervals: `metrics.predictive_intervals`.
    """
    return ThresholdSelector.of(scores, y, groups, seed, fold, repeats, alike).point(
        rule
    )


def pick(
    rule: Rule,
    hits: np.ndarray,
    alarms: np.ndarray,
    design: float,
    allowed: np.ndarray | bool = True,
) -> np.ndarray:
    """Column of the threshold that a rule chooses: counts (..., n_thresholds) in, columns (...) out.

    Column 0 flags everything, unseen rows included, and is left to promises that no rank keeps. `allowed`
    says which of the others may be chosen.
    """
    m, n = hits[..., :1], alarms[..., :1]
    share = m / (m + n) if rule.prevalence is None else rule.prevalence
    hit, false = hits / m, alarms / n
    if isinstance(rule, MinSensitivity):
        if rule.confidence is None:
            kept = m - hits + design <= (1 - rule.value) * (m + design) + 1e-9
        else:
            # Clopper-Pearson's lower bound is at least s when Beta(hits, misses + 1) is below s seldom
            # enough.
            sizes = np.maximum(hits, 1e-9) / design, (m - hits) / design + 1
            kept = betainc(*sizes, rule.value) <= 1 - rule.confidence + 1e-12
        kept = kept & allowed
        kept[..., 0] = True
        return kept.shape[-1] - 1 - kept[..., ::-1].argmax(axis=-1)
    if isinstance(rule, MaxFlagRate):
        few = share * hit + (1 - share) * false <= rule.value + 1e-12
        return 1 + (few & allowed)[..., 1:].argmax(axis=-1)
    if isinstance(rule, MissCost):
        cost = share * (rule.value * (1 - hit) + hit) + (1 - share) * false
        return 1 + np.where(allowed, np.round(cost, 12), np.inf)[..., 1:].argmin(
            axis=-1
        )
    return 1 + np.where(allowed, np.round(hit * (1 - false), 12), -1.0)[..., 1:].argmax(
        axis=-1
    )


@dataclass(frozen=True)
class ThresholdSelector:
    """Labelled held-out scores from which thresholds are chosen; arguments as of `choose`."""

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    n_groups: int | None
    seed: int
    fold: np.ndarray | None
    repeats: np.ndarray | None
    alike: np.ndarray | None = None

    @classmethod
    def of(
        cls, scores, y, groups, seed: int, fold, repeats, alike=None
    ) -> ThresholdSelector:
        rows = checked(scores, y, groups, both=True)
        fold = None if fold is None else np.asarray(fold)
        repeats = None if repeats is None else np.asarray(repeats, float)
        alike = None if alike is None else np.asarray(alike)
        for name, given in (("fold", fold), ("repeats", repeats), ("alike", alike)):
            if given is not None and given.shape[-1:] != rows[0].shape:
                raise ValueError(
                    f"{name} {given.shape} does not fit {len(rows[0])} scores"
                )
        return cls(*rows, seed, fold, repeats, alike)

    def point(self, rule: Rule) -> OperatingPoint:
        """The threshold of a rule, with rates, intervals and what a reader should know of them."""
        threshold, design = self.threshold(self.own, rule)
        flagged = self.scores >= threshold
        m, n = int(self.positive.sum()), int((~self.positive).sum())
        misses, false = (
            int((~flagged & self.positive).sum()),
            int((flagged & ~self.positive).sum()),
        )
        everything = threshold <= FLAG_EVERYTHING
        sensitivity = 1.0 if everything else (m - misses) / (m + design)
        share = m / (m + n) if rule.prevalence is None else rule.prevalence
        evidence = self.evidence(threshold, rule)
        drawn = evidence.drawn(self.prevalence(rule), self.seed)
        figures = {
            "sensitivity": _with_range(sensitivity, evidence.sensitivity_range()),
            "specificity": _with_range(1 - false / n, evidence.specificity_range()),
        } | {
            name: _with_range(float(figure), np.quantile(drawn[name], [0.025, 0.975]))
            for name, figure in predictive(share, sensitivity, false / n).items()
        }
        point = OperatingPoint(
            threshold=threshold,
            rule=rule,
            prevalence=share,
            misses=misses,
            notes=(),
            n_positive=m,
            n_negative=n,
            n_groups=self.n_groups,
            **figures,
        )
        return point.replace(notes=_notes(point, design, self.atom(threshold)))

    def points(
        self, prevalence: float | None, rules: Sequence[Rule] = RULES
    ) -> list[OperatingPoint]:
        """Operating points of a fixed list of rules."""
        return [self.point(replace(rule, prevalence=prevalence)) for rule in rules]

    @cached_property
    def own(self) -> Tally:
        """Counts of the scores themselves, which all rules share."""
        return self._tally(self.scores)

    @cached_property
    def _of_repeats(self) -> list[Tally]:
        """A tally a repeat; none where there are too few to tell a spread."""
        return (
            []
            if self.repeats is None or len(self.repeats) < 3
            else [*map(self._tally, self.repeats)]
        )

    def _tally(self, scores: np.ndarray) -> Tally:
        """Counts at every score, below all of them (the column that flags everything) and above."""
        distinct = np.unique(scores)
        below, above = (
            min(FLAG_EVERYTHING, 2 * distinct[0]),
            np.nextafter(distinct[-1], np.inf),
        )
        return Tally(
            scores, self.positive, None, np.concatenate([[below], distinct, [above]])
        )

    def threshold(self, tally: Tally, rule: Rule) -> tuple[float, float]:
        """The threshold, and how many positive rows of one group tell as much as one independent row."""
        own = np.sort(tally.scores[self.positive])
        everywhere = np.ones(len(tally.thresholds), dtype=bool)
        allowed = everywhere if self.alike is None else between(tally, self.alike)
        if isinstance(rule, MinSensitivity):
            # The share below is what the rule counts: the rank is cut where the promise would have it.
            cut = own[min(int((1 - rule.value) * len(own)), len(own) - 1)]
            design = self._design(tally.scores < cut)
            column = int(pick(rule, *tally.counts, design, allowed))
            if column == 0:
                # Too few groups for a promise about new ones: it then holds for further rows of these groups,
                # and the expected sensitivity and its interval say what that is worth for others.
                column = int(pick(rule, *tally.counts, 1.0, allowed))
            if self.alike is not None:
                column = _nearest(tally, rule, column, allowed)
            return float(tally.thresholds[column]), design
        if isinstance(rule, Threshold):
            threshold = float(rule.value)
        else:
            threshold = float(tally.thresholds[pick(rule, *tally.counts, 1.0, allowed)])
        return threshold, self._design(tally.scores < threshold)

    def _design(self, below: np.ndarray) -> float:
        if self.codes is None:
            return 1.0
        return design_effect(below[self.positive], self.codes[self.positive])

    def evidence(self, threshold: float, rule: Rule) -> Evidence:
        """What the rows on both sides are worth as independent ones, and how folds differ."""
        flagged = self.scores >= threshold
        (_, case), (effect, other) = (
            self._worth(threshold, side) for side in (self.positive, ~self.positive)
        )
        return Evidence(
            hits=case * float((flagged & self.positive).sum()),
            misses=case * float((~flagged & self.positive).sum()),
            false=other * float((flagged & ~self.positive).sum()),
            clear=other * float((~flagged & ~self.positive).sum()),
            between=self._between(~flagged[~self.positive], effect, rule),
            everything=threshold <= FLAG_EVERYTHING,
        )

    def _worth(self, threshold: float, chosen: np.ndarray) -> tuple[float, float]:
        """Design effect of the share flagged, and how many independent rows a row then stands for."""
        if self.codes is None:
            return 1.0, 1.0
        at = Tally(
            self.scores,
            self.positive,
            self.codes,
            np.array([-np.inf, threshold]),
            self.seed,
        )
        effect = float(shared_design(*at.by_group(chosen))[1])
        # Few groups do not even tell the design effect well.
        worth = students_share(at.n_units(chosen)) / effect
        return effect, max(worth, 1 / chosen.sum())

    def _between(self, clear: np.ndarray, effect: float, rule: Rule) -> float:
        """Variance of the specificity between repeats, or between folds: `clear` of the negatives."""
        if self._of_repeats:
            at = [
                (tally.scores, self.threshold(tally, rule)[0])
                for tally in self._of_repeats
            ]
            return between_repeats(
                np.array([np.mean(own[~self.positive] < cut) for own, cut in at])
            )
        if self.fold is None:
            return 0.0
        number = np.unique(self.fold[~self.positive], return_inverse=True)[1]
        sizes, rate = np.bincount(number), float(clear.mean())
        own = effect * rate * (1 - rate) / sizes
        return between_folds(np.bincount(number, weights=clear) / sizes, own)

    def prevalence(self, rule: Rule) -> float | tuple[float, float]:
        """The stated prevalence, or what independent positives and negatives it is estimated from."""
        if rule.prevalence is not None:
            return rule.prevalence
        worth = 1.0
        if self.codes is not None:
            worth = students_share(int(self.codes.max()) + 1) / design_effect(
                self.positive, self.codes
            )
        return worth * float(self.positive.sum()), worth * float((~self.positive).sum())

    def atom(self, threshold: float) -> float:
        """Share of negatives whose score, near the threshold, is that of at least one negative in a hundred.

        Rows that are alike score alike in one fold, and nearly alike in another: all within 2 % of the
        negatives on either side of the threshold count.
        """
        own = self.scores[~self.positive]
        if self.alike is not None:
            # What they do is known: all of them one thing, which is not what was counted of some.
            new = as_new(self.scores, self.alike)[~self.positive]
            return float(np.mean((new >= threshold) != (own >= threshold)))
        own = np.sort(own)
        step = 1e-9 * (own[-1] - own[0])
        number = np.concatenate([[0], np.cumsum(np.diff(own) > step)])
        at, reach = int(np.searchsorted(own, threshold)), max(len(own) // 50, 1)
        near = np.unique(number[max(at - reach, 0) : at + reach])
        sizes = np.bincount(number)[near]
        return float(sizes[sizes > max(0.01 * len(own), 2)].sum()) / len(own)


def _nearest(
    tally: Tally, rule: MinSensitivity, column: int, allowed: np.ndarray
) -> int:
    """The column itself; where it flags all but a few, the next that does not, if it finds nearly as many.

    Rows alike in every value leave no threshold between some rates: 0.90 asked may be 0.88 or everything.
    """
    hits, alarms = tally.counts
    useful = alarms <= (1 - LEFT_ALONE) * alarms[0]
    # With too few cases no threshold may be promised, whatever it parts.
    if (
        useful[column]
        or rule.confidence is not None
        or pick(rule, hits, alarms, 1.0) == 0
    ):
        return column
    parting = np.flatnonzero(allowed & useful)
    if parting.size and hits[parting[0]] >= (rule.value - NEARLY) * hits[0]:
        return int(parting[0])
    return column if alarms[column] < alarms[0] else 0


def _with_range(value: float, ends) -> Estimate:
    """A figure with its interval, which holds it; None for what is undefined."""
    if not np.isfinite(value):
        return UNDEFINED
    low, high = min(ends[0], value), max(ends[1], value)
    return Estimate(value, low, high if np.isfinite(high) else None)


def _notes(point: OperatingPoint, design: float, atom: float) -> list[str]:
    rule, m = point.rule, point.n_positive
    sensitivity, low, high = point.sensitivity.ends
    everything = point.threshold <= FLAG_EVERYTHING
    notes = []
    alike = (
        ""
        if design == 1
        else f" that tell as much as {m / design:.0f} independent ones"
    )
    rows = f"{m} positives{alike}"
    if everything:
        aim = ""
        if isinstance(rule, MinSensitivity):
            sure = (
                ""
                if rule.confidence is None
                else f" with confidence {rule.confidence:g}"
            )
            aim = f"sensitivity {rule.value:g}{sure} cannot be promised from {rows}: "
        notes.append(f"{aim}every row is flagged")
    elif point.flag_rate.value == 0:
        aim = "no threshold keeps the flag rate that low with a row flagged: "
        notes.append(
            f"{aim if isinstance(rule, MaxFlagRate) else ''}none of these rows is flagged"
        )
    if isinstance(rule, MinSensitivity) and rule.confidence is None and not everything:
        if (point.misses or 0) + 1 > (1 - rule.value) * (m + 1) + 1e-9:
            notes.append(
                f"sensitivity {rule.value:g} would flag nearly everybody: rows alike in every value cannot "
                f"be parted, and the nearest threshold that parts rows is expected to find {sensitivity:.2f}"
            )
        elif (sensitivity or 0) < rule.value - 1e-9:
            notes.append(
                f"{rows} are too few groups to promise sensitivity {rule.value:g} for new ones: it is "
                "promised for further rows of these groups, "
                f"and {sensitivity:.2f} is what new ones may expect"
            )
    reach = ((high or 0) - (low or 0)) / 2
    if reach > 0.03:
        notes.append(
            f"with {rows}, sensitivity {sensitivity:.2f} is known to ± {reach:.2f}"
        )
    if atom > ATOM and not everything:
        notes.append(
            f"{100 * atom:.0f} % of the negatives have one of few scores at or next to the threshold: "
            "on unseen rows specificity may differ by as much"
        )
    if rule.prevalence is not None:
        notes.append(
            f"PPV, NPV, NNE and flag rate hold at the given prevalence {rule.prevalence:g}"
        )
    return notes
