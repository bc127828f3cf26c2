"""`run.json`: what a night's run states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from screening.schemas.base import (
    Brief,
    Columns,
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
"""Of a flagged case; each is counted by itself, and together they are the cases of a night."""
WAITING = ("new", "pending")
"""States of a case without a verdict that holds: a night's work, of which the random audit draws some."""

Word = Literal["confirmed", "ruled out", "unsure", "known"]
VERDICTS = get_args(Word)
"""What a reviewer may say: has the condition; has not; cannot tell; has it, and that was known already."""
HAS_IT = ("confirmed", "known")
"""Words that say the condition is there."""
UNDECIDED = ("unsure", "disputed")
"""Words after which a case is not judged; it is disputed where two reviewers contradict each other."""


class Contribution(Document):
    """How far one value moves a case's score from what the median would give.

    `lower` is the share of training rows with a lower value, `alike` that with the same category, yes or no.
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


class Verdict(Document):
    """The last verdict on a case, and the night it was given for."""

    night: str
    verdict: Word | Literal["disputed"]


class Listed(Document):
    """What a line of the worklist shows of a row or a patient alike.

    `p_value` is the share of past negatives that score as high; `display` is what the contract wants shown
    beside it; `drawn` is whether it is of the random audit.
    """

    p_value: Defined
    display: Mapping[str, str | None] | None = None
    discovery: bool | None = None
    state: State | None = None
    nights: int | None = None
    last_verdict: Verdict | None = None
    drawn: bool | None = None


class Case(Listed):
    """One flagged row, or one just below the threshold.

    `explained` is the share of its contributions in the changes of all values.
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
    votes: Mapping[str, bool] | None = None
    chance: Defined | None


class Sampled(Document):
    """One of the unflagged that is drawn for the random audit: a row, or a patient where rows are grouped."""

    id: str
    display: Mapping[str, str | None] | None = None


class ExplainedCase(Case):
    """Any row of the table, explained by itself."""

    flagged: bool


class GroupFacts(Listed):
    """One patient, where rows come in patients; `by_class`: flagged rows by the class that speaks loudest."""

    group: str
    rows: int
    flagged: int
    by_class: Mapping[str, int]
    top_score: float


class Slice(Document):
    """One slice of a volume, drawn; `aspect` is the height of a pixel over its width."""

    at: float
    voxels: int
    flagged: int
    width: int
    height: int
    overlay: str
    heat: str
    aspect: float = 1.0


class Cluster(Document):
    """Voxels flagged for one class that touch; `millimetres`: from edge to edge, along the body's axes."""

    label: str
    voxels: int
    centre: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    millimetres: Sequence[float] | None
    top_score: float


class Volume(Document):
    """A patient's voxels; `anatomical`: slices are axial, the right on the left, the front above."""

    group: str | None
    voxels: int
    flagged: int
    slices: Sequence[Slice]
    n_clusters: int | None
    clusters: Sequence[Cluster]
    anatomical: bool = False


class Voxels(Document):
    """Volumes, clusters and slices of a voxel run; `colours`: of each watched class, as #rrggbb."""

    axes: Sequence[str]
    step: Sequence[float | None]
    patients_flagged: int
    patients: Sequence[Volume]
    base: str | None
    scale: Sequence[float] | None
    colours: Mapping[str, str]


class Geometry(Document):
    """The reference grid of one patient: `affine` (4 rows of 4) takes voxel numbers to millimetres, RAS+."""

    group: str
    shape: Sequence[int]
    affine: Sequence[Sequence[float]]


class ScoreCounts(Document):
    """Scores of a night, counted in the cells of the held-out scores of training; no id in it.

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
        Keyed hashes of some of the night's units, the same for the same patient on every night, and the cell
        of each; empty where no column names them.
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

    `page` is where its page lies as seen from the run directory; None where it has none, or where readers get
    a copy of the run's page elsewhere. A copy by `screen report --out` is the same bytes, by which an erasure
    knows it, so its link leads there from beside the run alone.
    """

    id: str
    digest: str
    page: str | None = None


class InputFacts(SourceFacts):
    """The table that was scored."""

    notes: Sequence[str]


class Counts(Document):
    """Counts that add up: read = scored + refused; with a ledger, cases by what is known of them."""

    read: int
    scored: int
    refused: int
    flagged: int
    flagged_by_class: Mapping[str, int]
    cases: int | None = None
    new: int | None = None
    pending: int | None = None
    ruled_out: int | None = None
    known: int | None = None
    no_longer_flagged: int | None = None
    drawn: int | None = None


class NightFeature(Document):
    """A feature tonight beside training."""

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


class FeatureDrift(Document):
    """A feature's values beside those of training: distances, share outside its range, unseen rows."""

    psi: float | None
    ks: float | None
    outside: float
    unseen: int
    normalised: bool
    alarm: bool


class ReachingCounts(Columns):
    """How many rows reach each threshold tonight."""

    thresholds: Sequence[float | None]
    counts: Sequence[int]


class Discoveries(Document):
    """What remains rare among so many screened (Benjamini and Hochberg)."""

    q: float
    per: str
    n_screened: int
    n_calibration: int
    p_cut: float | None
    found: int
    flagged: int
    warning: str | None


class NightSubgroup(Document):
    """Rows and flag rate of a subgroup tonight; None where fewer than five patients tell them."""

    column: str
    level: str | None
    n: int | None
    flag_rate: float | None


class ScoreScale(Columns):
    """Tonight's scores and the held-out ones of past cases, counted on equal steps from `low` to `high`.

    One score a patient where rows are grouped; what lies beyond either end is counted in the last step there.
    """

    low: float
    high: float
    tonight: Sequence[int]
    past_cases: Sequence[int]


class Stopping(Document):
    """What is found by as many reviews as a night has room for, of all cases, from held-out scores."""

    reviews: int
    score: float
    n_cases: int
    found: Estimate
    all_found: Estimate


class Delivery(Document):
    """How the night's table came, beside the nights of the series before it: counts and days, no patient.

    `units`: patients where rows are grouped, else rows. `earlier`: the last night that came as expected, of
    whose `before` patients (a sample of some hundred) `still` are in tonight's table. `usual`: the fewest and
    the most rows that were expected. `oldest`, `newest`: days of the rows' time. `found`: codes of what is
    unlike an expected delivery; `doubtful`: whether chance does not explain it; `accepted`: why somebody
    takes the night all the same.
    """

    rows: int
    units: int
    earlier: str | None = None
    before: int | None = None
    still: int | None = None
    usual: tuple[int, int] | None = None
    oldest: str | None = None
    newest: str | None = None
    found: Sequence[str] = ()
    doubtful: bool = False
    accepted: str | None = None

    @property
    def measure(self) -> bool:
        """Whether later nights are held against this one."""
        return not self.doubtful or self.accepted is not None


class Since(Document):
    """Who was flagged on the last night in force and is not now; `left` has those without a row tonight."""

    night: str
    gone: Sequence[str]
    left: Sequence[str] = ()


class Unflagged(Document):
    """How many were not flagged."""

    cases: int


class LedgerFacts(Document):
    """Where the ledger has the run."""

    key: str
    revision: int
    entry: int
    head: str
    series: str
    shadow: bool
    chain: str = ""  # Digest of the trail's first entry: which ledger it is, however old the copy.


class Times(Document):
    """When the run began, and how long it took."""

    started: str
    seconds: float


class RunDocument(Document):
    """Everything that a night's run states.

    `evaluation` is there where the table had labels: figures of each watched class by its name, and of
    several classes `confusion` and `per_class`. `unlike_training` has what differs from training as it does
    on the series' other nights: nobody need act on it. `drift` says how the scores lie among those of
    training. `geometries` are the grids of the images that were scored. `outputs` has the SHA-256 of the
    tables beside it. `erased` counts patients whom the page named and no longer does; the counts stay.
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
    delivery: Delivery | None = None
    sample: Sequence[Sampled]
    unflagged: Unflagged
    discoveries: Discoveries | None
    groups_total: int | None = None
    groups_flagged: int | None = None
    drift: ScoreCounts | None = None
    subgroups: Sequence[NightSubgroup]
    prevalence_estimate: Estimate | None
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
        """The night, its counts, and why it wants attention."""
        words = f"Night of {self.date}: {self.counts.flagged} of {self.counts.scored} rows flagged"
        return Brief(
            words,
            ("attention", "remedy"),
            [(r.words, r.remedy or "") for r in self.attention],
        )

    @property
    def unit(self) -> str:
        """What is reviewed as one: patients where rows are grouped."""
        return "row" if self.groups is None else "patient"

    @property
    def to_review(self) -> int:
        """How many are to be reviewed."""
        if self.groups_flagged is not None:
            return self.groups_flagged
        return (
            sum(bool(group.flagged) for group in self.groups)
            if self.groups
            else self.counts.flagged
        )

    @property
    def awaited(self) -> int:
        """How many still wait for a review: those flagged, less those that the ledger says were judged."""
        return max(
            self.to_review - (self.counts.ruled_out or 0) - (self.counts.known or 0), 0
        )

    def observed(self, label: str) -> Observed | None:
        """How the flags of a watched class agree with the table's labels, where it has them."""
        figures = self.evaluation[label] if self.evaluation else None
        return figures if isinstance(figures, Observed) else None
