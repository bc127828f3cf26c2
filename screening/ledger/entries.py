"""Define the kinds of entries, and project each into rows of tables.

To add a kind, add one type here: its fields are the facts of an entry's first part, and
its `TABLE` has columns of the same names. `project` alone writes the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import sqlalchemy as sa
from pydantic import Field

from screening.errors import ModelError
from screening.ledger import trail
from screening.ledger.database import (
    ARTEFACTS,
    CASES,
    CHAMPIONS,
    PARTS,
    PROJECTED,
    RESERVATIONS,
    REVIEWS,
    RUNS,
    TRAIL,
)
from screening.ledger.location import RELOCATE, location_part, refuse_copy
from screening.ledger.trail import Entry, Head, Part
from screening.schemas.base import Document, Reason
from screening.schemas.history import (
    NightFigures,
    NightsBeside,
    OutcomeFigures,
    SensitivityAndPpv,
)
from screening.schemas.model import Approval, ChangedClass, TrainedOn
from screening.schemas.run import Delivery, ScoreCounts, TakenFrom

Rows = Iterator[tuple[sa.Table, Sequence[Mapping[str, object]]]]

# Prefix of what replaces a patient's id.
STAND_IN = "erased-"
# Columns of an entry's row that the names of a part fill. A text fills the column of
# its part's name.
NAME_COLUMNS = {
    "case": ("case_id",),
    "by": ("site", "initials"),
    "entered": ("login", "token"),
    "patient": ("patient",),
}
# The facts of a part `cases` fill the last five for each case, in this order.
CASE_COLUMNS = ("entry", "case_id", "state", "nights", "drawn", "judged", "verdict")
KINDS: dict[str, type[Facts]] = {}
# Part of the text of the facts of a night that is the first of its series.
BEGINS = '"begins":true'


# Key of all series of a site; no series has this name.
ALL_SERIES = ""

# First digits of a run's key that are its id.
N_ID_DIGITS = 12


class Facts(Document):
    """Facts of an entry, which name no patient; each kind of entry has a type."""

    KIND: ClassVar[str]
    TABLE: ClassVar[sa.Table | None] = None
    # False: entered in the original alone, never in a copy of a site's ledger.
    IN_COPY: ClassVar[bool] = False

    def __init_subclass__(
        cls, kind: str | None = None, table: sa.Table | None = None
    ) -> None:
        if kind is not None:
            cls.KIND = kind
            cls.TABLE = table
            KINDS[kind] = cls

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        """Yield tables and the rows that an entry adds to each.

        `parts`: those after the facts.
        """
        if self.TABLE is None:
            return
        values: dict[str, object] = {}
        for column in self.TABLE.c:
            values[column.name] = getattr(self, column.name, None)
        for part in parts:
            columns = NAME_COLUMNS.get(part.what)
            if columns is None:
                names = {part.what: "".join(part.names)}
            else:
                names = dict(zip(columns, part.names, strict=False))
            for name in names.keys() & values.keys():
                values[name] = names[name]
        yield self.TABLE, [values | {"entry": entry}]


def run_id_of(key: str) -> str:
    """Return the id of a run, which its page shows, from its key in the ledger."""
    return key[:N_ID_DIGITS]


class Night(NightFigures, Facts, kind="run", table=RUNS):
    """A night of a series.

    Its parts are keyed hashes of patients (`lots`; for other models, and of reduced
    ids, `patients`), what its features counted (`columns`), and its `cases`, some
    thousand each.

    Parameters
    ----------
    key : str
        Digest of model, input, settings, series and date.
    series : str
    night : str
        YYYY-MM-DD.
    shadow : bool
        Scored in addition to the champion; such a run is never in force.
    revision : int
        1 or more after `--force`.
    begins : bool
        The first night of its series, whose model is champion from now on.
    known_days : int
        How long a confirmed case stays known, from the night of the verdict.
    draw : int
        Size of the random audit of flagged cases without a verdict.
    table : str, optional
        Digests of the table's files.
    promised : SensitivityAndPpv, optional
        Estimates of validation.
    review_by : str, optional
        Day on which the model is to be reviewed.
    is_draft : bool
        Whether the model is not yet approved for use; False if a night does not state
        it.
    approval : Approval, optional
        Approval of the model when it scored the night.
    verdict : str, optional
        Whether local validation supported the use of the model, as a sentence.
    delivery : Delivery, optional
    replaced : str, optional
        Why it replaces an earlier run of the night.
    taken_at : str, optional
        Instant at which its table was taken, ISO 8601 in UTC; None if a night does not
        state it.
    taken_from : str, optional
        What that is known from (see `clock.night.NightHour`).
    """

    key: str
    series: str
    night: str
    shadow: bool = False
    revision: int = 0
    begins: bool = False
    known_days: int = 30
    draw: int = 5
    table: str | None = None
    promised: SensitivityAndPpv | None = None
    review_by: str | None = None
    is_draft: bool = False
    approval: Approval | None = None
    verdict: str | None = None
    delivery: Delivery | None = None
    replaced: str | None = None
    taken_at: str | None = None
    taken_from: TakenFrom | None = None

    @property
    def units(self) -> int:
        """Number of what is reviewed as one: rows, or groups if rows come in groups."""
        return self.cases + self.unflagged.cases

    @property
    def shadow_model(self) -> str | None:
        """The model if the night was scored in shadow, else None."""
        return self.model if self.shadow else None

    @property
    def source(self) -> str | None:
        """Digest of the table, by which the same table on another night is found."""
        return source_digest(self.table)

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        """Yield the rows of the run, of a new champion, and of the cases."""
        yield from super().rows(entry, ())
        if self.begins:
            champion = {"series": self.series, "entry": entry, "model": self.model}
            yield CHAMPIONS, [champion]
        for part in parts:
            if part.what != "cases":
                continue
            rows = []
            for name, facts in zip(part.names, part.facts, strict=True):
                values = (entry, name, *facts)
                rows.append(dict(zip(CASE_COLUMNS, values, strict=True)))
            yield CASES, rows


def source_digest(table: str | None) -> str | None:
    """Return SHA-256 over the digests of a table's files; None for no table."""
    return table and hashlib.sha256(table.encode()).hexdigest()


class Reserved(Facts, kind="reserve", table=RESERVATIONS):
    """A night that is being scored."""

    series: str
    night: str


class Accepted(Facts, kind="accept"):
    """A ledger that is continued without heads that run directories name.

    `heads`: number and digest of each.
    """

    IN_COPY = True
    heads: Sequence[tuple[int, str]]


class Relocated(Facts, kind=RELOCATE):
    """The site was moved on purpose; a part states the ledger's new location."""

    IN_COPY = True


class VerdictGiven(Facts, kind="verdict", table=REVIEWS):
    """A verdict on a case.

    `action`: what was done, in the words of the contract.

    Its parts are the `case`, the reviewer (`by`), the login and token it was `entered`
    with, and a `note`.
    """

    key: str
    series: str
    night: str
    flagged: bool
    verdict: str
    given: str
    reviewer: int
    action: str = ""


class ModelChange(Facts):
    """A model that was rewritten.

    `champion_of`: the series in which it replaces the model before as champion.
    """

    model_before: str | None
    model_after: str
    champion_of: Sequence[str]
    series: str | None = None

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        """Yield the rows of the new champions."""
        champion = {"entry": entry, "model": self.model_after}
        yield CHAMPIONS, [champion | {"series": name} for name in self.champion_of]


class ThresholdChosen(ModelChange, kind="threshold"):
    """Another threshold of a model."""

    classes: Sequence[ChangedClass] = ()


class Approved(ModelChange, kind="approve"):
    """An approval of a model."""

    by: str
    date: str
    # Columns that were said to be known before the outcome.
    known_before: Sequence[str] = ()


class SealedAnew(ModelChange, kind="seal"):
    """A model that was rewritten without a patient."""

    IN_COPY = True


class Promoted(ModelChange, kind="promote"):
    """A model in shadow that becomes champion."""

    evidence: NightsBeside


class Retrained(Facts, kind="retrain"):
    """A model that was trained on verdicts; the champion stays.

    Parameters
    ----------
    series, champion, model : str
    trained_on : TrainedOn
    accepted : str, optional
        Why ids of the past cohort are right although they differ from judged ones only
        in spelling.
    """

    series: str
    champion: str
    model: str
    trained_on: TrainedOn
    accepted: str | None = None


class Retired(Facts, kind="retire"):
    """A series that was closed after its `last` night."""

    series: str
    last: str


class GivenUp(Facts, kind="give_up"):
    """A missed night that is no longer due."""

    series: str
    night: str


class Acknowledged(Facts, kind="acknowledge"):
    """Reasons for attention, by code and column, that are silenced until after a day.

    Parameters
    ----------
    series : str
        `ALL_SERIES` for reasons of the site.
    causes : sequence of (str, str or None)
    until : str
    figures : sequence of float or None
        What was measured of each cause when it was acknowledged.
    """

    series: str
    causes: Sequence[tuple[str, str | None]]
    until: str
    figures: Sequence[float | None] = ()


class SiteNight(Facts, kind="site_night"):
    """A night of a site, once its series were scored.

    Parameters
    ----------
    night : str
    exit_code : int
    seconds : float
        Duration of the run.
    failed : sequence of str
        Series that failed.
    attention : sequence of Reason
        Of all series together.
    by_series : mapping of str to sequence of Reason
        What the nights of a series show together.
    """

    night: str
    exit_code: int
    seconds: float
    failed: Sequence[str]
    attention: Sequence[Reason]
    by_series: Mapping[str, Sequence[Reason]]


class Outcomes(Facts, kind="outcomes"):
    """Outcomes of patients of a series.

    Its parts `outcomes` name patients, or stays, some thousand each; their facts are
    the times of each one's events, none where there was no event. A time is an instant
    in UTC, a date alone, or "yes" for a case known without one. The name of an event,
    where it has one, follows its time and a tab; "until:" precedes the end of a stay.

    Parameters
    ----------
    series : str
    night : str
        Day up to which outcomes are known, YYYY-MM-DD.
    figures : OutcomeFigures
        Of all nights in force, by everything known then.
    accepted : str, optional
        Why the table was accepted although it takes most cases away, or its ids do not
        look like those of the nights. A part `patients` has hashes of ids that differ
        from others only in spelling.
    """

    series: str
    night: str
    figures: OutcomeFigures
    accepted: str | None = None


class Merged(Facts, kind="merge"):
    """Numbers of patients that were merged, or whose merge is undone.

    Its part `merges` names an old and a new number in turn; its facts are the day from
    which the two are one. A blank new number undoes the merge of the old one.
    """


# A "case" is a page of one case, a "table" is in a database, and "refused" is a list of
# the cells of a night that were refused or out of bounds.
ArtefactKind = Literal[
    "model",
    "run",
    "comparison",
    "page",
    "case",
    "export",
    "table",
    "copy",
    "refused",
]


class Artefact(Facts, kind="artefact", table=ARTEFACTS):
    """A file or directory that names patients.

    Parameters
    ----------
    what : str
        Its kind.
    place : Path
        A part of the entry.
    sha256 : str, optional
        None if it is gone.
    key : str, optional
        Key of the run that it shows.
    series, night : str, optional
        Of that run.
    patient : str, optional
        The patient of a page of one case; a part of the entry.
    entry : int
        Number of the entry; 0 for what was not entered.
    """

    IN_COPY = True
    what: ArtefactKind
    place: Path = Field(default=Path(), exclude=True)
    sha256: str | None
    key: str | None = None
    series: str | None = None
    night: str | None = None
    patient: str | None = Field(default=None, exclude=True)
    entry: int = Field(default=0, exclude=True)


class Erasing(Facts):
    """Names that were replaced by stand-ins.

    Parameters
    ----------
    erased : sequence of tuples
        Entry, part, positions in it, and the digest of the stand-ins there.
    left : sequence of str
        Keys of runs that named an erased patient in a place that was not reached.
    """

    IN_COPY = True
    erased: Sequence[tuple[int, int, Sequence[int], str]]
    left: Sequence[str] = ()


class Forgotten(Erasing, kind="forget"):
    """Names of one patient that were erased."""


class Purged(Erasing, kind="purge"):
    """Names of all patients of old nights that were erased."""


def append(
    connection: sa.Connection,
    recorded: str,
    facts: Facts,
    *parts: Part | Iterable[Part],
) -> Head:
    """Add an entry at the end, with parts behind its facts, and project it.

    The first entry of a ledger also states the ledger's location. ModelError if the
    ledger is a copy of another site's and the entry belongs into the original.
    """
    if not facts.IN_COPY:
        refuse_copy(connection)
    first = Part("facts", facts.to_dict())
    pieces: list[Iterable[Part]] = [[first]]
    for part in parts:
        if isinstance(part, Part):
            pieces.append([part])
        else:
            pieces.append(part)
    if trail.head(connection).number == 0:
        pieces.append([location_part(connection)])
    head = trail.add_entry(
        connection, recorded, facts.KIND, chain.from_iterable(pieces)
    )
    project(connection, trail.entries(connection, TRAIL.c.number == head.number))
    return head


def project(
    connection: sa.Connection,
    entries: Iterable[Entry],
    tables: Mapping[str, sa.Table] = PROJECTED.tables,
) -> None:
    """Write the rows of entries into projected tables."""
    for entry in entries:
        facts, parts = facts_in(entry)
        for table, rows in facts.rows(entry.number, parts):
            if rows:
                connection.execute(tables[table.name].insert(), list(rows))


def facts_in(entry: Entry) -> tuple[Facts, Iterator[Part]]:
    """Return the facts of an entry, and the parts after them.

    ModelError if this version does not know its kind.
    """
    title = f"entry {entry.number} of the audit trail ({entry.kind})"
    parts = iter(entry.parts)
    first = next(parts, None)
    kind = KINDS.get(entry.kind)
    if kind is None or first is None or not isinstance(first.facts, dict):
        raise ModelError(f"{title} is of an unknown kind")
    return kind.from_dict(first.facts, title), parts


Kind = TypeVar("Kind", bound=Facts)


class Stated(NamedTuple, Generic[Kind]):
    """An entry as it is read: number, time, facts, and the reason that was given."""

    entry: int
    recorded: str
    facts: Kind
    reason: str | None


def stated(connection: sa.Connection, kind: type[Kind]) -> Iterator[Stated[Kind]]:
    """Yield the entries of a kind, or of its subtypes, in order."""
    is_of_kind = TRAIL.c.kind.in_(_names_of(kind))
    for entry in trail.entries(connection, is_of_kind):
        facts, parts = facts_in(entry)
        assert isinstance(facts, kind), "it is of one of these kinds"
        reason = None
        for part in parts:
            if part.what == "reason":
                reason = "".join(part.names)
        yield Stated(entry.number, entry.recorded, facts, reason)


def _names_of(kind: type[Facts]) -> list[str]:
    """Return the names of a kind of entries, and of its subtypes."""
    return [name for name, subtype in KINDS.items() if issubclass(subtype, kind)]


def champions_in_trail(connection: sa.Connection) -> dict[str, str]:
    """Return by series the digest of the model that the trail makes its champion.

    Only what entries state is read, and of nights only the first of each series.
    """
    begins = PARTS.c.facts.contains(BEGINS, autoescape=True)
    is_change = TRAIL.c.kind.in_(_names_of(ModelChange))
    is_first_night = (TRAIL.c.kind == Night.KIND) & begins
    chosen = (
        sa.select(TRAIL.c.number, TRAIL.c.kind, PARTS.c.facts)
        .join(PARTS, PARTS.c.entry == TRAIL.c.number)
        .where(PARTS.c.part == 0)
        .where(is_change | is_first_night)
        .order_by(TRAIL.c.number)
    )
    champions: dict[str, str] = {}
    for number, kind, text in connection.execute(chosen):
        title = f"entry {number} of the audit trail ({kind})"
        facts = KINDS[kind].from_dict(trail.read_in(number, text), title)
        for table, rows in facts.rows(number, ()):
            if table is not CHAMPIONS:
                continue
            for row in rows:
                champions[str(row["series"])] = str(row["model"])
    return champions


def facts_at(
    connection: sa.Connection, kind: type[Kind], entries: Sequence[int]
) -> dict[int, Kind]:
    """Return the facts of entries of a kind, by their numbers and in order."""
    facts = {}
    for entry, part in trail.parts_of(connection, entries, "facts").items():
        facts[entry] = kind.from_dict(part.facts, f"entry {entry} of the audit trail")
    return facts


def scores_at(
    connection: sa.Connection, nights: Mapping[int, Night]
) -> dict[int, ScoreCounts]:
    """Return the scores of nights by entry, with the hashes that were not erased."""
    parts = trail.parts_of(connection, [*nights], "lots")
    scores = {}
    for entry, night in nights.items():
        if night.drift is None:
            continue
        hashes = []
        cells = []
        part = parts[entry]
        for name, cell in zip(part.names, part.facts, strict=True):
            if not name.startswith(STAND_IN):
                hashes.append(int(name))
                cells.append(cell)
        scores[entry] = night.drift.replace(who=hashes, cell=cells)
    return scores
