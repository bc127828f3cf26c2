"""Following the trail from its first entry, and holding every run, case and verdict to its own entry."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from screening.documents.tables import listed, of, word
from screening.errors import UsageError
from screening.ledger import audit
from screening.ledger.audit import GENESIS, Head, said, stretches
from screening.ledger.database import AUDIT, CASES, CONTENTS, REVIEWS, RUNS, SERIES, Unchained

SHORTEST_HEAD = 12
ERASING = ("forget", "purge")


def verify(connection: sa.Connection, printed: str | None) -> Head:
    """Follow the chain, and hold contents and tables to it.

    `printed`: head as printed at the foot of a report (its beginning will do): it must be in the chain, or
    the chain has been cut short or written anew since.
    Raises UsageError: too little of the printed head is given.
    Raises Unchained: naming the first entry that is not as it was written.
    """
    if printed is not None and len(printed) < SHORTEST_HEAD:
        raise UsageError(f"--head: give at least {SHORTEST_HEAD} of the digits printed on the report")
    check = _Check(connection, rewritten(connection))
    known = printed is None
    for entry in _entries(connection):
        check.follow(entry)
        known = known or check.at.digest.startswith(printed or "")
    if not known:
        raise Unchained("the printed head is not in the audit trail: it was cut short or written anew")
    check.complete()
    return check.at


@dataclass(frozen=True)
class _Entry:
    """An entry of the trail, and what the tables hold of it."""

    row: sa.RowMapping
    parts: Sequence[sa.RowMapping]
    run: sa.RowMapping | None
    cases: Sequence[sa.RowMapping]
    reviews: Mapping[tuple[str, str], sa.RowMapping]


def _entries(connection: sa.Connection) -> Iterator[_Entry]:
    """Every entry in order, with its rows, some hundred at a time."""
    for first, until in stretches(connection):
        parts = _by_entry(connection, CONTENTS, first, until)
        runs = _by_entry(connection, RUNS, first, until)
        cases = _by_entry(connection, CASES, first, until)
        among = sa.select(AUDIT).where(AUDIT.c.number.between(first, until)).order_by(AUDIT.c.number)
        rows = connection.execute(among).mappings().all()
        reviews = _reviews(connection, [part for each in parts.values() for part in each])
        for row in rows:
            number = row["number"]
            run = runs[number][0] if number in runs else None
            yield _Entry(row, parts.get(number, ()), run, cases.get(number, ()), reviews)


def _by_entry(
    connection: sa.Connection, table: sa.Table, first: int, until: int
) -> dict[int, list[sa.RowMapping]]:
    found = defaultdict(list)
    chosen = sa.select(table).where(table.c.entry.between(first, until)).order_by(*table.primary_key)
    for row in connection.execute(chosen).mappings():
        found[row["entry"]].append(row)
    return dict(found)


def _reviews(
    connection: sa.Connection, parts: Sequence[sa.RowMapping]
) -> dict[tuple[str, str], sa.RowMapping]:
    """The last verdicts on the runs that these contents speak of, by run and case."""
    bodies = (json.loads(part["body"] or "{}") for part in parts if part["part"] == audit.OPEN)
    keys = sorted({str(body.get("key")) for body in bodies})
    chosen = sa.select(REVIEWS).where(REVIEWS.c.key.in_(keys))
    return {(row["key"], row["case_id"]): row for row in connection.execute(chosen).mappings()}


def _is_whole(entry: _Entry) -> bool:
    """Whether an entry's digest is that of its parts as they were first written."""
    digests = [part["digest"] for part in entry.parts]
    return bool(digests) and entry.row["digest"] == audit.digest_of(dict(entry.row), digests)


def rewritten(connection: sa.Connection) -> dict[tuple[int, int], str | None]:
    """Parts that a later entry erased (None) or wrote anew (digest); that entry is verified itself."""
    changes = (change for each in said(connection, *ERASING) for change in listed(each["rewritten"]))
    return {(entry, part): digest for entry, part, digest in changes}


@dataclass
class _Check:
    """Where the following stands."""

    connection: sa.Connection
    rewritten: Mapping[tuple[int, int], str | None]
    at: Head = field(default_factory=lambda: Head(0, GENESIS))
    runs: int = 0
    cases: int = 0
    verdicts: int = 0

    def follow(self, entry: _Entry) -> None:
        """Hold one entry to the one before, its contents to it, and the tables to its contents."""
        row = entry.row
        number, action = row["number"], row["action"]
        if number != self.at.number + 1:
            raise Unchained(f"the audit trail is broken: entry {self.at.number + 1} is missing")
        parts = [self._part(row, part) for part in entry.parts]
        if row["previous"] != self.at.digest or not _is_whole(entry):
            raise Unchained(f"the audit trail is broken at entry {number} ({action})")
        self.at = Head(number, row["digest"])
        if action == "run":
            self._run(entry, parts)
        elif entry.run is not None:
            raise Unchained(f"a run of {entry.run['night']} has no entry in the audit trail")
        elif entry.cases:
            raise Unchained("there are cases of a run that the audit trail does not know")
        if action == "verdict":
            self._verdict(entry, parts)

    def _part(self, row: sa.RowMapping, part: sa.RowMapping) -> dict[str, object] | None:
        """What a part says, held to its digest; None where it was erased."""
        place = (part["entry"], part["part"])
        due = self.rewritten.get(place, part["digest"])
        if place in self.rewritten and row["action"] in ERASING:
            raise Unchained(f"entry {place[0]} ({row['action']}) was rewritten, which no entry may do")
        if due is None and part["body"] is None and part["salt"] is None:
            return None
        text, salt = part["body"], part["salt"]
        if due is None or text is None or salt is None or audit.digest_of_part(salt, text) != due:
            kind = "erased without an entry that says so" if text is None else "not as it was written"
            raise Unchained(f"the audit trail is broken: entry {place[0]} ({row['action']}) is {kind}")
        return dict(json.loads(text))

    def _run(self, entry: _Entry, parts: Sequence[dict[str, object] | None]) -> None:
        number, told, named = self.at.number, parts[audit.OPEN], parts[audit.PATIENTS]
        if told is None:
            if entry.run is not None or entry.cases:
                raise Unchained(f"the run of entry {number} of the audit trail was erased and is there")
            return
        if entry.run is None:
            raise Unchained(f"the run of entry {number} of the audit trail is gone")
        held = dict(entry.run) | {"facts": json.loads(entry.run["facts"])}
        lots = set(listed((named or {}).get("drawn", [])))
        cases = [[*case, case[0] in lots] for case in listed((named or {}).get("cases", []))]
        rows = [[row["case_id"], row["state"], row["nights"], bool(row["drawn"])] for row in entry.cases]
        if any(held[name] != value for name, value in told.items()) or sorted(rows) != sorted(cases):
            raise Unchained(f"a run or its cases are not as entry {number} of the audit trail has them")
        self.runs += 1
        self.cases += len(rows)

    def _verdict(self, entry: _Entry, parts: Sequence[dict[str, object] | None]) -> None:
        number, told, named = self.at.number, parts[audit.OPEN], parts[audit.PATIENTS]
        if told is None or named is None:
            return
        held = entry.reviews.get((word(told, "key"), word(named, "case_id")))
        if held is None or held["entry"] < number:
            raise Unchained(f"the verdict of entry {number} of the audit trail is gone")
        if held["entry"] > number:
            return
        if dict(held) != told | named | {"entry": number}:
            raise Unchained(f"a verdict is not as entry {number} of the audit trail has it")
        self.verdicts += 1

    def complete(self) -> None:
        """Nothing may stand in the tables that no entry vouches for."""
        later = CONTENTS.c.entry > self.at.number
        for table, there, known in (
            (CONTENTS, sa.select(sa.func.count()).where(later), 0),
            (RUNS, sa.select(sa.func.count(RUNS.c.entry)), self.runs),
            (CASES, sa.select(sa.func.count(CASES.c.entry)), self.cases),
            (REVIEWS, sa.select(sa.func.count(REVIEWS.c.entry)), self.verdicts),
        ):
            if self.connection.scalar(there) != known:
                raise Unchained(f"there are {table.name} that the audit trail does not know")
        for row in self.connection.execute(sa.select(SERIES)):
            self._champion(row)

    def _champion(self, row: sa.Row[Any]) -> None:
        said = audit.part_of(self.connection, row.since)
        if said and row.champion not in (
            said.get("model_after"),
            of(dict, said.get("facts", {})).get("model"),
        ):
            raise Unchained(f"a series' champion is not as entry {row.since} of the audit trail has it")
