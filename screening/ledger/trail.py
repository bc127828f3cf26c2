"""Write and read the append-only audit trail.

An entry contains the digest of the one before, so that no entry can be changed
unnoticed. An entry's parts contain facts and names. Facts never change. The chain has a
salted digest of each name, so that a name can be replaced by a stand-in while
everything else still verifies: see `screening.ledger.erasing`.
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
# Bytes of a name's salt.
SALT = 16
# Parts that are in memory at a time: a part with many cases is large.
PAGE = 50
# Values in one statement: some databases refuse more.
PORTION = 500
# Parts whose names are patients: ids, and hashes of ids. Those of others are the words
# of a text.
IDS = ("cases", "case", "patient", "patients", "lots", "outcomes", "merges")
# Of these the ones that have hashes.
HASHED = ("patients", "lots")

Value = TypeVar("Value")


class Head(NamedTuple):
    """The end of the chain: number and digest of an entry."""

    number: int
    digest: str


@dataclass(frozen=True)
class Part:
    """A part of an entry.

    Parameters
    ----------
    what : str
        Its kind.
    facts : object
        As JSON has them.
    names : sequence of str
        Patients, or the words of a text.
    salts : bytes
        `SALT` bytes a name.
    gone : mapping
        Digest of each name that was replaced by a stand-in, by its position.
    """

    what: str
    facts: Any = None
    names: Sequence[str] = ()
    salts: bytes = b""
    gone: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Return SHA-256 over the facts and the digests of the names first written."""
        stated = plain([self.what, self.facts, len(self.names)])
        whole = hashlib.sha256(stated.encode())
        for position, name in enumerate(self.names):
            erased = self.gone.get(str(position))
            leaf = bytes.fromhex(erased) if erased else self.leaf(position, name)
            whole.update(leaf)
        return whole.hexdigest()

    def leaf(self, position: int, name: str) -> bytes:
        """Return SHA-256 over salt and name.

        Without the salt, a guess of the name cannot be tested.
        """
        salt = self.salts[SALT * position : SALT * (position + 1)]
        return hashlib.sha256(salt + name.encode("utf-8", "surrogatepass")).digest()

    def stored(self) -> dict[str, object]:
        """Return its columns in the table of parts."""
        return {
            "what": self.what,
            "facts": plain(self.facts),
            "names": plain(self.names),
            "salts": self.salts,
            "gone": plain(self.gone),
        }


def text_part(what: str, text: str) -> Part:
    """Split a text into words, each of which a stand-in can replace."""
    return Part(what, names=re.findall(r"\w+|\W", text))


def reason_of(text: str) -> Part:
    """Return the part with the reason of an entry; UsageError if it is blank."""
    if not text.strip():
        raise UsageError(
            "`reason`: give the reason in a few words, which the trail keeps",
            parameters=["reason"],
        )
    return text_part("reason", text.strip())


@dataclass(frozen=True)
class Entry:
    """An entry of the trail; in a sequence of entries its parts can be read once."""

    number: int
    recorded: str
    kind: str
    previous: str
    digest: str
    parts: Iterable[Part]

    def digest_by(self, parts: Iterable[str]) -> str:
        """Return SHA-256 over the entry and, through `previous`, over all before it."""
        whole = [self.number, self.recorded, self.kind, self.previous, [*parts]]
        return hashlib.sha256(plain(whole).encode()).hexdigest()


def head(connection: sa.Connection, number: int | None = None) -> Head:
    """Return the end of the chain, or an entry by number; number 0 if it is missing."""
    chosen = sa.select(TRAIL.c.number, TRAIL.c.digest)
    if number is not None:
        chosen = chosen.where(TRAIL.c.number == number)
    newest = chosen.order_by(TRAIL.c.number.desc()).limit(1)
    last = connection.execute(newest).first()
    return Head(0, GENESIS) if last is None else Head(*last)


def add_entry(
    connection: sa.Connection, recorded: str, kind: str, parts: Iterable[Part]
) -> Head:
    """Add an entry at the end.

    `screening.ledger.entries.append` also writes it into the projected tables.
    """
    last = head(connection)
    entry = Entry(last.number + 1, recorded, kind, last.digest, "", ())
    digests = []
    for number, part in enumerate(parts):
        salted = replace(part, salts=secrets.token_bytes(SALT * len(part.names)))
        row = {"entry": entry.number, "part": number, **salted.stored()}
        connection.execute(PARTS.insert().values(row))
        digests.append(salted.digest())
    digest = entry.digest_by(digests)
    connection.execute(
        TRAIL.insert().values(
            number=entry.number,
            recorded=recorded,
            kind=kind,
            previous=entry.previous,
            digest=digest,
        )
    )
    return Head(entry.number, digest)


def part_in(row: Any) -> Part:
    """Return the part in a row; raise Unchained, naming the entry, if it is damaged."""
    facts = read_in(row.entry, row.facts)
    names = read_in(row.entry, row.names)
    gone = read_in(row.entry, row.gone)
    if not (_are_names(names, row.salts) and _are_digests(gone)):
        raise Unchained(
            f"the audit trail is broken: names of entry {row.entry} cannot be read"
        )
    return Part(row.what, facts, names, row.salts, gone)


def _are_names(names: object, salts: object) -> bool:
    """Return True if a row has names, and a salt for each."""
    if not isinstance(names, list) or not isinstance(salts, bytes):
        return False
    are_texts = all(isinstance(name, str) for name in names)
    return are_texts and len(salts) == SALT * len(names)


def _are_digests(gone: object) -> bool:
    """Return True if a row has digests of erased names, or none."""
    if not isinstance(gone, dict):
        return False
    return all(re.fullmatch("[0-9a-f]{64}", str(digest)) for digest in gone.values())


def read_in(entry: int, text: str) -> Any:
    """Parse the JSON text of an entry; Unchained if it is not valid."""
    try:
        value = json.loads(text)
        # Refuses NaN and infinity, which are not JSON.
        plain(value)
    except (ValueError, RecursionError):
        raise Unchained(
            f"the audit trail is broken: entry {entry} cannot be read"
        ) from None
    return value


def entries(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> Iterator[Entry]:
    """Yield entries in order with their parts, all or those that fit conditions."""
    joined = sa.select(TRAIL, PARTS).join(PARTS, PARTS.c.entry == TRAIL.c.number)
    if which:
        numbers = sa.select(TRAIL.c.number).where(*which)
        joined = joined.where(PARTS.c.entry.in_(numbers))
    n_columns = len(TRAIL.columns)
    rows = paged(connection, joined)
    for values, of_entry in groupby(rows, key=lambda row: row[:n_columns]):
        number, recorded, kind, previous, digest = values
        parts = map(part_in, of_entry)
        yield Entry(number, recorded, kind, previous, digest, parts)


def paged(connection: sa.Connection, chosen: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Yield rows of the table of parts in order, `PAGE` of them in memory.

    Rows that were yielded may be changed meanwhile.
    """
    place = sa.tuple_(PARTS.c.entry, PARTS.c.part)
    ordered = chosen.order_by(PARTS.c.entry, PARTS.c.part).limit(PAGE)
    after = (0, -1)
    while True:
        page = ordered.where(place > sa.tuple_(*after))
        rows = connection.execute(page).all()
        if not rows:
            break
        yield from rows
        after = (rows[-1].entry, rows[-1].part)


def parts_of(
    connection: sa.Connection, numbers: Sequence[int], what: str
) -> dict[int, Part]:
    """Return the part of this name of each of these entries, by number and in order.

    Unchained if an entry, which a table names, has none.
    """
    chosen = sa.select(PARTS).where(PARTS.c.what == what)
    parts = {
        row.entry: part_in(row)
        for row in rows_in(connection, chosen, PARTS.c.entry, numbers)
    }
    missing = sorted(set(numbers) - parts.keys())
    if missing:
        raise Unchained(
            f"the audit trail has no part {what} of entry {missing[0]}, which a table "
            "names",
            repair="verify",
        )
    return {number: parts[number] for number in numbers}


def rows_in(
    connection: sa.Connection,
    chosen: sa.Select[Any],
    column: sa.ColumnElement[Any],
    values: Sequence[object],
) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a selection that have one of many values in a column."""
    # One statement for all portions: with one a portion, those of a million cases would
    # fill the memory until they are collected.
    among = chosen.where(column.in_(sa.bindparam("among", expanding=True)))
    for portion in portions(values):
        yield from connection.execute(among, {"among": portion})


def portions(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield the values in portions that fit into one statement."""
    for first in range(0, len(values), PORTION):
        yield values[first : first + PORTION]


def plain(value: Any) -> str:
    """Return JSON that is the same for equal content and fits every database."""
    text = json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a character, of a name in no known encoding.
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return text
