"""The kinds of entries, and what each comes to in the tables: the only writer of them is `project`.

A further kind is one type here: its fields are the facts of part 0, `rows` what it adds to the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import ClassVar

import sqlalchemy as sa

from screening.errors import ModelError
from screening.ledger import trail
from screening.ledger.database import ARTEFACTS, CASES, CHAMPIONS, MARKS, PROJECTED, REVIEWS, RUNS
from screening.ledger.trail import Entry, Head, Part
from screening.schemas.base import Document, Reason
from screening.schemas.history import ChangedClass, MissingValues, NightsBeside, Question, SensitivityAndPpv
from screening.schemas.model import TrainedOn
from screening.schemas.run import Delivery, ScoreCounts, Unflagged

Rows = Iterator[tuple[sa.Table, Sequence[Mapping[str, object]]]]
STAND_IN = "erased-"
"""So begins what stands for a patient."""

FACTS, LOTS, COLUMNS = 0, 1, 2
"""Places of a night's parts, behind which its cases stand."""


KINDS: dict[str, type[Facts]] = {}


class Facts(Document):
    """What an entry states, without a patient; a type of its own for each kind of entry."""

    KIND: ClassVar[str]

    def __init_subclass__(cls, kind: str | None = None) -> None:
        if kind is not None:
            cls.KIND, KINDS[kind] = kind, cls

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        """The rows of the tables that the entry comes to, some at a time; `parts`: those behind part 0."""
        series = getattr(self, "series", None)
        if series is not None:
            mark = {"kind": self.KIND, "series": series, "night": getattr(self, "night", None)}
            yield MARKS, [mark | {"entry": entry.number}]


class RowCounts(Document):
    """Rows of a night."""

    read: int
    scored: int
    refused: int
    flagged: int


class CaseCounts(Document):
    """Cases of a night: those flagged, by state, and those no longer flagged."""

    cases: int
    new: int
    pending: int
    ruled_out: int
    known: int
    no_longer_flagged: int

    @property
    def waiting(self) -> int:
        """Those without a verdict that holds."""
        return self.new + self.pending


class NightFacts(Document):
    """Figures of a night; no patient."""

    run_id: str
    model: str
    recipe: str
    thresholds: Mapping[str, float]
    title: str | None
    minutes_per_review: float | None
    capacity: int | None
    rows: RowCounts
    unflagged: Unflagged
    drift: ScoreCounts | None
    question: Question
    counts: CaseCounts
    attention: Sequence[Reason]
    missing: MissingValues | None = None
    table: str | None = None
    promised: SensitivityAndPpv | None = None
    review_by: str | None = None
    delivery: Delivery | None = None

    @property
    def units(self) -> int:
        """What was scored, each reviewed as one: rows, or groups where rows come in groups."""
        return self.counts.cases + self.unflagged.cases

    @property
    def minutes(self) -> float | None:
        """What reviewing those who wait takes."""
        return None if self.minutes_per_review is None else self.counts.waiting * self.minutes_per_review


def source_digest(table: str | None) -> str | None:
    """What a night's table is found by; `table` has the digests of its files."""
    return table and hashlib.sha256(table.encode()).hexdigest()


def _changed(entry: Entry, series: Iterable[str], model: str) -> Rows:
    yield CHAMPIONS, [{"series": name, "entry": entry.number, "model": model} for name in series]


class Night(Facts, kind="run"):
    """A night of a series.

    Its parts `cases` have the cases, some thousand each, its part `lots` keyed hashes of patients
    (`screening.data.ids.keyed_lots`, by the digest of the run's model), and its part `columns` what its
    features counted (`screening.monitoring.drift.Gates.counts`).
    """

    key: str
    revision: int
    series: str
    night: str
    model: str
    shadow: bool
    begins: bool  # The first of its series: its model is champion from now on.
    facts: NightFacts

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        names = ("key", "revision", "series", "night", "model", "shadow")
        run = {name: getattr(self, name) for name in names}
        yield RUNS, [run | {"entry": entry.number, "source": source_digest(self.facts.table)}]
        if self.begins:
            yield from _changed(entry, [self.series], self.model)
        columns = ("entry", "case_id", "state", "nights", "drawn", "judged", "verdict")
        for part in parts:
            if part.what == "cases":
                rows = zip(part.names, part.facts, strict=True)
                cases = [(entry.number, name, *case) for name, case in rows]
                yield CASES, [dict(zip(columns, case, strict=True)) for case in cases]


class Reserved(Facts, kind="reserve"):
    """A night that is being scored."""

    series: str
    night: str


class Accepted(Facts, kind="accept"):
    """Heads that stand elsewhere and not in this copy of the trail, which is gone on with: number, digest."""

    heads: Sequence[tuple[int, str]]


class VerdictGiven(Facts, kind="verdict"):
    """A reviewer's word on a case; its parts are the `case`, `by` whom, the login and token it was `entered`
    with, and a `note`."""

    key: str
    series: str
    night: str
    flagged: bool
    verdict: str
    given: str
    reviewer: int

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        case, by, entered, note = parts
        names = ("case_id", "site", "initials", "login", "token", "note")
        texts = dict(zip(names, (*case.names, *by.names, *entered.names, note.text), strict=True))
        yield REVIEWS, [self.to_dict() | texts | {"entry": entry.number}]


class ModelChange(Facts):
    """A model written anew; `champion_of` has the series where it takes the place of the one before."""

    model_before: str | None
    model_after: str
    champion_of: Sequence[str]
    series: str | None = None

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        yield from _changed(entry, self.champion_of, self.model_after)


class ThresholdChosen(ModelChange, kind="threshold"):
    """Another threshold."""

    classes: Sequence[ChangedClass] = ()


class Approved(ModelChange, kind="approve"):
    """A draft approved."""

    by: str
    date: str


class SealedAnew(ModelChange, kind="seal"):
    """A model without a patient that was erased."""


class Promoted(ModelChange, kind="promote"):
    """A model scored in shadow made champion, and what its nights beside the champion's had shown."""

    evidence: NightsBeside


class Retrained(Facts, kind="retrain"):
    """A model trained on the verdicts; the champion stays."""

    series: str
    champion: str
    model: str
    trained_on: TrainedOn


class Retired(Facts, kind="retire"):
    """A series that no further night is waited for; `last` is its last."""

    series: str
    last: str


class GivenUp(Facts, kind="give_up"):
    """A night that is no longer waited for, nor tried again."""

    series: str
    night: str


class Acknowledged(Facts, kind="acknowledge"):
    """Reasons for attention that rest until after a day: their codes, and columns where they have one."""

    series: str
    causes: Sequence[tuple[str, str | None]]
    until: str


class HandedOut(Facts, kind="artefact"):
    """Files with patients' names, of a run or of none, each a part `place`; `sha256` is None for one gone.

    The part `patient` names whose a page of one case is.
    """

    key: str | None
    series: str | None
    night: str | None

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        patient, *others = parts
        places = [part for part in others if part.what == "place"]
        shared = self.to_dict() | {"entry": entry.number, "patient": next(iter(patient.names), None)}
        rows = [shared | {"part": number, "place": part.text} for number, part in enumerate(places, start=2)]
        yield ARTEFACTS, [row | part.facts for row, part in zip(rows, places, strict=True)]


class Erasing(Facts):
    """Names that became stand-ins: entry, part, places in it, and the digest of what stands there now.

    `left`: keys of runs that named one of those erased, and of which something could not be reached.
    """

    erased: Sequence[tuple[int, int, Sequence[int], str]]
    left: Sequence[str] = ()


class Forgotten(Erasing, kind="forget"):
    """One patient's."""


class Purged(Erasing, kind="purge"):
    """Everybody's of old nights."""


def append(connection: sa.Connection, recorded: str, facts: Facts, *parts: Part | Iterable[Part]) -> Head:
    """Add an entry at the end, and bring it into the tables; in a transaction that nobody else writes in.

    `parts`: what stands behind the facts; of many cases an iterable of parts.
    """
    rest = chain.from_iterable([part] if isinstance(part, Part) else part for part in parts)
    written = trail.write(connection, recorded, facts.KIND, chain([Part("facts", facts.to_dict())], rest))
    project(connection, trail.entries(connection, trail.TRAIL.c.number == written.number))
    return written


def facts_in(entry: Entry) -> tuple[Facts, Iterator[Part]]:
    """What an entry states, and the parts behind it.

    Raises ModelError: naming the entry, where this version does not know what it says.
    """
    parts = iter(entry.parts)
    first = next(parts, None)
    declared = KINDS.get(entry.kind)
    if declared is None or first is None or not isinstance(first.facts, dict):
        raise ModelError(f"entry {entry.number} of the audit trail ({entry.kind}) is of no known kind")
    return declared.from_dict(first.facts, f"entry {entry.number} of the audit trail ({entry.kind})"), parts


def project(
    connection: sa.Connection,
    entries: Iterable[Entry],
    tables: Mapping[str, sa.Table] = PROJECTED.tables,
) -> None:
    """Write what entries come to: all that the tables hold.

    `tables`: by name, those that are written; others of the same columns to compare with.
    """
    for entry in entries:
        facts, parts = facts_in(entry)
        for table, rows in facts.rows(entry, parts):
            if rows:
                connection.execute(tables[table.name].insert(), list(rows))


def is_reserved(connection: sa.Connection, series: str, night: str) -> bool:
    """Whether a night was being scored, and has not been entered since."""
    mine = (MARKS.c.series == series) & (MARKS.c.kind == Reserved.KIND) & (MARKS.c.night == night)
    entered = (RUNS.c.series == series) & (RUNS.c.night == night)
    last, entry = (
        connection.scalar(sa.select(sa.func.max(column)).where(which)) or 0
        for column, which in ((MARKS.c.entry, mine), (RUNS.c.entry, entered))
    )
    return last > entry


def nights_at(
    connection: sa.Connection, entries: Sequence[int], patients_of: Sequence[int] = ()
) -> dict[int, NightFacts]:
    """The figures of nights by their entries; of some with the hashes of their patients that still stand."""
    nights = {
        entry: Night.from_dict(part.facts, f"entry {entry} of the audit trail").facts
        for entry, part in trail.parts_of(connection, entries, FACTS).items()
    }
    for entry, lots in trail.parts_of(connection, patients_of, LOTS).items():
        pairs = zip(lots.names, lots.facts, strict=True)
        kept = [(int(name), cell) for name, cell in pairs if not name.startswith(STAND_IN)]
        if kept and (drift := nights[entry].drift) is not None:
            who, cells = zip(*kept, strict=True)
            nights[entry] = nights[entry].replace(drift=drift.replace(who=who, cell=cells))
    return nights
