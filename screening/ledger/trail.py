"""The append-only trail: an entry holds the digest of the one before, so that none can be changed unseen.

An entry's parts hold facts and names. Facts stay as they were written. Of a name the chain has a salted
digest, so that it can become a stand-in while everything else still verifies: see `screening.ledger.erasing`.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger.database import PARTS, TRAIL, Unchained

GENESIS = "0" * 64
SALT = 16
"""Bytes of a name's salt."""
PAGE = 50
"""Parts that are held at a time: one of many cases is large."""

IDS = ("cases", "case", "patient", "lots")
"""Parts whose names are patients: ids, and hashes of them. Those of the others are texts, word by word."""

Value = TypeVar("Value")


class Head(NamedTuple):
    number: int
    digest: str


@dataclass(frozen=True)
class Part:
    """A part of an entry: what it is about, facts as JSON has them, and names."""

    what: str
    facts: Any = None
    names: Sequence[str] = ()
    salts: bytes = b""
    gone: Mapping[str, str] = field(
        default_factory=dict
    )  # Digests of names before they became stand-ins.

    def digest(self) -> str:
        """SHA-256 over the facts, and over the digests of the names as they were first written."""
        whole = hashlib.sha256(plain([self.what, self.facts, len(self.names)]).encode())
        for place, name in enumerate(self.names):
            before = self.gone.get(str(place))
            whole.update(bytes.fromhex(before) if before else self.leaf(place, name))
        return whole.hexdigest()

    def leaf(self, place: int, name: str) -> bytes:
        """SHA-256 over salt and name: without the salt nobody can test a guess of the name."""
        salt = self.salts[SALT * place : SALT * (place + 1)]
        return hashlib.sha256(salt + name.encode("utf-8", "surrogatepass")).digest()

    def stored(self) -> dict[str, object]:
        """Its columns in the table of parts."""
        texts = {
            name: plain(getattr(self, name)) for name in ("facts", "names", "gone")
        }
        return {"what": self.what, "salts": self.salts, **texts}


def text_part(what: str, text: str) -> Part:
    """Somebody's words, of which each can become a stand-in."""
    return Part(what, names=re.findall(r"\w+|\W", text))


def reason_of(text: str) -> Part:
    """Why something is entered, in somebody's words (UsageError where there are none)."""
    if not text.strip():
        raise UsageError("--reason: say why in a few words; the trail keeps them")
    return text_part("reason", text.strip())


@dataclass(frozen=True)
class Entry:
    """An entry of the trail; its parts come in order, and once where it is one of many."""

    number: int
    recorded: str
    kind: str
    previous: str
    digest: str
    parts: Iterable[Part]

    def digest_by(self, parts: Iterable[str]) -> str:
        """SHA-256 over the entry and, by way of `previous`, over all before it."""
        whole = [self.number, self.recorded, self.kind, self.previous, [*parts]]
        return hashlib.sha256(plain(whole).encode()).hexdigest()


def head(connection: sa.Connection, number: int | None = None) -> Head:
    """The end of the chain, or the entry of a number; entry 0 where there is none yet."""
    chosen = (
        sa.select(TRAIL.c.number, TRAIL.c.digest)
        .order_by(TRAIL.c.number.desc())
        .limit(1)
    )
    last = connection.execute(
        chosen if number is None else chosen.where(TRAIL.c.number == number)
    ).first()
    return Head(*last) if last else Head(0, GENESIS)


def write(
    connection: sa.Connection, recorded: str, kind: str, parts: Iterable[Part]
) -> Head:
    """Add an entry at the end; `screening.ledger.entries.append` moreover brings it into the tables."""
    number, previous = head(connection)
    entry, digests = Entry(number + 1, recorded, kind, previous, "", ()), []
    for place, part in enumerate(parts):
        salted = replace(part, salts=secrets.token_bytes(SALT * len(part.names)))
        connection.execute(
            PARTS.insert().values(entry=entry.number, part=place, **salted.stored())
        )
        digests.append(salted.digest())
    digest = entry.digest_by(digests)
    row = {
        "number": entry.number,
        "recorded": recorded,
        "kind": kind,
        "previous": previous,
        "digest": digest,
    }
    connection.execute(TRAIL.insert().values(row))
    return Head(entry.number, digest)


def part_in(row: Any) -> Part:
    """The part of a row (Unchained: naming the entry, where it holds something else)."""
    facts, names, gone = (
        read_in(row.entry, text) for text in (row.facts, row.names, row.gone)
    )
    whole = (
        isinstance(names, list)
        and isinstance(gone, dict)
        and isinstance(row.salts, bytes)
    )
    whole = whole and all(
        re.fullmatch("[0-9a-f]{64}", str(digest)) for digest in gone.values()
    )
    if (
        not whole
        or len(row.salts) != SALT * len(names)
        or not all(isinstance(name, str) for name in names)
    ):
        raise Unchained(
            f"the audit trail is broken: names of entry {row.entry} cannot be read"
        )
    return Part(row.what, facts, names, row.salts, gone)


def read_in(entry: int, text: str) -> Any:
    """What a text of an entry holds (Unchained where it is no JSON)."""
    try:
        value = json.loads(text)
        plain(value)  # refuses what is no number
    except (ValueError, RecursionError):
        raise Unchained(
            f"the audit trail is broken: entry {entry} cannot be read"
        ) from None
    return value


def entries(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> Iterator[Entry]:
    """Entries in order, all or those of which something holds, with their parts; some at a time in memory."""
    joined = sa.select(TRAIL, PARTS).join(PARTS, PARTS.c.entry == TRAIL.c.number)
    if which:
        joined = joined.where(
            PARTS.c.entry.in_(sa.select(TRAIL.c.number).where(*which))
        )
    columns = [column.name for column in TRAIL.columns]
    for values, of_entry in groupby(
        paged(connection, joined), lambda row: row[: len(columns)]
    ):
        yield Entry(
            **dict(zip(columns, values, strict=True)), parts=map(part_in, of_entry)
        )


def paged(connection: sa.Connection, chosen: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Rows of a choice of parts, in order, some at a time; what was read may be changed meanwhile."""
    place = sa.tuple_(PARTS.c.entry, PARTS.c.part)
    after, ordered = (0, -1), chosen.order_by(PARTS.c.entry, PARTS.c.part).limit(PAGE)
    while rows := connection.execute(ordered.where(place > sa.tuple_(*after))).all():
        yield from rows
        after = (rows[-1].entry, rows[-1].part)


def parts_of(
    connection: sa.Connection, numbers: Sequence[int], what: str
) -> dict[int, Part]:
    """Return the part of this name of each of these entries, by number.

    Unchained if an entry, which a table names, has none.
    """
    chosen = sa.select(PARTS).where(PARTS.c.what == what)
    parts = {}
    for row in rows_in(connection, chosen, PARTS.c.entry, numbers):
        parts[row.entry] = part_in(row)
    missing = sorted(set(numbers) - parts.keys())
    if missing:
        raise Unchained(
            f"the audit trail has no part {what} of entry {missing[0]}, which a table "
            "names; `screen history --verify` finds what was changed"
        )
    return parts


def rows_in(
    connection: sa.Connection,
    chosen: sa.Select[Any],
    column: sa.ColumnElement[Any],
    values: Sequence[object],
) -> Iterator[sa.Row[Any]]:
    """Rows of a choice that have one of many values in a column."""
    # One statement for all portions: of a million cases, those of each would be memory until it is collected.
    among = chosen.where(column.in_(sa.bindparam("among", expanding=True)))
    for portion in portions(values):
        yield from connection.execute(among, {"among": portion})


def portions(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The values, some at a time: more in one statement are too many for some databases."""
    return (values[first : first + 500] for first in range(0, len(values), 500))


def plain(value: Any) -> str:
    """JSON text that is the same for the same content, and that every database can hold."""
    text = json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, of a name in no known encoding
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text
