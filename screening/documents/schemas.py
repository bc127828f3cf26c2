"""The documents by name, and what each command prints with `--json`: what `screen schema` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from screening.documents.base import Document, Estimate, Reason, Setting
from screening.documents.comparison import ClassElsewhere, ComparisonDocument, ExternalValidation, Ranks
from screening.documents.figures import Observed, Rates
from screening.documents.history import HistoryDocument, HookFacts, NightsBeside, OverviewDocument
from screening.documents.model import Approval, ModelDocument, TrainedOn
from screening.documents.run import Counts, ExplainedCase, RunDocument
from screening.documents.validation import Confusion, PerClass
from screening.errors import UsageError

DOCUMENTS: dict[str, type[Document]] = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "validation": ExternalValidation,
    "history": HistoryDocument,
    "overview": OverviewDocument,
}


class Point(Rates):
    """An operating point in short."""

    label: Annotated[str, Field(alias="class")]
    threshold: float
    ppv: Estimate
    flag_rate: Estimate


class Revised(Document):
    """Of `threshold`: the model as it is now."""

    model: str
    id: str
    operating_points: Sequence[Point]
    attention: Sequence[Reason]


class Trained(Revised):
    """Of `train`."""

    report: str
    notes: Sequence[str]


class Retrained(Revised):
    """Of `retrain`: `entry` is that of the ledger's trail."""

    report: str
    champion: str
    verdicts: TrainedOn
    entry: int


class Approved(Document):
    """Of `approve`."""

    model: str
    id: str
    approval: Approval
    attention: Sequence[Reason]


class RecipeFacts(Document):
    """A method; `search` has the values that its search tries, by parameter."""

    name: str
    title: str
    paper: str
    machine: str
    about: str
    parameters: Setting
    search: Mapping[str, Sequence[Any]]
    criterion: str


class Recipes(Document):
    """Of `recipes`."""

    recipes: Sequence[RecipeFacts]


class Compared(Document):
    """Of `compare`: every figure by cohort, recipe and name."""

    comparison: str
    control: str
    cohorts: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    ranks: Ranks | None


class Validated(Document):
    """Of `validate`."""

    validation: str
    report: str
    model: str
    rows: int
    operating_points: Sequence[Point]
    classes: Mapping[str, ClassElsewhere]
    attention: Sequence[Reason]


class Scored(Document):
    """Of `score`: counts and places; `report` is null in shadow, `beside` only there."""

    run_id: str
    date: str
    counts: Counts
    refused: Mapping[str, int]
    evaluation: Mapping[str, Observed | Confusion | Sequence[PerClass]] | None
    attention: Sequence[Reason]
    model: str
    out: str
    report: str | None
    beside: NightsBeside | None = None
    published: str | None = None


class SiteNight(OverviewDocument):
    """Of `run`: the overview, where its page lies, and how the hooks ended."""

    overview: str
    hooks: Sequence[HookFacts]


class Explained(ExplainedCase):
    """Of `explain`; `report` where a page was written."""

    run_id: str
    date: str
    report: str | None = None


class Exported(Document):
    """Of `export`; `out` is a place or a table."""

    run_id: str
    rows: int
    erased: int
    out: str


class Drawn(Document):
    """Of `report`; the last four with `--de-identify`, how well the copy hides."""

    report: str
    attention: Sequence[Reason] = ()
    smallest_group: int | None = None
    listed: int | None = None
    left_out: int | None = None
    values_withheld: float | None = None


class Reviewed(Document):
    """Of `review`: how many verdicts were entered, by what they came to."""

    run_id: str
    night: str
    verdicts: int
    new: int
    changed: int
    unchanged: int
    older: int
    disputed: int


class Told(HistoryDocument):
    """Of `history`; `beside` where it was asked for."""

    beside: NightsBeside | None = None


class SeriesStatus(Document):
    """Whether a series' night came, and what it says."""

    fine: bool
    said: str
    series: str | None
    night: str | None
    came: str | None
    age_hours: float | None
    attention: Sequence[Reason]
    counts: Mapping[str, int] | None
    review_by: str | None


class HandedOut(Document):
    """A file that shows a run, as it lies there now."""

    what: str
    series: str | None
    night: str | None
    place: str
    state: str
    mode: str


class Status(Document):
    """Of `status`; `artefacts` where they were asked for."""

    fine: bool
    series: Sequence[SeriesStatus]
    artefacts: Sequence[HandedOut] = ()


class Promoted(Document):
    """Of `promote`."""

    series: str
    champion: str
    entry: int
    beside: NightsBeside


class Retired(Document):
    """Of `retire`."""

    retired: str
    entry: int


class LedgerDone(Document):
    """Of `ledger`: `rebuild` tells entries and head, `accept` the runs accepted, `moved` how many places."""

    entries: int | None = None
    head: str | None = None
    accepted: Sequence[str] | int | None = None
    moved: int | None = None
    gone: int | None = None


class Erased(Document):
    """Of `forget` and, with `before`, of `purge`: places by what was done, and what was left, with why."""

    before: str | None = None
    ledger: Mapping[str, int]
    runs: Sequence[str]
    comparisons: Sequence[str]
    models: Sequence[str]
    pages: Sequence[str]
    removed: Sequence[str]
    pieces: Sequence[str]
    retrain: Mapping[str, str]
    left: Sequence[str]


class Begun(Document):
    """Of `init`."""

    contract: str
    features: int
    notes: Sequence[str]


class Checked(Document):
    """Of `check`."""

    violations: Sequence[str]
    notes: Sequence[str]
    attention: Sequence[Reason]


class Reports(Document):
    """Of `demo`."""

    reports: Sequence[str]


class Refusal(Document):
    """What was wrong with a command."""

    kind: Literal["usage"]
    message: str
    exit_code: int


class Refused(Document):
    """Of every command that ends with exit code 2."""

    error: Refusal


ANSWERS: dict[str, type[Document]] = {
    "init": Begun, "check": Checked, "demo": Reports, "recipes": Recipes, "train": Trained,
    "compare": Compared, "validate": Validated, "threshold": Revised, "approve": Approved,
    "retrain": Retrained, "score": Scored, "run": SiteNight, "explain": Explained, "export": Exported,
    "report": Drawn, "review": Reviewed, "history": Told, "status": Status, "promote": Promoted,
    "retire": Retired, "ledger": LedgerDone, "forget": Erased, "purge": Erased, "error": Refused,
}  # fmt: skip


def schema_of(name: str, printed: bool = False) -> dict[str, object]:
    """The JSON Schema of a document by its name, or of what a command prints with `--json`.

    Raises UsageError: there is none of this name.
    """
    types = ANSWERS if printed else DOCUMENTS
    if name not in types:
        kind = "command" if printed else "document"
        raise UsageError(f"no {kind} {name!r}; there are {', '.join(types)}")
    # Keys that an answer has only where they were asked for are not required of it.
    return types[name].model_json_schema(mode="validation" if printed else "serialization")
