"""What the ledger tells of the nights so far, with control charts and shadows: counts, no patient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from screening.schemas.base import PART, Document, Estimate, Reason
from screening.schemas.figures import StoredRule
from screening.schemas.model import TrainedOn
from screening.schemas.run import ScoreCounts, Unflagged

Measure = Literal["workload", "yield", "refused", "missing"]


class ControlPoint(Document):
    """A night on a chart: `count` of `of`, and between which shares it was expected to lie.

    None where a night has nothing to count, or the phase has no limits yet.
    """

    night: str
    count: int
    of: int
    share: float | None
    low: float | None
    high: float | None

    @property
    def outside(self) -> bool:
        """Whether it lies beyond a limit."""
        if self.share is None or self.low is None or self.high is None:
            return False
        return not self.low - 1e-12 <= self.share <= self.high + 1e-12


class Phase(Document):
    """Nights under one model and threshold; the first `baseline` of them fix centre and limits.

    `began` says what was new. `spread` is how much more its nights differ than chance explains (Laney's
    sigma of z; 1 is a plain p-chart). `frozen` is False while the baseline still grows.
    """

    began: str
    baseline: int
    frozen: bool
    centre: float | None
    spread: float | None
    points: Sequence[ControlPoint]


class ControlChart(Document):
    """A share night by night, in phases; `signals` has the nights beyond a limit, in words."""

    measure: Measure
    phases: Sequence[Phase]
    signals: Sequence[Reason]


class SensitivityAndPpv(Document):
    """Share found of those with the condition, and share with it of those flagged."""

    sensitivity: Estimate
    ppv: Estimate


class ForwardNights(Document):
    """The champion's nights in force beside its validation estimate: of all flagged, who stay included.

    `seen.ppv` is that of all flagged. `seen.sensitivity` sets the cases among a night's flagged against those
    that the random audit makes of its unflagged. `promised` is None where its rows are not the patients that
    the ledger counts. `below` names the figures that lie below it by more than chance, at whatever look.
    """

    model: str
    nights: int
    first: str
    last: str
    seen: SensitivityAndPpv
    promised: SensitivityAndPpv | None
    below: Sequence[Literal["sensitivity", "ppv"]]


@dataclass(frozen=True, kw_only=True, config=PART)
class JudgedShare(Estimate):
    """Share with the condition among those judged, with its 95 % interval; None where nobody was."""

    found: int
    judged: int


class Workload(Document):
    """Means over the nights in force."""

    cases_per_night: float | None
    waiting_per_night: float | None
    minutes_per_night: float | None


class Flagging(Workload):
    """What one of the two flagged.

    `model` is that of these nights, or all where one took another's place between them. `only` counts flags
    of cases that the other did not flag on the same night, and `only_ppv` is of these patients;
    `waiting_per_night` counts those new or pending.
    """

    series: str
    model: str
    shadow: bool
    ppv: JudgedShare
    only: int
    only_ppv: JudgedShare


class NightsBeside(Document):
    """How far two agree.

    `agreement` is the share of rows (patients, where rows come in groups) on which both say the same, `kappa`
    what of it chance does not explain (Cohen 1960); both are over the nights on which both scored the same
    table, and None where there are none. A patient counts on each night.
    """

    nights: int
    first: str | None
    last: str | None
    other_tables: int
    both: int
    neither: int
    agreement: float | None
    kappa: float | None
    one: Flagging
    other: Flagging


class Question(Document):
    """What is asked of the tables, and by which columns patients are known again."""

    group: str | None
    id: str | None
    label: str
    positive: Sequence[str]

    @property
    def recognisable(self) -> bool:
        """Whether an id means the same patient on another night."""
        return bool(self.id or self.group)


class Words(Document):
    """How often each verdict was given."""

    confirmed: int
    ruled_out: int
    unsure: int
    known: int
    disputed: int = 0

    @property
    def found(self) -> int:
        """Those that have the condition, newly seen or known before."""
        return self.confirmed + self.known

    @property
    def judged(self) -> int:
        """Those judged: who is unsure has not judged, nor have two who contradict each other."""
        return self.found + self.ruled_out


@dataclass(frozen=True, kw_only=True, config=PART)
class ShareToDate(JudgedShare):
    """The share as it stood on a night."""

    night: str


@dataclass(frozen=True, kw_only=True, config=PART)
class FlaggedShare(JudgedShare):
    """Share with the condition among all flagged of `nights`, a patient counting on each.

    By the verdicts of earlier nights and the random audit; `judged` are patients.
    """

    flagged: int
    nights: int


class Misses(Document):
    """Cases among the unflagged, a night, by the random audit of them."""

    found: int
    judged: int
    unflagged: int
    nights: int
    per_night: Estimate


class DriftOver(Document):
    """The scores of recent nights' patients, each once, against those held out in training."""

    nights: int
    patients: int
    distance: float | None
    p: float | None
    reason: Reason | None


class MissingValues(Document):
    """Values of features that were missing on a night, of all."""

    missing: int
    values: int


CASE_COUNTS = ("cases", "new", "pending", "ruled_out", "known", "no_longer_flagged")
"""Of a night: its flagged cases, by their states, and those of the night before."""


class NightFigures(Document):
    """What a night counted and what it was scored with; no patient."""

    run_id: str
    question: Question
    title: str | None
    model: str
    recipe: str
    thresholds: Mapping[str, float]
    read: int
    refused: int
    scored: int
    flagged: int
    cases: int = 0
    new: int = 0
    pending: int = 0
    ruled_out: int = 0
    known: int = 0
    no_longer_flagged: int = 0
    unflagged: Unflagged
    minutes_per_review: float | None
    capacity: int | None
    missing: MissingValues | None = None
    drift: ScoreCounts | None
    attention: Sequence[Reason] = ()

    @property
    def waiting(self) -> int:
        """Cases without a verdict that holds."""
        return self.new + self.pending

    @property
    def review_minutes(self) -> float | None:
        """What reviewing those who wait takes."""
        return (
            None
            if self.minutes_per_review is None
            else self.waiting * self.minutes_per_review
        )


class NightRun(NightFigures):
    """One run of a night: what it counted, and the verdicts since."""

    night: str
    revision: int
    series: str
    recorded: str
    in_force: bool
    flag_rate: float | None
    minutes: float | None
    verdicts: Words
    ppv: JudgedShare
    sample: Words


class SeriesFacts(Document):
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


class ChangedClass(Document):
    """A watched class's threshold before and after."""

    label: Annotated[str, Field(alias="class")]
    rule_after: StoredRule
    rule_before: StoredRule
    threshold_after: float
    threshold_before: float


class ThresholdChange(Document):
    """Another threshold chosen for a model."""

    classes: Sequence[ChangedClass]
    model_after: str
    model_before: str
    reason: str | None
    series: str | None = None
    entry: int
    recorded: str


class Promotion(Document):
    """Another model made the champion of a series, and what its nights in shadow had shown by then."""

    evidence: NightsBeside
    model_after: str
    model_before: str | None
    reason: str
    series: str
    entry: int
    recorded: str


class Retraining(Document):
    """A model trained on the verdicts of a series; in force only once it is promoted."""

    champion: str
    model: str
    series: str
    trained_on: TrainedOn
    entry: int
    recorded: str


class Retirement(Document):
    """A series closed: `status` waits for it no longer, until a night after `last` comes."""

    last: str
    reason: str
    series: str
    entry: int
    recorded: str


class Trail(Document):
    """How far the audit trail reaches, and whether it was followed from its start."""

    entries: int
    head: str
    verified: bool
    erased: int = 0


class HistoryDocument(Document):
    """Everything that the nights so far add up to."""

    TITLE: ClassVar[str] = "the history"

    runs: Sequence[NightRun]
    series: Sequence[SeriesFacts]
    threshold_changes: Sequence[ThresholdChange]
    promotions: Sequence[Promotion] = ()
    retrainings: Sequence[Retraining] = ()
    retirements: Sequence[Retirement] = ()
    audit: Trail


def _require_all(schema: dict[str, Any]) -> None:
    schema["required"] = [*schema["properties"]]


@dataclass(frozen=True, config=ConfigDict(**PART, json_schema_extra=_require_all))
class SeriesStatus:
    """Whether a series' night came, and what it says."""

    fine: bool
    said: str  # One line, no patient in it.
    series: str | None = (
        None  # As it is shown; None where the ledger itself cannot be read or holds none.
    )
    night: str | None = None  # The last that is in force.
    came: str | None = None  # When that night was first published, ISO 8601.
    age_hours: float | None = None  # Hours since.
    attention: Sequence[
        Reason
    ] = ()  # Why that night wants a look: what nobody acknowledged.
    counts: Mapping[str, int] | None = None  # Rows and cases of that night.
    # Day after which its model is to be reviewed; not known of nights from before it was kept.
    review_by: str | None = None


class SeriesNight(Document):
    """One night of one series: done now, done before, left out, or why it could not be done."""

    series: str
    night: str
    status: Literal["published", "unchanged", "failed", "left out", "given up"]
    shadow: bool
    exit_code: int = 0
    said: str | None = None
    model: str
    # From here on of its run, where there is one.
    run_id: str | None = None
    scored: int | None = None
    refused: int | None = None
    flagged: int | None = None
    to_review: int | None = None
    capacity: int | None = None
    drift_p: float | None = None
    attention: Sequence[Reason] = ()
    acknowledged: Sequence[Reason] = ()  # Reasons that rest.
    page: str | None = None
    peak_mb: int | None = None


class OverviewDocument(Document):
    """Every series of a site on one night, and the missed nights that were caught up."""

    title: str
    night: str
    exit_code: int
    series: Sequence[SeriesNight]
    shadows: Sequence[SeriesNight]
    caught_up: Sequence[SeriesNight]


class HookFacts(Document):
    """How a command that is run after the night ended."""

    command: str
    fine: bool
    said: str
