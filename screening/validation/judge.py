"""One judgement: from scores of rows that no machine had seen, and a rule, to every figure of a page.

`train` makes the held-out scores and judges them; `threshold` reads them back from the model and judges them
by another rule; `validate` scores another cohort and tries there what the model had chosen. All call `judge`,
so no page can show figures of two rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.documents.figures import Observed, OperatingPoint, Ranking, Share
from screening.documents.model import BlendMember, MemberAlone
from screening.documents.validation import (
    Beside,
    BesideFacts,
    Calibration,
    Difference,
    Figures,
    Forward,
    LaterClass,
)
from screening.errors import RecipeError, UsageError
from screening.sources.columns import Columns
from screening.statistics.calibration import calibrate, calibration_elsewhere
from screening.statistics.operating_point import Rule
from screening.statistics.performance import at_local_prevalence, per_class, performance
from screening.statistics.ranking import auroc
from screening.statistics.subgroups import performance_by_subgroup
from screening.validation.checks import check_model, check_promise, refuse_too_few
from screening.validation.outcome import Outcome, Truth, measured, outcome_of
from screening.validation.paired import difference, differences, independent_units, resampled
from screening.validation.task import Task
from screening.validation.validation import Validation


@dataclass(frozen=True)
class Member:
    """A member of a blend, by itself.

    Parameters
    ----------
    recipe, title : str
    validation : Validation
        Its own held-out scores.
    slope, intercept : ndarray, shape (n_watched,)
        From its scores to the log odds that the blend averages.
    weight : ndarray, shape (n_watched,)
        Its share of the blend.
    """

    recipe: str
    title: str
    validation: Validation
    slope: np.ndarray
    intercept: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Baseline:
    """Another method on the same folds; without scores where it could not be trained, for `facts.reason`."""

    facts: Beside
    validation: Validation | None


@dataclass(frozen=True)
class Later:
    """A training on the past alone, and its scores of what came after; without them for `facts.reason`.

    Parameters
    ----------
    facts : Forward
        The cut and the numbers of rows; figures of no class yet.
    recipe : str
    task : Task
        Of the past, which may watch fewer classes.
    past : Validation
        Held-out scores of the past rows.
    trained : ndarray, shape (n_past, n_watched)
        Scores of the past rows by the stored machines.
    scores, watched : ndarray, shape (n_later, n_watched)
    groups : ndarray, shape (n_later,), or None
    past_rows, later_rows : ndarray of int
        Where either stands among all rows.
    """

    facts: Forward
    recipe: str
    task: Task
    past: Validation
    trained: np.ndarray
    scores: np.ndarray
    watched: np.ndarray
    groups: np.ndarray | None
    past_rows: np.ndarray
    later_rows: np.ndarray


@dataclass(frozen=True)
class Fixed:
    """What was chosen before these rows were seen: it is tried on them, and nothing is chosen by them.

    Parameters
    ----------
    thresholds : ndarray, shape (n_watched,)
    calibration : mapping from class to Calibration
    """

    thresholds: np.ndarray
    calibration: Mapping[str, Calibration]


@dataclass(frozen=True)
class HeldOutScores:
    """All that a model is judged by; no rule was asked to make it.

    Parameters
    ----------
    recipe : str
    task : Task
    validation : Validation
        Scores of the method itself.
    trained : ndarray, shape (n_rows, n_watched), or None
        Scores of the same rows by the stored machines, which have seen them; None of another cohort's rows.
    target : ndarray of int, shape (n_rows,)
    one_class : bool
        Whether nothing was learned from positives.
    subgroups : Columns of text, or None
    shares : mapping from class to Share
        Of each watched class in the whole table, of which the rows may be a sample.
    prevalence : float, optional
        As the caller or the contract states it.
    members : sequence of Member
    baselines : sequence of Baseline, or None
        None where no comparison was asked for.
    later : Later or Forward, optional
        A Forward says why there is none; None where the table has no dates.
    fixed : Fixed, optional
        Of another cohort than the model's: what the model had chosen.
    """

    recipe: str
    task: Task
    validation: Validation
    trained: np.ndarray | None
    target: np.ndarray
    one_class: bool
    subgroups: Columns | None
    shares: Mapping[str, Share]
    prevalence: float | None = None
    members: Sequence[Member] = ()
    baselines: Sequence[Baseline] | None = None
    later: Later | Forward | None = None
    fixed: Fixed | None = None

    @cached_property
    def truth(self) -> Truth:
        """What the rows really are."""
        several = self.target if self.task.kind == "multi" else None
        return Truth(self.validation.watched, several, len(self.task.classes))


@dataclass(frozen=True)
class Judgement:
    """Every figure of one rule, by watched class.

    Parameters
    ----------
    points : list of OperatingPoint
        In the order of the watched classes.
    figures : Figures
    members : list of BlendMember
    comparison : BesideFacts or None
    forward : Forward or None
    """

    points: list[OperatingPoint]
    figures: Figures
    members: list[BlendMember]
    comparison: BesideFacts | None
    forward: Forward | None

    @property
    def thresholds(self) -> np.ndarray:
        """One a watched class, shape (n_watched,)."""
        return np.array([point.threshold for point in self.points])

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of `ValidationFacts` that a rule decides."""
        return vars(self.figures) | {"comparison": self.comparison, "forward": self.forward}


def judge(held: HeldOutScores, rules: Sequence[Rule], seed: int) -> Judgement:
    """Choose thresholds by a rule a watched class, and say what they do to rows nobody trained on.

    Where thresholds and chances are fixed, nothing is chosen: they are tried on these rows.

    Parameters
    ----------
    held : HeldOutScores
    rules : sequence of Rule
        One a watched class; with the prevalence that holds where the model is used.
    seed : int

    Raises
    ------
    UsageError
        Only flagging every row could keep a rule.
    RecipeError
        The machines do not do on their own rows what they promise of others.
    """
    task, validation = held.task, held.validation
    if held.fixed is None:
        points = chosen(held.recipe, task, validation, held.trained, rules, seed)
        summary = {name: validation.ranking(m, seed) for m, name in enumerate(task.watched)}
    else:
        seen = observed(validation, held.fixed.thresholds)
        points = [_point_seen(one, rule) for one, rule in zip(seen, rules, strict=True)]
        summary = {name: Ranking(**_of(Ranking, one)) for name, one in zip(task.watched, seen, strict=True)}
    curves, tables, subgroups, predictive, calibration = {}, {}, {}, {}, {}
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        scores, positive = validation.scores[:, m], validation.watched[:, m]
        curves[name] = validation.curve(m, point.prevalence, seed)
        tables[name] = validation.points(m, point.prevalence, seed)
        if held.subgroups is not None:
            subgroups[name] = performance_by_subgroup(
                held.subgroups, scores, positive, point.threshold, validation.groups,
                held.shares[name].value, point.rule,
            )  # fmt: skip
        predictive[name] = at_local_prevalence(point, held.shares[name], held.prevalence)
        if held.fixed is None:
            calibration[name] = calibrate(
                scores, positive, validation.fold, point.prevalence, validation.groups, held.one_class
            )
        else:
            calibration[name] = calibration_elsewhere(
                held.fixed.calibration[name], scores, positive, validation.groups
            )
    confusion, rows = None, None
    if validation.predicted is not None:
        confusion, rows = per_class(held.target, validation.predicted, task.classes)
    groups = validation.groups
    return Judgement(
        points=points,
        figures=Figures(
            grouped=groups is not None,
            n_rows=len(held.target),
            n_positive=int(validation.watched.any(axis=1).sum()),
            n_groups=None if groups is None else len(np.unique(groups)),
            prevalence=held.shares,
            summary=summary,
            curves=curves,
            points=tables,
            confusion=confusion,
            per_class=rows,
            subgroups=subgroups,
            predictive=predictive,
            calibration=calibration,
        ),
        members=[_member(member, task, rules, seed) for member in held.members],
        comparison=_comparison(held, points, rules, seed),
        forward=_forward(held, rules, seed),
    )


def chosen(
    recipe: str,
    task: Task,
    validation: Validation,
    trained: np.ndarray | None,
    rules: Sequence[Rule],
    seed: int,
) -> list[OperatingPoint]:
    """The operating points of the rules, one a watched class; refused as `judge` refuses them."""
    refuse_too_few(task, validation.watched, rules)
    points = [validation.operating_point(m, rule, seed) for m, rule in enumerate(rules)]
    check_promise(task, points)
    if trained is not None:
        check_model(recipe, task, points, validation, trained)
    return points


def observed(validation: Validation, thresholds: np.ndarray) -> list[Observed]:
    """What thresholds chosen elsewhere do to rows, one a watched class."""
    return [
        performance(validation.scores[:, m], validation.watched[:, m], threshold, validation.groups)
        for m, threshold in enumerate(thresholds)
    ]


def _point_seen(seen: Observed, rule: Rule) -> OperatingPoint:
    """An operating point of another cohort: its figures are what was seen there."""
    return OperatingPoint(rule=rule, misses=seen.false_negative, notes=(), **_of(OperatingPoint, seen))


def _of(declared: type, seen: Observed) -> dict[str, Any]:
    """Those figures of a threshold chosen elsewhere that another document has."""
    return {one.name: getattr(seen, one.name) for one in fields(declared) if hasattr(seen, one.name)}


def _member(member: Member, task: Task, rules: Sequence[Rule], seed: int) -> BlendMember:
    """What a member of a blend does alone, on the scale of its log odds."""
    alone, classes = member.validation, {}
    for m, (name, rule) in enumerate(zip(task.watched, rules, strict=True)):
        threshold = alone.operating_point(m, rule, seed).threshold
        classes[name] = MemberAlone(
            auroc=float(auroc(alone.scores[:, m], alone.watched[:, m])),
            rule=rule,
            threshold=float(threshold * member.slope[m] + member.intercept[m]),
            weight=float(member.weight[m]),
        )
    return BlendMember(recipe=member.recipe, title=member.title, classes=classes)


def _forward(held: HeldOutScores, rules: Sequence[Rule], seed: int) -> Forward | None:
    """The threshold that the rule would have chosen in the past, on what came after."""
    later = held.later
    if not isinstance(later, Later):
        return later
    own = dict(zip(held.task.watched, rules, strict=True))
    watched = later.task.watched
    try:
        asked = [own[name] for name in watched]
        points = chosen(later.recipe, later.task, later.past, later.trained, asked, seed)
    except (UsageError, RecipeError) as error:
        return replace(later.facts, reason=f"training on the past alone failed: {error}")
    classes = {
        name: LaterClass(
            rule=rule,
            **_of(
                LaterClass,
                performance(later.scores[:, m], later.watched[:, m], points[m].threshold, later.groups),
            ),
        )
        for m, (name, rule) in enumerate(zip(watched, asked, strict=True))
    }
    return replace(later.facts, classes=classes)


def _comparison(
    held: HeldOutScores, points: Sequence[OperatingPoint], rules: Sequence[Rule], seed: int
) -> BesideFacts | None:
    """Every baseline at thresholds chosen by the same rule from its own held-out scores."""
    if held.baselines is None:
        return None
    shared = [_shared(rule, point) for rule, point in zip(rules, points, strict=True)]
    own = outcome_of(held.validation, points)
    rows = []
    for baseline in held.baselines:
        found = baseline.validation
        if found is None:
            rows.append(baseline.facts)
            continue
        chosen = [found.operating_point(m, rule, seed) for m, rule in enumerate(shared)]
        outcome = outcome_of(found, chosen)
        figures, gaps = _compared(own, outcome, held.truth, held.validation.groups, seed)
        thresholds = outcome.thresholds.tolist()
        rows.append(replace(baseline.facts, thresholds=thresholds, figures=figures, differences=gaps))
    figures = _figures(own, held.truth)
    return BesideFacts(rules=list(rules), rule=shared[0], n_watched=len(points), figures=figures, beside=rows)


def _shared(rule: Rule, point: OperatingPoint) -> Rule:
    """The rule that chooses the others' thresholds: a threshold says nothing on another method's scale."""
    if rule.name != "threshold":
        return rule
    sensitivity = 0.5 if point.sensitivity is None else point.sensitivity
    return Rule("min_sensitivity", min(max(sensitivity, 0.01), 0.99), prevalence=rule.prevalence)


def _figures(outcome: Outcome, truth: Truth) -> dict[str, float | None]:
    figures = {name: figure.value for name, figure in outcome.figures.items()}
    several = {} if truth.target is None else {"macro_recall": _recall(outcome, truth)}
    return figures | several


def _compared(
    own: Outcome, other: Outcome, truth: Truth, groups: np.ndarray | None, seed: int
) -> tuple[dict[str, float | None], dict[str, Difference]]:
    """Figures of another method, and what the method's own are above them."""
    figures, gaps = _figures(other, truth), differences(own, other, truth, groups)
    if truth.target is not None:
        pair = {"own": own, "other": other}
        draws = resampled(pair, dict.fromkeys(pair, truth), groups, 0.9, seed=seed)
        gaps["macro_recall"] = difference(
            (_recall(own, truth), figures["macro_recall"] or 0.0),
            (draws["own"]["macro_recall"], draws["other"]["macro_recall"]),
            independent_units(truth, groups),
        )
    return figures, gaps


def _recall(outcome: Outcome, truth: Truth) -> float:
    return float(measured(outcome, truth, 0.9)["macro_recall"][0])
