"""`model.json`: what a model directory states of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from screening.documents.reason import Reason
from screening.documents.shape import Range, Setting, document, named


@document
class RuleFacts:
    """How a threshold is chosen."""

    name: str
    value: float | None
    confidence: float | None
    prevalence: float | None


@document
class Point:
    """What a threshold does on unseen rows: rates in 0 to 1 with 95 % intervals; None is undefined."""

    threshold: float
    rule: RuleFacts
    sensitivity: float | None
    sensitivity_low: float | None
    sensitivity_high: float | None
    specificity: float | None
    specificity_low: float | None
    specificity_high: float | None
    ppv: float | None
    ppv_low: float | None
    ppv_high: float | None
    npv: float | None
    npv_low: float | None
    npv_high: float | None
    nne: float | None
    nne_low: float | None
    nne_high: float | None
    flag_rate: float | None
    flag_rate_low: float | None
    flag_rate_high: float | None
    prevalence: float
    n_positive: int
    n_negative: int
    n_groups: int | None
    misses: int | None
    notes: Sequence[str]


@document
class OperatingPointFacts(Point):
    """The point in use for one watched class, and who chose it."""

    label: Annotated[str, named("class")]
    chosen_by: str
    reason: str | None
    chosen_at: str | None = None


@document
class Ranking:
    """How well held-out scores rank, whatever the threshold."""

    n_positive: int
    n_negative: int
    n_groups: int | None
    prevalence: float
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None
    average_precision: float | None
    average_precision_low: float | None
    average_precision_high: float | None


@document
class Curve:
    """Rates at about 200 thresholds, with pointwise 95 % bands."""

    threshold: Sequence[float | None]
    sensitivity: Sequence[float | None]
    sensitivity_low: Sequence[float | None]
    sensitivity_high: Sequence[float | None]
    specificity: Sequence[float | None]
    specificity_low: Sequence[float | None]
    specificity_high: Sequence[float | None]
    flag_rate: Sequence[float | None]
    ppv: Sequence[float | None]
    npv: Sequence[float | None]


@document
class Level:
    """One subgroup; a figure that fewer than five patients stand behind is None, and `few` names it."""

    level: str | None
    n: int | None
    events: int | None
    few: Sequence[str]
    sensitivity: float | None
    sensitivity_low: float | None
    sensitivity_high: float | None
    specificity: float | None
    specificity_low: float | None
    specificity_high: float | None
    flag_rate: float | None


@document
class SubgroupFacts:
    """A column of subgroups with its levels; `edges` where numbers were cut into bands."""

    column: str
    edges: Sequence[float] | None
    known: Sequence[str] | None
    rows: Sequence[Level]


@document
class AtPrevalence:
    """Predictive values at one prevalence."""

    prevalence: float
    ppv: float | None
    ppv_low: float | None
    ppv_high: float | None
    npv: float | None
    npv_low: float | None
    npv_high: float | None
    nne: float | None
    nne_low: float | None
    nne_high: float | None
    flag_rate: float | None
    flag_rate_low: float | None
    flag_rate_high: float | None


@document
class Predictive:
    """Predictive values at several prevalences, one of them given or estimated."""

    source: str
    rows: Sequence[AtPrevalence]


@document
class ScoreCurve:
    """Knots of the map from a score to its chance."""

    score: Sequence[float]
    probability: Sequence[float]


@document
class Bin:
    """Predicted and observed frequency of one tenth of the rows."""

    least: float | None = None
    predicted: float
    observed: float
    low: float
    high: float
    n: int
    size: float


@document
class DecisionCurve:
    """Net benefit of the model, and of reviewing all, at threshold probabilities."""

    threshold: Sequence[float]
    model: Sequence[float]
    all: Sequence[float]


@document
class Calibration:
    """Chances that belong to scores, where that was earned; else the reason why not."""

    earned: bool
    reason: str | None
    method: str | None = None
    log_loss: Mapping[str, float] | None = None
    curve: ScoreCurve | None = None
    prevalence: float | None = None
    brier: float | None = None
    brier_skill: float | None = None
    slope: float | None = None
    reliability: Sequence[Bin] = ()
    decision_curve: DecisionCurve | None = None


@document
class LaterClass:
    """What the threshold chosen on the past did to what came after."""

    threshold: float
    n_positive: int
    n_negative: int
    sensitivity: float | None
    sensitivity_low: float | None
    sensitivity_high: float | None
    specificity: float | None
    specificity_low: float | None
    specificity_high: float | None
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None


@document
class Forward:
    """Trained on the past, tested on what came after; or the reason why that says nothing."""

    reason: str | None
    cut: str | None = None
    n_past: int | None = None
    n_later: int | None = None
    classes: Mapping[str, LaterClass] | None = None


@document
class Difference:
    """A difference of two methods on the same rows, with its 95 % interval."""

    difference: float | None
    low: float | None
    high: float | None


@document
class Beside:
    """Another method on the same folds, or the reason why it could not be trained."""

    recipe: str
    title: str
    reason: str | None = None
    n_candidates: int | None = None
    chosen: Setting | None = None
    thresholds: Sequence[float] = ()
    figures: Mapping[str, float | None] | None = None
    differences: Mapping[str, Difference] | None = None


@document
class BesideFacts:
    """The method and those beside it."""

    rule: RuleFacts
    n_watched: int
    figures: Mapping[str, float | None]
    beside: Sequence[Beside]


@document
class SearchFacts:
    """Settings tried, what each was worth, and why some could not be used."""

    criterion: str
    n_candidates: int
    chosen: Setting
    candidates: Sequence[Setting]
    scores: Sequence[float | None]
    dropped: Sequence[str | None]


@document
class Confusion:
    """Counts, true class by row."""

    classes: Sequence[str]
    counts: Sequence[Sequence[int]]


@document
class PerClass:
    """Recall and precision of one class."""

    label: Annotated[str, named("class")]
    n: int
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    precision: float | None


@document
class ValidationFacts:
    """What the held-out scores of all rows showed, by watched class."""

    folds: int
    repeats: int
    grouped: bool
    n_rows: int
    n_positive: int | None
    n_groups: int | None
    n_machines: int | None
    encoded_by: str
    search: SearchFacts
    summary: Mapping[str, Ranking]
    curves: Mapping[str, Curve]
    points: Mapping[str, Sequence[Point]]
    subgroups: Mapping[str, Sequence[SubgroupFacts]]
    predictive: Mapping[str, Predictive]
    calibration: Mapping[str, Calibration]
    forward: Forward | None = None
    comparison: BesideFacts | None = None
    confusion: Confusion | None = None
    per_class: Sequence[PerClass] | None = None


@document
class FileFacts:
    """A file that was read."""

    name: str
    sha256: str
    bytes: int
    rows: int


@document
class SourceFacts:
    """What a table was read from."""

    files: Sequence[FileFacts]
    delimiter: str | None
    encoding: str | None
    rows: int


@document
class FeatureFacts:
    """A feature as training saw it; `usual` is the contract's range, else 5 to 95 % of training rows."""

    name: str
    type: str
    unit: str | None
    usual: Range | None
    usual_from: str | None
    median: float | str | None
    description: str | None


@document
class Leak:
    """A column that may tell what is known only after the outcome."""

    code: str
    column: str
    figure: float
    said: str


@document
class Approximation:
    """What an approximation cost, on held-out rows of a sub-sample."""

    method: str
    n_landmarks: int
    n_rows: int
    n_train: int
    n_test: int
    auroc_exact: float
    auroc_landmarks: float
    note: str


@document
class TrainingFacts:
    """The rows and the settings of a training."""

    source: SourceFacts
    n_rows_read: int
    n_rows_used: int
    n_by_class: Mapping[str, int]
    max_rows: int | None
    window: Sequence[str] | None
    seed: int
    command: str | None
    notes: Sequence[str]
    missing: Mapping[str, float]
    features: Sequence[FeatureFacts]
    profile: Mapping[str, Any] | None
    leaks: Sequence[Leak]
    approximation: Approximation | None = None


@document
class MachineFacts:
    """Size and certificate of the machines; a baseline has none."""

    n_support_vectors: int | None
    sv_share: float | None
    passes: Sequence[Mapping[str, Any]]
    kkt_gap: float | None


@document
class MemberFacts:
    """A member of a blend, as much as makes its machines again."""

    name: str
    title: str
    machine: str
    text: str
    parameters: Setting
    search: SearchFacts
    machines: MachineFacts


@document
class RecipeFacts:
    """The method, its TOML verbatim, and the parameters in use."""

    name: str
    title: str
    paper: str
    machine: str
    text: str
    parameters: Setting
    members: Sequence[MemberFacts] = ()


@document
class MemberAlone:
    """What a member of a blend does alone for one class, on the scale of its standardised scores."""

    auroc: float
    threshold: float


@document
class BlendMember:
    """A member of a blend beside the others."""

    recipe: str
    title: str
    classes: Mapping[str, MemberAlone]


@document
class TaskFacts:
    """The question that the label column asks."""

    kind: str
    label: str
    positive: Sequence[str]
    classes: Sequence[str]
    watched: Sequence[str]


@document
class ModelDocument:
    """Everything that a model directory states.

    `contract` is the cohort's contract, whose own type (`screening.cohort.contract.Contract`) documents it.
    """

    format: int
    recipe: RecipeFacts
    contract: Mapping[str, Any]
    task: TaskFacts
    operating_points: Sequence[OperatingPointFacts]
    validation: ValidationFacts
    training: TrainingFacts
    machine: MachineFacts
    versions: Mapping[str, str]
    attention: Sequence[Reason]
    blend: Sequence[BlendMember] = ()
    arrays_sha256: str
    validation_sha256: str
    sha256: str
