"""What the ledger tells of the nights so far: counts only, no patient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from screening.documents.control import ControlChart
from screening.documents.drift import ScoreCounts
from screening.documents.forward import ForwardNights
from screening.documents.reason import Reason
from screening.documents.retraining import TrainedOn
from screening.documents.rule import Rule
from screening.documents.run import Unflagged
from screening.documents.shadow import JudgedShare, NightsBeside
from screening.documents.shape import document, named, rare


@document
class Question:
    """What is asked of the tables, and by which columns patients are known again."""

    group: str | None
    id: str | None
    label: str
    positive: Sequence[str]


@document
class Words:
    """How often each verdict was given."""

    confirmed: int
    not_: Annotated[int, named("not")]
    unsure: int
    known: int

    @property
    def found(self) -> int:
        """Those that have the condition, newly seen or known before."""
        return self.confirmed + self.known

    @property
    def judged(self) -> int:
        """Those judged: who is unsure has not judged."""
        return self.found + self.not_


@document
class ShareToDate(JudgedShare):
    """The share as it stood on a night."""

    ORDER: ClassVar[tuple[str, ...]] = ("night",)

    night: str


@document
class FlaggedShare(JudgedShare):
    """Share with the condition among all new cases of `nights`, by those that lots marked."""

    ORDER: ClassVar[tuple[str, ...]] = ("found", "judged", "drawn", "flagged", "nights")

    drawn: int
    flagged: int
    nights: int


@document
class Misses:
    """Cases among the unflagged, a night, by those drawn at random from them."""

    found: int
    judged: int
    unflagged: int
    nights: int
    per_night: float | None
    per_night_low: float | None
    per_night_high: float | None


@document
class Workload:
    """Means over the nights in force."""

    cases_per_night: float | None
    waiting_per_night: float | None
    minutes_per_night: float | None


@document
class DriftOver:
    """The scores of recent nights' patients, each once, against those held out in training."""

    nights: int
    patients: int
    distance: float | None
    p: float | None
    reason: Reason | None


@document
class MissingValues:
    """Values of features that were missing on a night, of all."""

    missing: int
    values: int


@document
class NightRun:
    """One run of a night: what it counted, and what was said of it since."""

    night: str
    run_id: str
    revision: int
    series: str
    question: Question
    title: str | None
    model: str
    recipe: str
    thresholds: Mapping[str, float]
    recorded: str
    published: bool
    in_force: bool
    flagged: int
    read: int
    refused: int
    scored: int
    new: int
    ongoing: int
    reviewed: int
    known: int
    cases: int
    resolved: int
    flag_rate: float | None
    minutes: float | None
    capacity: int | None
    verdicts: Words
    ppv: JudgedShare
    sample: Words
    unflagged: Unflagged
    missing: MissingValues | None = None
    drift: ScoreCounts | None
    attention: Sequence[Reason]


@document
class SeriesFacts:
    """What the nights of one series add up to."""

    series: str
    title: str | None
    question: Question
    nights: int
    first: str | None
    last: str | None
    ppv: JudgedShare
    ppv_flagged: FlaggedShare
    verdicts: Words
    ppv_to_date: Sequence[ShareToDate]
    workload: Workload
    misses: Misses
    drift: DriftOver | None
    control: Sequence[ControlChart] = ()
    forward: ForwardNights | None = None
    review_by: str | None = None


@document
class ChangedClass:
    """A watched class's threshold before and after."""

    label: Annotated[str, named("class")]
    rule_after: Rule
    rule_before: Rule
    threshold_after: float
    threshold_before: float


@document
class ThresholdChange:
    """Another threshold chosen for a model."""

    classes: Sequence[ChangedClass]
    model_after: str
    model_before: str
    reason: str | None
    series: str | None = rare()
    entry: int
    recorded: str


@document
class Promotion:
    """Another model made the champion of a series, and what its nights in shadow had shown by then."""

    evidence: NightsBeside
    model_after: str
    model_before: str | None
    reason: str
    series: str
    entry: int
    recorded: str


@document
class Retraining:
    """A model trained on the verdicts of a series; in force only once it is promoted."""

    champion: str
    model: str
    series: str
    trained_on: TrainedOn
    entry: int
    recorded: str


@document
class Retirement:
    """A series closed: `status` waits for it no longer, until a night after `last` comes."""

    last: str
    reason: str
    series: str
    entry: int
    recorded: str


@document
class Trail:
    """How far the audit trail reaches, and whether it was followed from its start."""

    entries: int
    head: str
    verified: bool
    erased: int = 0


@document
class HistoryDocument:
    """Everything that the nights so far add up to."""

    runs: Sequence[NightRun]
    series: Sequence[SeriesFacts]
    threshold_changes: Sequence[ThresholdChange]
    promotions: Sequence[Promotion] = ()
    retrainings: Sequence[Retraining] = ()
    retirements: Sequence[Retirement] = ()
    audit: Trail
