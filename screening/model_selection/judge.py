"""One judgement: from scores of rows that no machine had seen, and a rule, to every figure of a page.

`train` makes the held-out scores and judges them, `compare` those of several methods; `threshold` reads them
back from the model and judges them by another rule; `validate` scores another cohort and tries there what the
model had chosen. All call `judge`, so no page can show figures of two rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.errors import RecipeError, UsageError
from screening.metrics.calibration import calibrate, calibration_elsewhere
from screening.metrics.operating_point import FLAG_EVERYTHING
from screening.metrics.paired import (
    auroc_difference,
    recall_difference,
    share_difference,
    weighted_recalls,
)
from screening.metrics.performance import (
    at_local_prevalence,
    auroc_of_settings,
    curve,
    per_class,
    performance,
    ranking_summary,
    rates,
)
from screening.metrics.ranking import auroc
from screening.metrics.subgroups import performance_by_subgroup
from screening.model_selection.scores import AFTER, Fixed, HeldOutScores
from screening.model_selection.search import unusable
from screening.schemas.base import Document, Estimate
from screening.schemas.figures import (
    MinSensitivity,
    OperatingPoint,
    Ranking,
    Rule,
    Threshold,
)
from screening.schemas.model import BlendMember, MemberAlone
from screening.schemas.validation import BesideFacts, Figures, Forward, LaterClass


@dataclass(frozen=True)
class Judgement:
    """Held-out scores at the operating points of a rule: every figure, made when asked for, is of these."""

    held: HeldOutScores
    rules: Sequence[Rule]  # one a watched class, and so are the points
    points: list[OperatingPoint]
    seed: int

    @property
    def thresholds(self) -> np.ndarray:
        """One a watched class, shape (n_watched,)."""
        return np.array([point.threshold for point in self.points])

    @property
    def flagged(self) -> np.ndarray:
        """Flagged at the thresholds, shape (n_rows, n_watched)."""
        return self.held.scores >= self.thresholds

    @cached_property
    def means(self) -> Mapping[str, Estimate]:
        """AUROC, sensitivity and specificity at the thresholds, means over the watched classes."""
        rows = self.held
        areas = [
            Estimate(
                *auroc_of_settings(own, cases, rows.groups, n_settings=rows.n_settings)
            )
            for own, cases in zip(rows.scores.T, rows.watched.T, strict=True)
        ]
        return {
            "auroc": _mean_of(areas),
            "sensitivity": _mean_of([point.sensitivity for point in self.points]),
            "specificity": _mean_of([point.specificity for point in self.points]),
        }

    @cached_property
    def figures(self) -> Figures:
        """What a page shows of these rows."""
        held, seed = self.held, self.seed
        groups = held.groups
        rankings, curves, tables, subgroups, predictive, calibration = (
            {},
            {},
            {},
            {},
            {},
            {},
        )
        for m, (name, point) in enumerate(
            zip(held.task.watched, self.points, strict=True)
        ):
            scores, positive = held.scores[:, m], held.watched[:, m]
            curves[name] = curve(
                scores, positive, groups, seed=seed, prevalence=point.prevalence
            )
            tables[name] = held.selector(m, seed).points(point.prevalence)
            if held.subgroups is not None:
                subgroups[name] = performance_by_subgroup(
                    held.subgroups,
                    scores,
                    positive,
                    point.threshold,
                    groups,
                    held.shares[name].value,
                    point.rule,
                )
            predictive[name] = at_local_prevalence(
                point, held.shares[name], held.prevalence
            )
            if held.fixed is None:
                rankings[name] = ranking_summary(
                    scores, positive, groups, seed=seed, n_settings=held.n_settings
                )
                calibration[name] = calibrate(
                    scores,
                    positive,
                    held.fold,
                    point.prevalence,
                    groups,
                    held.one_class,
                )
            else:  # No interval is widened for folds and settings: none of them saw these rows.
                seen = performance(scores, positive, point.threshold, groups)
                rankings[name] = Ranking(**_shared_by(Ranking, seen))
                calibration[name] = calibration_elsewhere(
                    held.fixed.calibration[name],
                    scores,
                    positive,
                    groups,
                    held.prevalence,
                )
        confusion, rows = None, None
        if held.predicted is not None:
            confusion, rows = per_class(held.target, held.predicted, held.task.classes)
        return Figures(
            grouped=groups is not None,
            n_rows=len(held.fold),
            n_positive=int(held.watched.any(axis=1).sum()),
            n_groups=None if groups is None else len(np.unique(groups)),
            prevalence=held.shares,
            summary=rankings,
            curves=curves,
            points=tables,
            confusion=confusion,
            per_class=rows,
            subgroups=subgroups,
            predictive=predictive,
            calibration=calibration,
        )

    @cached_property
    def members(self) -> list[BlendMember]:
        """Of a blend: what each member does alone, on its scale, and what it adds to the others."""
        held, pooling = self.held, self.held.pooling
        if pooling is None:
            return []
        slopes, intercepts, weights = (
            values[:, held.task.watched_columns]
            for values in (pooling.slopes, pooling.intercepts, pooling.weights)
        )
        methods = [held.methods[recipe] for recipe in held.members]
        parts = weights * (
            np.stack([own.scores for own in methods], axis=1) * slopes + intercepts
        )
        members = []
        for j, ((recipe, title), alone) in enumerate(
            zip(held.members.items(), methods, strict=True)
        ):
            without, classes = np.delete(parts, j, axis=1).sum(axis=1), {}
            for m, (name, rule) in enumerate(
                zip(held.task.watched, self.rules, strict=True)
            ):
                threshold = alone.operating_point(m, rule, self.seed).threshold
                classes[name] = MemberAlone(
                    auroc=float(auroc(alone.scores[:, m], alone.watched[:, m])),
                    gain=auroc_difference(
                        held.scores[:, m],
                        without[:, m],
                        held.watched[:, m],
                        held.groups,
                        n_settings=held.n_settings,
                    ),
                    rule=rule,
                    threshold=float(threshold * slopes[j, m] + intercepts[j, m]),
                    weight=float(weights[j, m]),
                )
            members.append(BlendMember(recipe=recipe, title=title, classes=classes))
        return members

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The fields of `ValidationFacts` that a rule decides."""
        others = {
            "comparison": _comparison(self),
            "forward": _forward(self.held, self.rules, self.seed),
        }
        return vars(self.figures) | others


def judge(
    held: HeldOutScores, rules: Sequence[Rule], seed: int, *, refuse: bool = True
) -> Judgement:
    """Choose thresholds by a rule a watched class, and say what they do to rows nobody trained on.

    `rules`, one a watched class, have the prevalence that holds where the model is used. Where thresholds and
    chances are fixed, nothing is chosen: they are tried on these rows. `refuse`: whether what no model may
    promise is an error, which `chosen` raises; a method that others are compared with is shown as it is.
    """
    if held.fixed is not None:
        points = [
            _point_seen(held, m, threshold, rule)
            for m, (threshold, rule) in enumerate(
                zip(held.fixed.thresholds, rules, strict=True)
            )
        ]
    elif refuse:
        points = [chosen(held, m, rule, seed) for m, rule in enumerate(rules)]
    else:
        points = [held.operating_point(m, rule, seed) for m, rule in enumerate(rules)]
    return Judgement(held, rules, points, seed)


def chosen(held: HeldOutScores, m: int, rule: Rule, seed: int) -> OperatingPoint:
    """The threshold of a watched class, by its number, that a rule chooses.

    UsageError where only flagging every row could keep the rule, RecipeError where the machines do not do on
    their own rows what they promise.
    """
    name = held.task.watched[m]
    refuse_too_few(name, int(held.watched[:, m].sum()), rule)
    point = held.operating_point(m, rule, seed)
    if point.threshold <= FLAG_EVERYTHING and isinstance(rule, MinSensitivity):
        if rule.confidence is not None:
            raise UsageError(_too_few(name, point.n_positive, rule))
        raise UsageError(
            f"sensitivity {rule.value:g} of {name} would flag every row: many cases have the same values as "
            "most others, and no threshold parts them. Add a column that tells them apart, ask for less with "
            "--min-sensitivity, or take another rule such as --g-mean"
        )
    if held.trained is not None:
        check_model(held, m, point)
    return point


def _point_seen(
    held: HeldOutScores, m: int, threshold: float, rule: Rule
) -> OperatingPoint:
    """A threshold that was chosen elsewhere: its figures are what it does to these rows."""
    seen = performance(held.scores[:, m], held.watched[:, m], threshold, held.groups)
    figures = _shared_by(OperatingPoint, seen)
    if held.prevalence is not None:
        at_share = rates(seen.sensitivity, seen.specificity, held.prevalence)
        figures |= {"prevalence": held.prevalence} | at_share
    return OperatingPoint(rule=rule, misses=seen.false_negative, notes=(), **figures)


def _shared_by(declared: type[Document], *documents: Document) -> dict[str, Any]:
    """The fields of a document that other documents have."""
    return {
        name: getattr(document, name)
        for document in documents
        for name in declared.model_fields
        if hasattr(document, name)
    }


def _forward(held: HeldOutScores, rules: Sequence[Rule], seed: int) -> Forward | None:
    """The past judged by the rule, and what its thresholds and chances did to what came after."""
    later, facts = held.later, held.forward
    if later is None or facts is None:
        return facts
    own = dict(zip(held.task.watched, rules, strict=True))
    rules = [own[name] for name in later.task.watched]
    later = replace(
        later, recipe=held.recipe, shares=held.shares, one_class=held.one_class
    )
    try:
        earlier = judge(later.take(later.fold != AFTER), rules, seed)
    except (UsageError, RecipeError) as error:
        return facts.replace(reason=f"training on the past alone failed: {error}")
    fixed = Fixed(earlier.thresholds, earlier.figures.calibration)
    after = judge(replace(later.take(later.fold == AFTER), fixed=fixed), rules, seed)
    figures = after.figures
    classes = {
        name: LaterClass(
            **_shared_by(
                LaterClass, point, figures.summary[name], figures.calibration[name]
            )
        )
        for name, point in zip(later.task.watched, after.points, strict=True)
    }
    return facts.replace(classes=classes)


def _comparison(judgement: Judgement) -> BesideFacts | None:
    """Every baseline at thresholds chosen by the same rule from its own held-out scores."""
    held, rules, points = judgement.held, judgement.rules, judgement.points
    if held.beside is None:
        return None
    shared = [_shared(rule, point) for rule, point in zip(rules, points, strict=True)]
    rows = []
    for facts in held.beside:
        if facts.reason is None:
            other = judge(
                held.methods[facts.recipe], shared, judgement.seed, refuse=False
            )
            facts = facts.replace(
                thresholds=other.thresholds.tolist(),
                figures=_of_method(other),
                differences=differences(judgement, other),
            )
        rows.append(facts)
    return BesideFacts(
        rules=list(rules),
        rule=shared[0],
        n_watched=len(points),
        figures=_of_method(judgement),
        beside=rows,
    )


def _shared(rule: Rule, point: OperatingPoint) -> Rule:
    """The rule that chooses the others' thresholds: a threshold says nothing on another method's scale."""
    if not isinstance(rule, Threshold):
        return rule
    sensitivity = 0.5 if point.sensitivity.value is None else point.sensitivity.value
    return MinSensitivity(min(max(sensitivity, 0.01), 0.99), prevalence=rule.prevalence)


def _of_method(judgement: Judgement) -> dict[str, float | None]:
    rows, figures = (
        judgement.held,
        {name: mean.value for name, mean in judgement.means.items()},
    )
    if rows.predicted is None:
        return figures
    recalls = weighted_recalls(
        rows.target, rows.predicted, np.ones((1, len(rows.fold)))
    )
    return figures | {"macro_recall": float(recalls["macro_recall"][0])}


def differences(method: Judgement, other: Judgement) -> dict[str, Estimate]:
    """AUROC, sensitivity and specificity of a method minus those of another, with 95 % intervals.

    Over several watched classes means, of the ends of intervals too, as if all classes erred together. Where
    both thresholds were chosen for one sensitivity, its interval says how far other cases would move them.
    """
    own, others = method.held, other.held
    n_settings, groups = max(own.n_settings, others.n_settings), own.groups
    gaps: dict[str, list[Estimate]] = {
        "auroc": [],
        "sensitivity": [],
        "specificity": [],
    }
    for m, positive in enumerate(own.watched.T):
        pair = own.scores[:, m], others.scores[:, m]
        gaps["auroc"].append(
            auroc_difference(*pair, positive, groups, n_settings=n_settings)
        )
        for name, side, fold in (
            ("sensitivity", positive, None),
            ("specificity", ~positive, own.fold),
        ):
            clear, others_clear = (
                judged.flagged[side, m] == positive[side] for judged in (method, other)
            )
            of_fold, units = (
                None if values is None else values[side] for values in (fold, groups)
            )
            gaps[name].append(share_difference(clear, others_clear, of_fold, units))
    means = {name: _mean_of(classes) for name, classes in gaps.items()}
    if own.predicted is None or others.predicted is None:
        return means
    right = own.predicted == own.target, others.predicted == own.target
    return means | {"macro_recall": recall_difference(*right, own.target, groups)}


def _mean_of(classes: Sequence[Estimate]) -> Estimate:
    """Means over classes of a figure and of its ends; None where one is."""
    means = np.array([figure.ends for figure in classes], float).mean(axis=0)
    return Estimate(*(None if np.isnan(end) else end for end in means))


# Training cases flagged may fall short of the promise by this many standard errors, and by so much.
ERRORS_SHORT, SHORT = 3.0, 0.05

REMEDY = "try another recipe (logistic, svm_weighted), more settings with --search, or fewer columns with --drop"


def refuse_too_few(name: str, n_cases: int, rule: Rule) -> None:
    """UsageError where no method could promise the rule's sensitivity from so few cases of a class."""
    if isinstance(rule, MinSensitivity) and n_cases < _needed(rule):
        raise UsageError(_too_few(name, n_cases, rule))


def _too_few(name: str, m: int, rule: MinSensitivity) -> str:
    sure, needed = (
        "" if rule.confidence is None else f" with confidence {rule.confidence:g}",
        _needed(rule),
    )
    # What a threshold at the lowest of so many cases promises.
    most = (
        1 - 1 / (m + 1) if rule.confidence is None else (1 - rule.confidence) ** (1 / m)
    )
    return (
        f"{m} case(s) of {name} are too few to promise sensitivity {rule.value:g}{sure}: every row would be "
        f"flagged. {'More' if np.isinf(needed) else f'At least {needed:.0f}'} cases are needed, or ask for "
        f"less: --min-sensitivity {np.floor(100 * most) / 100:g}, or another rule such as --max-flag-rate 0.1"
    )


def _needed(rule: MinSensitivity) -> float:
    """How many cases promise what is asked with a threshold at the lowest."""
    sensitivity = rule.value
    if sensitivity >= 1:
        return np.inf
    if rule.confidence is None:
        cases = 1 / (1 - sensitivity) - 1
    else:
        cases = np.log(1 - rule.confidence) / np.log(sensitivity)
    return float(np.ceil(cases - 1e-9))


def check_model(held: HeldOutScores, m: int, point: OperatingPoint) -> None:
    """Refuse a model that does not do on its own rows what it promises of others (RecipeError).

    That is where scores cannot carry a threshold (`unusable`), or training cases are not flagged.
    """
    recipe = held.recipe
    assert held.trained is not None
    scores, positive = held.trained[:, [m]], held.watched[:, m]
    which = f" of {held.task.watched[m]}" if held.task.kind == "multi" else ""
    by_all = np.zeros(len(scores), int)
    for where, values, fold in (
        ("", scores, by_all),
        (" on held-out rows", held.repeats[0][:, [m]], held.fold),
    ):
        if why := unusable(values, positive.astype(int), fold):
            raise RecipeError(f"recipe {recipe}: {why}{which}{where}; {REMEDY}")
    flagged, promised = (
        float(np.mean(scores[positive] >= point.threshold)),
        point.sensitivity.value or 0.0,
    )
    error = np.sqrt(promised * (1 - promised) / positive.sum())
    if flagged < promised - max(ERRORS_SHORT * error, SHORT):
        raise RecipeError(
            f"recipe {recipe}: it promises to find {promised:.0%} of new cases{which} and flags "
            f"{flagged:.0%} of its own training cases; {REMEDY}"
        )
