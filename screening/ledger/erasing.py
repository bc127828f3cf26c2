"""Taking names out of the ledger: of one patient everywhere, or of everybody on old nights.

A stand-in made by lot takes the place of a name, one a series: counts, states and the words of verdicts stay,
each patient counts once as before, and history tells what it told. Nothing says any more who it was: notes,
sites, initials and hashes go. Facts cannot change by it: the trail has a digest of each name as it was, and
the entry that erased says which names became what.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby

import sqlalchemy as sa

from screening.data.ids import short_hash
from screening.errors import UsageError
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
from screening.ledger.trail import IDS, SALT, Part

GONE = "[erased]"
STANDS_IN = re.compile(rf"({STAND_IN}[0-9a-f]{{16}}|{re.escape(GONE)})?")
"""What may stand in the place of a name."""
PLACE = "place"
"""Where a file lies: it stays in the register, unless it names the patient."""
ENTERED = "entered"
"""The part of a verdict with the login it was entered by: of a patient nothing, of a person something."""


@dataclass(frozen=True)
class Scope:
    """Whose names are taken out, and of which nights."""

    patient: str | None = None  # Of this one alone; everybody's where absent.
    before: str | None = None  # Only on nights before this one, YYYY-MM-DD.
    series: str | None = None  # Only in this one.

    def has_night(self, night: str | None, series: str | None) -> bool:
        """Whether a night is among those meant; what is of no night is meant with one patient alone."""
        if night is None:
            return self.patient is not None
        return (self.before is None or night < self.before) and self.series in (
            None,
            series,
        )

    def without(self, words: Sequence[str]) -> list[str]:
        """Words of which those that name the patient are gone."""
        left, text = list(words), "".join(words)
        starts = [0, *accumulate(map(len, words))]
        for match in re.finditer(rf"(?<!\w){re.escape(str(self.patient))}(?!\w)", text):
            first, end = (
                bisect_right(starts, match.start()) - 1,
                bisect_left(starts, match.end()),
            )
            left[first:end] = [GONE] + [""] * (end - first - 1)
        return left


_hash = cache(short_hash)


def unreached(connection: sa.Connection) -> dict[str, int]:
    """Keys of runs of which earlier erasures could not reach everything, and the last entry that says so."""
    return {
        key: erasing.entry
        for erasing in stated(connection, Erasing)
        for key in erasing.facts.left
    }


def erase(
    ledger: Ledger,
    reason: str,
    scope: Scope,
    *,
    dry_run: bool = False,
    left: Collection[str] = (),
) -> dict[str, int]:
    """Take names out; where there are none nothing is entered, and the file is cleaned all the same.

    `dry_run`: only say what would go; `left`: keys of runs that name them in places that could not be
    reached. Returns how many `nights` had names taken out, their `cases`, `verdicts` with their notes, and
    `mentions`: texts on others in which the id stood as a word.
    """
    names, nights, erased = Counter[str](), set[int](), []
    with ledger.reading() if dry_run else ledger.writing() as connection:
        if connection.dialect.name == "sqlite":
            # Or what was deleted would stand in the file until its place is needed again.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        for entry, number, part, after in _changes(connection, scope):
            places = [n for n, name in enumerate(part.names) if name != after.names[n]]
            names[part.what] += len(places)
            names["mentions"] += GONE in after.names and part.what != PLACE
            nights |= {entry} if part.what in ("cases", "lots") else set()
            erased.append(
                (entry, number, places, digest_of_stand_ins(after.names, places))
            )
            if not dry_run:
                salts, gone = bytearray(part.salts), dict(part.gone)
                for n in places:
                    gone[str(n)] = part.leaf(n, part.names[n]).hex()
                    salts[SALT * n : SALT * (n + 1)] = bytes(SALT)
                stored = replace(after, salts=bytes(salts), gone=gone).stored()
                here = (PARTS.c.entry == entry) & (PARTS.c.part == number)
                connection.execute(PARTS.update().where(here).values(stored))
        if not dry_run and (erased or not unreached(connection).keys() >= set(left)):
            kind = Purged if scope.patient is None else Forgotten
            facts = kind(erased=erased, left=sorted(left))
            append(connection, ledger.clock(), facts, trail.text_part("reason", reason))
            for numbers in trail.portions(sorted({entry for entry, *_ in erased})):
                for table in PROJECTED.tables.values():
                    connection.execute(table.delete().where(table.c.entry.in_(numbers)))
                project(
                    connection, trail.entries(connection, TRAIL.c.number.in_(numbers))
                )
    if not dry_run:
        # Whatever earlier writers, or one that was killed here, left on free pages.
        ledger.compact()
    counted = {
        "nights": len(nights),
        "cases": names["cases"],
        "verdicts": names["case"],
    }
    return counted | {"mentions": names["mentions"]}


def digest_of_stand_ins(names: Sequence[str], places: Sequence[int]) -> str:
    """SHA-256 over what stands at these places."""
    return hashlib.sha256(
        trail.plain([[place, names[place]] for place in places]).encode()
    ).hexdigest()


def _changes(
    connection: sa.Connection, scope: Scope
) -> Iterator[tuple[int, int, Part, Part]]:
    """Entry and number of the parts in which names go, what stands there and what is to."""
    # By series and name, so that a case of several nights is one case still.
    stand_ins: dict[tuple[str, str], str] = defaultdict(
        lambda: f"{STAND_IN}{secrets.token_hex(8)}"
    )
    first = PARTS.alias()
    chosen = (
        sa.select(PARTS, first.c.facts.label("stated"))
        .join(first, (first.c.entry == PARTS.c.entry) & (first.c.part == 0))
        .where(PARTS.c.names != "[]")
    )
    # What still lies somewhere is for the next attempt.
    kept = {
        one.entry
        for one in register.current_artefacts(connection)
        if one.what == "case"
    }
    rows = trail.paged(connection, chosen)
    for (entry, text), of_entry in groupby(
        rows, key=lambda row: (row.entry, row.stated)
    ):
        facts, is_patients = trail.read_in(entry, text), False
        night, series = facts.get("night"), facts.get("series")
        for row in (
            of_entry if entry not in kept and scope.has_night(night, series) else ()
        ):
            part, patient = trail.part_in(row), scope.patient
            names: Sequence[str]
            if part.what in IDS:
                if patient is not None and part.what == "lots":
                    patient = str(_hash(patient, facts["model"]))
                ids = {name for name in part.names if not name.startswith(STAND_IN)}
                gone = ids if patient is None else ids & {patient}
                names = [
                    stand_ins[str(series), name] if name in gone else name
                    for name in part.names
                ]
                is_patients |= part.what in ("case", "patient") and names != part.names
            elif (patient is None and part.what != PLACE) or (
                is_patients and part.what != ENTERED
            ):
                names = [""] * len(part.names)
            else:
                names = part.names if patient is None else scope.without(part.names)
            if names != part.names:
                yield entry, row.part, part, replace(part, names=names)


def before_age(age: str, today: datetime.date) -> str:
    """The first night, YYYY-MM-DD, that is not older than `90d`, `26w` or `3y` today."""
    match = re.fullmatch(r"([1-9]\d{0,4})([dwy])", age)
    if match is None:
        raise UsageError(f"--older-than {age}: write it as 90d, 26w or 3y")
    number, unit = int(match[1]), match[2]
    try:
        if unit == "y":
            # Most years have no 29 February; the day after it is in all of them.
            day = today + datetime.timedelta(days=(today.month, today.day) == (2, 29))
            return day.replace(year=day.year - number).isoformat()
        return (
            today - datetime.timedelta(days=number * (7 if unit == "w" else 1))
        ).isoformat()
    except (OverflowError, ValueError):
        raise UsageError(f"--older-than {age}: no night is so old") from None
