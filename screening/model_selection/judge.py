"""Judging held-out scores by a rule: every figure of a page comes from here.

`train` makes the held-out scores and judges them, `compare` those of several methods;
`threshold` takes those of the model and judges them by another rule; `validate` scores
another cohort and applies what the model had chosen. All call `judge`, so no page can
show figures of two rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from operator import call, or_
from typing import Any

import numpy as np

from screening.errors import PromiseError, UsageError
from screening.metrics.calibration import (
    calibrate,
    calibration_elsewhere,
    refit_calibration,
)
from screening.metrics.chances import chance_at_threshold, chances_at
from screening.metrics.evaluated_rows import EvaluatedRows, weights_of_table
from screening.metrics.figures import (
    Rates,
    Table,
    evaluate,
    evaluate_differences,
    evaluate_rates,
    figures_in,
)
from screening.metrics.intervals import share_range
from screening.metrics.operating_point import FLAG_EVERYTHING
from screening.metrics.paired import recall_difference, weighted_recalls
from screening.metrics.performance import (
    at_local_prevalence,
    curve,
    figures_at_prevalence,
    per_class,
    population_of,
)
from screening.metrics.subgroups import (
    performance_by_subgroup,
    performance_in_cells,
)
from screening.model_selection.scores import (
    AFTER,
    FrozenOperatingPoints,
    HeldOutScores,
    Population,
)
from screening.model_selection.search import unusable
from screening.model_selection.without_cases import n_cases_needed, refuse_rule
from screening.parallel import in_parallel
from screening.schemas.base import Estimate, PopulationFigures
from screening.schemas.figures import (
    MinSensitivity,
    OperatingPoint,
    Rule,
    Threshold,
)
from screening.schemas.model import BlendMember, MemberAlone
from screening.schemas.validation import (
    Beside,
    BesideFacts,
    Calibration,
    Figures,
    Forward,
    LaterClass,
)
from screening.spelling import quoted_list

# Figures of fewer rows take less time than sending the rows to processes.
MIN_ROWS_FOR_PROCESSES = 5_000
# Fields of `Figures` with an entry for each watched class.
CLASS_FIGURES = (
    "summary",
    "curves",
    "points",
    "subgroups",
    "crossed",
    "predictive",
    "calibration",
)


@dataclass(frozen=True)
class Judgement:
    """Held-out scores at the operating points of a rule; figures are computed lazily.

    Parameters
    ----------
    held : HeldOutScores
    points : list of OperatingPoint
        One per watched class.
    seed : int
    """

    held: HeldOutScores
    points: list[OperatingPoint]
    seed: int

    @property
    def thresholds(self) -> np.ndarray:
        """One threshold per watched class, shape (n_watched,)."""
        return np.array([point.threshold for point in self.points])

    @property
    def flagged(self) -> np.ndarray:
        """Mask of flagged rows at the thresholds, shape (n_rows, n_watched)."""
        return self.held.scores >= self.thresholds

    @cached_property
    def operating_points(self) -> list[OperatingPoint]:
        """The points, with what needs a calibrated chance at the threshold too."""
        return [
            _point_in_use(self, m, figures["calibration"])
            for m, figures in enumerate(self.class_figures)
        ]

    def chance_at_threshold(self, m: int) -> float | None:
        """Return the calibrated chance at the threshold of a watched class, if any."""
        return chance_at_threshold(_calibration(self, m), self.points[m].threshold)

    def rows(self, m: int) -> EvaluatedRows:
        """Return the rows of a watched class, by its number, at its threshold."""
        held = self.held
        return EvaluatedRows(
            held.scores[:, m],
            held.watched[:, m],
            self.points[m].threshold,
            held.groups,
            fold=held.fold,
            n_settings=None if held.frozen is not None else held.n_settings,
            seed=self.seed,
        )

    def figures_of(self, m: int, table: Table) -> dict[str, Estimate]:
        """Return figures of a watched class, by its number, at its threshold.

        Those that its operating point has are the expected ones of new rows.
        """
        figures = evaluate(self.rows(m), figures_in(table))
        expected = self.points[m].figures
        return figures | {name: expected[name] for name in figures if name in expected}

    @cached_property
    def means(self) -> Mapping[str, Estimate]:
        """Figures of the table of methods, means over the watched classes."""
        n_classes = len(self.points)
        return means_over_classes(
            [self.figures_of(m, "baselines") for m in range(n_classes)]
        )

    @cached_property
    def figures(self) -> Figures:
        """Everything that a page shows of these rows."""
        held = self.held
        by_class: dict[str, dict[str, Any]] = {name: {} for name in CLASS_FIGURES}
        for name, figures in zip(held.task.watched, self.class_figures, strict=True):
            for figure, value in figures.items():
                by_class[figure][name] = value
        confusion = None
        class_rows = None
        if held.predicted is not None:
            confusion, class_rows = per_class(
                held.target, held.predicted, held.task.classes
            )
        groups = held.groups
        n_groups = None if groups is None else len(np.unique(groups))
        return Figures(
            grouped=groups is not None,
            n_rows=len(held.fold),
            n_positive=int(held.watched.any(axis=1).sum()),
            n_groups=n_groups,
            prevalence=held.population.shares,
            confusion=confusion,
            per_class=class_rows,
            own_boundary=self.own_boundary,
            **by_class,
        )

    @cached_property
    def class_figures(self) -> list[dict[str, Any]]:
        """Figures of each watched class."""
        n_classes = len(self.points)
        return [
            _figures_of_class(self, m, [part(self, m) for part in CLASS_PARTS])
            for m in range(n_classes)
        ]

    @cached_property
    def own_boundary(self) -> dict[str, PopulationFigures] | None:
        """Performance of the machine's own boundary, by watched class.

        None where it is not known, and where no case has been seen.
        """
        held = self.held
        flagged = held.at_own_boundary
        if flagged is None or not held.watched.any():
            return None
        figures = {}
        for m, name in enumerate(held.task.watched):
            as_scores = flagged[:, m].astype(float)
            rows = EvaluatedRows(as_scores, held.watched[:, m], 1.0, held.groups)
            of_class = evaluate(rows, figures_in("own_boundary"))
            figures[name] = PopulationFigures(figures=of_class)
        return figures

    @cached_property
    def members(self) -> list[BlendMember]:
        """Performance of each member of a blend alone, and what it adds."""
        return [_member_alone(self, j) for j in range(self._n_members)]

    @cached_property
    def baselines(self) -> list[Beside]:
        """Other methods on the same folds, with their figures."""
        return [_judged_baseline(self, k) for k in range(self._n_baselines)]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The fields of `ValidationFacts` that depend on the rule."""
        comparison = None
        if self.held.others.baselines is not None:
            comparison = BesideFacts(
                rules=[point.rule for point in self.points],
                rule=self.shared_rules[0],
                n_watched=len(self.points),
                figures=_method_figures(self),
                beside=self.baselines,
            )
        return {
            **vars(self.figures),
            "comparison": comparison,
            "forward": self.temporal_validation,
        }

    @property
    def shared_rules(self) -> list[Rule]:
        """Rules that choose the thresholds of other methods, one per watched class."""
        return list(map(_shared_rule, self.points))

    @cached_property
    def temporal_validation(self) -> Forward | None:
        """The past judged by the rule, and its thresholds on what came after."""
        held = self.held
        later = held.temporal_validation.scores
        facts = held.temporal_validation.facts
        if later is None or facts is None:
            return facts
        point_of_class = dict(zip(held.task.watched, self.points, strict=True))
        rules = [point_of_class[name].rule for name in later.task.watched]
        later = replace(
            later,
            recipe=held.recipe,
            population=Population(held.population.shares),
            without_cases=held.without_cases,
        )
        try:
            earlier = judge(later.take(later.fold != AFTER), rules, self.seed)
        except UsageError as error:
            return facts.replace(reason=f"training on the past alone failed: {error}")
        frozen = FrozenOperatingPoints(earlier.thresholds, earlier.figures.calibration)
        after_cut = replace(later.take(later.fold == AFTER), frozen=frozen)
        after = judge(after_cut, rules, self.seed)
        classes = {}
        for m, (name, point) in enumerate(
            zip(later.task.watched, after.points, strict=True)
        ):
            calibration = after.figures.calibration[name]
            classes[name] = LaterClass(
                rule=point.rule,
                threshold=point.threshold,
                n_positive=point.n_positive,
                n_negative=point.n_negative,
                figures=after.figures_of(m, "temporal_validation"),
                observed_expected=calibration.observed_expected,
                slope=calibration.slope,
                intercept=calibration.intercept,
            )
        return facts.replace(classes=classes)

    def compute(self, jobs: int) -> None:
        """Compute all figures in parallel if there are many rows.

        Otherwise each is computed when it is first used.
        """
        if len(self.held.fold) < MIN_ROWS_FOR_PROCESSES:
            return
        n_classes = len(self.points)
        tasks: list[tuple[Any, ...]] = []
        for m in range(n_classes):
            tasks += [(part, self, m) for part in CLASS_PARTS]
        tasks += [(_judged_baseline, self, k) for k in range(self._n_baselines)]
        tasks += [(_member_alone, self, j) for j in range(self._n_members)]
        of_all_classes = ("own_boundary", "temporal_validation")
        tasks += [(getattr, self, name) for name in of_all_classes]
        results = in_parallel(call, tasks, jobs=jobs)
        # Cached properties take their values from here.
        vars(self).update(
            class_figures=[
                _figures_of_class(self, m, islice(results, len(CLASS_PARTS)))
                for m in range(n_classes)
            ],
            baselines=list(islice(results, self._n_baselines)),
            members=list(islice(results, self._n_members)),
            **dict(zip(of_all_classes, results, strict=True)),
        )

    @property
    def _n_members(self) -> int:
        others = self.held.others
        return 0 if others.pooling is None else len(others.members)

    @property
    def _n_baselines(self) -> int:
        return len(self.held.others.baselines or ())


def _figures_of_class(
    judgement: Judgement, m: int, parts: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """Return the figures of all parts of a watched class, by its number.

    Operating points, and predictive values, get the figures that need a calibrated
    chance at the threshold.
    """
    figures = reduce(or_, parts)
    held = judgement.held
    calibration = figures["calibration"]
    figures["points"] = [
        with_chance(held, m, point, calibration) for point in figures["points"]
    ]
    if held.watched[:, m].any():
        point = _point_in_use(judgement, m, calibration)
        figures["predictive"] = at_local_prevalence(
            point,
            held.population.shares[held.task.watched[m]],
            held.population.prevalence,
            chance_at_threshold(calibration, point.threshold),
        )
    return figures


def _point_in_use(
    judgement: Judgement, m: int, calibration: Calibration
) -> OperatingPoint:
    """Return the operating point of a watched class, by its number, with all figures.

    A point that was chosen elsewhere has them already.
    """
    point = judgement.points[m]
    if judgement.held.frozen is not None:
        return point
    return with_chance(judgement.held, m, point, calibration)


def with_chance(
    held: HeldOutScores,
    m: int,
    point: OperatingPoint,
    calibration: Calibration | None,
) -> OperatingPoint:
    """Return an operating point with what needs a calibrated chance at its threshold.

    `m` is the number of its class. Intervals include the uncertainty of the prevalence
    unless that was stated.
    """
    chance = chance_at_threshold(calibration, point.threshold)
    if chance is None or point.prevalence is None:
        return point
    prevalence = Estimate(*[point.prevalence] * 3)
    if point.rule.prevalence is None:
        prevalence = share_range(held.watched[:, m], held.codes)
    expected = Rates(point["sensitivity"], point["specificity"], prevalence, chance)
    of_chance = [
        figure
        for figure in figures_in("operating_point")
        if "chance_at_threshold" in figure.needs
    ]
    figures = evaluate_rates(expected, of_chance)
    return point.replace(figures={**point.figures, **figures})


def _ranking(judgement: Judgement, m: int) -> dict[str, Any]:
    """Return how a watched class, by its number, is ranked."""
    return {"summary": population_of(judgement.rows(m), "summary")}


def _other_points(judgement: Judgement, m: int) -> dict[str, Any]:
    """Return other operating points of a watched class, by its number."""
    selector = judgement.held.selector(m, judgement.seed)
    return {"points": selector.points(judgement.points[m].prevalence)}


def _curve_of_class(judgement: Judgement, m: int) -> dict[str, Any]:
    """Return the curve of a watched class; nothing if no case has been seen."""
    held = judgement.held
    positive = held.watched[:, m]
    if not positive.any():
        return {}
    curves = curve(
        held.scores[:, m],
        positive,
        held.groups,
        seed=judgement.seed,
        prevalence=judgement.points[m].prevalence,
    )
    return {"curves": curves}


def _chances(judgement: Judgement, m: int) -> dict[str, Any]:
    """Return the calibration of a watched class, and its figures in subgroups."""
    held = judgement.held
    point = judgement.points[m]
    scores = held.scores[:, m]
    calibration = _calibration(judgement, m)
    figures: dict[str, Any] = {"calibration": calibration}
    subgroups = held.population.subgroups
    if subgroups is not None:
        chance = None
        if calibration.earned and calibration.platt is not None:
            chance = chances_at(scores, calibration.platt)[0]
        positive = held.watched[:, m]
        prevalence = held.population.shares[held.task.watched[m]].value
        rows = EvaluatedRows(
            scores,
            positive,
            point.threshold,
            held.groups,
            chance,
            weights_of_table(positive, prevalence),
            min_units=held.population.suppress,
            chance_at_threshold=chance_at_threshold(calibration, point.threshold),
        )
        figures["subgroups"] = performance_by_subgroup(subgroups, rows, point.rule)
        figures["crossed"] = performance_in_cells(subgroups, rows, point.rule)
    return figures


CLASS_PARTS = (_ranking, _chances, _other_points, _curve_of_class)
"""Functions that compute the figures of a watched class, the slowest first."""


def _calibration(judgement: Judgement, m: int) -> Calibration:
    """Return the calibration of a watched class, by its number."""
    held = judgement.held
    scores = held.scores[:, m]
    positive = held.watched[:, m]
    name = held.task.watched[m]
    if held.frozen is not None:
        written = held.frozen.calibration[name]
        return calibration_elsewhere(
            written, scores, positive, held.groups, held.population.prevalence
        )
    prevalence = judgement.points[m].prevalence
    if not positive.any() or prevalence is None:
        return Calibration(earned=False, reason="no case has been seen")
    if held.source_calibration is not None:
        written = held.source_calibration[name]
        if written.platt is not None:
            return refit_calibration(
                written.platt, scores, positive, held.fold, prevalence, held.groups
            )
    return calibrate(scores, positive, held.fold, prevalence, held.groups)


def _member_alone(judgement: Judgement, j: int) -> BlendMember:
    """Return the performance of a member of a blend, by its number, alone.

    With what it adds to the others.
    """
    held = judgement.held
    pooling = held.others.pooling
    assert pooling is not None
    columns = held.task.watched_columns
    slopes = pooling.slopes[:, columns]
    intercepts = pooling.intercepts[:, columns]
    weights = pooling.weights[:, columns]
    methods = [held.others.scores[recipe] for recipe in held.others.members]
    scores = np.stack([method.scores for method in methods], axis=1)
    parts = weights * (scores * slopes + intercepts)
    without = np.delete(parts, j, axis=1).sum(axis=1)
    alone = methods[j]
    classes = {}
    for m, name in enumerate(held.task.watched):
        rule = judgement.points[m].rule
        threshold = alone.operating_point(m, rule, judgement.seed).threshold
        rows = judgement.rows(m)
        own_rows = replace(rows, scores=alone.scores[:, m], threshold=threshold)
        of_others = replace(rows, scores=without[:, m])
        classes[name] = MemberAlone(
            figures=evaluate(own_rows, figures_in("members")),
            gains=evaluate_differences(rows, of_others, figures_in("members")),
            rule=rule,
            threshold=float(threshold * slopes[j, m] + intercepts[j, m]),
            weight=float(weights[j, m]),
        )
    recipe, title = list(held.others.members.items())[j]
    return BlendMember(recipe=recipe, title=title, classes=classes)


def judge(
    held: HeldOutScores, rules: Sequence[Rule], seed: int, *, refuse: bool = True
) -> Judgement:
    """Choose thresholds by rules and judge them on held-out scores.

    If thresholds and probabilities are fixed nothing is chosen: they are applied to
    these rows.

    Parameters
    ----------
    held : HeldOutScores
    rules : sequence of Rule
        One per watched class, with the prevalence at the place of use.
    seed : int
    refuse : bool
        Raise the errors of ``choose_point``. A method that others are compared with is
        judged without.
    """
    if held.frozen is not None:
        points = [
            _observed_point(held, m, threshold, rules[m], seed)
            for m, threshold in enumerate(held.frozen.thresholds)
        ]
    elif refuse:
        points = [choose_point(held, m, rule, seed) for m, rule in enumerate(rules)]
    else:
        points = [held.operating_point(m, rule, seed) for m, rule in enumerate(rules)]
    return Judgement(held, points, seed)


def choose_point(held: HeldOutScores, m: int, rule: Rule, seed: int) -> OperatingPoint:
    """Choose the operating point of a watched class, by number, by a rule.

    Raises
    ------
    UsageError
        If a model without cases cannot keep the rule.
    PromiseError
        If only flagging every row could keep the rule, or the machines do not do on
        their own training rows what they promise.
    """
    name = held.task.watched[m]
    n_cases = int(held.watched[:, m].sum())
    if held.without_cases:
        n_needed = n_cases_needed(int(held.fold.max()) + 1)
        refuse_rule(n_cases, n_needed, rule)
    refuse_too_few(name, n_cases, rule)
    point = held.operating_point(m, rule, seed)
    if point.threshold <= FLAG_EVERYTHING and isinstance(rule, MinSensitivity):
        if rule.confidence is not None:
            raise _too_few(name, point.n_positive, rule)
        raise PromiseError(
            f"for sensitivity {rule.value:g} of {name}, every row would be flagged: "
            "many cases have the same values as most other rows, so no threshold "
            "separates them. Add a column that does, request less with "
            "`min_sensitivity`, or use another rule such as `g_mean`",
            parameters=["min_sensitivity", "g_mean"],
        )
    if held.trained is not None:
        check_model(held, m, point)
    return point


def _observed_point(
    held: HeldOutScores, m: int, threshold: float, rule: Rule, seed: int
) -> OperatingPoint:
    """Return a threshold that was chosen elsewhere, with its figures on these rows."""
    assert held.frozen is not None
    calibration = held.frozen.calibration[held.task.watched[m]]
    if held.without_cases:
        as_given = Threshold(threshold, prevalence=rule.prevalence)
        point = held.operating_point(m, as_given, seed)
        return with_chance(held, m, point, calibration).replace(rule=rule)
    chance = chance_at_threshold(calibration, threshold)
    rows = EvaluatedRows(
        held.scores[:, m],
        held.watched[:, m],
        float(threshold),
        held.groups,
        chance_at_threshold=chance,
    )
    observed = population_of(rows, "operating_point")
    prevalence = held.population.prevalence
    if prevalence is not None:
        figures = figures_at_prevalence(
            observed["sensitivity"], observed["specificity"], prevalence, chance
        )
        observed = observed.replace(figures=figures, prevalence=prevalence)
    return OperatingPoint(
        **vars(observed),
        threshold=rows.threshold,
        rule=rule,
        misses=rows.two_by_two.false_negative,
        notes=(),
    )


def _judged_baseline(judgement: Judgement, k: int) -> Beside:
    """Judge a baseline, by its number, at thresholds that the same rule chooses."""
    others = judgement.held.others
    assert others.baselines is not None
    facts = others.baselines[k]
    if facts.reason is not None:
        return facts
    other = judge(
        others.scores[facts.recipe],
        judgement.shared_rules,
        judgement.seed,
        refuse=False,
    )
    return facts.replace(
        thresholds=other.thresholds.tolist(),
        figures=_method_figures(other),
        differences=method_differences(judgement, other),
    )


def _shared_rule(point: OperatingPoint) -> Rule:
    """Return the rule that chooses the thresholds of other methods.

    A threshold means nothing on another method's scale: its sensitivity is used.
    """
    rule = point.rule
    if not isinstance(rule, Threshold):
        return rule
    sensitivity = point["sensitivity"].value
    sensitivity = 0.5 if sensitivity is None else sensitivity
    return MinSensitivity(min(max(sensitivity, 0.01), 0.99), prevalence=rule.prevalence)


def _method_figures(judgement: Judgement) -> dict[str, Estimate]:
    """Return the figures of a method that are means over classes, by name."""
    held = judgement.held
    figures = dict(judgement.means)
    if held.predicted is not None:
        ones = np.ones((1, len(held.fold)))
        recalls = weighted_recalls(held.target, held.predicted, ones)
        figures["macro_recall"] = Estimate(float(recalls["macro_recall"][0]))
    return figures


def method_differences(
    method: Judgement,
    other: Judgement,
    table: Table = "baselines",
    chances_at_threshold: Sequence[float | None] | None = None,
) -> dict[str, Estimate]:
    """Return figures of a table of a method minus those of another, by name.

    With 95 % intervals. Over several watched classes they are means, also of the ends
    of intervals, as if all classes erred together. If both thresholds were chosen for
    one sensitivity, its interval says how much other cases would change it.

    Parameters
    ----------
    method, other : Judgement
    table : Table
    chances_at_threshold : sequence of float or None, optional
        Chance from which on a review is worth its effort, by watched class: one for
        both methods, whose benefits are not comparable otherwise.
    """
    held = method.held
    figures = figures_in(table)
    chances = chances_at_threshold or [None] * len(method.points)
    by_class = []
    for m, chance in enumerate(chances):
        rows, others = (
            replace(each.rows(m), chance_at_threshold=chance)
            for each in (method, other)
        )
        by_class.append(evaluate_differences(rows, others, figures))
    means = means_over_classes(by_class)
    if held.predicted is not None and other.held.predicted is not None:
        means["macro_recall"] = recall_difference(
            held.predicted == held.target,
            other.held.predicted == held.target,
            held.target,
            held.groups,
        )
    return means


def means_over_classes(
    by_class: Sequence[Mapping[str, Estimate]],
) -> dict[str, Estimate]:
    """Return the means over classes of figures and of their ends, None if one is."""
    means = {}
    for name in by_class[0]:
        of_classes = [figures[name].value_and_interval for figures in by_class]
        mean = np.array(of_classes, float).mean(axis=0)
        means[name] = Estimate(*[None if np.isnan(end) else end for end in mean])
    return means


# The share of training cases that is flagged may fall short of the promise by so many
# standard errors, and by so much.
_MAX_STANDARD_ERRORS = 3.0
_MAX_SHORTFALL = 0.05

_REMEDY = (
    "try another recipe (logistic, svm_weighted), more settings with `search`, or "
    "fewer columns with `drop`"
)
_REMEDY_PARAMETERS = ("search", "drop")


def refuse_too_few(
    name: str, n_cases: int, rule: Rule, *, guess: Sequence[str] = ()
) -> None:
    """Raise PromiseError if no method could promise a sensitivity from so few cases.

    `name` is that of the class. `guess`: the watched classes if they were not named.
    """
    if not isinstance(rule, MinSensitivity) or n_cases >= _fewest_cases(rule):
        return
    error = _too_few(name, n_cases, rule)
    if not guess:
        raise error
    raise PromiseError(
        f"{error}. No class was named, so training would watch the rare ones: "
        f"{', '.join(guess)}. To name others: `positive` "
        f"{quoted_list(guess)}",
        parameters=[*error.parameters, "positive"],
    )


def _too_few(name: str, m: int, rule: MinSensitivity) -> PromiseError:
    """Return the error for too few cases, with what can be promised."""
    confidence = ""
    if rule.confidence is not None:
        confidence = f" with confidence {rule.confidence:g}"
    needed = _fewest_cases(rule)
    more = "More" if np.isinf(needed) else f"At least {needed:.0f}"
    return PromiseError(
        f"{m} case(s) of {name} are too few to promise sensitivity {rule.value:g}"
        f"{confidence}: every row would be flagged. {more} cases are needed, or ask "
        f"for less: `min_sensitivity` {_most_sensitivity(m, rule):g}, or another rule "
        "such as `max_flag_rate` 0.1",
        parameters=["min_sensitivity", "max_flag_rate"],
    )


def _most_sensitivity(m: int, rule: MinSensitivity) -> float:
    """Return the largest sensitivity of two decimals that m cases can promise.

    The threshold is then at the lowest case.
    """
    most = 1 - 1 / (m + 1)
    if rule.confidence is not None:
        most = (1 - rule.confidence) ** (1 / m)
    return float(np.floor(100 * most) / 100)


def attainable(n_cases: int, rule: Rule) -> Rule:
    """Return a rule, with the largest sensitivity that so few cases can promise."""
    if isinstance(rule, MinSensitivity) and n_cases < _fewest_cases(rule):
        return replace(rule, value=_most_sensitivity(n_cases, rule))
    return rule


def _fewest_cases(rule: MinSensitivity) -> float:
    """Return how many cases the rule needs, with a threshold at the lowest."""
    sensitivity = rule.value
    if sensitivity >= 1:
        return np.inf
    if rule.confidence is None:
        cases = 1 / (1 - sensitivity) - 1
    else:
        cases = np.log(1 - rule.confidence) / np.log(sensitivity)
    return float(np.ceil(cases - 1e-9))


def check_model(held: HeldOutScores, m: int, point: OperatingPoint) -> None:
    """Raise PromiseError if a model does not do on its own rows what it promises.

    That is if no threshold can be set on its scores (`unusable`), or training cases are
    not flagged. No sensitivity is promised where a model was trained without cases.

    Parameters
    ----------
    held : HeldOutScores
    m : int
        Number of the watched class.
    point : OperatingPoint
    """
    recipe = held.recipe
    assert held.trained is not None
    scores = held.trained[:, [m]]
    positive = held.watched[:, m]
    of_class = f" of {held.task.watched[m]}" if held.task.kind == "multi" else ""
    one_fold = np.zeros(len(scores), int)
    for where, values, fold in (
        ("", scores, one_fold),
        (" on held-out rows", held.repeats[0][:, [m]], held.fold),
    ):
        reason = unusable(values, positive.astype(int), fold)
        if reason:
            raise PromiseError(
                f"recipe {recipe}: {reason}{of_class}{where}; {_REMEDY}",
                parameters=_REMEDY_PARAMETERS,
            )
    if held.without_cases:
        return
    flagged = float(np.mean(scores[positive] >= point.threshold))
    promised = point["sensitivity"].value or 0.0
    error = np.sqrt(promised * (1 - promised) / positive.sum())
    most_below = max(_MAX_STANDARD_ERRORS * error, _MAX_SHORTFALL)
    if flagged < promised - most_below:
        raise PromiseError(
            f"recipe {recipe}: it promises to find {promised:.0%} of new cases"
            f"{of_class} and flags {flagged:.0%} of its own training cases; {_REMEDY}",
            parameters=_REMEDY_PARAMETERS,
        )
