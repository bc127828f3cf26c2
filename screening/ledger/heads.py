"""Heads kept elsewhere: every run directory says how far the ledger had come when it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

import sqlalchemy as sa

from screening.documents.run import RunDocument
from screening.errors import ModelError
from screening.ledger import trail
from screening.ledger.database import MARKS, RUNS, Ledger
from screening.ledger.kinds import Accepted, Reserved, append
from screening.ledger.trail import Head, reason_of
from screening.spelling import shown_series
from screening.storage.serialization import read_document

NEWEST = 3
"""Run directories looked at: those written last."""


@dataclass(frozen=True)
class _Elsewhere:
    """The head that a run directory holds."""

    place: Path
    head: Head
    chain: str
    series: str
    night: str


def refuse_older(ledger: Ledger, runs: Path, where: str = "**") -> None:
    """Refuse a ledger that lacks what the newest run directories at or below a place say it had.

    `where`: "*" looks at those in the place alone. A directory that a killed command left before its night
    was entered is none of these.
    Raises ModelError: naming the directory, and how to go on.
    """
    with ledger.reading() as connection:
        for one in _unknown(connection, _heads(runs, where, NEWEST)):
            last = trail.head(connection).number
            raise ModelError(
                f"the ledger is older than {one.place}: that run was entry {one.head.number} of its trail, "
                f"which ends with entry {last} or went on otherwise; put the newer copy back, or go on "
                f"with this one: screen ledger accept LEDGER --runs {runs} --reason WHY"
            )


def accept(ledger: Ledger, runs: Path, reason: str) -> int:
    """Go on with a ledger that lacks what run directories say it had; gives how many do.

    Raises UsageError: no reason is given.
    """
    why = reason_of(reason)
    with ledger.writing() as connection:
        lost = [one.head for one in _unknown(connection, _heads(runs))]
        if lost:
            append(connection, ledger.clock(), Accepted(heads=lost), why)
    return len(lost)


def _heads(runs: Path, where: str = "**", most: int | None = None) -> Iterator[_Elsewhere]:
    """The heads of the run directories at or below a place: of all, or of those written last."""
    documents = [path for path in runs.glob(f"{where}/run.json") if not _hidden(path.relative_to(runs))]
    if most is not None:
        documents = nlargest(most, documents, key=lambda path: path.stat().st_mtime_ns)
    for path in documents:
        try:
            run = RunDocument.from_dict(read_document(path.parent, "run"))
        except ModelError:
            continue  # what is damaged is said where it is read for its own sake
        if run.ledger is not None:
            facts = run.ledger
            head = Head(facts.entry, facts.head)
            yield _Elsewhere(path.parent, head, facts.chain, facts.series, run.date)


def _hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)


def _unknown(connection: sa.Connection, heads: Iterator[_Elsewhere]) -> Iterator[_Elsewhere]:
    """Those of this ledger that its trail lacks, and that nobody accepted."""
    chain = trail.head(connection, 1).digest
    accepted = {tuple(head) for said in trail.facts_of(connection, Accepted.KIND) for head in said["heads"]}
    for one in heads:
        if one.chain != chain or one.head in accepted:
            continue
        if trail.head(connection, one.head.number) != one.head and not _is_reserved(connection, one):
            yield one


def _is_reserved(connection: sa.Connection, one: _Elsewhere) -> bool:
    """Whether its night was being scored, and has not been entered since."""
    marks = sa.select(MARKS).where(MARKS.c.kind == Reserved.KIND, MARKS.c.night == one.night)
    for mark in connection.execute(marks):
        if shown_series(mark.series) == one.series:
            mine = (RUNS.c.series == mark.series) & (RUNS.c.night == one.night) & (RUNS.c.entry > mark.entry)
            return connection.scalar(sa.select(RUNS.c.entry).where(mine).limit(1)) is None
    return False
