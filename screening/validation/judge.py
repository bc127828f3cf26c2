"""One judgement: from scores of rows that no machine had seen, and a rule, to every figure of a page.

`train` makes the held-out scores and judges them; `threshold` reads them back from the model and judges them
by another rule; `validate` scores another cohort and tries there what the model had chosen. All call `judge`,
so no page can show figures of two rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
from screening.statistics.operating_point import FLAG_EVERYTHING, Rule
from screening.statistics.performance import at_local_prevalence, per_class, performance
from screening.statistics.ranking import auroc
from screening.statistics.subgroups import performance_by_subgroup
from screening.statistics.threshold_search import pick
from screening.validation.paired import difference, differences, independent_units, resampled
from screening.validation.search import FARTHEST_APART, ROUNDING, apart
from screening.validation.task import Task
from screening.validation.validation import Outcome, Validation, measured


@dataclass(frozen=True)
class Member:
    """A member of a blend, by itself."""

    recipe: str
    title: str
    validation: Validation  # its own held-out scores
    # slope, intercept, weight: shape (n_watched,), from its scores to what the blend averages,
    # and its share of it
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
    """A training on the past alone, and its scores of what came after."""

    facts: Forward  # the cut and the numbers of rows; figures of no class yet
    past: HeldOutScores  # whose task may watch fewer classes
    later: Validation
    # where either stands among all rows
    past_rows: np.ndarray
    later_rows: np.ndarray


@dataclass(frozen=True)
class Fixed:
    """What was chosen before these rows were seen: it is tried on them, and nothing is chosen by them."""

    thresholds: np.ndarray  # (n_watched,)
    calibration: Mapping[str, Calibration]


@dataclass(frozen=True)
class HeldOutScores:
    """All that a model is judged by; no rule was asked to make it."""

    recipe: str
    task: Task
    validation: Validation  # scores of the method itself
    # (n_rows, n_watched), of the same rows by the stored machines, which have seen them; None of another
    # cohort's rows
    trained: np.ndarray | None
    # of each watched class in the whole table, of which the rows may be a sample
    shares: Mapping[str, Share] = field(default_factory=dict)
    one_class: bool = False  # whether nothing was learned from positives
    subgroups: Columns | None = None  # text
    prevalence: float | None = None  # as the caller or the contract states it
    members: Sequence[Member] = ()
    baselines: Sequence[Baseline] | None = None  # None where no comparison was asked for
    # a Forward says why there is none; None where the table has no dates
    later: Later | Forward | None = None
    fixed: Fixed | None = None  # of another cohort than the model's: what the model had chosen


@dataclass(frozen=True)
class Judgement:
    """Every figure of one rule."""

    points: list[OperatingPoint]  # in the order of the watched classes
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

    `rules`, one a watched class, have the prevalence that holds where the model is used. Where thresholds and
    chances are fixed, nothing is chosen: they are tried on these rows. UsageError where only flagging every
    row could keep a rule, RecipeError where the machines do not do on their own rows what they promise.
    """
    task, validation = held.task, held.validation
    if held.fixed is None:
        points = _chosen(held, rules, seed)
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
    if validation.predicted is not None and validation.target is not None:
        confusion, rows = per_class(validation.target, validation.predicted, task.classes)
    groups = validation.groups
    return Judgement(
        points=points,
        figures=Figures(
            grouped=groups is not None,
            n_rows=len(validation.fold),
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


def _chosen(held: HeldOutScores, rules: Sequence[Rule], seed: int) -> list[OperatingPoint]:
    refuse_too_few(held.task, held.validation.watched, rules)
    points = held.validation.operating_points(rules, seed)
    check_promise(held.task, points)
    assert held.trained is not None, "of another cohort nothing is chosen"
    check_model(held.recipe, held.task, points, held.validation, held.trained)
    return points


def observed(validation: Validation, thresholds: Iterable[float]) -> list[Observed]:
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
    """What a member of a blend does alone, on the scale of the blend."""
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
    own, watched = dict(zip(held.task.watched, rules, strict=True)), later.past.task.watched
    try:
        points = _chosen(later.past, [own[name] for name in watched], seed)
    except (UsageError, RecipeError) as error:
        return replace(later.facts, reason=f"training on the past alone failed: {error}")
    seen = observed(later.later, [point.threshold for point in points])
    classes = {
        name: LaterClass(rule=own[name], **_of(LaterClass, one))
        for name, one in zip(watched, seen, strict=True)
    }
    return replace(later.facts, classes=classes)


def _comparison(
    held: HeldOutScores, points: Sequence[OperatingPoint], rules: Sequence[Rule], seed: int
) -> BesideFacts | None:
    """Every baseline at thresholds chosen by the same rule from its own held-out scores."""
    if held.baselines is None:
        return None
    shared = [_shared(rule, point) for rule, point in zip(rules, points, strict=True)]
    own = Outcome(held.validation, points)
    rows = []
    for baseline in held.baselines:
        if baseline.validation is None:
            rows.append(baseline.facts)
            continue
        other = Outcome(baseline.validation, baseline.validation.operating_points(shared, seed))
        rows.append(
            replace(
                baseline.facts,
                thresholds=other.thresholds.tolist(),
                figures=_figures(other),
                differences=_differences(own, other, seed),
            )
        )
    figures = _figures(own)
    return BesideFacts(rules=list(rules), rule=shared[0], n_watched=len(points), figures=figures, beside=rows)


def _shared(rule: Rule, point: OperatingPoint) -> Rule:
    """The rule that chooses the others' thresholds: a threshold says nothing on another method's scale."""
    if rule.name != "threshold":
        return rule
    sensitivity = 0.5 if point.sensitivity is None else point.sensitivity
    return Rule("min_sensitivity", min(max(sensitivity, 0.01), 0.99), prevalence=rule.prevalence)


def _figures(outcome: Outcome) -> dict[str, float | None]:
    figures = {name: figure.value for name, figure in outcome.figures.items()}
    several = {} if outcome.validation.target is None else {"macro_recall": _recall(outcome)}
    return figures | several


def _differences(own: Outcome, other: Outcome, seed: int) -> dict[str, Difference]:
    """What the method's own figures are above another's."""
    gaps = differences(own, other)
    if own.validation.target is not None:
        mine, theirs = (figures["macro_recall"] for figures in resampled([own, other], 0.9, seed=seed))
        gaps["macro_recall"] = difference(
            (_recall(own), _recall(other)), (mine, theirs), independent_units(own.validation)
        )
    return gaps


def _recall(outcome: Outcome) -> float:
    return float(measured(outcome, 0.9)["macro_recall"][0])


# Training cases flagged may fall short of the promise by this many standard errors, and by so much.
ERRORS_SHORT, SHORT = 3.0, 0.05

REMEDY = (
    "try another recipe (logistic, svm_weighted), more settings with --search, or fewer columns with --drop"
)


def refuse_too_few(task: Task, watched: np.ndarray, rules: Sequence[Rule]) -> None:
    """Refuse a sensitivity that no method could promise from so few cases, before any is trained.

    `watched` (n_rows, n_watched) says of which class the rows to train on are cases; the UsageError names the
    class, its cases and how many the rule needs.
    """
    for name, positive, rule in zip(task.watched, watched.T, rules, strict=True):
        if rule.name != "min_sensitivity":
            continue
        m, n = int(positive.sum()), int((~positive).sum())
        # The best there could be: beside flagging everything, all cases and nobody else.
        if pick(rule, np.array([m, m]), np.array([n, 0]), design=1.0) == 0:
            raise UsageError(_too_few(name, m, rule))


def check_promise(task: Task, points: Sequence[OperatingPoint]) -> None:
    """Refuse a rule that only flagging every row can keep.

    The UsageError names the class, its cases and how many the rule needs.
    """
    for name, point in zip(task.watched, points, strict=True):
        if point.threshold > FLAG_EVERYTHING or point.rule.name != "min_sensitivity":
            continue
        asked, m = point.rule.value or 0.0, point.n_positive
        if point.rule.confidence is None and asked <= _most(m, point.rule):
            raise UsageError(
                f"sensitivity {asked:g} of {name} would flag every row: many cases have the same values as "
                "most others, and no threshold parts them. Add a column that tells them apart, ask for less "
                "with --min-sensitivity, or take another rule such as --g-mean"
            )
        raise UsageError(_too_few(name, m, point.rule))


def _too_few(name: str, m: int, rule: Rule) -> str:
    asked = rule.value or 0.0
    sure = "" if rule.confidence is None else f" with confidence {rule.confidence:g}"
    return (
        f"{m} case(s) of {name} are too few to promise sensitivity {asked:g}{sure}: every row would be "
        f"flagged. At least {_needed(rule)} cases are needed; or ask for less: --min-sensitivity "
        f"{np.floor(100 * _most(m, rule)) / 100:g}, or another rule such as --max-flag-rate 0.1"
    )


def _most(m: int, rule: Rule) -> float:
    """The sensitivity that a threshold at the lowest of m cases promises."""
    return 1 - 1 / (m + 1) if rule.confidence is None else float((1 - rule.confidence) ** (1 / m))


def _needed(rule: Rule) -> str:
    """How many cases promise what is asked with a threshold at the lowest."""
    asked = rule.value or 0.0
    if asked >= 1:
        return "more"
    cases = 1 / (1 - asked) - 1 if rule.confidence is None else np.log(1 - rule.confidence) / np.log(asked)
    return str(int(np.ceil(cases - 1e-9)))


def check_model(
    recipe: str, task: Task, points: Sequence[OperatingPoint], validation: Validation, own: np.ndarray
) -> None:
    """Refuse a model that does not do on its own rows what it promises of others (RecipeError).

    That is where scores are constant or not finite, folds lie apart, or training cases are not flagged. `own`
    (n_rows, n_watched) are scores of the training rows by the model as it will be stored.
    """
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        scores, positive = own[:, m], validation.watched[:, m]
        which = f" of {name}" if task.kind == "multi" else ""
        for words, values in (("", scores), (" on held-out rows", validation.scores[:, m])):
            if not np.isfinite(values).all():
                raise RecipeError(f"recipe {recipe}: its scores{which}{words} are not finite; {REMEDY}")
            if np.ptp(values) <= ROUNDING * np.abs(values).max():
                raise RecipeError(
                    f"recipe {recipe}: it scores all rows alike{which}{words} (but for rounding); {REMEDY}"
                )
        if apart(validation.repeats[0, ~positive, m], validation.fold[~positive]) > FARTHEST_APART:
            raise RecipeError(f"recipe {recipe}: the machines of its folds lie apart{which}; {REMEDY}")
        found = float(np.mean(scores[positive] >= point.threshold))
        promised = point.sensitivity or 0.0
        error = np.sqrt(promised * (1 - promised) / positive.sum())
        if found < promised - max(ERRORS_SHORT * error, SHORT):
            raise RecipeError(
                f"recipe {recipe}: it promises to find {promised:.0%} of new cases{which} and flags "
                f"{found:.0%} of its own training cases; {REMEDY}"
            )
