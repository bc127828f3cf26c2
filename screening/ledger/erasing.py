"""Erase names from the ledger: one patient's everywhere, or everybody's on old nights.

A random stand-in replaces each name, one for each series. Counts, states and the words
of verdicts stay, every patient still counts once, and the history says what it said
before. Notes, sites, initials and hashes are removed, so that nothing identifies the
patient. Facts cannot change: the trail has a digest of each name as it was written, and
the entry of the erasure says which names were replaced.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, groupby
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.identity.hashes import short_hash
from screening.identity.writing import word_pattern
from screening.ledger import register, trail
from screening.ledger.database import PARTS, PROJECTED, TRAIL, Ledger
from screening.ledger.entries import (
    STAND_IN,
    Erasing,
    Forgotten,
    Purged,
    append,
    project,
    stated,
)
from screening.ledger.patients import names_by_hashes
from screening.ledger.trail import IDS, SALT, Part

# Replaces the patient's id in texts about others.
GONE = "[erased]"
# Every form that may replace a name.
STAND_IN_FORM = re.compile(rf"({STAND_IN}[0-9a-f]{{16}}|{re.escape(GONE)})?")
# The part that says where a file lies; it stays unless it names the patient.
PLACE = "place"
# The part of a verdict with the login of its user, who is not the patient.
ENTERED = "entered"
# The parts that say which patient an entry is about.
ABOUT = ("case", "patient")


@dataclass(frozen=True)
class Scope:
    """The names to erase: patients, nights and series.

    Parameters
    ----------
    patient : str, optional
        Id of the one patient to erase; everybody if None.
    before : str, optional
        Only nights before this one, YYYY-MM-DD.
    series : str, optional
        Only nights of this series.
    """

    patient: str | None = None
    before: str | None = None
    series: str | None = None

    def has_night(self, night: str | None, series: str | None) -> bool:
        """Return True if a night is in scope.

        What belongs to no night is in scope only if one patient is erased.
        """
        if night is None:
            return self.patient is not None
        is_old = self.before is None or night < self.before
        return is_old and self.series in (None, series)

    def without(self, words: Sequence[str]) -> list[str]:
        """Return the words of a text with those replaced that name the patient."""
        remaining = list(words)
        starts = [0, *accumulate(map(len, words))]
        for match in self._pattern.finditer("".join(words)):
            first = bisect_right(starts, match.start()) - 1
            end = bisect_left(starts, match.end())
            n_emptied = end - first - 1
            remaining[first:end] = [GONE, *[""] * n_emptied]
        return remaining

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Match the id, but not within a longer id."""
        return word_pattern(str(self.patient))


_hash = cache(short_hash)


@cache
def _name_by_hashes(patient: str, series: str) -> str:
    """Return the name of a patient in the part `patients` of a series' nights."""
    (name,) = names_by_hashes([patient], series)
    return name


@dataclass(frozen=True)
class _Change:
    """The names of one part of an entry that are erased.

    Parameters
    ----------
    entry, number : int
        Number of the entry, and of the part within it.
    part : Part
        The part before the change.
    places : list of int
        Positions in `part.names` of what is erased.
    names : list of str
        All names of the part afterwards.
    """

    entry: int
    number: int
    part: Part
    places: list[int]
    names: list[str]

    @property
    def hides_mention(self) -> bool:
        """True if the id was a word in a text about another patient."""
        if self.part.what == PLACE:
            return False
        return any(self.names[place] == GONE for place in self.places)

    def store(self, connection: sa.Connection) -> None:
        """Write the stand-ins, and the digests of the names that they replace."""
        part = self.part
        salts = bytearray(part.salts)
        gone = dict(part.gone)
        for place in self.places:
            leaf = part.leaf(place, part.names[place])
            gone[str(place)] = leaf.hex()
            salts[SALT * place : SALT * (place + 1)] = bytes(SALT)
        after = replace(part, names=self.names, salts=bytes(salts), gone=gone)
        update = PARTS.update().where(
            PARTS.c.entry == self.entry, PARTS.c.part == self.number
        )
        connection.execute(update.values(after.stored()))


def unreached(connection: sa.Connection) -> dict[str, int]:
    """Return runs that earlier erasures could not reach in full.

    Returns
    -------
    dict
        The number of the last entry that says so, by the key of the run.
    """
    last: dict[str, int] = {}
    for erasing in stated(connection, Erasing):
        for key in erasing.facts.left:
            last[key] = erasing.entry
    return last


def erase(
    ledger: Ledger,
    reason: str,
    scope: Scope,
    *,
    dry_run: bool = False,
    left: Collection[str] = (),
) -> dict[str, int]:
    """Replace names in the ledger by stand-ins, and enter what was erased.

    Erasing is idempotent: what was erased before does not change, so erasures may
    overlap and come in any order. If there is nothing to erase nothing is entered, but
    the file is compacted in any case.

    Parameters
    ----------
    ledger : Ledger
    reason : str
        Kept in the trail.
    scope : Scope
        The names to erase.
    dry_run : bool
        Only count.
    left : collection of str
        Keys of runs that name the patient in places that could not be reached.

    Returns
    -------
    dict
        Numbers of `nights` in which names were erased, of their `cases`, of `verdicts`
        with their notes, and of `mentions`: texts about others that named the patient.
    """
    tally = _Tally()
    begin = ledger.reading if dry_run else ledger.writing
    with begin() as connection:
        if connection.dialect.name == "sqlite":
            # Else SQLite keeps deleted text in the file until it needs the space.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        for change in _changes(connection, scope):
            tally.add(change)
            if not dry_run:
                change.store(connection)
        is_news = tally.erased or not unreached(connection).keys() >= set(left)
        if is_news and not dry_run:
            kind = Purged if scope.patient is None else Forgotten
            facts = kind(erased=tally.erased, left=sorted(left))
            append(connection, ledger.clock(), facts, trail.text_part("reason", reason))
            _project_again(connection, tally.entries)
    if not dry_run:
        # Free pages may contain what earlier writers, or one that was killed here,
        # left.
        ledger.compact()
    return tally.counts()


class _Tally:
    """Names that were erased, as the entry states them, and their counts by kind."""

    def __init__(self) -> None:
        self.erased: list[tuple[int, int, list[int], str]] = []
        self.entries: set[int] = set()
        self._nights: set[int] = set()
        self._counts: Counter[str] = Counter()

    def add(self, change: _Change) -> None:
        """Count a change."""
        what = change.part.what
        digest = digest_of_stand_ins(change.names, change.places)
        self.erased.append((change.entry, change.number, change.places, digest))
        self.entries.add(change.entry)
        self._counts[what] += len(change.places)
        self._counts["mentions"] += change.hides_mention
        if what in ("cases", "lots"):
            self._nights.add(change.entry)

    def counts(self) -> dict[str, int]:
        """Return the numbers that `erase` returns."""
        return {
            "nights": len(self._nights),
            "cases": self._counts["cases"],
            "verdicts": self._counts["case"],
            "mentions": self._counts["mentions"],
        }


def _project_again(connection: sa.Connection, entries: Collection[int]) -> None:
    """Replace the rows of some entries in every table."""
    for numbers in trail.portions(sorted(entries)):
        for table in PROJECTED.tables.values():
            of_entries = table.c.entry.in_(numbers)
            connection.execute(table.delete().where(of_entries))
        project(connection, trail.entries(connection, TRAIL.c.number.in_(numbers)))


def digest_of_stand_ins(names: Sequence[str], places: Sequence[int]) -> str:
    """Return the SHA-256 of the names at these places."""
    stand_ins = [[place, names[place]] for place in places]
    return hashlib.sha256(trail.plain(stand_ins).encode()).hexdigest()


def _changes(connection: sa.Connection, scope: Scope) -> Iterator[_Change]:
    """Yield the parts in which names are erased."""
    # By series and name: a case of several nights stays one case.
    stand_ins = defaultdict[tuple[str, str], str](
        lambda: f"{STAND_IN}{secrets.token_hex(8)}"
    )
    facts_part = PARTS.alias()
    same_entry = (facts_part.c.entry == PARTS.c.entry) & (facts_part.c.part == 0)
    chosen = (
        sa.select(PARTS, facts_part.c.facts.label("stated"))
        .join(facts_part, same_entry)
        .where(PARTS.c.names != "[]")
    )
    current = register.current_rows(connection)
    # A page of one case that still lies somewhere is left to the next attempt.
    pending = {row.entry for row in current if row.what == "case"}
    in_use = {row.place for row in current}
    rows = trail.paged(connection, chosen)
    by_entry = groupby(rows, key=lambda row: (row.entry, row.stated))
    for (entry, text), rows_of_entry in by_entry:
        facts = trail.read_in(entry, text)
        is_in_scope = scope.has_night(facts.get("night"), facts.get("series"))
        if entry in pending or not is_in_scope:
            continue
        # An earlier part of the entry named the patient.
        is_about = False
        for row in rows_of_entry:
            part = trail.part_in(row)
            # Without its place a file that still lies there could never be found.
            if part.what == PLACE and "".join(part.names) in in_use:
                continue
            if part.what in IDS:
                names = _without_ids(part, facts, scope.patient, stand_ins)
            else:
                names = _without_texts(part, scope, is_about)
            change = _change(entry, row.part, part, names)
            if change is not None:
                is_about |= part.what in ABOUT
                yield change


def _change(
    entry: int, number: int, part: Part, names: Sequence[str]
) -> _Change | None:
    """Return the change to other names; None if there is nothing left to erase."""
    places = []
    after = list(part.names)
    for place, name in enumerate(names):
        if name != part.names[place] and str(place) not in part.gone:
            places.append(place)
            after[place] = name
    if not places:
        return None
    return _Change(entry, number, part, places, after)


def _without_ids(
    part: Part,
    facts: Mapping[str, Any],
    patient: str | None,
    stand_ins: Mapping[tuple[str, str], str],
) -> list[str]:
    """Return the ids, or hashes of ids, of a part with a stand-in for each in scope."""
    series = str(facts.get("series"))
    if patient is not None and part.what == "lots":
        patient = str(_hash(patient, facts["model"]))
    if patient is not None and part.what == "patients":
        patient = _name_by_hashes(patient, series)
    names = []
    for name in part.names:
        if patient is None or name == patient:
            name = stand_ins[series, name]
        names.append(name)
    return names


def _without_texts(part: Part, scope: Scope, is_patients: bool) -> list[str]:
    """Return the words of a text without those in scope.

    `is_patients`: the entry is about the patient, so that all of its texts go.
    """
    if scope.patient is None:
        all_go = part.what != PLACE
    else:
        all_go = is_patients and part.what != ENTERED
    if all_go:
        return [""] * len(part.names)
    if scope.patient is None:
        return list(part.names)
    return scope.without(part.names)


def before_age(age: str, today: datetime.date) -> str:
    """Return the first night, YYYY-MM-DD, that is not older than an age today.

    `age`: a number of days, weeks or years, such as `90d`, `26w` or `3y`.
    """
    match = re.fullmatch(r"([1-9]\d{0,4})([dwy])", age)
    if match is None:
        raise UsageError(
            f"`older_than` {age}: write it as 90d, 26w or 3y",
            parameters=["older_than"],
        )
    number = int(match[1])
    unit = match[2]
    try:
        if unit == "y":
            is_leap_day = (today.month, today.day) == (2, 29)
            # Most years have no 29 February; all have the day after it.
            day = today + datetime.timedelta(days=is_leap_day)
            return day.replace(year=day.year - number).isoformat()
        if unit == "w":
            number *= 7
        return (today - datetime.timedelta(days=number)).isoformat()
    except (OverflowError, ValueError):
        raise UsageError(
            f"`older_than` {age}: no night is that old", parameters=["older_than"]
        ) from None
