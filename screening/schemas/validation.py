"""What the held-out scores of all rows showed, and other methods on the same folds: how good a model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import expit

from screening.schemas.base import Columns, Document, Estimate, Setting, even
from screening.schemas.figures import (
    Area,
    OfRule,
    OperatingPoint,
    PredictiveValues,
    Ranking,
    Rates,
    StoredRule,
)


class Beside(Document):
    """Another method on the same folds, or the reason why it could not be trained."""

    recipe: str
    title: str
    reason: str | None = None
    n_candidates: int | None = None
    chosen: Setting | None = None
    thresholds: Sequence[float] = ()
    figures: Mapping[str, float | None] | None = None
    differences: Mapping[str, Estimate] | None = None


class BesideFacts(Document):
    """The method and those beside it, each at thresholds by the same rules.

    `rules` are the method's, one a watched class; `rule` is what chose the others' thresholds: the first of
    them, or the sensitivity that a threshold given by hand has.
    """

    rules: Sequence[StoredRule]
    rule: StoredRule
    n_watched: int
    figures: Mapping[str, float | None]
    beside: Sequence[Beside]


class Froc(Columns):
    """Share of lesions found against false clusters a patient, at rising thresholds."""

    threshold: Sequence[float]
    sensitivity: Sequence[float]
    false_positives: Sequence[float]


class LesionFacts(Document):
    """How maps of scores become clusters, and what these find in patients held out, with 95 % intervals.

    Maps are smoothed by a Gaussian of `smoothing` voxels within the mask (0: not), and clusters of fewer than
    `min_voxels` voxels do not count; voxels touch by faces, edges and corners (`connectivity` 26). A lesion
    is found where a flagged voxel lies in it; a false positive is a cluster that touches none. `sensitivity`
    is the one expected of new lesions, `asked` what was asked for, `n_settings` how many ways were tried.
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
    """The point in use for one watched class, and who chose it."""

    label: Annotated[str, Field(alias="class")]
    chosen_by: str
    reason: str | None = None
    lesions: LesionFacts | None = None


class Band(Document):
    """A figure along the thresholds with the ends of its 95 % intervals."""

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
        bands = (
            ends
            for band in (self.sensitivity, self.specificity)
            for ends in vars(band).values()
        )
        even(self.threshold, self.flag_rate, self.ppv, self.npv, *bands)
        return self


class Level(Rates):
    """One subgroup; a figure that fewer than five patients stand behind is None, and `few` names it."""

    level: str | None
    n: int | None
    events: int | None
    few: Sequence[str]
    flag_rate: float | None


class SubgroupFacts(OfRule):
    """A column of subgroups with its levels; `edges` where numbers were cut into bands."""

    column: str
    edges: Sequence[float] | None
    known: Sequence[str] | None
    rows: Sequence[Level]


class Predictive(OfRule):
    """Predictive values at several prevalences, one of them given or estimated."""

    source: Literal["given", "estimated"]
    rows: Sequence[PredictiveValues]


LARGEST = 1e75
"""What a curve's numbers and the scores on it reach, so that their squares and products stay finite."""
Moderate = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class Platt(Document):
    """The chance of a score: 1 / (1 + exp(-intercept - slope (score - centre))).

    `covariance` is the variance of the intercept, the covariance, and the variance of the slope.
    """

    centre: Moderate
    intercept: Moderate
    slope: Moderate
    covariance: tuple[Moderate, Moderate, Moderate]

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """Log odds of the chance of each score, shape (n_rows,)."""
        return self.intercept + self.slope * self._apart(scores)

    def _apart(self, scores: np.ndarray) -> np.ndarray:
        return np.clip(np.asarray(scores, dtype=float) - self.centre, -LARGEST, LARGEST)

    def chances(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Chance of each score with the ends of its 95 % interval, each of shape (n_rows,), 0 to 1.

        The interval is logit +- 1.96 standard errors of the fitted curve at the score: what is not known of
        the curve, not how patients differ.
        """
        logit, apart = self.log_odds(scores), self._apart(scores)
        variance, both, slope_variance = self.covariance
        error = 1.96 * np.sqrt(
            np.maximum(variance + 2 * both * apart + slope_variance * apart**2, 0.0)
        )
        return expit(logit), expit(logit - error), expit(logit + error)


class Bin(Document):
    """Predicted and observed frequency of one tenth of the rows."""

    predicted: float
    observed: Estimate
    n: int
    size: float


class DecisionCurve(Columns):
    """Net benefit of the model, and of reviewing all, at threshold probabilities."""

    threshold: Sequence[float]
    model: Sequence[float]
    all: Sequence[float]


class Calibration(Document):
    """Chances that belong to scores, where that was earned; else the reason why not.

    `log_loss`, `brier`, `slope` and `reliability` are of chances by folds that had not seen the row; `misfit`
    is the p-value of Spiegelhalter's test that they agree with what was observed. On another cohort they are
    of the chances as the model writes them; then `slope` has an interval, and `observed_expected` is the
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
    observed_expected: Estimate | None = None
    reliability: Sequence[Bin] = ()
    decision_curve: DecisionCurve | None = None


class LaterClass(OfRule, Area, Rates):
    """What threshold and chances of the past did to what came after."""

    n_positive: int
    n_negative: int
    observed_expected: Estimate | None = None


class Forward(Document):
    """Trained on the past, tested on what came after; or the reason why that says nothing."""

    cut: str | None = None
    n_past: int | None = None
    n_later: int | None = None
    classes: Mapping[str, LaterClass] | None = None
    reason: str | None


class SearchFacts(Document):
    """Settings tried, what each was worth, and why some could not be used; a blend is worth one figure."""

    criterion: str
    n_candidates: int
    chosen: Setting
    candidates: Sequence[Setting]
    scores: Sequence[float | None]
    dropped: Sequence[str | None]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        even(self.scores, self.dropped)
        return self


class Confusion(Document):
    """Counts, true class by row."""

    classes: Sequence[str]
    counts: Sequence[Sequence[int]]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        even(self.classes, self.counts, *self.counts)
        return self


class PerClass(Document):
    """Recall and precision of one class."""

    label: Annotated[str, Field(alias="class")]
    n: int
    recall: Estimate
    precision: float | None


class Figures(Document):
    """What scores of rows that no machine had seen showed under one rule, by watched class."""

    grouped: bool
    n_rows: int
    n_positive: int | None
    n_groups: int | None
    prevalence: Mapping[str, Estimate]
    summary: Mapping[str, Ranking]
    curves: Mapping[str, Curve]
    points: Mapping[str, Sequence[OperatingPoint]]
    confusion: Confusion | None = None
    per_class: Sequence[PerClass] | None = None
    subgroups: Mapping[str, Sequence[SubgroupFacts]]
    predictive: Mapping[str, Predictive]
    calibration: Mapping[str, Calibration]


class ValidationFacts(Figures):
    """The figures of a model's own held-out scores, how these were made, and what stands beside them."""

    folds: int
    repeats: int
    n_machines: int | None
    encoded_by: str
    search: SearchFacts
    # of every class, watched or not: the predicted class has the highest
    class_chances: Mapping[str, Platt] | None = None
    forward: Forward | None = None
    comparison: BesideFacts | None = None
