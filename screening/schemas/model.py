"""`model.json`: what a model directory states of its training."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from screening.schemas.base import (
    FORMAT_VERSION,
    Brief,
    Document,
    Estimate,
    JsonObject,
    PopulationFigures,
    Range,
    Reason,
    Setting,
)
from screening.schemas.figures import OfRule, Rule, StoredRule
from screening.schemas.validation import (
    OperatingPointFacts,
    SearchFacts,
    ValidationFacts,
)


class InContract(Document):
    """Keys of a table of the contract that the page uses; others are ignored."""

    model_config = ConfigDict(extra="ignore")
    TITLE: ClassVar[str] = "the contract"


class OutcomeDeclaration(InContract):
    """When an event counts for a night, in hours after the hour of the night."""

    within: float
    after: float = 0.0
    by: Literal["patient", "stay"] = "patient"
    again: float | None = None
    events: Literal["any", "first"] = "any"
    known_without_time: Literal["leave_out", "case"] = "leave_out"
    id: str | None = None
    time: str | None = None
    until: str | None = None
    event: str | None = None
    cases: Sequence[str] = ()
    as_of: str | None = None


class CohortDeclaration(InContract):
    """Statements of the contract about the whole cohort; None if not stated."""

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
    actions: Sequence[str] = ()
    outcome: OutcomeDeclaration | None = None
    id: str | None = None
    date_order: Literal["dmy", "mdy"] | None = None
    time_zone: str | None = None
    hour: str | None = None
    suppress: int = 5
    id_is_person: bool = False
    higher: Literal["worse", "better"] = "worse"


class FeatureDeclaration(InContract):
    """Statements of the contract about a feature."""

    type: str | None = None
    unit: str | None = None
    reference: Sequence[float] | None = None
    reference_source: str | None = None
    seen: Sequence[float] | None = None
    categories: Sequence[str] | None = None
    normalise: str | None = None
    title: str | None = None
    description: str | None = None

    @property
    def on_other_scale(self) -> bool:
        """True if training's range is of values normalised within groups."""
        return bool(self.normalise) and not (self.reference or self.seen)


class TrainedOn(Document):
    """Judged rows used in a training, and those left out, by reason.

    `already` of the judged rows were in the past cohort, where each counts once with
    the cohort's label; on `disagreeing` of them the verdict differs from it. Of the
    rows taken, `by_outcome` have what became of the patient as their label, flagged or
    not, which `contradicted` verdicts had otherwise; `flagged_without_event` of these
    were flagged, so that a treatment may have prevented the event. `rewritten` counts
    rows of the past cohort with ids that differ from judged ones only in spelling, and
    were accepted as other patients.
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
    by_outcome: int = 0
    flagged_without_event: int = 0
    contradicted: int = 0
    rewritten: int = 0

    @property
    def taken(self) -> int:
        """Number of rows that the past cohort did not have."""
        return self.confirmed + self.ruled_out


# More than any training has: what is counted stays exact as a float.
MOST_ROWS = 1 << 53


class FileFacts(Document):
    """A file that was read, or the place and query of a database's answer.

    `columns` has the SHA-256 of the values of each column of an answer.
    """

    name: str
    sha256: str
    bytes: int
    rows: int
    place: str | None = None
    query_sha256: str | None = None
    columns: Mapping[str, str] | None = None


class SourceFacts(Document):
    """Origin of a table."""

    files: Sequence[FileFacts]
    delimiter: str | None
    encoding: str | None
    rows: int


class FeatureFacts(Document):
    """A feature in training.

    `reference` is the range of the contract; `seen` that of past patients: the
    contract's, else 5 to 95 % of training rows.
    """

    name: str
    type: str
    unit: str | None
    reference: Range | None
    seen: Range | None
    median: float | str | None
    description: str | None


class Leak(Document):
    """A question about columns that may be known only after the outcome.

    `column` is the first of `columns`; `figure` is its AUROC alone, None where no case
    has been seen.
    """

    code: str
    column: str
    figure: float | None
    said: str
    columns: Sequence[str] = ()

    @property
    def asked(self) -> Sequence[str]:
        """Columns that the question is about."""
        return self.columns or [self.column]


class ColumnBlock(Document):
    """Columns with the same information; `alone` is the best AUROC of one of them.

    `strongest` is that one, the first of `columns`.
    """

    columns: Sequence[str]
    alone: float
    strongest: str | None = None


# Rows of a level or a group below which nothing of it is shown, by default.
SMALLEST_CELL = 5


class GroupOfOutcome(Document):
    """A column among cases, or among others: counts, and quartiles of a number.

    Quartiles of fewer rows than the smallest cell are None.
    """

    present: int
    missing: int
    low: float | None
    median: float | None
    high: float | None


class LevelByOutcome(Document):
    """Share of a level among the cases, and among the others, that have a value."""

    level: str
    cases: float | None
    others: float | None


class ColumnByOutcome(Document):
    """A column by outcome, a line of JsonObject 1.

    `withheld` counts levels of fewer rows than the smallest cell, or beyond the ten
    most frequent. `difference` is standardised; of a category it has no sign.
    """

    column: str
    cases: GroupOfOutcome
    others: GroupOfOutcome
    levels: Sequence[LevelByOutcome]
    withheld: int
    difference: float | None


class BlockImportance(Document):
    """AUROC that is lost when columns are shuffled together among held-out rows."""

    columns: Sequence[str]
    lost: Estimate


class Importance(Document):
    """Features that the model's own ranking of the class `label` uses.

    `blocks` are those of `n_blocks` that lose most, the first the most.
    """

    label: str
    blocks: Sequence[BlockImportance]
    n_blocks: int


class Reliance(Document):
    """Blocks of columns that the ranking of the class `label` rests on.

    `whole` is the AUROC of `recipe`, a quick method, on the same folds. `blocks` are
    those that rank best alone, at most five, and `without` has the AUROC without the
    first, the first two, and so on.
    """

    recipe: str
    label: str
    whole: float
    blocks: Sequence[ColumnBlock]
    without: Sequence[float]

    @property
    def carrying(self) -> Sequence[ColumnBlock]:
        """Blocks that carry half of what lies above .5, or else all."""
        half = 0.5 + (self.whole - 0.5) / 2
        for number, area in enumerate(self.without, 1):
            if area <= half:
                return self.blocks[:number]
        return self.blocks


def group_with(name: str, groups: Iterable[Sequence[str]]) -> Sequence[str]:
    """Return the columns that are the same measurement as one, or that one alone."""
    return next((group for group in groups if name in group), [name])


def questions_at_approval(
    leaks: Iterable[Leak],
    reliance: Reliance | None,
    same_measurements: Sequence[Sequence[str]],
    unknown: Iterable[str] = (),
    known: Collection[str] = (),
) -> list[Sequence[str]]:
    """Return the columns that approval asks about, by question.

    Each question asks about its first column, for which no other one answers: the
    strongest of a block that carries the ranking, or another that is asked about.

    Parameters
    ----------
    leaks : iterable of Leak
    reliance : Reliance, optional
    same_measurements : sequence of sequence of str
        Groups of columns, where an answer about the first counts for all.
    unknown, known : collection of str
        Columns with an unknown answer in the contract, and those that are known before
        the outcome.
    """
    questions: dict[str, Sequence[str]] = {}
    for block in reliance.carrying if reliance else ():
        if block.strongest is None:
            # Training did not say which is strongest: any answers for the block.
            first = next((name for name in block.columns if name in known), "")
            first = first or block.columns[0]
        else:
            first = group_with(block.strongest, same_measurements)[0]
        questions[first] = list(dict.fromkeys([first, *block.columns]))
    for name in chain(*(leak.asked for leak in leaks), unknown):
        group = group_with(name, same_measurements)
        questions.setdefault(group[0], group)
    return [columns for first, columns in questions.items() if first not in known]


class KnownBefore(Document):
    """Columns that a person has declared to be known at the hour of the night."""

    columns: Sequence[str]
    by: str
    date: str


class Approximation(Document):
    """Cost of an approximation: AUROC on held-out rows of a sub-sample.

    `exact` is that of exact training, `landmarks` that of the approximation.
    """

    method: str
    n_landmarks: int
    n_rows: int
    exact: float
    landmarks: float
    note: str


class NumberProfile(Document):
    """Distribution of a number in training.

    Bins are closed on the right and end at `edges`; the last is open.
    """

    edges: Sequence[float]
    counts: Sequence[int]
    range: tuple[float, float] | None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if len(self.counts) != len(self.edges) + 1:
            raise ValueError("counts: expected one more than edges")
        if min(self.counts, default=0) < 0:
            raise ValueError("counts: a count is below 0")
        if sorted(self.edges) != [*self.edges]:
            raise ValueError("edges: an edge is below the one before")
        return self


class TextProfile(Document):
    """Frequency of each text or code in training; `more` rows had rarer ones."""

    counts: Mapping[str, int]
    more: int


class Profile(Document):
    """Profile of training that a night is compared with."""

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
            raise ValueError("features: there are more counted values than rows")
        return self


CheckDigit = Literal["luhn", "mod 11"]
# Share of ids from which collisions are not typing errors, but the spelling of these
# ids.
MAX_COLLIDING = 0.01


class IdShape(Document):
    """Format of the ids of a table, counted over its rows, or over its patients.

    `shortest` and `longest` are in characters. Number of ids by format:
    `leading_zeros`, digits with a leading zero; `digits`, digits alone; `hex`,
    hexadecimal digits with a letter among them, hyphens allowed; `separators`, with
    blanks, dots or other signs; `upper` and `lower`, with capital and small letters.
    `check_digit` is the one that all have, `wrong_check_digits` counts the ids of a
    night that have not training's. `colliding` counts the ids of training that are
    another one's but for zeros in front, blanks, dots or case.
    """

    n_rows: int
    shortest: int
    longest: int
    leading_zeros: int
    digits: int
    hex: int
    separators: int = 0
    upper: int = 0
    lower: int = 0
    check_digit: CheckDigit | None = None
    wrong_check_digits: int = 0
    colliding: int = 0

    @property
    def compared_whole(self) -> bool:
        """True if reduced forms say nothing of such ids: too many collide."""
        return self.colliding > MAX_COLLIDING * self.n_rows

    @property
    def letters(self) -> int:
        """Number of rows with other letters or signs in the id."""
        return self.n_rows - self.digits - self.hex


class TrainingFacts(Document):
    """Rows and settings of a training.

    `same_measurements` are groups of columns that are one measurement: an answer about
    the first counts for its group.
    """

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
    same_measurements: Sequence[Sequence[str]] = ()
    reliance: Reliance | None = None
    importance: Sequence[Importance] = ()
    table_one: Sequence[ColumnByOutcome] = ()
    approximation: Approximation | None = None
    verdicts: TrainedOn | None = None
    ids: IdShape | None = None
    group_ids: IdShape | None = None

    @property
    def alone(self) -> dict[str, float]:
        """AUROC of each single column that approval may ask about."""
        alone = {
            leak.column: leak.figure for leak in self.leaks if leak.figure is not None
        }
        for block in self.reliance.blocks if self.reliance else ():
            if block.strongest is not None:
                alone[block.strongest] = block.alone
        return alone

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if any(each.name not in self.missing for each in self.features):
            raise ValueError("features: a name has no entry in `missing`")
        return self


class FactorMap(Document):
    """The factor c(x) over two columns, the others at their typical values.

    `values` are those of each column, and `log_c` has a row for each value of the
    first: the mean over the machines, at most 0.
    """

    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    log_c: Sequence[Sequence[float]]


class MachineFacts(Document):
    """Size and certificate of the machines; empty for a baseline."""

    n_support_vectors: int | None
    sv_share: float | None
    passes: Sequence[JsonObject]
    kkt_gap: float | None
    factor_map: FactorMap | None = None


class MemberFacts(Document):
    """A member of a blend, with what is needed to rebuild its machines."""

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


class MemberAlone(PopulationFigures, OfRule):
    """Performance of a blend's member alone for one class.

    `weight` is its share of the blend, 0 to 1; `gains` are figures of all members minus
    those of the others, by name.
    """

    gains: Mapping[str, Estimate]
    weight: float


class BlendMember(Document):
    """A member of a blend, compared with the others."""

    recipe: str
    title: str
    classes: Mapping[str, MemberAlone]


class TaskFacts(Document):
    """The question asked of the label: one positive class, or several watched ones."""

    kind: str  # "binary" or "multi"
    label: str  # name of the label column
    positive: Sequence[str]  # named to be found; of several classes none need be
    classes: Sequence[
        str
    ]  # binary: "negative" and the positive class; else all, sorted as text
    watched: Sequence[str]  # those that get an operating point and can flag a row
    # label values of a class that several were joined to, by its name; any other has
    # its own name
    joined: Mapping[str, Sequence[str]] | None = None


class OriginFacts(Document):
    """The source model of a ranking in another place, and what was fitted there.

    `refitted` says what of its chances, by watched class.
    """

    model: str
    digest: str
    source: SourceFacts
    n_rows: int
    date: str
    refitted: Mapping[str, str]


class Approval(Document):
    """Approval of a model: by whom, when, and why if its verdict needed a reason.

    `drafts` are the digests of the model before its approvals, the last one last: its
    nights in shadow are under them.
    """

    by: str
    date: str
    reason: str | None
    drafts: Sequence[str] = ()


class ChangedClass(Document):
    """Threshold of a watched class before and after a change."""

    label: Annotated[str, Field(alias="class")]
    rule_after: StoredRule
    rule_before: StoredRule
    threshold_after: float
    threshold_before: float


class ThresholdRevision(Document):
    """A change of the threshold, and the digest that the model had before it.

    `approval` is what the change took away. By these a ledger that was not given finds
    later that a model is a revision of a series' champion.
    """

    model_before: str
    reason: str
    classes: Sequence[ChangedClass]
    approval: Approval | None = None


class NeededPlugin(Document):
    """A plug-in without which the model cannot be used, by its distribution.

    `members` are what its machines are built of, such as "factor.slab".
    """

    name: str
    version: str
    members: Sequence[str]


class ModelDocument(Document):
    """The document of a model directory, `model.json`.

    Without an `approval` the model is a draft. `known_before` has the declarations that
    columns are known at the hour of the night. `thresholds_before` has the changes of
    the threshold, the last one last. `contract` is the cohort's contract, documented by
    its own type (`screening.contract.contract.Contract`). After the day `retrain_by`
    the model no longer scores: it contains rows of an erased patient. `origin` is the
    model that was recalibrated; validation is then of the new site's rows.
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
    plugins: Sequence[NeededPlugin] = ()
    blend: Sequence[BlendMember] = ()
    attention: Sequence[Reason]
    # What sealing adds once the page is drawn has a default.
    arrays_sha256: str = ""
    validation_sha256: str = ""
    format_version: int = FORMAT_VERSION
    retrain_by: str | None = None
    approval: Approval | None = None
    known_before: Sequence[KnownBefore] = ()
    thresholds_before: Sequence[ThresholdRevision] = ()
    origin: OriginFacts | None = None
    sha256: str = ""

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        """Refuse figures of another rule or threshold than the one in use."""
        validation = self.validation
        for number, point in enumerate(self.operating_points):
            name = point.label
            figures = [
                *validation.subgroups.get(name, ()),
                *validation.crossed.get(name, ()),
                *filter(None, [validation.predictive.get(name)]),
            ]
            if any(block.threshold != point.threshold for block in figures):
                raise ValueError(
                    f"validation: figures of {name} belong to another threshold"
                )
            rules = [block.rule for block in figures]
            rules += self._rules_of_comparisons(number, name)
            if any(rule != point.rule for rule in rules):
                raise ValueError(
                    f"validation: figures of {name} belong to another rule"
                )
        return self

    def _rules_of_comparisons(self, number: int, name: str) -> Iterator[Rule]:
        """Yield the rules of members, other methods and temporal validation."""
        for member in self.blend:
            yield member.classes[name].rule
        if self.validation.comparison:
            yield self.validation.comparison.rules[number]
        forward = self.validation.forward
        if forward and forward.classes and name in forward.classes:
            yield forward.classes[name].rule

    def brief(self) -> Brief:
        """Return the method, its rows and its operating points."""
        points = [
            (
                one.label,
                f"{one.threshold:.3g}",
                one["sensitivity"].in_percent,
                one["specificity"].in_percent,
            )
            for one in self.operating_points
        ]
        words = f"{self.recipe.title}, trained on {self.training.n_rows_used} rows"
        return Brief(
            words, ("class", "threshold", "sensitivity", "specificity"), points
        )

    def carrying(self, label: str) -> list[BlendMember]:
        """Return the members without which the blend ranks significantly worse."""
        return [
            member
            for member in self.blend
            if any(gain.is_above(0) for gain in member.classes[label].gains.values())
        ]

    @cached_property
    def stated(self) -> CohortDeclaration:
        """Statements of the contract about the whole cohort."""
        return CohortDeclaration.from_dict(self.contract.get("cohort", {}))

    def declared(self, feature: str) -> FeatureDeclaration:
        """Return what the contract declares of a feature; nothing if unknown."""
        return FeatureDeclaration.from_dict(
            self.contract.get("features", {}).get(feature, {})
        )

    @property
    def columns_known_before(self) -> set[str]:
        """Columns that were declared to be known before the outcome.

        An answer about the first of several that are the same measurement counts for
        all.
        """
        known: set[str] = set()
        for answer in self.known_before:
            known.update(answer.columns)
        for group in self.training.same_measurements:
            if group[0] in known:
                known.update(group)
        declared = self.contract.get("features", {})
        known.update(
            name
            for name, feature in declared.items()
            if feature.get("available") == "before"
        )
        return known

    @property
    def open_questions(self) -> list[Leak]:
        """Unanswered questions about columns."""
        known = self.columns_known_before
        return [
            leak for leak in self.training.leaks if not known.issuperset(leak.asked)
        ]

    @property
    def unanswered(self) -> list[Sequence[str]]:
        """Columns that approval asks about, by question without an answer.

        The first column of each is to be answered.
        """
        unknown = [
            name
            for name, feature in self.contract.get("features", {}).items()
            if feature.get("available") == "unknown"
        ]
        training = self.training
        return questions_at_approval(
            training.leaks,
            training.reliance,
            training.same_measurements,
            unknown,
            self.columns_known_before,
        )

    @property
    def columns_of_ranking(self) -> list[str]:
        """Columns that carry the ranking, the most important ones first."""
        reliance = self.training.reliance
        if reliance:
            return [name for block in reliance.carrying for name in block.columns]
        blocks = [block for each in self.training.importance for block in each.blocks]
        return list(dict.fromkeys(name for block in blocks for name in block.columns))

    def title_of(self, feature: str) -> str:
        """Return a feature's title, by default the column's name as words."""
        return self.declared(feature).title or feature.replace("_", " ")

    @cached_property
    def points(self) -> list[OperatingPointFacts]:
        """Operating points in use, the rarest class first."""
        return sorted(self.operating_points, key=lambda point: point.n_positive)

    @property
    def multi(self) -> bool:
        """True if the model distinguishes several classes."""
        return self.task.kind == "multi"

    @property
    def by_excess(self) -> bool:
        """True if rows are ranked by the distance to their class's threshold."""
        return len(self.operating_points) > 1

    @property
    def unit_of_review(self) -> str:
        """Name of a row on the page."""
        return "voxel" if self.stated.coordinates else "row"


def drafts_of(model: ModelDocument) -> list[str]:
    """Return the digests that a model had before its approvals; none for a draft."""
    return [] if model.approval is None else list(model.approval.drafts)
