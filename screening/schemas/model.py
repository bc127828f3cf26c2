"""`model.json`: what a model directory states of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from screening.schemas.base import (
    FORMAT_VERSION,
    Brief,
    Document,
    Estimate,
    Range,
    Reason,
    Setting,
    Table,
)
from screening.schemas.figures import OfRule
from screening.schemas.validation import (
    OperatingPointFacts,
    SearchFacts,
    ValidationFacts,
)


class InContract(Document):
    """Those keys of a table of the contract that the page goes by, whatever else is in it."""

    model_config = ConfigDict(extra="ignore")
    TITLE: ClassVar[str] = "the contract"


class Stated(InContract):
    """What the contract says of the cohort as a whole; None where it says nothing."""

    title: str | None = None
    intended_use: str | None = None
    group: str | None = None
    subgroup: Sequence[str] = ()
    coordinates: Sequence[str] = ()
    prevalence: float | None = None
    minutes_per_review: float | None = None
    capacity: int | None = None
    review_by: str | None = None
    verdicts_need: Sequence[str] = ()


class Declared(InContract):
    """What the contract says of a feature."""

    type: str | None = None
    unit: str | None = None
    reference: Sequence[float] | None = None
    seen: Sequence[float] | None = None
    categories: Sequence[str] | None = None
    normalise: str | None = None
    title: str | None = None
    description: str | None = None

    @property
    def on_other_scale(self) -> bool:
        """Whether a range learned in training cannot stand beside the raw value: normalised in the group."""
        return bool(self.normalise) and not (self.reference or self.seen)


class TrainedOn(Document):
    """Judged rows that a training took in, and those it left out, by reason.

    `already` of the judged rows stood in the past cohort, where each counts once, by the cohort's label; on
    `disagreeing` of them the verdict says something else.
    """

    series: str
    champion: str
    first: str
    last: str
    nights: int
    confirmed: int
    ruled_out: int
    already: int
    disagreeing: int
    left_out: Mapping[str, int]

    @property
    def taken(self) -> int:
        """Rows that the past cohort did not have."""
        return self.confirmed + self.ruled_out


# More than any training has: what is counted stays exact as a float.
MOST_ROWS = 1 << 53


class FileFacts(Document):
    """A file that was read, or what a database answered: from where, and to which query."""

    name: str
    sha256: str
    bytes: int
    rows: int
    place: str | None = None
    query_sha256: str | None = None


class SourceFacts(Document):
    """What a table was read from."""

    files: Sequence[FileFacts]
    delimiter: str | None
    encoding: str | None
    rows: int


class FeatureFacts(Document):
    """A feature as training saw it.

    `reference` is the range of the contract; `seen` that in past patients: the contract's, else 5 to 95 % of
    training rows.
    """

    name: str
    type: str
    unit: str | None
    reference: Range | None
    seen: Range | None
    median: float | str | None
    description: str | None


class Leak(Document):
    """A column that may tell what is known only after the outcome."""

    code: str
    column: str
    figure: float
    said: str


class Approximation(Document):
    """What an approximation cost, on held-out rows of a sub-sample."""

    method: str
    n_landmarks: int
    n_rows: int
    auroc_exact: float
    auroc_landmarks: float
    note: str


class NumberProfile(Document):
    """A number's training values: right-closed bins that end at `edges`, the last one open."""

    edges: Sequence[float]
    counts: Sequence[int]
    range: tuple[float, float] | None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if len(self.counts) != len(self.edges) + 1:
            raise ValueError("counts: one more than edges is needed")
        if min(self.counts, default=0) < 0:
            raise ValueError("counts: none is below 0")
        if sorted(self.edges) != [*self.edges]:
            raise ValueError("edges: none is below the one before")
        return self


class TextProfile(Document):
    """How often training had each text or code; `more` rows had rarer ones."""

    counts: Mapping[str, int]
    more: int


class Profile(Document):
    """What a night is compared with."""

    n_rows: int
    n_units: int | float
    features: Mapping[str, NumberProfile | TextProfile]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        numbers = [
            one.counts
            for one in self.features.values()
            if isinstance(one, NumberProfile)
        ]
        texts = [
            one.counts.values()
            for one in self.features.values()
            if isinstance(one, TextProfile)
        ]
        if any(sum(counts) > self.n_rows for counts in (*numbers, *texts)):
            raise ValueError("features: counts of more values than there were rows")
        return self


class IdShape(Document):
    """How the ids of a table are written, counted over its rows.

    `shortest` and `longest` in characters; `leading_zeros`: rows whose id is digits behind a zero; `digits`:
    rows whose id is digits alone, `hex`: hexadecimal digits with a letter among them, hyphens allowed.
    """

    n_rows: int
    shortest: int
    longest: int
    leading_zeros: int
    digits: int
    hex: int

    @property
    def letters(self) -> int:
        """Rows whose id has other letters or signs."""
        return self.n_rows - self.digits - self.hex


class TrainingFacts(Document):
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
    profile: Profile | None
    leaks: Sequence[Leak]
    approximation: Approximation | None = None
    verdicts: TrainedOn | None = None
    ids: IdShape | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if any(each.name not in self.missing for each in self.features):
            raise ValueError(
                "features: the name of one is not among those of missing values"
            )
        return self


class MachineFacts(Document):
    """Size and certificate of the machines; a baseline has none."""

    n_support_vectors: int | None
    sv_share: float | None
    passes: Sequence[Table]
    kkt_gap: float | None


class MemberFacts(Document):
    """A member of a blend, as much as makes its machines again."""

    name: str
    title: str
    machine: str
    text: str
    parameters: Setting
    search: SearchFacts
    machines: MachineFacts


class RecipeFacts(Document):
    """The method, its TOML verbatim, and the parameters in use."""

    name: str
    title: str
    paper: str
    machine: str
    text: str
    parameters: Setting
    members: Sequence[MemberFacts] = ()


class MemberAlone(OfRule):
    """What a member of a blend does alone for one class, on the scale of the blend.

    `weight` is its share of the blend, 0 to 1; `gain` the AUROC of all minus that of the others.
    """

    auroc: float
    gain: Estimate
    weight: float


class BlendMember(Document):
    """A member of a blend beside the others."""

    recipe: str
    title: str
    classes: Mapping[str, MemberAlone]


class TaskFacts(Document):
    """The question that the label column asks: of one positive class, or of several watched among many."""

    kind: str  # "binary" or "multi"
    label: str  # name of the label column
    positive: Sequence[str]  # named to be found; of several classes none need be
    classes: Sequence[
        str
    ]  # binary: "negative" and the positive class; else all, sorted as text
    watched: Sequence[str]  # those that get an operating point and can flag a row
    # label values of a class that several were joined to, by its name; any other has its own name
    joined: Mapping[str, Sequence[str]] | None = None


class Approval(Document):
    """Who put the model to use, on which day, and why where its verdict asked for a reason."""

    by: str
    date: str
    reason: str | None


class ModelDocument(Document):
    """Everything that a model directory states.

    Without an `approval` it is a draft.
    `contract` is the cohort's contract, whose own type (`screening.contract.contract.Contract`) documents it.
    After `retrain_by`, a day, it scores no more: it holds rows of somebody who was erased.
    """

    TITLE: ClassVar[str] = "model.json"

    recipe: RecipeFacts
    contract: Mapping[str, Any]
    task: TaskFacts
    operating_points: Annotated[Sequence[OperatingPointFacts], Field(min_length=1)]
    validation: ValidationFacts
    training: TrainingFacts
    machine: MachineFacts
    versions: Mapping[str, str]
    blend: Sequence[BlendMember] = ()
    attention: Sequence[Reason]
    # What sealing adds once the page is drawn has a default.
    arrays_sha256: str = ""
    validation_sha256: str = ""
    format_version: int = FORMAT_VERSION
    retrain_by: str | None = None
    approval: Approval | None = None
    sha256: str = ""

    @model_validator(mode="after")
    def _of_one_rule(self) -> Self:
        """Refuse figures of another rule, or another threshold, than the one in use."""
        validation = self.validation
        comparison, forward = validation.comparison, validation.forward
        for number, point in enumerate(self.operating_points):
            name = point.label
            at_threshold = [
                *validation.subgroups.get(name, ()),
                *filter(None, [validation.predictive.get(name)]),
            ]
            if any(each.threshold != point.threshold for each in at_threshold):
                raise ValueError(
                    f"validation: figures of {name} are of another threshold"
                )
            rules = [each.rule for each in at_threshold]
            rules += [each.classes[name].rule for each in self.blend]
            rules += [comparison.rules[number]] if comparison else []
            if forward and forward.classes and name in forward.classes:
                rules.append(forward.classes[name].rule)
            if any(rule != point.rule for rule in rules):
                raise ValueError(f"validation: figures of {name} are of another rule")
        return self

    def brief(self) -> Brief:
        """The method, its rows, and what each operating point does."""
        points = [
            (
                one.label,
                f"{one.threshold:.3g}",
                one.sensitivity.in_percent,
                one.specificity.in_percent,
            )
            for one in self.operating_points
        ]
        words = f"{self.recipe.title}, trained on {self.training.n_rows_used} rows"
        return Brief(
            words, ("class", "threshold", "sensitivity", "specificity"), points
        )

    def carrying(self, label: str) -> list[BlendMember]:
        """The members of the blend without which it would surely rank a class worse."""
        return [
            member
            for member in self.blend
            if (member.classes[label].gain.low or 0.0) > 0
        ]

    @cached_property
    def stated(self) -> Stated:
        """What the contract says of the cohort as a whole."""
        return Stated.from_dict(self.contract.get("cohort", {}))

    def declared(self, feature: str) -> Declared:
        """What the contract says of a feature; nothing of one that it does not know."""
        return Declared.from_dict(self.contract.get("features", {}).get(feature, {}))

    def title_of(self, feature: str) -> str:
        """What the page calls a feature: the contract's title, else the column's name as words."""
        return self.declared(feature).title or feature.replace("_", " ")

    @cached_property
    def points(self) -> list[OperatingPointFacts]:
        """The operating points in use, the rarest class first."""
        return sorted(self.operating_points, key=lambda point: point.n_positive)

    @property
    def multi(self) -> bool:
        """Whether the model tells several classes apart."""
        return self.task.kind == "multi"

    @property
    def by_excess(self) -> bool:
        """Whether rows are ranked by how far they lie above their class's threshold."""
        return len(self.operating_points) > 1

    @property
    def unit_of_review(self) -> str:
        """What one row is called on the page."""
        return "voxel" if self.stated.coordinates else "row"
