"""The settings of a search: which are tried, and which one is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import recall_score, roc_curve

from screening.errors import PromiseError
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.multi_class import MultiClassSVM
from screening.metrics.ranking import area_under_roc, average_precision
from screening.model_selection.folds import Study
from screening.recipes.building import build
from screening.recipes.drawing import SettingSpace
from screening.recipes.recipe import Recipe
from screening.schemas.figures import MaxFlagRate, MinSensitivity, Rule
from screening.schemas.validation import SearchFacts

Parameters = dict[str, Any]
"""Overrides of a recipe's parameters."""
# Work of the first round of a search, in kernel values times decision functions: about
# a minute of one core.
_BUDGET = 2e10
# Settings beyond which more of them find nothing better, and only widen intervals.
_MAX_SETTINGS = 24
# Settings of the machine that a factor is tried on.
_N_BEST = 2


@dataclass(frozen=True)
class SettingSearch:
    """Settings that compete: those of the machine, then a factor on the best of them.

    Parameters
    ----------
    space : SettingSpace
    settings : list of dict
        Settings of the first round, without repetitions. Recipes of one kernel try the
        same C, gamma and cost.
    n_with_factor : int
        Settings of the second round, which has none if 0.
    """

    space: SettingSpace
    settings: list[Parameters]
    n_with_factor: int = 0

    @classmethod
    def of(cls, recipe: Recipe, study: Study, n_by_default: int) -> SettingSearch:
        """Draw the settings of a study.

        A single setting is the recipe's default, with its factor. Otherwise a factor
        is tried in half as many settings again.

        Parameters
        ----------
        recipe : Recipe
        study : Study
            RecipeError if parameters that it fixes are invalid.
        n_by_default : int
            Number of settings of the first round if the caller asked for none.
        """
        fixed = dict(study.params)
        build(recipe, **fixed)
        seed = study.validation.seed
        space = SettingSpace(recipe, seed, fixed, study.grid == "paper")
        n = study.n_settings
        if n is None:
            n = space.n_plain if space.from_paper else n_by_default
        if n == 1 and not space.from_paper:
            return cls(space, [space.default])
        settings = space.plain(n)
        n_with_factor = n // 2 if recipe.factor else 0
        return cls(space, settings, n_with_factor)

    def second_round(
        self, decisions: np.ndarray, target: np.ndarray, fold: np.ndarray
    ) -> list[Parameters]:
        """Return settings that add the factor to the machine's best settings.

        Parameters
        ----------
        decisions : ndarray of shape (n_settings, n_rows, n_outputs)
            Held-out, at the settings of the first round.
        target, fold : int ndarray of shape (n_rows,)
        """
        if not self.n_with_factor:
            return []
        name = self.space.recipe.search.criterion
        worths = np.full(len(decisions), -np.inf)
        for number, of_setting in enumerate(decisions):
            if unusable(of_setting, target, fold) is None:
                worths[number] = round(criterion(name, of_setting, target), _DIGITS)
        order = np.argsort(-worths, kind="stable")
        best = [self.settings[number] for number in order[:_N_BEST]]
        return self.space.with_factor(best, self.settings, self.n_with_factor)


def n_settings_within_budget(
    recipe: Recipe, n_rows: int, n_outputs: int, n_folds: int
) -> int:
    """Return how many settings of a recipe's machine compete by default.

    A machine of several classes tries as many as a budget of work allows. The work is
    estimated from the size of the problem, because a clock would give other models on
    other computers. All others try as many as their recipe says: with two classes 24
    settings were no better than 8 of the same sequence, and widen all intervals. So do
    members of a blend, which averages methods instead of choosing among settings.

    Parameters
    ----------
    recipe : Recipe
    n_rows : int
        Rows that the settings compete on.
    n_outputs : int
        Decision functions of the machine.
    n_folds : int
    """
    machine = build(recipe)
    fewest = recipe.search.candidates
    if not isinstance(machine, MultiClassSVM):
        return fewest
    work = n_folds * n_outputs * n_rows**2 * machine.relative_work
    return int(np.clip(_BUDGET / work, fewest, max(fewest, _MAX_SETTINGS)))


def by_shared_work(candidates: Sequence[Parameters]) -> list[int]:
    """Return the order in which settings share most work.

    Settings of one kernel follow each other, from the smallest C to the largest.
    """

    def sort_key(index: int) -> tuple[list[str], float, int]:
        cost = candidates[index].get("C", 0.0)
        if not isinstance(cost, float | int):
            cost = 0.0
        return kernel_of(candidates[index]), cost, index

    return sorted(range(len(candidates)), key=sort_key)


def kernel_of(candidate: Parameters) -> list[str]:
    """Return a key of a setting's kernel; other keys share no solution."""
    return [str(candidate.get(name)) for name in ("kernel", "gamma", "sigma")]


def rows_held(candidates: Sequence[Parameters], n_rows: int) -> int:
    """Return the side of the largest square of kernel values that a fit needs.

    Parameters
    ----------
    candidates : sequence of dict
        Settings that may be fitted.
    n_rows : int
        Training rows.
    """
    sides = []
    for candidate in candidates:
        n_landmarks = int(candidate.get("n_landmarks", KernelMachine.n_landmarks))
        n_landmarks = min(n_rows, n_landmarks)
        approximation = str(candidate.get("approximation"))
        if approximation == "landmarks":
            sides.append(n_landmarks)
        elif approximation == "nystroem":
            # The kernel between all rows and the landmarks.
            sides.append(math.isqrt(n_landmarks * n_rows))
        else:
            sides.append(n_rows)
    return max(sides, default=n_rows)


def criterion(name: str, decisions: np.ndarray, target: np.ndarray) -> float:
    """Return the criterion of decisions against their labels; higher is better.

    "g_mean", "balanced_accuracy" and "macro_recall" judge the machine's own boundary
    (0, or the largest decision), "best_g_mean" the best threshold on these rows. With
    several classes the first three are the mean recall, see ``criterion_name``, and the
    others are averaged over one class against the rest.

    Parameters
    ----------
    name : str
        A ``recipe.Criterion``.
    decisions : ndarray of shape (n_rows,), (n_rows, 1) or (n_rows, n_classes)
    target : int ndarray of shape (n_rows,)
    """
    if decisions.ndim == 1 or decisions.shape[1] == 1:
        return _binary_criterion(name, decisions.ravel(), target == 1)
    present = np.unique(target)
    if criterion_name(name, several=True) == "macro_recall":
        predicted = decisions.argmax(axis=1)
        return float(recall_score(target, predicted, labels=present, average="macro"))
    by_class = [_binary_criterion(name, decisions[:, m], target == m) for m in present]
    return float(np.mean(by_class))


def criterion_name(name: str, *, several: bool) -> str:
    """Return what a criterion is with several classes, or with two.

    With several classes a G-mean of sensitivity and specificity does not exist, and the
    balanced accuracy is the mean recall.
    """
    if several and name in ("g_mean", "balanced_accuracy"):
        return "macro_recall"
    return name


def _binary_criterion(name: str, decision: np.ndarray, positive: np.ndarray) -> float:
    """Return a criterion of one decision against two classes."""
    if positive.all() or not positive.any():
        return 0.5
    if name == "auroc":
        return area_under_roc(decision, positive)
    if name == "average_precision":
        return average_precision(decision, positive)
    if name == "best_g_mean":
        false, hit, _ = roc_curve(positive, decision)
        return float(np.sqrt(hit * (1 - false)).max())
    sensitivity, specificity = _own_rates(decision, positive)
    if name in ("balanced_accuracy", "macro_recall"):
        return float((sensitivity + specificity) / 2)
    return float(np.sqrt(sensitivity * specificity))


# Distance of the fold machines, in interquartile ranges of the negatives, beyond which
# they share no threshold.
_MAX_DISTANCE = 2.0
# Ratio of the spreads of two machines beyond which one alone decides their mean.
_MAX_SPREAD_RATIO = 100.0
# Negatives of a fold from which its spread can be estimated.
_MIN_NEGATIVES = 20
# Range from 5 to 95 % of a normal distribution, in interquartile ranges.
_RANGE_IN_QUARTILES = 2.44
# Share of the largest decision below which a spread is rounding.
_ROUNDING = 1e-9
# Digits to which criteria are compared, so that rounding errors tie on any machine.
_DIGITS = 9

CONSTANT = "scores all rows alike"
"""Reason to drop a setting: its machines do not separate rows."""
APART = "the machines of its folds differ too much"
"""Reason to drop a setting: no threshold serves all its machines."""
NOT_FINITE = "scores are not finite"
"""Reason to drop a setting."""
TIED = "too many scores are equal at the threshold of the rule"
"""Reason to drop a setting if another one separates these rows."""
# Share of the rows to flag that may tie at the threshold.
_MAX_TIED = 0.1


def choose_setting(
    name: str,
    recipe: str,
    candidates: Sequence[Parameters],
    decisions: np.ndarray,
    target: np.ndarray,
    fold: np.ndarray,
    rule: Rule | None = None,
    *,
    refuse: bool = True,
) -> SearchFacts:
    """Choose the setting with the best criterion, among those with folds that agree.

    The criterion is computed on the rows of all folds together: one threshold has to
    serve several machines, so a setting with a scale that differs between folds must
    lose, however well it ranks within a fold.

    Parameters
    ----------
    name : str
        Of the criterion.
    recipe : str
        Name for errors.
    candidates : sequence of dict
    decisions : ndarray of shape (n_settings, n_rows, n_outputs)
        Held-out.
    target, fold : int ndarray of shape (n_rows,)
    rule : Rule, optional
        Of the threshold. A setting with many equal scores there is dropped if another
        one has none: the criterion counts a tie as half a row, but the threshold flags
        all of these rows or none.
    refuse : bool
        False chooses among all settings if none can be used.

    Raises
    ------
    PromiseError
        If no setting can be used.
    """
    dropped = _reasons_unusable(decisions, target, fold, rule)
    if None not in dropped:
        if refuse:
            raise _no_setting_usable(recipe, dropped, has_cases=bool(target.any()))
        dropped = [None] * len(dropped)
    scores: list[float | None] = [None] * len(dropped)
    usable = [index for index, reason in enumerate(dropped) if reason is None]
    if target.any():
        for index in usable:
            scores[index] = criterion(name, decisions[index], target)
    # The first of equally good settings is chosen.
    usable_scores = [float(scores[index] or 0.0) for index in usable]
    best = usable[int(np.round(usable_scores, _DIGITS).argmax())]
    rates = _rates_of_settings(decisions, target)
    return SearchFacts(
        criterion=criterion_name(name, several=decisions.shape[2] > 1),
        n_candidates=len(candidates),
        chosen=dict(candidates[best]),
        candidates=[dict(candidate) for candidate in candidates],
        scores=scores,
        dropped=dropped,
        sensitivity=rates[:, 0].tolist(),
        specificity=rates[:, 1].tolist(),
    )


def _reasons_unusable(
    decisions: np.ndarray, target: np.ndarray, fold: np.ndarray, rule: Rule | None
) -> list[str | None]:
    """Return why each setting cannot be chosen; None for one that can."""
    dropped = [unusable(of_setting, target, fold) for of_setting in decisions]
    if rule is None:
        return dropped
    usable = [index for index, reason in enumerate(dropped) if reason is None]
    tied = [index for index in usable if _ties(decisions[index], target, rule)]
    if len(tied) < len(usable):
        for index in tied:
            dropped[index] = TIED
    return dropped


def _no_setting_usable(
    recipe: str, dropped: Sequence[str | None], has_cases: bool
) -> PromiseError:
    """Return the error of a recipe without usable settings."""
    reasons = "; ".join(sorted({str(reason) for reason in dropped}))
    # Without cases no settings compete.
    more = "more settings with `search`, " if has_cases else ""
    return PromiseError(
        f"recipe {recipe}: no setting of {len(dropped)} can be used on this table "
        f"({reasons}); try {more}another recipe, or drop columns that are nearly"
        " unique",
        parameters=["search"],
    )


def _ties(decisions: np.ndarray, target: np.ndarray, rule: Rule) -> bool:
    """Return True if over a tenth of the rows to flag tie at the rule's threshold.

    Only rules that fix a rank are examined; the others choose among distinct scores.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows, 1)
    target : int ndarray of shape (n_rows,)
    rule : Rule
    """
    ordered = np.sort(decisions[:, 0])
    if isinstance(rule, MaxFlagRate):
        rank = math.floor((1 - rule.value) * len(ordered))
        threshold = ordered[min(rank, len(ordered) - 1)]
    elif isinstance(rule, MinSensitivity):
        cases = np.sort(decisions[target == 1, 0])
        rank = math.floor((1 - rule.value) * (len(cases) + 1))
        threshold = cases[max(rank - 1, 0)]
    else:
        return False
    n_flagged = np.count_nonzero(ordered >= threshold)
    n_tied = np.count_nonzero(ordered == threshold) - 1
    return bool(n_tied > _MAX_TIED * n_flagged)


def _rates_of_settings(decisions: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return sensitivity and specificity of each setting's own boundary.

    Shape (n_settings, 2); no rows with several classes, for a single setting, and if a
    class has no rows.

    Parameters
    ----------
    decisions : ndarray of shape (n_settings, n_rows, n_outputs)
    target : int ndarray of shape (n_rows,)
    """
    positive = target == 1
    is_binary = decisions.shape[2] == 1 and 0 < positive.sum() < len(positive)
    if len(decisions) == 1 or not is_binary:
        return np.empty((0, 2))
    return np.array([_own_rates(values[:, 0], positive) for values in decisions])


def _own_rates(decision: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """Return sensitivity and specificity of a decision above 0."""
    flagged = decision > 0
    sensitivity = flagged[positive].mean()
    specificity = 1 - flagged[~positive].mean()
    return float(sensitivity), float(specificity)


def unusable(decisions: np.ndarray, target: np.ndarray, fold: np.ndarray) -> str | None:
    """Return why no threshold can be set on held-out decisions, None if one can.

    Parameters
    ----------
    decisions : ndarray of shape (n_rows, n_outputs)
    target, fold : int ndarray of shape (n_rows,)
    """
    if not np.isfinite(decisions).all():
        return NOT_FINITE
    spreads = [np.ptp(decisions[fold == k], axis=0).max() for k in np.unique(fold)]
    if max(spreads) <= _ROUNDING * np.abs(decisions).max():
        return CONSTANT
    for m in range(decisions.shape[1]):
        positive_code = 1 if decisions.shape[1] == 1 else m
        is_negative = target != positive_code
        negatives = decisions[is_negative, m]
        negative_fold = fold[is_negative]
        by_fold = [negatives[negative_fold == k] for k in np.unique(negative_fold)]
        if _distance_of_folds(negatives, by_fold) > _MAX_DISTANCE:
            return APART
        if _spread_ratio_of_folds(by_fold) > _MAX_SPREAD_RATIO:
            return APART
    return None


def _central_range(values: np.ndarray) -> float:
    """Return the range from 5 to 95 %.

    The quartiles would not do: far from every bump half of the rows and more may have
    nearly the same score.
    """
    return float(np.ptp(np.quantile(values, [0.05, 0.95])))


def _distance_of_folds(negatives: np.ndarray, by_fold: list[np.ndarray]) -> float:
    """Return the distance of the folds' median negatives, in interquartile ranges.

    One intercept at the wrong one of two ends that fit equally well ruins the mean of
    the machines.
    """
    medians = [float(np.median(values)) for values in by_fold]
    if len(medians) < 2:
        return 0.0
    low, high = np.quantile(negatives, [0.25, 0.75])
    # If scores have few distinct values, half of them may be equal: the range from 5 to
    # 95 % then gives the unit.
    ranges = list(map(_central_range, by_fold))
    typical = float(np.median(ranges)) / _RANGE_IN_QUARTILES
    unit = max(float(high - low), typical) or float(np.std(negatives))
    if unit <= 0:
        return 0.0
    return (max(medians) - min(medians)) / unit


def _spread_ratio_of_folds(by_fold: list[np.ndarray]) -> float:
    """Return the largest spread of a fold's negatives divided by the smallest.

    1 if a fold has too few negatives.
    """
    if any(len(values) < _MIN_NEGATIVES for values in by_fold):
        return 1.0
    spreads = list(map(_central_range, by_fold))
    if min(spreads, default=0.0) <= 0:
        return 1.0
    return max(spreads) / min(spreads)
