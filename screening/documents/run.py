"""`run.json`: what a night's run states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.documents.case import Case, GroupFacts
from screening.documents.drift import ScoreCounts
from screening.documents.figures import Observed, Share
from screening.documents.model import FileFacts, ModelDocument
from screening.documents.reason import Reason
from screening.documents.shape import document, even, rare
from screening.documents.validation import Confusion, PerClass
from screening.documents.voxels import Geometry, Voxels


@document
class RunModel(ModelDocument):
    """The model as the run used it."""

    id: str
    digest: str


@document
class InputFacts:
    """The table that was scored."""

    files: Sequence[FileFacts]
    delimiter: str | None
    encoding: str | None
    rows: int
    notes: Sequence[str]


@document
class Counts:
    """Counts that add up: read = scored + refused; with a ledger, cases by what is known of them."""

    read: int
    scored: int
    refused: int
    flagged: int
    flagged_by_class: Mapping[str, int]
    cases: int | None = rare()
    new: int | None = rare()
    ongoing: int | None = rare()
    reviewed: int | None = rare()
    known: int | None = rare()
    resolved: int | None = rare()
    drawn: int | None = rare()


@document
class NightFeature:
    """A feature tonight beside training."""

    name: str
    type: str
    unit: str | None
    missing: float
    missing_training: float
    psi: float | None = rare(beside="alarm")
    ks: float | None = rare(beside="alarm")
    outside: float | None = rare(beside="alarm")
    unseen: int | None = rare(beside="alarm")
    normalised: bool | None = rare(beside="alarm")
    alarm: bool | None = rare()


@document
class FeatureDrift:
    """A feature's values beside those of training: distances, share outside its range, unseen rows."""

    psi: float | None
    ks: float | None
    outside: float
    unseen: int
    normalised: bool
    alarm: bool


@document
class ReachingCounts:
    """How many rows reach each threshold tonight."""

    thresholds: Sequence[float | None]
    counts: Sequence[int]

    def __post_init__(self) -> None:
        even(self.thresholds, self.counts)


@document
class Discoveries:
    """What remains rare among so many screened (Benjamini and Hochberg)."""

    q: float
    per: str
    n_screened: int
    n_calibration: int
    p_cut: float | None
    found: int
    flagged: int
    warning: str | None


@document
class NightSubgroup:
    """Rows and flag rate of a subgroup tonight; None where fewer than five patients tell them."""

    column: str
    level: str | None
    n: int | None
    flag_rate: float | None


@document
class ScoreScale:
    """Tonight's scores and the held-out ones of past cases, counted on equal steps from `low` to `high`.

    One score a patient where rows are grouped; what lies beyond either end is counted in the last step there.
    """

    low: float
    high: float
    tonight: Sequence[int]
    past_cases: Sequence[int]

    def __post_init__(self) -> None:
        even(self.tonight, self.past_cases)


@document
class Stopping:
    """What is found by as many reviews as a night has room for, of all cases, from held-out scores."""

    reviews: int
    score: float
    n_cases: int
    found: Share
    all_found: Share


@document
class Delivery:
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


@document
class Since:
    """Who was flagged on the last night in force and is not now; `left` has those without a row tonight."""

    night: str
    gone: Sequence[str]
    left: Sequence[str] = rare(())


@document
class Unflagged:
    """How many were not flagged."""

    cases: int


@document
class LedgerFacts:
    """Where the ledger has the run."""

    key: str
    revision: int
    entry: int
    head: str
    series: str
    shadow: bool
    chain: str = rare("")  # Digest of the trail's first entry: which ledger it is, however old the copy.


@document
class Times:
    """When the run began, and how long it took."""

    started: str
    seconds: float


@document
class RunDocument:
    """Everything that a night's run states.

    `evaluation` is there where the table had labels: figures of each watched class by its name, and of
    several classes `confusion` and `per_class`. `unlike_training` has what differs from training as it does
    on the series' other nights: nobody need act on it. `drift` says how the scores lie among those of
    training. `geometries` are the grids of the images that were scored. `outputs` has the SHA-256 of the
    tables beside it. `erased` counts patients whom the page named and no longer does; the counts stay.
    """

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
    unlike_training: Sequence[Reason] = rare(())
    delivery: Delivery | None = rare()
    sample: Sequence[str]
    unflagged: Unflagged
    discoveries: Discoveries | None
    groups_total: int | None = rare()
    groups_flagged: int | None = rare()
    drift: ScoreCounts | None = None
    subgroups: Sequence[NightSubgroup]
    prevalence_estimate: Share | None
    voxels: Voxels | None = rare()
    geometries: Sequence[Geometry] = rare(())
    ledger: LedgerFacts | None = rare()
    since: Since | None = rare(beside="ledger")
    stopping: Stopping | None = None
    pseudonymised: bool | None = rare()
    times: Times
    outputs: Mapping[str, str] | None = None
    erased: int = rare(0)
    sha256: str

    @property
    def unit(self) -> str:
        """What is reviewed as one: patients where rows are grouped."""
        return "row" if self.groups is None else "patient"

    @property
    def to_review(self) -> int:
        """How many are to be reviewed."""
        if self.groups_flagged is not None:
            return self.groups_flagged
        return sum(bool(group.flagged) for group in self.groups) if self.groups else self.counts.flagged

    @property
    def awaited(self) -> int:
        """How many still wait for a review: those flagged, less those that the ledger says were judged."""
        return max(self.to_review - (self.counts.reviewed or 0) - (self.counts.known or 0), 0)

    def observed(self, label: str) -> Observed | None:
        """How the flags of a watched class agree with the table's labels, where it has them."""
        found = self.evaluation[label] if self.evaluation else None
        return found if isinstance(found, Observed) else None
