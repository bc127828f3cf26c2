"""Which settings a search tries, how each is judged on held-out rows, and which the folds settle on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import recall_score, roc_curve

from screening.errors import RecipeError
from screening.metrics.ranking import auroc, average_precision
from screening.recipes.building import build, candidates_for
from screening.recipes.recipe import Recipe
from screening.schemas.validation import SearchFacts

Parameters = dict[str, Any]
LANDMARKS = 8000  # where none is given; as the machines have it


def candidates_of(
    recipe: Recipe, params: Parameters, search: int | None, seed: int
) -> list[Parameters]:
    """The recipe's candidates with the caller's parameters fixed, without repetitions."""
    build(recipe, **params)
    candidates = candidates_for(
        recipe,
        recipe.search.candidates if search is None else search,
        np.random.default_rng(seed),
    )
    fixed = [candidate | params for candidate in candidates]
    return [
        candidate for i, candidate in enumerate(fixed) if candidate not in fixed[:i]
    ]


def by_shared_work(candidates: Sequence[Parameters]) -> list[int]:
    """Numbers of the candidates: those of one kernel after each other, from the smallest C upwards."""

    def sort_key(at: int) -> tuple[list[str], float, int]:
        cost = candidates[at].get("C", 0.0)
        return (
            kernel_of(candidates[at]),
            cost if isinstance(cost, float | int) else 0.0,
            at,
        )

    return sorted(range(len(candidates)), key=sort_key)


def kernel_of(candidate: Parameters) -> list[str]:
    """What tells the kernel of a candidate from another's; no solution is shared between two."""
    return [str(candidate.get(name)) for name in ("kernel", "gamma", "sigma")]


def rows_held(candidates: Sequence[Parameters], n_rows: int) -> int:
    """Rows of the largest square of kernel values that fitting any of them to so many rows makes."""
    most = [n_rows]
    for candidate in candidates:
        few = min(n_rows, int(candidate.get("n_landmarks", LANDMARKS)))
        # By Nystroem all rows stand beside the landmarks.
        held = {"nystroem": math.isqrt(few * n_rows), "landmarks": few}
        most.append(held.get(str(candidate.get("approximation")), n_rows))
    return max(most[1:] or most)


def criterion(name: str, decisions: np.ndarray, target: np.ndarray) -> float:
    """Score decisions, one column or one a class, against their labels; higher is better.

    "g_mean" judges the machine's own boundary (0, or the largest decision), "best_g_mean" the best threshold
    on these rows; with several classes each is averaged over one class against the rest.
    """
    if decisions.ndim == 1 or decisions.shape[1] == 1:
        return _binary(name, decisions.ravel(), target == 1)
    if name == "g_mean" or name == "balanced_accuracy":
        return float(
            recall_score(
                target,
                decisions.argmax(axis=1),
                labels=np.unique(target),
                average="macro",
            )
        )
    return float(
        np.mean(
            [_binary(name, decisions[:, m], target == m) for m in np.unique(target)]
        )
    )


def _binary(name: str, decision: np.ndarray, positive: np.ndarray) -> float:
    if positive.all() or not positive.any():
        return 0.5
    if name == "auroc":
        return auroc(decision, positive)
    if name == "average_precision":
        return average_precision(decision, positive)
    if name == "best_g_mean":
        false, hit, _ = roc_curve(positive, decision)
        return float(np.sqrt(hit * (1 - false)).max())
    flagged = decision > 0
    sensitivity, specificity = flagged[positive].mean(), 1 - flagged[~positive].mean()
    if name == "balanced_accuracy":
        return float((sensitivity + specificity) / 2)
    return float(np.sqrt(sensitivity * specificity))


# Fold machines further apart than this, in interquartile ranges of the negatives, share no threshold.
FARTHEST_APART = 2.0
# Nor do machines of which one scores so many times as widely as another: it decides their mean alone.
WIDEST_APART, FEWEST_OF_FOLD = 100.0, 20
# Of a normal distribution: 5 to 95 % in interquartile ranges.
WIDE_IN_QUARTILES = 2.44
ROUNDING = 1e-9  # a spread below this share of the largest decision

CONSTANT = "scores all rows alike"
APART = "the machines of its folds lie apart"
NOT_FINITE = "scores are not finite"


def choose_setting(
    name: str,
    recipe: str,
    candidates: Sequence[Parameters],
    decisions: np.ndarray,
    target: np.ndarray,
    fold: np.ndarray,
) -> SearchFacts:
    """The setting with the best criterion on held-out rows, among those whose folds agree.

    Judged on the rows of all folds together: one threshold has to serve several machines, so a setting whose
    scale drifts from fold to fold must lose, however well it ranks within a fold. `decisions` are
    (n_settings, n_rows, n_outputs). RecipeError where every setting was dropped.
    """
    dropped = [unusable(of_setting, target, fold) for of_setting in decisions]
    scores = [
        None if why else criterion(name, of_setting, target)
        for why, of_setting in zip(dropped, decisions, strict=True)
    ]
    usable = [at for at, why in enumerate(dropped) if why is None]
    if not usable:
        reasons = "; ".join(sorted({str(why) for why in dropped}))
        raise RecipeError(
            f"recipe {recipe}: no setting of {len(candidates)} can be used on this table ({reasons}); try "
            "more settings with --search, another recipe, or drop columns that are nearly unique"
        )
    # Rounding lets settings that differ by noise in the last digits tie, on any machine: the first wins.
    best = usable[
        int(np.round([float(scores[at] or 0.0) for at in usable], 9).argmax())
    ]
    return SearchFacts(
        criterion=name,
        n_candidates=len(candidates),
        chosen=dict(candidates[best]),
        candidates=[dict(candidate) for candidate in candidates],
        scores=scores,
        dropped=dropped,
    )


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
    by_fold = [negatives[fold == k] for k in np.unique(fold)]
    medians = [float(np.median(own)) for own in by_fold]
    if len(medians) < 2:
        return 0.0
    low, high = np.quantile(negatives, [0.25, 0.75])
    # Of the few scores that yes and no can give, half may be one: then the rest tells their spread.
    wide = (
        float(np.median([np.ptp(np.quantile(own, [0.05, 0.95])) for own in by_fold]))
        / WIDE_IN_QUARTILES
    )
    unit = max(float(high - low), wide) or float(np.std(negatives))
    return (max(medians) - min(medians)) / unit if unit > 0 else 0.0


def scales_apart(negatives: np.ndarray, fold: np.ndarray) -> float:
    """How many times as widely as another's one fold's negatives are spread; 1 where a fold has too few.

    From 5 to 95 % of them: far from every bump half of the rows and more may score all but alike.
    """
    held = [negatives[fold == k] for k in np.unique(fold)]
    spreads = [
        float(np.ptp(np.quantile(own, [0.05, 0.95])))
        for own in held
        if len(own) >= FEWEST_OF_FOLD
    ]
    if len(spreads) < len(held) or min(spreads, default=0.0) <= 0:
        return 1.0
    return max(spreads) / min(spreads)
