"""The kinds of entries, and the rows of tables that each comes to: `project` alone writes these.

A further kind is one type here: its fields are the facts of an entry's first part, and its `TABLE` has them
in columns of the same names.
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
)
from screening.ledger.location import RELOCATE, location_part, refuse_copy
from screening.ledger.trail import Entry, Head, Part
from screening.schemas.base import Document
from screening.schemas.history import (
    ChangedClass,
    NightFigures,
    NightsBeside,
    SensitivityAndPpv,
)
from screening.schemas.model import TrainedOn
from screening.schemas.run import Delivery, ScoreCounts

Rows = Iterator[tuple[sa.Table, Sequence[Mapping[str, object]]]]

STAND_IN = "erased-"
"""So begins what stands for a patient."""

NAME_COLUMNS = {
    "case": ("case_id",),
    "by": ("site", "initials"),
    "entered": ("login", "token"),
    "patient": ("patient",),
}
"""By part, the columns of an entry's row that its names fill; a text fills the column of its part's name."""

CASE_COLUMNS = ("entry", "case_id", "state", "nights", "drawn", "judged", "verdict")
"""The last five are what the facts of a part `cases` say of each, in this order."""

KINDS: dict[str, type[Facts]] = {}

BEGINS = '"begins":true'
"""Stands in the text of the facts of a night that is the first of its series."""


class Facts(Document):
    """What an entry states, without a patient; a type of its own for each kind of entry."""

    KIND: ClassVar[str]
    TABLE: ClassVar[sa.Table | None] = None
    # False: entered in the original alone, never in a copy of a site's ledger.
    IN_COPY: ClassVar[bool] = False

    def __init_subclass__(
        cls, kind: str | None = None, table: sa.Table | None = None
    ) -> None:
        if kind is not None:
            cls.KIND, cls.TABLE, KINDS[kind] = kind, table, cls

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        """The rows of the tables that an entry comes to; `parts`: those behind the facts."""
        if self.TABLE is None:
            return
        values: dict[str, object] = {
            column.name: getattr(self, column.name, None) for column in self.TABLE.c
        }
        for part in parts:
            columns, texts = NAME_COLUMNS.get(part.what), part.names
            if columns is None:
                columns, texts = (part.what,), ["".join(part.names)]
            values |= {
                name: text
                for name, text in zip(columns, texts, strict=False)
                if name in values
            }
        yield self.TABLE, [values | {"entry": entry}]


class Night(NightFigures, Facts, kind="run", table=RUNS):
    """A night of a series; its parts are keyed hashes of patients (`lots`), what its features counted
    (`columns`), and the `cases`, some thousand each."""

    key: str  # Digest of model, input, settings, series and date.
    series: str
    night: str  # YYYY-MM-DD.
    shadow: bool = False  # Scored beside the champion, and never in force.
    revision: int = 0  # 1 or more after `--force`.
    begins: bool = False  # The first of its series: its model is champion from now on.
    known_days: int = 30  # How long somebody confirmed stays known, counted from the night of the verdict.
    draw: int = 5  # Flagged cases without a verdict to draw into the random audit.
    table: str | None = None  # Digests of its files.
    promised: SensitivityAndPpv | None = None
    review_by: str | None = None
    delivery: Delivery | None = None

    @property
    def units(self) -> int:
        """What was scored, each reviewed as one: rows, or groups where rows come in groups."""
        return self.cases + self.unflagged.cases

    @property
    def shadow_model(self) -> str | None:
        """The model where it was scored in shadow: its nights follow each other."""
        return self.model if self.shadow else None

    @property
    def source(self) -> str | None:
        return source_digest(self.table)

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        yield from super().rows(entry, ())
        if self.begins:
            yield (
                CHAMPIONS,
                [{"series": self.series, "entry": entry, "model": self.model}],
            )
        for part in parts:
            if part.what == "cases":
                cases = zip(part.names, part.facts, strict=True)
                rows = [
                    dict(zip(CASE_COLUMNS, (entry, name, *facts), strict=True))
                    for name, facts in cases
                ]
                yield CASES, rows


def source_digest(table: str | None) -> str | None:
    """SHA-256 over the digests of a table's files."""
    return table and hashlib.sha256(table.encode()).hexdigest()


class Reserved(Facts, kind="reserve", table=RESERVATIONS):
    series: str
    night: str


class Accepted(Facts, kind="accept"):
    """Heads that stand elsewhere and not in this copy of the trail, which is gone on with: number, digest."""

    IN_COPY = True
    heads: Sequence[tuple[int, str]]


class Relocated(Facts, kind=RELOCATE):
    """The site was moved on purpose; where its ledger stands since is a part."""

    IN_COPY = True


class VerdictGiven(Facts, kind="verdict", table=REVIEWS):
    """A word on a case; its parts are the `case`, `by` whom, what it was `entered` with, and a `note`."""

    key: str
    series: str
    night: str
    flagged: bool
    verdict: str
    given: str
    reviewer: int


class ModelChange(Facts):
    """A model written anew; `champion_of` has the series where it takes the place of the one before."""

    model_before: str | None
    model_after: str
    champion_of: Sequence[str]
    series: str | None = None

    def rows(self, entry: int, parts: Iterable[Part]) -> Rows:
        champion = {"entry": entry, "model": self.model_after}
        yield CHAMPIONS, [champion | {"series": name} for name in self.champion_of]


class ThresholdChosen(ModelChange, kind="threshold"):
    classes: Sequence[ChangedClass] = ()


class Approved(ModelChange, kind="approve"):
    by: str
    date: str


class SealedAnew(ModelChange, kind="seal"):
    """A model without a patient that was erased."""

    IN_COPY = True


class Promoted(ModelChange, kind="promote"):
    evidence: NightsBeside


class Retrained(Facts, kind="retrain"):
    series: str
    champion: str
    model: str
    trained_on: TrainedOn


class Retired(Facts, kind="retire"):
    series: str
    last: str


class GivenUp(Facts, kind="give_up"):
    series: str
    night: str


class Acknowledged(Facts, kind="acknowledge"):
    """Reasons for attention that rest until after a day, by code and column."""

    series: str
    causes: Sequence[tuple[str, str | None]]
    until: str


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
"""A "case" is a page of one, a "table" one of a database, and "refused" a list of the
cells of a night that were refused or out of bounds."""


class Artefact(Facts, kind="artefact", table=ARTEFACTS):
    """A file or directory with patients' names; `patient` and `place` are parts of its entry."""

    IN_COPY = True
    what: ArtefactKind
    place: Path = Field(default=Path(), exclude=True)
    sha256: str | None  # None: it is gone.
    key: str | None = None  # Of the run it shows.
    series: str | None = None
    night: str | None = None
    patient: str | None = Field(
        default=None, exclude=True
    )  # Of a page of one case, whose it is.
    entry: int = Field(default=0, exclude=True)


class Erasing(Facts):
    """Names that became stand-ins."""

    IN_COPY = True
    # Entry, part, places in it, and the digest of what stands there now.
    erased: Sequence[tuple[int, int, Sequence[int], str]]
    # Keys of runs that named one of those erased, and of which something could not be reached.
    left: Sequence[str] = ()


class Forgotten(Erasing, kind="forget"):
    """One patient's."""


class Purged(Erasing, kind="purge"):
    """Everybody's of old nights."""


def append(
    connection: sa.Connection,
    recorded: str,
    facts: Facts,
    *parts: Part | Iterable[Part],
) -> Head:
    """Add an entry at the end, with parts behind its facts, and project it.

    The first entry of a ledger also states where the ledger stands. ModelError if the
    ledger is a copy of another site's and the entry belongs into the original.
    """
    if not facts.IN_COPY:
        refuse_copy(connection)
    pieces: list[Iterable[Part]] = [[Part("facts", facts.to_dict())]]
    for part in parts:
        pieces.append([part] if isinstance(part, Part) else part)
    if trail.head(connection).number == 0:
        pieces.append([location_part(connection)])
    head = trail.write(connection, recorded, facts.KIND, chain.from_iterable(pieces))
    project(connection, trail.entries(connection, trail.TRAIL.c.number == head.number))
    return head


def project(
    connection: sa.Connection,
    entries: Iterable[Entry],
    tables: Mapping[str, sa.Table] = PROJECTED.tables,
) -> None:
    """Write what entries come to into `tables`: all that these hold."""
    for entry in entries:
        facts, parts = facts_in(entry)
        for table, rows in facts.rows(entry.number, parts):
            if rows:
                connection.execute(tables[table.name].insert(), list(rows))


def facts_in(entry: Entry) -> tuple[Facts, Iterator[Part]]:
    """What an entry states, and the parts behind it (ModelError where this version does not know it)."""
    parts, title = (
        iter(entry.parts),
        f"entry {entry.number} of the audit trail ({entry.kind})",
    )
    first, kind = next(parts, None), KINDS.get(entry.kind)
    if kind is None or first is None or not isinstance(first.facts, dict):
        raise ModelError(f"{title} is of no known kind")
    return kind.from_dict(first.facts, title), parts


Kind = TypeVar("Kind", bound=Facts)


class Stated(NamedTuple, Generic[Kind]):
    """An entry as it is read back: number, time, what it states and the reason that was given."""

    entry: int
    recorded: str
    facts: Kind
    reason: str | None


def stated(connection: sa.Connection, kind: type[Kind]) -> Iterator[Stated[Kind]]:
    """The entries of a kind, or of those that it sums up, in order."""
    kinds = [name for name, declared in KINDS.items() if issubclass(declared, kind)]
    for entry in trail.entries(connection, trail.TRAIL.c.kind.in_(kinds)):
        facts, parts = facts_in(entry)
        assert isinstance(facts, kind), "it is of one of these kinds"
        reason = next(
            ("".join(part.names) for part in parts if part.what == "reason"), None
        )
        yield Stated(entry.number, entry.recorded, facts, reason)


def champions_in_trail(connection: sa.Connection) -> dict[str, str]:
    """Return by series the digest of the model that the trail makes its champion.

    Only what entries state is read, and of nights only the first of each series.
    """
    changes = [name for name, kind in KINDS.items() if issubclass(kind, ModelChange)]
    begins = PARTS.c.facts.contains(BEGINS, autoescape=True)
    is_change = trail.TRAIL.c.kind.in_(changes)
    chosen = (
        sa.select(trail.TRAIL.c.number, trail.TRAIL.c.kind, PARTS.c.facts)
        .join(PARTS, PARTS.c.entry == trail.TRAIL.c.number)
        .where(PARTS.c.part == 0)
        .where(is_change | ((trail.TRAIL.c.kind == Night.KIND) & begins))
        .order_by(trail.TRAIL.c.number)
    )
    champions: dict[str, str] = {}
    for number, kind, text in connection.execute(chosen):
        title = f"entry {number} of the audit trail ({kind})"
        facts = KINDS[kind].from_dict(trail.read_in(number, text), title)
        for table, rows in facts.rows(number, ()):
            if table is CHAMPIONS:
                champions |= {str(row["series"]): str(row["model"]) for row in rows}
    return champions


def nights_at(connection: sa.Connection, entries: Sequence[int]) -> dict[int, Night]:
    """Nights by their entries, without the hashes of their patients."""
    return {
        entry: Night.from_dict(part.facts, f"entry {entry} of the audit trail")
        for entry, part in trail.parts_of(connection, entries, "facts").items()
    }


def scores_at(
    connection: sa.Connection, nights: Mapping[int, Night]
) -> dict[int, ScoreCounts]:
    """By entry the scores of nights, with the hashes of their patients that still stand."""
    hashes, scores = trail.parts_of(connection, [*nights], "lots"), {}
    for entry, night in nights.items():
        if night.drift is not None:
            lots = zip(hashes[entry].names, hashes[entry].facts, strict=True)
            kept = [
                (int(name), cell)
                for name, cell in lots
                if not name.startswith(STAND_IN)
            ]
            scores[entry] = night.drift.replace(
                who=[who for who, _ in kept], cell=[cell for _, cell in kept]
            )
    return scores
