"""Taking names out of the ledger: of one patient everywhere, or of everybody on old nights.

A stand-in made by lot takes the place of a name, one a series: counts, states and the words of verdicts stay,
each patient counts once as before, and history tells what it told. Nothing says any more who it was: notes,
sites, initials and hashes go. The trail gets new salted digests by an entry that names them.
"""

from __future__ import annotations

import datetime
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa

from screening.cohort.ids import kept_lot
from screening.documents.drift import without_unit
from screening.documents.tables import listed, table, word
from screening.errors import UsageError
from screening.ledger import audit, model_registry
from screening.ledger.audit import said, stretches
from screening.ledger.database import AUDIT, CASES, CONTENTS, REVIEWS, RUNS, SERIES, Ledger

STAND_IN = re.compile(r"erased-[0-9a-f]{16}")
TEXTS = ("site", "initials", "note")
GONE = "[erased]"
ENTERED = 2
"""The part of a verdict that says by whom it was entered."""


@dataclass(frozen=True)
class Whom:
    """Whose names are taken out, and of which nights."""

    name: str | None = None  # Of this patient alone; everybody's where absent.
    before: str | None = None  # Only on nights before this one, YYYY-MM-DD.
    series: str | None = None  # Only in this one.

    def of_night(self, night: str, series: str | None) -> bool:
        """Whether that night is among those meant."""
        return (self.before is None or night < self.before) and self.series in (None, series)

    def named(self, name: str | None) -> bool:
        """Whether the name is to go; a stand-in is none."""
        if self.name is not None:
            return name == self.name
        return name is not None and not STAND_IN.fullmatch(name)

    def in_words(self, text: str) -> str:
        """A text on somebody else in which this patient's id no longer stands."""
        if self.name is None:
            return text
        return re.sub(rf"(?<!\w){re.escape(self.name)}(?!\w)", GONE, text)

    def occurs_in(self, body: str, model: str | None) -> bool:
        """Whether a stored body may speak of one of them; what may not is left unread."""
        if self.name is None:
            return True
        return audit.plain(self.name)[1:-1] in body or (model is not None and str(self.lot(model)) in body)

    def lot(self, model: str) -> int | None:
        """The hash by which nights of a model know the patient; None for everybody."""
        return None if self.name is None else _lot(self.name, model)


_lot = cache(kept_lot)


@dataclass
class Erased:
    """What was taken out of the ledger, or would be."""

    # nights, cases, verdicts: runs in which something was, their cases, and verdicts with their notes.
    nights: int = 0
    cases: int = 0
    verdicts: int = 0
    mentions: int = 0  # Notes on others in which the id stood as a word.


@dataclass
class _Taking:
    """What is to be written, as it is found."""

    whom: Whom
    erased: Erased = field(default_factory=Erased)
    parts: dict[tuple[int, int], audit.Body | None] = field(default_factory=dict)
    cases: list[dict[str, object]] = field(default_factory=list)
    reviews: list[dict[str, object]] = field(default_factory=list)
    # By series and name, so that a case of several nights is one case still.
    stand_ins: defaultdict[tuple[str, str], str] = field(
        default_factory=lambda: defaultdict(lambda: f"erased-{secrets.token_hex(8)}")
    )

    def run(self, entry: int, told: Mapping[str, object], named: Mapping[str, object], model: str) -> None:
        series = word(told, "series")

        def put(name: str) -> str:
            return self.stand_ins[series, name] if self.whom.named(name) else name

        cases, new = listed(named.get("cases", [])), dict(named)
        if "cases" in named:
            new["cases"] = sorted([put(name), *rest] for name, *rest in cases)
        if "drawn" in named:
            new["drawn"] = sorted(map(put, listed(named["drawn"])))
        if "verdicts_before" in named:
            before = table(named, "verdicts_before")
            new["verdicts_before"] = {put(name): said for name, said in before.items()}
        if "drift" in named:
            new["drift"] = without_unit(table(named, "drift"), self.whom.lot(model))
        if new == named:
            return
        self.parts[entry, audit.PATIENTS] = new
        rows = [{"of": entry, "name": name, "put": put(name)} for name, *_ in cases if put(name) != name]
        self.cases += rows
        self.erased.nights += 1
        self.erased.cases += len(rows)

    def verdict(
        self, entry: int, told: Mapping[str, object], named: Mapping[str, object], n_parts: int
    ) -> None:
        name, new = word(named, "case_id"), dict(named)
        if self.whom.named(name):
            new |= {"case_id": self.stand_ins[word(told, "series"), name]} | dict.fromkeys(TEXTS, "")
            self.erased.verdicts += 1
            if self.whom.name is None and n_parts > ENTERED:
                self.parts[entry, ENTERED] = None
        else:
            new |= {text: self.whom.in_words(word(named, text)) for text in TEXTS}
            self.erased.mentions += new != named
        if new == named:
            return
        self.parts[entry, audit.PATIENTS] = new
        self.reviews.append(
            {"of": told["key"], "name": name, "at": entry} | {f"new_{key}": new[key] for key in new}
        )


def erase(ledger: Ledger, action: str, body: audit.Body, whom: Whom, *, dry_run: bool = False) -> Erased:
    """Take names out; where there are none nothing is entered, and the file is cleaned all the same.

    `action`: one of "forget", "purge".
    `body`: what the entry says of why; no patient in it.
    `dry_run`: only say what would go.
    """
    if dry_run:
        with ledger.reading() as connection:
            return _taken(connection, whom).erased
    with ledger.writing() as connection:
        if connection.dialect.name == "sqlite":
            # Or what was deleted would stand in the file until its place is needed again.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        found = _taken(connection, whom)
        _rename(connection, found)
        if found.parts:
            audit.rewrite(connection, ledger.clock(), action, body, found.parts)
    # Whatever earlier writers, or one that was killed here, left on free pages.
    ledger.compact()
    return found.erased


def record_sealed(ledger: Ledger, before: str, after: str) -> None:
    """Enter that a model was sealed anew without a patient; it is champion where the one before was."""
    change = {"model_before": before, "model_after": after, "reason": "sealed anew without a patient"}
    with ledger.writing() as connection:
        earlier = list(said(connection, "seal"))
        # What never came to stand in the place of the one before, since an attempt was killed.
        replaced = {
            before,
            *(word(each, "model_after") for each in earlier if each["model_before"] == before),
        }
        known = sa.select(sa.func.count()).where(SERIES.c.champion.in_(replaced - {after}))
        if not connection.scalar(known):
            return
        entry = audit.append(connection, ledger.clock(), "seal", change).number
        for each in replaced:
            model_registry.follow(connection, change | {"model_before": each}, entry)


def _rename(connection: sa.Connection, found: _Taking) -> None:
    if found.cases:
        mine = (CASES.c.entry == sa.bindparam("of")) & (CASES.c.case_id == sa.bindparam("name"))
        connection.execute(CASES.update().where(mine).values(case_id=sa.bindparam("put")), found.cases)
    if found.reviews:
        mine = (REVIEWS.c.key == sa.bindparam("of")) & (REVIEWS.c.case_id == sa.bindparam("name"))
        # Of several verdicts on a case the table has the last one.
        mine &= REVIEWS.c.entry == sa.bindparam("at")
        values: dict[str, object] = {key: sa.bindparam(f"new_{key}") for key in ("case_id", *TEXTS)}
        connection.execute(REVIEWS.update().where(mine).values(values), found.reviews)


def _taken(connection: sa.Connection, whom: Whom) -> _Taking:
    taking = _Taking(whom)
    for entry, parts, model in _entries(connection):
        named = parts[audit.PATIENTS].body if len(parts) > audit.PATIENTS else None
        if named is None or not whom.occurs_in(named, model):
            continue
        told = json.loads(parts[audit.OPEN].body)
        if not whom.of_night(told["night"], told["series"]):
            continue
        if parts[audit.OPEN].action == "run":
            taking.run(entry, told, json.loads(named), model or told["facts"]["model"])
        else:
            taking.verdict(entry, told, json.loads(named), len(parts))
    return taking


def _entries(connection: sa.Connection) -> Iterator[tuple[int, Sequence[Any], str | None]]:
    """Runs and verdicts in order, their parts and the digest of the run's model, some hundred at a time."""
    chosen = (
        sa.select(CONTENTS.c.entry, CONTENTS.c.body, AUDIT.c.action, RUNS.c.model)
        .join(AUDIT, AUDIT.c.number == CONTENTS.c.entry)
        .outerjoin(RUNS, RUNS.c.entry == CONTENTS.c.entry)
        .where(AUDIT.c.action.in_(("run", "verdict")))
        .order_by(CONTENTS.c.entry, CONTENTS.c.part)
    )
    for stretch in stretches(connection):
        mine = chosen.where(CONTENTS.c.entry.between(*stretch))
        of_entry: defaultdict[int, list[Any]] = defaultdict(list)
        for row in connection.execute(mine):
            of_entry[row.entry].append(row)
        for entry, parts in of_entry.items():
            yield entry, parts, parts[0].model


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
