"""Documents of the ledger, without patients: nights, control charts, shadows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from screening.schemas.base import (
    PART,
    Document,
    Estimate,
    PopulationFigures,
    Reason,
)
from screening.schemas.figures import LabelledCounts
from screening.schemas.model import (
    Approval,
    ChangedClass,
    ModelDocument,
    TrainedOn,
)
from screening.schemas.run import ExpectedCases, ScoreCounts, Unflagged

Measure = Literal["workload", "yield", "refused", "missing"]


class ControlPoint(Document):
    """A night on a control chart: `count` of `of`, with its control limits.

    None if a night has nothing to count, or the phase has no limits yet.
    """

    night: str
    count: int
    of: int
    share: float | None
    low: float | None
    high: float | None

    @property
    def outside(self) -> bool:
        """True if the point is beyond a limit."""
        if self.share is None or self.low is None or self.high is None:
            return False
        return not self.low - 1e-12 <= self.share <= self.high + 1e-12


class Phase(Document):
    """Nights under one model and threshold.

    The first `baseline` of them fix centre and limits. `began` is the change that began
    it. `spread` is how much more its nights vary than chance explains (Laney's sigma of
    z; 1 is a plain p-chart). `frozen` is False while the baseline still grows.
    """

    began: str
    baseline: int
    frozen: bool
    centre: float | None
    spread: float | None
    points: Sequence[ControlPoint]


class ControlChart(Document):
    """A share by night, in phases; `signals` describes the nights beyond a limit."""

    measure: Measure
    phases: Sequence[Phase]
    signals: Sequence[Reason]


class SensitivityAndPpv(Document):
    """Sensitivity, and PPV of all flagged."""

    sensitivity: Estimate
    ppv: Estimate


class LabelledNights(LabelledCounts):
    """Sums over the labelled nights of a model; a patient counts on each night."""

    nights: int


class ForwardNights(Document):
    """Performance on the champion's nights in force, next to its validation estimate.

    `seen.ppv` is of all flagged; a patient counts on each night.
    `seen.sensitivity` relates the cases among a night's flagged to those that the
    random audit estimates among its unflagged. `promised` is None if the rows of
    validation are not the patients that the ledger counts; its figures are undefined if
    validation had no case. `below` names the figures that are significantly below it,
    valid at every look. `labelled` sums up nights with labels in their tables.
    """

    model: str
    nights: int
    first: str
    last: str
    seen: SensitivityAndPpv
    promised: SensitivityAndPpv | None
    below: Sequence[Literal["sensitivity", "ppv"]]
    labelled: LabelledNights | None = None


class KnownNights(PopulationFigures):
    """Rows of nights whose outcome is known; intervals of figures are by patient.

    A patient counts on each night.
    """

    nights: int
    rows: int
    patients: int
    cases: int
    flagged: int
    true_positive: int


class OutcomesByMonth(KnownNights):
    """Outcomes of one month, YYYY-MM.

    `left_out` has the number of rows that count in no rate, by reason (see
    `OutcomeFigures`).
    """

    month: str
    left_out: Mapping[str, int] = {}


class LeadTime(Document):
    """Time from flag to event, in hours: medians, with quartiles of four or more.

    `detected` of the `events` were flagged on the last night before, and
    `median_hours`, `low_hours` and `high_hours` count from the first night of the
    unbroken row of flagged nights that ends there, however long ago.
    `flagged_earlier` events were flagged in the window, but not on its last night
    before the event: they are neither found nor missed. `first_` hours count from the
    first flag in the window, of all events that were flagged in it.
    """

    events: int
    detected: int
    median_hours: float | None
    low_hours: float | None
    high_hours: float | None
    flagged_earlier: int = 0
    first_median_hours: float | None = None
    first_low_hours: float | None = None
    first_high_hours: float | None = None

    @property
    def not_flagged(self) -> int:
        """Number of events without a flag in their window."""
        return self.events - self.detected - self.flagged_earlier


class SubgroupLead(LeadTime):
    """Lead time in a subgroup: the value that its column had on the last night before.

    Values of few events are left out, as the contract's `suppress` says.
    """

    column: str
    level: str


class OutcomesByClass(KnownNights):
    """Figures of the events of one class, and of its own flags."""

    label: Annotated[str, Field(alias="class")]
    lead: LeadTime


class PatientsOfTable(Document):
    """Patients of a table of outcomes, and how many of them no night scored.

    `usual_unknown` of `usual_patients` were unknown in the largest of the tables
    before, None for the first table; `grown` if it is more now than chance explains.
    An `accepted` table is the first one again.
    """

    patients: int
    unknown: int
    usual_patients: int | None = None
    usual_unknown: int | None = None
    grown: bool = False
    accepted: bool = False


class OutcomeFigures(KnownNights):
    """Outcomes of all rows of the champion's nights in force, flagged or not.

    An event `after_hours` to `within_hours` after the hour of a night makes the row a
    case. Rows that count in no rate are `left_out`, by reason: "past" rows are of
    patients after an event, "unknown" ones of cases known without a time, "censored"
    ones of stays that ended before the window did, and "open" ones wait for the end of
    their window. `open` and `past` are two of these. Outcomes are `complete` up to a
    time that may be before `as_of`, which `reach` explains. `at_noon` events are known
    by their date alone, `twice` ones lie in an hour that exists twice. `hours` has the
    number of nights by what their hour is known from. `below` names the figures that
    are significantly below `promised`, valid at every look; they are those `seen` on
    the `seen_nights` nights of the model that promised. AUROC is of these nights too,
    because scores of two models have no common order. `agreement` has by verdict the
    rows that turned out as "case" and as "none", `actions` has the same by what was
    done for them. `unread` counts nights without their run directory. For a model of
    several classes, the figures are of any event and any flag, and `by_class` of each
    class; their scores have no common order, and AUROC is by class. `table` counts the
    patients of the table that was read last.
    """

    as_of: str
    within_hours: float
    after_hours: float
    open: int
    past: int
    lead: LeadTime
    promised: SensitivityAndPpv | None
    below: Sequence[Literal["sensitivity", "ppv"]]
    agreement: Mapping[str, Mapping[str, int]]
    actions: Mapping[str, Mapping[str, int]] = {}
    by_month: Sequence[OutcomesByMonth]
    seen: SensitivityAndPpv | None = None
    seen_nights: int = 0
    unread: int = 0
    by: Literal["patient", "stay"] = "patient"
    again_hours: float | None = None
    events: Literal["any", "first"] = "any"
    known_without_time: Literal["leave_out", "case"] = "leave_out"
    left_out: Mapping[str, int] = {}
    complete: str | None = None
    reach: str | None = None
    at_noon: int = 0
    twice: int = 0
    time_zone: str | None = None
    is_zone_of_host: bool = False
    hours: Mapping[str, int] = {}
    lead_by_subgroup: Sequence[SubgroupLead] = ()
    by_class: Sequence[OutcomesByClass] = ()
    table: PatientsOfTable | None = None


@dataclass(frozen=True, kw_only=True, config=PART)
class JudgedShare(Estimate):
    """Share with the condition among judged cases, with its 95 % interval.

    None if none was judged.
    """

    found: int
    judged: int


class Workload(Document):
    """Means over the nights in force."""

    cases_per_night: float | None
    waiting_per_night: float | None
    minutes_per_night: float | None


class Flagging(Workload):
    """Flags of one of two models.

    `model` is that of these nights, or all if it changed between them. `only` counts
    flags of cases that the other did not flag on the same night, and `only_ppv` is of
    these patients; `waiting_per_night` counts those new or pending.
    """

    series: str
    model: str
    shadow: bool
    ppv: JudgedShare
    only: int
    only_ppv: JudgedShare


class NightsBeside(Document):
    """Agreement of two models.

    `agreement` is the share of rows (patients, if rows are grouped) on which both
    agree, `kappa` its part that chance does not explain (Cohen 1960). Both are over the
    nights on which both scored the same table, None if there are none. A patient counts
    on each night.
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
    """The question of a series: its label, and the columns that identify patients."""

    group: str | None
    id: str | None
    label: str
    positive: Sequence[str]

    @classmethod
    def of(cls, model: ModelDocument) -> Question:
        """Return the question that a model was trained to answer."""
        columns = model.contract["cohort"]
        return cls(
            label=model.task.label,
            positive=sorted(model.task.positive),
            id=columns["id"],
            group=columns["group"],
        )

    @property
    def recognisable(self) -> bool:
        """True if an id identifies the same patient on another night."""
        return bool(self.id or self.group)


class Words(Document):
    """Number of verdicts of each kind."""

    confirmed: int
    ruled_out: int
    unsure: int
    known: int
    disputed: int = 0

    @property
    def found(self) -> int:
        """Number with the condition, new or known before."""
        return self.confirmed + self.known

    @property
    def judged(self) -> int:
        """Number judged, without those unsure or disputed."""
        return self.found + self.ruled_out


@dataclass(frozen=True, kw_only=True, config=PART)
class ShareToDate(JudgedShare):
    """A share as it was up to a night."""

    night: str


@dataclass(frozen=True, kw_only=True, config=PART)
class FlaggedShare(JudgedShare):
    """Share with the condition among all flagged; a patient counts on each night.

    Estimated from verdicts of earlier nights and the random audit; `judged` counts
    patients.
    """

    flagged: int
    nights: int


class Misses(Document):
    """Cases among the unflagged of a night, estimated by their random audit."""

    found: int
    judged: int
    unflagged: int
    nights: int
    per_night: Estimate


class DriftOver(Document):
    """Scores of recent patients, each counted once, compared with earlier ones.

    These are the patients of the nights before or, as long as there are few, training.
    """

    nights: int
    patients: int
    distance: float | None
    p: float | None
    reason: Reason | None


class MissingValues(Document):
    """Number of missing values of features on a night, and of all values."""

    missing: int
    values: int


CASE_COUNTS = ("cases", "new", "pending", "ruled_out", "known", "no_longer_flagged")
"""States of the cases of a night: its flagged ones, and those of the night before."""


class NightFigures(Document):
    """Counts of a night and the model that scored it; nothing of a patient."""

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
    out_of_bounds: int = 0
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
    labelled: LabelledCounts | None = None
    expected: ExpectedCases | None = None
    drift: ScoreCounts | None
    attention: Sequence[Reason] = ()

    @property
    def waiting(self) -> int:
        """Number of cases without a valid verdict."""
        return self.new + self.pending

    @property
    def review_minutes(self) -> float | None:
        """Minutes that reviewing the waiting cases takes."""
        return (
            None
            if self.minutes_per_review is None
            else self.waiting * self.minutes_per_review
        )


class NightRun(NightFigures):
    """A run of a night: its counts, and the verdicts since."""

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


class MonthlyRates(Document):
    """Counts of some months, and rates per 1,000 patient-days with 95 % intervals.

    Intervals take events as independent of each other (Poisson, exact).
    `interventions` are None where they are not counted.
    """

    month: str
    patient_days: int
    outcomes: int
    interventions: int | None
    outcome_rate: Estimate
    intervention_rate: Estimate


class BeforeAfter(Document):
    """Outcomes and interventions of the months before and after a screen went live.

    `live` is its first night; the month of that night is in neither sum. `before` and
    `after` are None without whole months.
    """

    live: str
    months: Sequence[MonthlyRates]
    before: MonthlyRates | None
    after: MonthlyRates | None


class SeriesFacts(Document):
    """Figures over the nights of a series."""

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
    outcomes: OutcomeFigures | None = None
    review_by: str | None = None
    # Of the model of the last night, when it was scored.
    is_draft: bool = False
    approval: Approval | None = None
    verdict: str | None = None
    before_after: BeforeAfter | None = None


class ThresholdChange(Document):
    """A change of a model's threshold."""

    classes: Sequence[ChangedClass]
    model_after: str
    model_before: str
    reason: str | None
    series: str | None = None
    entry: int
    recorded: str


class ModelApproved(Document):
    """An approval of a model; machines and threshold stay those of `model_before`."""

    by: str
    date: str
    model_after: str
    model_before: str
    reason: str | None
    series: str | None = None
    entry: int
    recorded: str


class Promotion(Document):
    """A model made champion of a series, and the figures of its nights in shadow."""

    evidence: NightsBeside
    model_after: str
    model_before: str | None
    reason: str
    series: str
    entry: int
    recorded: str


class Retraining(Document):
    """A model trained on the verdicts of a series; not in use until promoted."""

    champion: str
    model: str
    series: str
    trained_on: TrainedOn
    entry: int
    recorded: str


class Retirement(Document):
    """A closed series: `status` expects no night until one after `last` comes."""

    last: str
    reason: str
    series: str
    entry: int
    recorded: str


class Trail(Document):
    """Length and head of the audit trail, and whether it was verified."""

    entries: int
    head: str
    verified: bool
    erased: int = 0


class HistoryDocument(Document):
    """The document of all nights so far."""

    TITLE: ClassVar[str] = "the history"

    runs: Sequence[NightRun]
    series: Sequence[SeriesFacts]
    threshold_changes: Sequence[ThresholdChange]
    approvals: Sequence[ModelApproved] = ()
    promotions: Sequence[Promotion] = ()
    retrainings: Sequence[Retraining] = ()
    retirements: Sequence[Retirement] = ()
    audit: Trail


def _require_all(schema: dict[str, Any]) -> None:
    schema["required"] = [*schema["properties"]]


@dataclass(frozen=True, config=ConfigDict(**PART, json_schema_extra=_require_all))
class SeriesStatus:
    """State of the night of a series: came or missing, in words."""

    fine: bool
    said: str  # One line, no patient in it.
    series: str | None = (
        None  # As it is shown; None if the ledger cannot be read or has none.
    )
    night: str | None = None  # The last that is in force.
    came: str | None = None  # When that night was first published, ISO 8601.
    age_hours: float | None = None  # Hours since.
    attention: Sequence[Reason] = ()  # Reasons of that night, not acknowledged.
    counts: Mapping[str, int] | None = None  # Rows and cases of that night.
    expected: Mapping[str, float | None] | None = None  # By its chances.
    # Day after which its model is to be reviewed; not known of nights from before it
    # was kept.
    review_by: str | None = None


class SeriesNight(Document):
    """Result of a night of a series: done now or before, left out, or failed."""

    series: str
    night: str
    status: Literal["published", "unchanged", "failed", "left out", "given up"]
    shadow: bool
    exit_code: int = 0
    said: str | None = None
    # What to type about a night that failed, or has new reasons for attention, once
    # their cause is repaired.
    remedies: Sequence[str] = ()
    model: str
    # From here on of its run, where there is one.
    run_id: str | None = None
    scored: int | None = None
    refused: int | None = None
    flagged: int | None = None
    to_review: int | None = None
    capacity: int | None = None
    drift_p: float | None = None
    # Of the series in the ledger, up to this night: cases of the night before without a
    # verdict, and patients found in the last 30 days.
    verdicts_late: int | None = None
    found_recently: int | None = None
    attention: Sequence[Reason] = ()
    acknowledged: Sequence[Reason] = ()  # Reasons that rest.
    page: str | None = None
    peak_mb: int | None = None
    # Of the run's model; a run without one is of a draft.
    approval: Approval | None = None

    @property
    def is_draft(self) -> bool:
        """True if the night was scored by a model without approval."""
        return self.run_id is not None and self.approval is None


class VerdictsRead(Document):
    """Result of reading a file of verdicts in a site's folder.

    `superseded` verdicts are of cases that a corrected table no longer has. `refused`
    says why the file could not be used. One that `waits` is still in the folder, until
    the lost run directory of its night is made again, or the section of its series is
    back.
    """

    file: str
    series: str | None = None
    night: str | None = None
    verdicts: int = 0
    new: int = 0
    changed: int = 0
    disputed: int = 0
    superseded: int = 0
    refused: str | None = None
    waits: bool = False


class OutcomesRead(Document):
    """Result of reading a series' table of outcomes: numbers of patients.

    Of the `corrected` ones, `withdrawn` were cases before and are none now. `unknown`
    ones of the `table` were on no night. `refused` says why the table could not be
    used; `remedies` are the commands that settle it.
    """

    series: str
    new: int = 0
    corrected: int = 0
    withdrawn: int = 0
    unknown: int = 0
    table: PatientsOfTable | None = None
    refused: str | None = None
    remedies: Sequence[str] = ()


class AsOf(Document):
    """The table of a past night made again, beside the one that was scored.

    `new` rows were not scored, `gone` ones are no longer there. `columns` are those
    that changed; None where the night kept nothing to compare.
    """

    series: str
    night: str
    same: bool
    rows: int
    new: int
    gone: int
    columns: Sequence[str] | None


class OverviewDocument(Document):
    """The document of all series of a site on one night, and of missed nights."""

    title: str
    night: str
    exit_code: int
    series: Sequence[SeriesNight]
    shadows: Sequence[SeriesNight]
    caught_up: Sequence[SeriesNight]
    # What all series show together, and what of it was acknowledged.
    attention: Sequence[Reason] = ()
    acknowledged: Sequence[Reason] = ()
    # Files that clinicians put into the site's folder of verdicts.
    verdicts: Sequence[VerdictsRead] = ()
    # Tables of what became of the patients.
    outcomes: Sequence[OutcomesRead] = ()

    @property
    def nights(self) -> list[SeriesNight]:
        """Nights of all series, those caught up and in shadow last."""
        return [*self.series, *self.caught_up, *self.shadows]


class HookFacts(Document):
    """Result of a command that was run after the night."""

    command: str
    fine: bool
    said: str
