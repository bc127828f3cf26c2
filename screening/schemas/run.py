"""`run.json`: what a night's run states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from screening.schemas.base import (
    Brief,
    ColumnarDocument,
    Defined,
    Document,
    Estimate,
    Range,
    Reason,
)
from screening.schemas.figures import Observed
from screening.schemas.model import ModelDocument, SourceFacts
from screening.schemas.validation import Confusion, PerClass

State = Literal["new", "pending", "ruled out", "known"]
STATES = get_args(State)
"""Of a flagged case; each is counted by itself, and together they are the cases of a
night."""
WAITING = ("new", "pending")
"""States without a valid verdict: a night's work; the random audit draws from it."""

Word = Literal["confirmed", "ruled out", "unsure", "known"]
VERDICTS = get_args(Word)
"""What a reviewer may say: has the condition; has not; not sure; has it, and that
was known already."""
HAS_IT = ("confirmed", "known")
"""Words that say the condition is there."""
UNDECIDED = ("unsure", "disputed")
"""Words after which a case is not judged; it is disputed where two reviewers contradict
each other."""


class Contribution(Document):
    """Change of a case's score from replacing one value by the median.

    `direction` is raises, lowers, or shown for a value that the score does not read.
    `lower` is the share of training rows with a lower value, `alike` that with the same
    category, yes or no.
    """

    feature: str
    value: str
    unit: str | None
    direction: str
    change: float
    reference: Range | None = None
    seen: Range | None = None
    lower: float | None = None
    alike: float | None = None


class LastVerdict(Document):
    """The last verdict on a case, and its night."""

    night: str
    verdict: Word | Literal["disputed"]


class Listed(Document):
    """A line of the worklist, for a row or a patient.

    `p_value` is the share of past negatives with as high a score; `display` has the
    columns that the contract displays; `drawn` is True for the random audit.
    `recent_flags` states for each of the last seven nights, tonight the last, whether
    it was flagged, and `recent_p_values` its p-value on each, None without a run
    directory.
    """

    p_value: Defined
    display: Mapping[str, str | None] | None = None
    discovery: bool | None = None
    state: State | None = None
    nights: int | None = None
    last_verdict: LastVerdict | None = None
    drawn: bool | None = None
    recent_flags: Sequence[bool] = ()
    recent_p_values: Sequence[float | None] = ()

    @property
    def risen(self) -> bool | None:
        """True if a score so high is half as common as the last night's was.

        For a case that was flagged on the last night too; None where it is not known.
        """
        n_nights = len(self.recent_flags)
        if n_nights < 2 or len(self.recent_p_values) != n_nights:
            return None
        last, tonight = self.recent_p_values[-2:]
        if not self.recent_flags[-2] or last is None or tonight is None:
            return None
        return tonight <= last / 2


class Case(Listed):
    """A flagged row, or one just below the threshold.

    `explained` is the share of its contributions in the changes of all values.
    `beyond` says that the score is higher or lower than any held-out score of the past,
    so that its chance is that of the nearest one.
    `out_of_bounds` names the columns that were not used, whose cells are among
    `missing`; such a case has no chance.
    """

    rank: int | None = None
    id: str
    group: str | None
    row: int | None
    score: float
    label: Annotated[str, Field(alias="class")]
    contributions: Sequence[Contribution] | None = None
    explained: float | None = None
    missing: Sequence[str] = ()
    out_of_bounds: str | None = None
    votes: Mapping[str, bool] | None = None
    chance: Defined | None
    beyond: Literal["above", "below"] | None = None


class Sampled(Document):
    """An unflagged row, or patient if rows are grouped, of the random audit."""

    id: str
    display: Mapping[str, str | None] | None = None


class ExplainedCase(Case):
    """Any row of the table, explained."""

    flagged: bool


class OddValue(Document):
    """A cell that cannot be used, or is doubtful, and what became of its row.

    `value` is None for a text that is not a number and for an empty cell, as `fault`
    says. `low` and `high` are the bounds of the column, None where it has none; of a
    value outside training they are the range of training. `row` counts from 1;
    `display` has the columns that the contract displays. `treatment` says whether the
    row was scored with or without the cell, has no score, or is not the row of its unit
    that was scored. `reading` is the value if it is in `reading_unit` instead of
    `training_unit`; without units, if a digit is missing.
    """

    id: str
    group: str | None
    row: int
    column: str
    value: float | None
    low: float | None
    high: float | None
    flagged: bool
    display: Mapping[str, str | None] | None = None
    fault: Literal["out_of_bounds", "unreadable", "missing", "outside_training"] = (
        "out_of_bounds"
    )
    treatment: Literal["scored_without", "scored_with", "left_out", "not_taken"] = (
        "scored_without"
    )
    reading: float | None = None
    reading_unit: str | None = None
    training_unit: str | None = None


ChannelFault = Literal["missing", "out of bounds", "one value"]


class OddChannel(Document):
    """A channel of a patient's image without usable voxels."""

    group: str
    column: str
    voxels: int
    fault: ChannelFault


class AlikeRow(Document):
    """A row that agrees with another patient's in everything but the number.

    `other` is the number of the first such row.
    """

    id: str
    group: str | None
    row: int
    other: int
    flagged: bool


class CheckValues(Document):
    """Values out of bounds: counts of all, and the first of them.

    `rows` counts rows that were scored without such a cell, `by_column` their cells of
    each column, `left_out` the cells for which rows have no score, `not_taken` those
    for which another row of a unit was scored, `doubtful` other rows with a value that
    was used and may be in another unit, and `patients` those with a channel that cannot
    be used. `alike` are rows of possibly one patient.
    """

    rows: int
    doubtful: int = 0
    left_out: int = 0
    not_taken: int = 0
    by_column: Mapping[str, int]
    values: Sequence[OddValue]
    patients: int
    channels: Sequence[OddChannel]
    alike: Sequence[AlikeRow] = ()


class GroupFacts(Listed):
    """A patient with several rows.

    `by_class` counts flagged rows by the class with the largest margin.
    """

    group: str
    rows: int
    flagged: int
    by_class: Mapping[str, int]
    top_score: float


class Slice(Document):
    """A picture of a slice of a volume; `aspect` is a pixel's height over its width."""

    at: float
    voxels: int
    flagged: int
    width: int
    height: int
    overlay: str
    heat: str
    aspect: float = 1.0


class VoxelCluster(Document):
    """A connected cluster of voxels flagged for one class.

    `millimetres` is its extent along the body's axes.
    """

    label: str
    voxels: int
    centre: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    millimetres: Sequence[float] | None
    top_score: float


class Volume(Document):
    """Flagged voxels of a patient.

    `anatomical`: slices are axial, the right on the left, the front above.
    """

    group: str | None
    voxels: int
    flagged: int
    slices: Sequence[Slice]
    n_clusters: int | None
    clusters: Sequence[VoxelCluster]
    anatomical: bool = False


class Voxels(Document):
    """Volumes, clusters and slices of a run; `colours` of each class, as #rrggbb."""

    axes: Sequence[str]
    step: Sequence[float | None]
    patients_flagged: int
    patients: Sequence[Volume]
    base: str | None
    scale: Sequence[float] | None
    colours: Mapping[str, str]


class Geometry(Document):
    """Grid of a patient's image; `affine` (4 x 4) maps voxel numbers to mm (RAS+)."""

    group: str
    shape: Sequence[int]
    affine: Sequence[Sequence[float]]


class ScoreCounts(Document):
    """Scores of a night, counted in the cells of the held-out scores of training.

    No id in it.

    Parameters
    ----------
    unit : {"row", "group"}
        What counts once: a row, or a group by one row (of an image the highest voxel).
    known, counted : tuple of int, shape (n_cells,)
        Of training (at its effective size) and of the night, lowest scores first.
    distance, p : float or None
        Of the night's test; None where there is nothing to compare.
    higher : bool
        Whether the night's scores lie higher on the whole.
    who, cell : tuple of int
        Keyed hashes of some of the night's units, the same for the same patient on
        every night, and the cell of each; empty where no column names them.
    """

    unit: str
    known: tuple[int, ...]
    counted: tuple[int, ...]
    distance: float | None = None
    p: float | None = None
    higher: bool = False
    who: tuple[int, ...] = ()
    cell: tuple[int, ...] = ()


class RunModel(ModelDocument):
    """The model as the run used it.

    `page` is the path of its page from the run directory; None if it has none, or if
    readers get a copy of the run's page elsewhere. A copy by `screen report --out` has
    the same bytes, by which an erasure recognises it, so its link works only beside the
    run.
    """

    id: str
    digest: str
    page: str | None = None


class InputFacts(SourceFacts):
    """The scored table."""

    notes: Sequence[str]


class Counts(Document):
    """Counts of a night: read = scored + refused; with a ledger, cases by state.

    `out_of_bounds` counts scored rows with a cell that was not used. A flagged case is
    `known` if a verdict says that it has the condition, `pending` if it was flagged on
    the last night and has no verdict, `ruled_out` if a verdict since it was first
    flagged says so, and otherwise `new`.
    """

    read: int
    scored: int
    refused: int
    flagged: int
    flagged_by_class: Mapping[str, int]
    out_of_bounds: int = 0
    cases: int | None = None
    new: int | None = None
    pending: int | None = None
    ruled_out: int | None = None
    known: int | None = None
    no_longer_flagged: int | None = None
    drawn: int | None = None


class NightFeature(Document):
    """A feature tonight, compared with training.

    `counts` are rows of tonight in the bins, or of the categories, of the profile of
    training.
    """

    name: str
    type: str
    unit: str | None
    missing: float
    missing_training: float
    psi: float | None = None
    ks: float | None = None
    outside: float | None = None
    unseen: int | None = None
    normalised: bool | None = None
    alarm: bool | None = None
    counts: Sequence[int] | None = None


class FeatureDrift(Document):
    """A feature compared with training: distances, rows out of range or unseen.

    `counts` are rows in each bin of training's profile.
    """

    psi: float | None
    ks: float | None
    outside: float
    unseen: int
    normalised: bool
    alarm: bool
    counts: Sequence[int]


class ReachingCounts(ColumnarDocument):
    """Number of rows that reach each threshold tonight."""

    thresholds: Sequence[float | None]
    counts: Sequence[int]


class Discoveries(Document):
    """Rare scores after correction for all rows (Benjamini and Hochberg)."""

    q: float
    per: str
    n_screened: int
    n_calibration: int
    p_cut: float | None
    found: int
    flagged: int
    warning: str | None


class NightSubgroup(Document):
    """Rows and flag rate of a subgroup tonight; None for fewer than `suppress`."""

    column: str
    level: str | None
    n: int | None
    flag_rate: float | None


class ScoreScale(ColumnarDocument):
    """Tonight's scores and held-out scores of past cases, on equal steps.

    One score a patient if rows are grouped. Scores beyond `low` or `high` are counted
    in the first or last step.
    """

    low: float
    high: float
    tonight: Sequence[int]
    past_cases: Sequence[int]


class Stopping(Document):
    """Share of cases found by the reviews possible in a night, by held-out scores."""

    reviews: int
    score: float
    n_cases: int
    found: Estimate
    all_found: Estimate


class Delivery(Document):
    """The night's table compared with earlier nights: counts and days, no patient.

    `units` are patients if rows are grouped, else rows. `earlier` is the last night as
    expected; of its `before` patients (a sample of some hundred) `still` are in
    tonight's table. `usual` is the fewest and the most rows expected. `oldest` and
    `newest` are days of the rows' time, `newest_at` the newest row's hour and minute.
    `ends_in_newline` is False if the last line of a file of text has no line end.
    `found` has codes of findings; `doubtful` is True if chance does not explain them;
    `accepted` is the reason for accepting the table.
    """

    rows: int
    units: int
    earlier: str | None = None
    before: int | None = None
    still: int | None = None
    usual: tuple[int, int] | None = None
    oldest: str | None = None
    newest: str | None = None
    newest_at: str | None = None
    ends_in_newline: bool | None = None
    found: Sequence[str] = ()
    doubtful: bool = False
    accepted: str | None = None

    @property
    def measure(self) -> bool:
        """True if later nights are compared with this one."""
        return not self.doubtful or self.accepted is not None


class Since(Document):
    """Patients flagged on the last night in force and not tonight.

    `left` has those without a row tonight.
    """

    night: str
    gone: Sequence[str]
    left: Sequence[str] = ()


class Unflagged(Document):
    """Number of unflagged."""

    cases: int


class ExpectedCases(Document):
    """Cases that the chances of a night expect, with what chance makes of them.

    Of the `rows` that have a chance: all cases, those among the flagged, and those
    missed; and the share of cases among the flagged.
    """

    rows: int
    cases: Estimate
    flagged: Estimate
    missed: Estimate
    ppv: Estimate


class LedgerFacts(Document):
    """The run's entry in its ledger."""

    key: str
    revision: int
    entry: int
    head: str
    series: str
    shadow: bool
    # Digest of the trail's first entry, which identifies the ledger.
    chain: str = ""


TakenFrom = Literal["hour", "column", "file", "midnight"]
"""What the hour of a night is known from."""


class Times(Document):
    """Start and duration of the run, and when its table was taken.

    `table_written` is the day, hour and minute at which the newest file of the table
    was written, in `time_zone`. `taken_at` is the instant of the night, with its
    offset, and `taken_from` what it is known from: a stated "hour", a "column", the
    "file", or "midnight" if it is unknown.
    """

    started: str
    seconds: float
    table_written: str | None = None
    taken_at: str | None = None
    taken_from: TakenFrom | None = None
    time_zone: str | None = None
    is_zone_of_host: bool = False


class RunDocument(Document):
    """The document of a run, `run.json`.

    `evaluation` is present if the table had labels: figures of each watched class, and
    for several classes `confusion` and `per_class`. `unlike_training` has differences
    from training that the series' other nights share, which need no action;
    `over_nights` has reasons that the series' nights show together. `drift`
    compares the scores with training. `geometries` are the grids of the scored images.
    `outputs` has the SHA-256 of the tables in the directory. `erased` counts patients
    that the page no longer names; the counts stay.
    """

    TITLE: ClassVar[str] = "run.json"

    format_version: int
    run_id: str
    date: str
    model: RunModel
    input: InputFacts
    versions: Mapping[str, str]
    counts: Counts
    refused: Mapping[str, int]
    evaluation: Mapping[str, Observed | Confusion | Sequence[PerClass]] | None
    data: Sequence[NightFeature]
    groups: Sequence[GroupFacts] | None
    score_counts: Mapping[str, ReachingCounts]
    cases: Sequence[Case]
    cases_total: int
    cases_shown: int
    cases_explained: int
    near_misses: Sequence[Case]
    scale: ScoreScale | None = None
    attention: Sequence[Reason]
    unlike_training: Sequence[Reason] = ()
    over_nights: Sequence[Reason] = ()
    check_values: CheckValues | None = None
    delivery: Delivery | None = None
    sample: Sequence[Sampled]
    unflagged: Unflagged
    discoveries: Discoveries | None
    groups_total: int | None = None
    groups_flagged: int | None = None
    drift: ScoreCounts | None = None
    subgroups: Sequence[NightSubgroup]
    prevalence_estimate: Estimate | None
    expected: ExpectedCases | None = None
    voxels: Voxels | None = None
    geometries: Sequence[Geometry] = ()
    ledger: LedgerFacts | None = None
    since: Since | None = None
    stopping: Stopping | None = None
    times: Times
    outputs: Mapping[str, str] | None = None
    erased: int = 0
    sha256: str

    def brief(self) -> Brief:
        """Return the night, its counts and its reasons for attention."""
        words = (
            f"Night of {self.date}: {self.counts.flagged} of {self.counts.scored} rows "
            "flagged"
        )
        return Brief(
            words,
            ("attention", "remedy"),
            [(reason.words, reason.remedy or "") for reason in self.reasons],
        )

    @property
    def reasons(self) -> list[Reason]:
        """Reasons of the night and of its series, new ones first."""
        reasons = [*self.attention, *self.over_nights]
        return sorted(reasons, key=lambda reason: reason.since is not None)

    @property
    def unit(self) -> str:
        """Unit of review: patients if rows are grouped."""
        return "row" if self.groups is None else "patient"

    @property
    def risen(self) -> int | None:
        """Number of cases that have risen since the last night.

        None where it is known of none, or not all cases are listed.
        """
        listed = self.cases if self.groups is None else self.groups
        risen = [case.risen for case in listed if case.risen is not None]
        if not risen or self.cases_shown < self.cases_total:
            return None
        return sum(risen)

    @property
    def to_review(self) -> int:
        """Number to review."""
        if self.groups_flagged is not None:
            return self.groups_flagged
        return (
            sum(bool(group.flagged) for group in self.groups)
            if self.groups
            else self.counts.flagged
        )

    @property
    def awaited(self) -> int:
        """Number waiting for review: flagged and without a verdict."""
        n_settled = (self.counts.ruled_out or 0) + (self.counts.known or 0)
        return max(self.to_review - n_settled, 0)

    def observed(self, label: str) -> Observed | None:
        """Return how flags of a watched class agree with labels, if there are any."""
        figures = self.evaluation[label] if self.evaluation else None
        return figures if isinstance(figures, Observed) else None
