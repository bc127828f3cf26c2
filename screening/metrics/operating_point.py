"""The threshold: chosen by a rule from held-out scores, with what it may be expected to do on unseen rows.

A row is flagged if and only if its score is at or above the threshold; higher scores are more suspicious.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.metrics.performance import UNDEFINED, curve, performance, summary
from screening.metrics.predictive_intervals import predictive
from screening.metrics.threshold_search import FLAG_EVERYTHING, RULES, Choice
from screening.schemas.base import Estimate
from screening.schemas.figures import MaxFlagRate, MinSensitivity, OperatingPoint, Rule

__all__ = [
    "FLAG_EVERYTHING", "RULES", "OperatingPoint",
    "choose", "curve", "excess", "overall", "performance", "points", "summary",
]  # fmt: skip

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
    scores, y, rule: Rule, groups=None, seed: int = 0, *, fold=None, repeats=None, alike=None
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
    groups that tell it. For the other rules r = misses + 1. Intervals: `statistics.predictive_intervals`.
    """
    return _point(Choice.of(scores, y, groups, seed, fold, repeats, alike), rule)


def points(
    scores,
    y,
    groups=None,
    seed: int = 0,
    prevalence: float | None = None,
    rules=RULES,
    *,
    fold=None,
    repeats=None,
    alike=None,
) -> list[OperatingPoint]:
    """Operating points of a fixed list of rules."""
    choice = Choice.of(scores, y, groups, seed, fold, repeats, alike)
    return [_point(choice, replace(rule, prevalence=prevalence)) for rule in rules]


def _point(choice: Choice, rule: Rule) -> OperatingPoint:
    """The threshold of a rule, with rates, intervals and what a reader should know of them."""
    threshold, design = choice.threshold(choice.own, rule)
    flagged = choice.scores >= threshold
    m, n = int(choice.positive.sum()), int((~choice.positive).sum())
    misses, false = int((~flagged & choice.positive).sum()), int((flagged & ~choice.positive).sum())
    everything = threshold <= FLAG_EVERYTHING
    sensitivity = 1.0 if everything else (m - misses) / (m + design)
    share = m / (m + n) if rule.prevalence is None else rule.prevalence
    evidence = choice.evidence(threshold, rule)
    drawn = evidence.drawn(choice.prevalence(rule), choice.seed)
    figures = {
        "sensitivity": _with_range(sensitivity, evidence.sensitivity_range()),
        "specificity": _with_range(1 - false / n, evidence.specificity_range()),
    } | {
        name: _with_range(float(figure), np.quantile(drawn[name], [0.025, 0.975]))
        for name, figure in predictive(share, sensitivity, false / n).items()
    }
    point = OperatingPoint(
        threshold=threshold, rule=rule, prevalence=share, misses=misses, notes=(),
        n_positive=m, n_negative=n, n_groups=choice.n_groups, **figures,
    )  # fmt: skip
    return point.replace(notes=_notes(point, design, choice.atom(threshold)))


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
    alike = "" if design == 1 else f" that tell as much as {m / design:.0f} independent ones"
    rows = f"{m} positives{alike}"
    if everything:
        aim = ""
        if isinstance(rule, MinSensitivity):
            sure = "" if rule.confidence is None else f" with confidence {rule.confidence:g}"
            aim = f"sensitivity {rule.value:g}{sure} cannot be promised from {rows}: "
        notes.append(f"{aim}every row is flagged")
    elif point.flag_rate.value == 0:
        aim = "no threshold keeps the flag rate that low with a row flagged: "
        notes.append(f"{aim if isinstance(rule, MaxFlagRate) else ''}none of these rows is flagged")
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
        notes.append(f"with {rows}, sensitivity {sensitivity:.2f} is known to ± {reach:.2f}")
    if atom > ATOM and not everything:
        notes.append(
            f"{100 * atom:.0f} % of the negatives have one of few scores at or next to the threshold: "
            "on unseen rows specificity may differ by as much"
        )
    if rule.prevalence is not None:
        notes.append(f"PPV, NPV, NNE and flag rate hold at the given prevalence {rule.prevalence:g}")
    return notes
