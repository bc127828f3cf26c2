"""Which setting the folds settle on, and which they may not use at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.errors import RecipeError
from screening.validation.candidates import Parameters
from screening.validation.criteria import criterion

# Fold machines further apart than this, in interquartile ranges of the negatives, share no threshold.
FARTHEST_APART = 2.0
# Nor do machines of which one scores so many times as widely as another: it decides their mean alone.
WIDEST_APART, FEWEST_OF_FOLD = 100.0, 20
# Of a normal distribution: 5 to 95 % in interquartile ranges.
WIDE_IN_QUARTILES = 2.44
# A spread below this share of the largest decision is rounding.
ROUNDING = 1e-9

CONSTANT = "scores all rows alike"
APART = "the machines of its folds lie apart"
NOT_FINITE = "scores are not finite"


@dataclass(frozen=True)
class Search:
    """What was tried and chosen."""

    number: int  # of the chosen setting among the candidates
    candidates: list[Parameters]
    # the criterion on the held-out rows of all folds together; None for a setting that was dropped
    scores: list[float | None]
    dropped: list[str | None]  # why a setting was not considered

    @property
    def chosen(self) -> Parameters:
        """The chosen setting."""
        return self.candidates[self.number]


def choose_setting(
    name: str,
    recipe: str,
    candidates: Sequence[Parameters],
    decisions: np.ndarray,
    target: np.ndarray,
    fold: np.ndarray,
) -> Search:
    """The setting with the best criterion on held-out rows, among those whose folds agree.

    Judged on the rows of all folds together: one threshold has to serve several machines, so a setting whose
    scale drifts from fold to fold must lose, however well it ranks within a fold. `decisions` are
    (n_settings, n_rows, n_outputs). RecipeError where every setting was dropped.
    """
    dropped = [unusable(each, target, fold) for each in decisions]
    scores = [
        None if why else criterion(name, each, target) for why, each in zip(dropped, decisions, strict=True)
    ]
    usable = [at for at, why in enumerate(dropped) if why is None]
    if not usable:
        reasons = "; ".join(sorted({str(why) for why in dropped}))
        raise RecipeError(
            f"recipe {recipe}: no setting of {len(candidates)} can be used on this table ({reasons}); try "
            "more settings with --search, another recipe, or drop columns that are nearly unique"
        )
    # Rounding lets settings that differ by noise in the last digits tie, on any machine: the first wins.
    best = usable[int(np.round([float(scores[at] or 0.0) for at in usable], 9).argmax())]
    return Search(best, [dict(each) for each in candidates], scores, dropped)


def unusable(decisions: np.ndarray, target: np.ndarray, fold: np.ndarray) -> str | None:
    """Why held-out decisions cannot carry a threshold; None where they can."""
    if not np.isfinite(decisions).all():
        return NOT_FINITE
    numbers = np.unique(fold)
    spread = max(float(np.ptp(decisions[fold == k], axis=0).max()) for k in numbers)
    if spread <= ROUNDING * float(np.abs(decisions).max()):
        return CONSTANT
    for m in range(decisions.shape[1]):
        negative = target != (1 if decisions.shape[1] == 1 else m)
        held = decisions[negative, m], fold[negative]
        if apart(*held) > FARTHEST_APART or scales_apart(*held) > WIDEST_APART:
            return APART
    return None


def apart(negatives: np.ndarray, fold: np.ndarray) -> float:
    """How far the folds' median held-out negatives lie apart, in interquartile ranges of all of them.

    One intercept that flipped between two ends that fit equally well ruins the mean of the machines.
    """
    each = [negatives[fold == k] for k in np.unique(fold)]
    medians = [float(np.median(own)) for own in each]
    if len(medians) < 2:
        return 0.0
    low, high = np.quantile(negatives, [0.25, 0.75])
    # Of the few scores that yes and no can give, half may be one: then the rest tells their spread.
    wide = float(np.median([np.ptp(np.quantile(own, [0.05, 0.95])) for own in each])) / WIDE_IN_QUARTILES
    unit = max(float(high - low), wide) or float(np.std(negatives))
    return (max(medians) - min(medians)) / unit if unit > 0 else 0.0


def scales_apart(negatives: np.ndarray, fold: np.ndarray) -> float:
    """How many times as widely as another's one fold's negatives are spread; 1 where a fold has too few.

    From 5 to 95 % of them: far from every bump half of the rows and more may score all but alike.
    """
    spreads = []
    for k in np.unique(fold):
        own = negatives[fold == k]
        low, high = np.quantile(own, [0.05, 0.95])
        spreads.append(float(high - low) if len(own) >= FEWEST_OF_FOLD else 0.0)
    return max(spreads) / min(spreads) if min(spreads, default=0.0) > 0 else 1.0
