"""Taking names out of the ledger: of one patient everywhere, or of everybody on old nights.

A stand-in made by lot takes the place of a name, one a series: counts, states and the words of verdicts stay,
each patient counts once as before, and history tells what it told. Nothing says any more who it was: notes,
sites, initials and hashes go. Facts cannot change by it: the trail has a digest of each name as it was, and
the entry that erased says which names became what.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from screening.cohort.ids import kept_lot
from screening.errors import UsageError
from screening.ledger import register, trail
from screening.ledger.database import PARTS, PROJECTED, TRAIL, Ledger
from screening.ledger.kinds import STAND_IN, Forgotten, Purged, append, project
from screening.ledger.trail import IDS, Part

GONE = "[erased]"
STANDS_IN = re.compile(rf"({STAND_IN}[0-9a-f]{{16}}|{re.escape(GONE)})?")
"""What may stand in the place of a name."""
PLACE = "place"
"""Where a file lies: it stays in the register, unless it names the patient."""
ENTERED = "entered"
"""The part of a verdict with the login it was entered by: of a patient nothing, of a person something."""


@dataclass(frozen=True)
class Whom:
    """Whose names are taken out, and of which nights."""

    name: str | None = None  # Of this patient alone; everybody's where absent.
    before: str | None = None  # Only on nights before this one, YYYY-MM-DD.
    series: str | None = None  # Only in this one.

    def of_night(self, night: str | None, series: str | None) -> bool:
        """Whether that night is among those meant; what is of no night is meant with one patient alone."""
        if night is None:
            return self.name is not None
        return (self.before is None or night < self.before) and self.series in (None, series)

    def may_be_in(self, row: Any) -> bool:
        """Whether a part's row may name one of them."""
        if self.name is None or row.what == "lots":
            return True
        if row.what in IDS:
            return trail.plain(self.name)[1:-1] in row.names
        return self.name in "".join(json.loads(row.names))

    def in_words(self, words: Sequence[str]) -> list[str]:
        """Words of which those that name the patient are gone."""
        left, text = list(words), "".join(words)
        starts = [0, *_sums(map(len, words))]
        for match in re.finditer(rf"(?<!\w){re.escape(str(self.name))}(?!\w)", text):
            mine = [
                n for n, at in enumerate(starts[:-1]) if at < match.end() and starts[n + 1] > match.start()
            ]
            for n in mine:
                left[n] = GONE if n == mine[0] else ""
        return left


def _sums(lengths: Iterator[int]) -> Iterator[int]:
    total = 0
    for length in lengths:
        total += length
        yield total


_lot = cache(kept_lot)


@dataclass
class Erased:
    """What was taken out of the ledger, or would be."""

    # nights, cases, verdicts: runs in which something was, their cases, and verdicts with their notes.
    nights: int = 0
    cases: int = 0
    verdicts: int = 0
    mentions: int = 0  # Texts on others in which the id stood as a word.


@dataclass
class _Taking:
    """What becomes of the parts of the trail, as they are looked at in order."""

    whom: Whom
    erased: Erased = field(default_factory=Erased)
    # By series and name, so that a case of several nights is one case still.
    stand_ins: defaultdict[tuple[str, str], str] = field(
        default_factory=lambda: defaultdict(lambda: f"{STAND_IN}{secrets.token_hex(8)}")
    )
    # Of the entry that is looked at: whether its one case is erased, and whether it was counted.
    entry: int = 0
    is_mine: bool = False
    counted: bool = False

    def of(self, entry: int, part: Part, facts: Mapping[str, Any]) -> Sequence[str]:
        """The names of a part as they are to stand."""
        if entry != self.entry:
            self.entry, self.is_mine, self.counted = entry, False, False
        if part.what in IDS:
            names = self._patients(part, facts)
        elif part.what == PLACE and not self.is_mine:
            names = [*part.names] if self.whom.name is None else self.whom.in_words(part.names)
        elif self.whom.name is None or (self.is_mine and part.what != ENTERED):
            names = [""] * len(part.names)
        else:
            names = self.whom.in_words(part.names)
            self.erased.mentions += names != part.names
        return names

    def _patients(self, part: Part, facts: Mapping[str, Any]) -> list[str]:
        series, whom = str(facts.get("series")), self.whom.name
        if whom is not None and part.what == "lots":
            whom = str(_lot(whom, facts["model"]))
        names = [
            self.stand_ins[series, name] if not name.startswith(STAND_IN) and whom in (None, name) else name
            for name in part.names
        ]
        n_gone = sum(one != other for one, other in zip(names, part.names, strict=True))
        if part.what in ("case", "patient"):
            self.is_mine = bool(n_gone)
            self.erased.verdicts += n_gone if part.what == "case" else 0
        elif n_gone:
            self.erased.cases += n_gone if part.what == "cases" else 0
            self.erased.nights += not self.counted
            self.counted = True
        return names


def erase(ledger: Ledger, action: str, reason: str, whom: Whom, *, dry_run: bool = False) -> Erased:
    """Take names out; where there are none nothing is entered, and the file is cleaned all the same.

    `action`: one of "forget", "purge".
    `reason`: why; no patient in it.
    `dry_run`: only say what would go.
    """
    if dry_run:
        with ledger.reading() as connection:
            taking = _Taking(whom)
            for _ in _changes(connection, taking):
                pass
            return taking.erased
    with ledger.writing() as connection:
        if connection.dialect.name == "sqlite":
            # Or what was deleted would stand in the file until its place is needed again.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        taking = _Taking(whom)
        erased = []
        for entry, place, part, names in _changes(connection, taking):
            places = _replace(connection, entry, place, part, names)
            erased.append((entry, place, places, digest_of_stand_ins(names, places)))
        if erased:
            facts = (Forgotten if action == "forget" else Purged)(erased=erased)
            append(connection, ledger.clock(), facts, trail.text_part("reason", reason))
            _project_again(connection, sorted({entry for entry, *_ in erased}))
    # Whatever earlier writers, or one that was killed here, left on free pages.
    ledger.compact()
    return taking.erased


def digest_of_stand_ins(names: Sequence[str], places: Sequence[int]) -> str:
    """SHA-256 over what stands at these places."""
    return hashlib.sha256(trail.plain([[place, names[place]] for place in places]).encode()).hexdigest()


def _replace(
    connection: sa.Connection, entry: int, place: int, part: Part, names: Sequence[str]
) -> list[int]:
    """Put stand-ins where names stood; gives the places of those that did."""
    places = [n for n, (one, other) in enumerate(zip(part.names, names, strict=True)) if one != other]
    salts, gone = bytearray(part.salts), dict(part.gone)
    for n in places:
        gone[str(n)] = part.leaf(n, part.names[n]).hex()
        salts[trail.SALT * n : trail.SALT * (n + 1)] = bytes(trail.SALT)
    after = trail.stored(replace(part, names=names, salts=bytes(salts), gone=gone))
    connection.execute(PARTS.update().where((PARTS.c.entry == entry) & (PARTS.c.part == place)).values(after))
    return places


def _project_again(connection: sa.Connection, entries: Sequence[int]) -> None:
    for some in trail.portions(entries):
        for table in PROJECTED.tables.values():
            connection.execute(table.delete().where(table.c.entry.in_(some)))
        project(connection, trail.entries(connection, TRAIL.c.number.in_(some)))


def _changes(connection: sa.Connection, taking: _Taking) -> Iterator[tuple[int, int, Part, Sequence[str]]]:
    """Entry, place and names of the parts in which something goes, and what is to stand there."""
    whom, first = taking.whom, PARTS.alias()
    chosen = (
        sa.select(PARTS, first.c.facts.label("stated"))
        .join(first, (first.c.entry == PARTS.c.entry) & (first.c.part == 0))
        .where(PARTS.c.names != "[]")
    )
    # What still lies somewhere must be found by the next attempt.
    kept = {one.entry for one in register.standing(connection) if one.what == "case"}
    for row in trail.paged(connection, chosen):
        if row.entry in kept:
            continue
        # What cannot speak of the patient is left unread: years of nights are much to read.
        if row.entry != taking.entry and not whom.may_be_in(row):
            continue
        facts, part = json.loads(row.stated), trail.part_in(row)
        if not whom.of_night(facts.get("night"), facts.get("series")):
            continue
        names = taking.of(row.entry, part, facts)
        if list(names) != list(part.names):
            yield row.entry, row.part, part, names


def before_age(age: str, today: datetime.date) -> str:
    """The first night, YYYY-MM-DD, that is not older than `90d`, `26w` or `3y` today.

    Raises UsageError: the age is none of these.
    """
    written = re.fullmatch(r"([1-9]\d{0,4})([dwy])", age)
    if written is None:
        raise UsageError(f"--older-than {age}: write it as 90d, 26w or 3y")
    number, unit = int(written[1]), written[2]
    try:
        if unit == "y":
            # Most years have no 29 February; the day after it is in all of them.
            day = today + datetime.timedelta(days=(today.month, today.day) == (2, 29))
            return day.replace(year=day.year - number).isoformat()
        return (today - datetime.timedelta(days=number * (7 if unit == "w" else 1))).isoformat()
    except (OverflowError, ValueError):
        raise UsageError(f"--older-than {age}: no night is so old") from None
