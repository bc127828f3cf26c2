"""Figures of held-out scores, and of other methods on the same folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from screening.schemas.base import (
    ColumnarDocument,
    Document,
    Estimate,
    PopulationFigures,
    Setting,
    check_equal_lengths,
)
from screening.schemas.figures import (
    AtPrevalence,
    GridName,
    JudgedPopulation,
    OfRule,
    OperatingPoint,
    StoredRule,
)


class Beside(PopulationFigures):
    """Another method on the same folds, or the reason why it could not be trained.

    `figures` are means over the watched classes, at its own `thresholds`, and
    `differences` are those of the model minus these.
    """

    recipe: str
    title: str
    reason: str | None = None
    n_candidates: int | None = None
    chosen: Setting | None = None
    thresholds: Sequence[float] = ()
    differences: Mapping[str, Estimate] = {}


class BesideFacts(PopulationFigures):
    """The method and other methods, each at thresholds by the same rules.

    `rules` are the method's, one for each watched class; `rule` chose the others'
    thresholds: the first of them, or the sensitivity of a threshold set by hand.
    """

    rules: Sequence[StoredRule]
    rule: StoredRule
    n_watched: int
    beside: Sequence[Beside]


class Froc(ColumnarDocument):
    """Share of lesions found against false clusters a patient, at rising thresholds."""

    threshold: Sequence[float]
    sensitivity: Sequence[float]
    false_positives: Sequence[float]


class LesionFacts(Document):
    """Clusters made from maps of scores, and lesions found in held-out patients.

    Maps are smoothed by a Gaussian of `smoothing` voxels within the mask (0: not), and
    clusters of fewer than `min_voxels` voxels do not count; voxels touch by faces,
    edges and corners (`connectivity` 26). A lesion is found if it contains a flagged
    voxel; a false positive is a cluster that touches no lesion. `sensitivity` is the
    one expected of new lesions, `asked` the one required, `n_settings` the number of
    settings tried. Intervals are 95 %.
    """

    smoothing: float
    min_voxels: int
    connectivity: int
    asked: float
    n_patients: int
    n_lesions: int
    missed: int
    sensitivity: Estimate
    false_positives: Estimate
    n_settings: int
    froc: Froc


class OperatingPointFacts(OperatingPoint):
    """The operating point in use for a watched class, and who chose it."""

    label: Annotated[str, Field(alias="class")]
    chosen_by: str
    reason: str | None = None
    lesions: LesionFacts | None = None


class Band(Document):
    """A figure by threshold, with the ends of its 95 % intervals."""

    value: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


class Curve(Document):
    """Rates at about 200 thresholds, with pointwise 95 % bands."""

    threshold: Sequence[float]
    sensitivity: Band
    specificity: Band
    flag_rate: Sequence[float | None]
    ppv: Sequence[float | None]
    npv: Sequence[float | None]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        bands = [*vars(self.sensitivity).values(), *vars(self.specificity).values()]
        check_equal_lengths(self.threshold, self.flag_rate, self.ppv, self.npv, *bands)
        return self


class Subgroup(PopulationFigures):
    """A subgroup; figures of too few patients are undefined and named in `few`.

    So are its number of rows `n` and of cases `events`. `to_the_rest` has by figure the
    subgroup's minus that of all other rows, and `ratio_to_the_rest` its ratio to it,
    where both have an interval.
    """

    level: str | None
    n: int | None
    events: int | None
    few: Sequence[str]
    to_the_rest: Mapping[str, Estimate] = {}
    ratio_to_the_rest: Mapping[str, Estimate] = {}


class SubgroupFacts(OfRule):
    """A column of subgroups; `edges` if numbers were binned."""

    column: str
    edges: Sequence[float] | None
    known: Sequence[str] | None
    rows: Sequence[Subgroup]


class CrossedSubgroups(OfRule):
    """Figures of the cells of two columns, each with enough patients."""

    columns: tuple[str, str]
    rows: Sequence[Subgroup]


class Predictive(OfRule):
    """Predictive values at several prevalences, one of them given or estimated."""

    source: Literal["given", "estimated"]
    rows: Sequence[AtPrevalence]


LARGEST = 1e75
"""What a curve's numbers and the scores on it reach, so that their squares and products
stay finite."""
Moderate = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class Floor(Document):
    """Chance, in log odds, that the lowest scores approach.

    `covariance` has its variance, and its covariances with the intercept and the slope
    of the curve above it.
    """

    log_odds: Moderate
    covariance: tuple[Moderate, Moderate, Moderate]


class Platt(Document):
    """Chance of a score: 1 / (1 + exp(-intercept - slope (score - centre))).

    `covariance` has the variance of the intercept, the covariance, and the variance of
    the slope. `range` has the smallest and the largest held-out score: a score beyond
    them has the chance of the nearer one. With a `floor` f the chance is f + (1 - f)
    times that.
    """

    centre: Moderate
    intercept: Moderate
    slope: Moderate
    covariance: tuple[Moderate, Moderate, Moderate]
    range: tuple[Moderate, Moderate] | None = None
    floor: Floor | None = None


class Bin(Document):
    """Predicted and observed frequency of one tenth of the rows."""

    predicted: float
    observed: Estimate
    n: int
    size: float


class DecisionCurve(ColumnarDocument):
    """Net benefit of the model, and of reviewing all, at threshold probabilities."""

    threshold: Sequence[float]
    model: Sequence[float]
    all: Sequence[float]


class Calibration(Document):
    """Chances of scores, if the model passed the calibration check, else the reason.

    `log_loss`, `brier`, `slope`, `intercept` and `reliability` are of chances by folds
    that had not seen the row; the intercept is what is missing to the log odds with
    slope 1. `misfit` is the p-value of Spiegelhalter's test of calibration. On
    another cohort they are of the model's chances, and `observed_expected` is the
    number of cases over the sum of their chances.
    """

    earned: bool
    reason: str | None
    platt: Platt | None = None
    log_loss: float | None = None
    misfit: float | None = None
    prevalence: float | None = None
    brier: float | None = None
    brier_skill: float | None = None
    slope: Estimate | None = None
    intercept: Estimate | None = None
    observed_expected: Estimate | None = None
    reliability: Sequence[Bin] = ()
    decision_curve: DecisionCurve | None = None


class LaterClass(PopulationFigures, OfRule):
    """Performance of threshold and chances of the past on the later period."""

    n_positive: int
    n_negative: int
    observed_expected: Estimate | None = None
    slope: Estimate | None = None
    intercept: Estimate | None = None


class Forward(Document):
    """A model of the earlier rows tested on the later ones, or the reason for none."""

    cut: str | None = None
    n_past: int | None = None
    n_later: int | None = None
    classes: Mapping[str, LaterClass] | None = None
    reason: str | None


class SearchFacts(Document):
    """Settings tried with their results, and why some could not be used.

    `asked` is the number of settings that the caller asked for, 0 if none; None in
    models of earlier versions. `sensitivity` and `specificity` are those of each
    setting's own boundary on held-out rows, empty with several classes.
    """

    criterion: str
    n_candidates: int
    asked: int | None = None
    grid: GridName = "recipe"
    chosen: Setting
    candidates: Sequence[Setting]
    scores: Sequence[float | None]
    dropped: Sequence[str | None]
    sensitivity: Sequence[float] = ()
    specificity: Sequence[float] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_equal_lengths(self.scores, self.dropped)
        check_equal_lengths(self.sensitivity, self.specificity)
        return self


class Confusion(Document):
    """Confusion matrix; rows are the true classes."""

    classes: Sequence[str]
    counts: Sequence[Sequence[int]]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_equal_lengths(self.classes, self.counts, *self.counts)
        return self


class PerClass(Document):
    """Recall and precision of one class."""

    label: Annotated[str, Field(alias="class")]
    n: int
    recall: Estimate
    precision: float | None


class Figures(Document):
    """Figures of held-out scores under one rule, by watched class.

    `summary` has how scores rank, whatever the threshold. `own_boundary` has those of
    the machine's own boundary, a decision of 0 or the largest of several, which no rule
    chose.
    """

    grouped: bool
    n_rows: int
    n_positive: int | None
    n_groups: int | None
    prevalence: Mapping[str, Estimate]
    summary: Mapping[str, JudgedPopulation]
    curves: Mapping[str, Curve]
    points: Mapping[str, Sequence[OperatingPoint]]
    confusion: Confusion | None = None
    per_class: Sequence[PerClass] | None = None
    subgroups: Mapping[str, Sequence[SubgroupFacts]]
    crossed: Mapping[str, Sequence[CrossedSubgroups]] = {}
    predictive: Mapping[str, Predictive]
    calibration: Mapping[str, Calibration]
    own_boundary: Mapping[str, PopulationFigures] | None = None


class WithoutCases(Document):
    """Training of a model without cases, or with too few to be folded.

    It learned what past rows are like. Its setting was not tuned, its threshold is a
    rank among held-out rows that are not known cases, and known cases only judge.
    `state` says whether these rows are without the condition or of unknown state.
    `contamination` is the stated share of unknown cases among them.
    """

    state: Literal["without the condition", "unknown"]
    contamination: float


class ValidationFacts(Figures):
    """Figures of a model's held-out scores, and how the scores were made."""

    folds: int
    repeats: int
    n_machines: int | None
    encoded_by: str
    search: SearchFacts
    # of every class, watched or not: the predicted class has the highest
    class_chances: Mapping[str, Platt] | None = None
    forward: Forward | None = None
    comparison: BesideFacts | None = None
    without_cases: WithoutCases | None = None
