"""The rules by which a threshold is chosen, and what labelled held-out scores tell of the one chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betainc

from screening.metrics.intervals import design_effect, shared_design, students_share
from screening.metrics.performance import checked
from screening.metrics.predictive_intervals import Evidence, between_folds, between_repeats
from screening.metrics.tally import Tally
from screening.schemas.figures import GMean, MaxFlagRate, MinSensitivity, MissCost, Rule, Threshold

# Rows alike in every value, held out in different folds, score a little differently, and a threshold may fall
# among them. A new row like them has one score, near the mean of theirs: all such rows are flagged, or none,
# and what is promised of a part of them is false for every one.
# So many rows, and such a share of all, move a rate when they change sides together. The mean of fewer leans
# on their own labels: each was held out by machines that had learned from the others.
FEWEST, LEAST = 20, 0.01
# Rates of held-out rows and of new rows like them may differ by this much at a threshold, or by one row.
AGREES = 0.03
# The score of new rows lies within so many standard errors of the mean, or is apart by rounding alone.
ERRORS, ROUNDING = 2.0, 1e-6


def alike(x: np.ndarray) -> np.ndarray | None:
    """Number the distinct rows of x, (n_rows, n_columns), as (n_rows,); None where none stands for many."""
    _, numbers, counts = np.unique(hashed(x), return_inverse=True, return_counts=True)
    return numbers.ravel() if many(counts, len(x)).any() else None


def hashed(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """A hash of each row's values, (n_rows,), of type uint64."""
    mixed = np.full(len(x), np.uint64(seed))
    for column in x.T:
        # The mixing of splitmix64 (Steele et al. 2014), once a column; -0.0 is 0.0.
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def many(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Whether so many rows of all are enough to move a rate."""
    return counts >= max(FEWEST, LEAST * n_rows)


def as_new(scores: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Scores as new rows have them: where many are alike, the mean of theirs."""
    counts, mean = _kinds(scores, numbers)
    return np.where(many(counts, len(scores))[numbers], mean[numbers], scores)


def between(tally: Tally, numbers: np.ndarray) -> np.ndarray:
    """Thresholds at which the rates of held-out rows are those of new rows like them, (n_thresholds,).

    Rows alike whose mean is too near a threshold to say on which side new ones fall count as apart.
    """
    scores, thresholds = tally.scores, tally.thresholds
    counts, mean = _kinds(scores, numbers)
    spread = np.bincount(numbers, weights=(scores - mean[numbers]) ** 2) / counts
    reach = ERRORS * np.sqrt(spread / counts) + ROUNDING * np.ptp(scores)
    # A threshold is at the first score that is flagged: it is unsure above the lower end, up to the upper.
    ends = [np.searchsorted(thresholds, end, side="right") for end in (mean - reach, mean + reach)]
    new = Tally(as_new(scores, numbers), tally.positive, None, thresholds)
    kept = np.ones(len(thresholds), dtype=bool)
    for chosen, held, other in zip((tally.positive, ~tally.positive), tally.counts, new.counts, strict=True):
        size = np.bincount(numbers, weights=chosen) * many(counts, len(scores))
        kept &= np.abs(held - other) + _unsure(size, ends, len(kept)) <= max(AGREES * held[0], 1.0)
    return kept


def _kinds(scores: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many rows are of each kind, and their mean score."""
    counts = np.maximum(np.bincount(numbers), 1)
    return counts, np.bincount(numbers, weights=scores) / counts


def _unsure(size: np.ndarray, ends: list[np.ndarray], n_thresholds: int) -> np.ndarray:
    """How many rows may be on the other side of each threshold, of kinds unsure between two ends."""
    # Rows of one kind change sides together, those of several each for themselves: squares add up.
    squares = np.zeros(n_thresholds + 1)
    for end, sign in zip(ends, (1.0, -1.0), strict=True):
        np.add.at(squares, end, sign * size**2)
    return np.sqrt(np.maximum(np.cumsum(squares)[:-1], 0.0))


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
        return 1 + np.where(allowed, np.round(cost, 12), np.inf)[..., 1:].argmin(axis=-1)
    return 1 + np.where(allowed, np.round(hit * (1 - false), 12), -1.0)[..., 1:].argmax(axis=-1)


@dataclass(frozen=True)
class Choice:
    """Labelled held-out scores from which thresholds are chosen; arguments as of `operating_point.choose`."""

    scores: np.ndarray
    positive: np.ndarray
    codes: np.ndarray | None
    n_groups: int | None
    seed: int
    fold: np.ndarray | None
    repeats: np.ndarray | None
    alike: np.ndarray | None = None

    @classmethod
    def of(cls, scores, y, groups, seed: int, fold, repeats, alike=None) -> Choice:
        rows = checked(scores, y, groups, both=True)
        fold = None if fold is None else np.asarray(fold)
        repeats = None if repeats is None else np.asarray(repeats, float)
        alike = None if alike is None else np.asarray(alike)
        for name, given in (("fold", fold), ("repeats", repeats), ("alike", alike)):
            if given is not None and given.shape[-1:] != rows[0].shape:
                raise ValueError(f"{name} {given.shape} does not fit {len(rows[0])} scores")
        return cls(*rows, seed, fold, repeats, alike)

    @cached_property
    def own(self) -> Tally:
        """Counts of the scores themselves, which all rules share."""
        return self._tally(self.scores)

    @cached_property
    def _of_repeats(self) -> list[Tally]:
        """A tally a repeat; none where there are too few to tell a spread."""
        return [] if self.repeats is None or len(self.repeats) < 3 else [*map(self._tally, self.repeats)]

    def _tally(self, scores: np.ndarray) -> Tally:
        """Counts at every score, below all of them (the column that flags everything) and above."""
        distinct = np.unique(scores)
        below, above = min(FLAG_EVERYTHING, 2 * distinct[0]), np.nextafter(distinct[-1], np.inf)
        return Tally(scores, self.positive, None, np.concatenate([[below], distinct, [above]]))

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
        at = Tally(self.scores, self.positive, self.codes, np.array([-np.inf, threshold]), self.seed)
        effect = float(shared_design(*at.by_group(chosen))[1])
        # Few groups do not even tell the design effect well.
        worth = students_share(at.n_units(chosen)) / effect
        return effect, max(worth, 1 / chosen.sum())

    def _between(self, clear: np.ndarray, effect: float, rule: Rule) -> float:
        """Variance of the specificity between repeats, or between folds: `clear` of the negatives."""
        if self._of_repeats:
            at = [(tally.scores, self.threshold(tally, rule)[0]) for tally in self._of_repeats]
            return between_repeats(np.array([np.mean(own[~self.positive] < cut) for own, cut in at]))
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
            worth = students_share(int(self.codes.max()) + 1) / design_effect(self.positive, self.codes)
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


def _nearest(tally: Tally, rule: MinSensitivity, column: int, allowed: np.ndarray) -> int:
    """The column itself; where it flags all but a few, the next that does not, if it finds nearly as many.

    Rows alike in every value leave no threshold between some rates: 0.90 asked may be 0.88 or everything.
    """
    hits, alarms = tally.counts
    useful = alarms <= (1 - LEFT_ALONE) * alarms[0]
    # With too few cases no threshold may be promised, whatever it parts.
    if useful[column] or rule.confidence is not None or pick(rule, hits, alarms, 1.0) == 0:
        return column
    parting = np.flatnonzero(allowed & useful)
    if parting.size and hits[parting[0]] >= (rule.value - NEARLY) * hits[0]:
        return int(parting[0])
    return column if alarms[column] < alarms[0] else 0
