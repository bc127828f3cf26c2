"""The kinds of entries, and what each comes to in the tables: the only writer of them is `project`.

A further kind is one type here: its fields are the facts of part 0, `rows` what it adds to the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa

from screening.documents.base import Document, Reason
from screening.documents.history import ChangedClass, MissingValues, NightsBeside, Question, SensitivityAndPpv
from screening.documents.model import TrainedOn
from screening.documents.run import Delivery, ScoreCounts, Unflagged
from screening.errors import ModelError
from screening.ledger import trail
from screening.ledger.database import ARTEFACTS, CASES, CHAMPIONS, MARKS, PROJECTED, REVIEWS, RUNS
from screening.ledger.trail import Entry, Head, Part

Rows = Iterator[tuple[sa.Table, Sequence[Mapping[str, object]]]]
STAND_IN = "erased-"
"""So begins what stands for a patient."""


class Facts(Document):
    """What an entry states, without a patient."""

    KIND: ClassVar[str]

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        """The rows of the tables that the entry comes to, some at a time; `parts`: those behind part 0."""
        series = getattr(self, "series", None)
        if series is not None:
            mark = {"kind": self.KIND, "series": series, "night": getattr(self, "night", None)}
            yield MARKS, [mark | {"entry": entry.number}]


KINDS: dict[str, type[Facts]] = {}

F = TypeVar("F", bound=type[Facts])


def kind(name: str) -> Callable[[F], F]:
    """Enter a type under the name that its entries have."""

    def entered(declared: F) -> F:
        declared.KIND = name
        KINDS[name] = declared
        return declared

    return entered


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
    ongoing: int
    reviewed: int
    known: int
    resolved: int


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


def source_digest(table: str | None) -> str | None:
    """What a night's table is found by; `table` has the digests of its files."""
    return table and hashlib.sha256(table.encode()).hexdigest()


def _changed(entry: Entry, series: Iterable[str], model: str) -> Rows:
    yield CHAMPIONS, [{"series": name, "entry": entry.number, "model": model} for name in series]


@kind("run")
class Night(Facts):
    """A night of a series.

    Its parts `cases` have the cases, some thousand each, its part `lots` keyed hashes of patients
    (`screening.cohort.ids.keyed_lots`, by the digest of the run's model), and its part `columns` what its
    features counted (`screening.gates.own_nights.counts_of`).
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
        mine = {"entry": entry.number, "source": source_digest(self.facts.table)}
        yield RUNS, [{name: getattr(self, name) for name in names} | mine]
        if self.begins:
            yield from _changed(entry, [self.series], self.model)
        columns = ("state", "nights", "drawn", "judged", "verdict")
        for part in parts:
            if part.what == "cases":
                cases = zip(part.names, part.facts, strict=True)
                yield (
                    CASES,
                    [
                        {"entry": entry.number, "case_id": name} | dict(zip(columns, case, strict=True))
                        for name, case in cases
                    ],
                )


@kind("reserve")
class Reserved(Facts):
    """A night that is being scored."""

    series: str
    night: str


@kind("accept")
class Accepted(Facts):
    """Heads that stand elsewhere and not in this copy of the trail, which is gone on with: number, digest."""

    heads: Sequence[tuple[int, str]]


@kind("verdict")
class VerdictGiven(Facts):
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
        named = {part.what: part for part in parts}
        (case,), (site, initials) = named["case"].names, named["by"].names
        login, token = named["entered"].names
        yield (
            REVIEWS,
            [
                self.to_dict()
                | {"entry": entry.number, "case_id": case, "site": site, "initials": initials}
                | {"login": login, "token": token, "note": named["note"].text}
            ],
        )


class ModelChange(Facts):
    """A model written anew; `champion_of` has the series where it takes the place of the one before."""

    model_before: str | None
    model_after: str
    champion_of: Sequence[str]
    series: str | None = None

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        yield from _changed(entry, self.champion_of, self.model_after)


@kind("threshold")
class ThresholdChosen(ModelChange):
    """Another threshold."""

    classes: Sequence[ChangedClass] = ()


@kind("approve")
class Approved(ModelChange):
    """A draft approved."""

    by: str
    date: str


@kind("seal")
class SealedAnew(ModelChange):
    """A model without a patient that was erased."""


@kind("promote")
class Promoted(ModelChange):
    """A model scored in shadow made champion, and what its nights beside the champion's had shown."""

    evidence: NightsBeside


@kind("retrain")
class Retrained(Facts):
    """A model trained on the verdicts; the champion stays."""

    series: str
    champion: str
    model: str
    trained_on: TrainedOn


@kind("retire")
class Retired(Facts):
    """A series that no further night is waited for; `last` is its last."""

    series: str
    last: str


@kind("give_up")
class GivenUp(Facts):
    """A night that is no longer waited for, nor tried again."""

    series: str
    night: str


@kind("acknowledge")
class Acknowledged(Facts):
    """Reasons for attention that rest until after a day: their codes, and columns where they have one."""

    series: str
    causes: Sequence[tuple[str, str | None]]
    until: str


@kind("artefact")
class HandedOut(Facts):
    """Files with patients' names, of a run or of none, each a part `place`; `sha256` is None for one gone.

    The part `patient` names whose a page of one case is.
    """

    key: str | None
    series: str | None
    night: str | None

    def rows(self, entry: Entry, parts: Iterable[Part]) -> Rows:
        patient = next(iter(parts)).names
        shared = self.to_dict() | {"entry": entry.number, "patient": patient[0] if patient else None}
        yield (
            ARTEFACTS,
            [
                shared | {"part": number, "place": part.text} | part.facts
                for number, part in enumerate(parts, start=2)
            ],
        )


class Erasing(Facts):
    """Names that became stand-ins: entry, part, places in it, and the digest of what stands there now."""

    erased: Sequence[tuple[int, int, Sequence[int], str]]


@kind("forget")
class Forgotten(Erasing):
    """One patient's."""


@kind("purge")
class Purged(Erasing):
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


def reserved(connection: sa.Connection, series: str, night: str) -> list[int]:
    """The entries that say a night was being scored."""
    mine = (MARKS.c.series == series) & (MARKS.c.kind == Reserved.KIND) & (MARKS.c.night == night)
    return list(connection.scalars(sa.select(MARKS.c.entry).where(mine)))


def nights_in(facts: Mapping[str, Any], lots: Part | None = None) -> NightFacts:
    """The figures of a night, with the hashes of its patients that still stand where they are given."""
    figures = Night.from_dict(facts, "a night of the audit trail").facts
    if lots is None or figures.drift is None:
        return figures
    pairs = zip(lots.names, lots.facts, strict=True)
    kept = [(int(name), cell) for name, cell in pairs if not name.startswith(STAND_IN)]
    who, cells = tuple(zip(*kept, strict=True)) or ((), ())
    return figures.replace(drift=figures.drift.replace(who=who, cell=cells))
