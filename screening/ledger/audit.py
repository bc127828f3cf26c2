"""The append-only trail: an entry holds the digest of the one before, so that none can be changed unseen."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from screening.errors import UsageError
from screening.ledger.database import AUDIT, CONTENTS

GENESIS = "0" * 64
OPEN, PATIENTS = 0, 1
"""The parts of an entry: what names no patient, and what does."""

Body = Mapping[str, object]


class Head(NamedTuple):
    """The last entry of the trail, or one that is vouched for by it."""

    number: int
    digest: str


def head(connection: sa.Connection) -> Head:
    """The end of the chain; entry 0 where there is none yet."""
    last = connection.execute(
        sa.select(AUDIT.c.number, AUDIT.c.digest).order_by(AUDIT.c.number.desc()).limit(1)
    ).first()
    return Head(*last) if last else Head(0, GENESIS)


def append(connection: sa.Connection, recorded: str, action: str, *parts: Body) -> Head:
    """Add an entry at the end, inside a transaction that nobody else writes in.

    `parts`: what names no patient; then, where there is such a thing, what does.
    """
    before = head(connection)
    number = before.number + 1
    contents = [sealed_part(body) for body in parts]
    row = {"number": number, "recorded": recorded, "action": action, "previous": before.digest}
    digest = digest_of(row, [each["digest"] for each in contents])
    connection.execute(AUDIT.insert().values(**row, digest=digest))
    rows = [{"entry": number, "part": part, **each} for part, each in enumerate(contents)]
    connection.execute(CONTENTS.insert(), rows)
    return Head(number, digest)


def rewrite(
    connection: sa.Connection,
    recorded: str,
    action: str,
    body: Body,
    changes: Mapping[tuple[int, int], Body | None],
) -> Head:
    """Erase parts of entries, or put others in their places, by an entry that says which and why.

    `action`: one of "forget", "purge".
    `body`: why and on whose behalf; no patient in it.
    `changes`: by number of the entry and part: what it says from now on, or None where it is erased.
    """
    rewritten = []
    for (entry, part), content in changes.items():
        row = {"salt": None, "body": None, "digest": None} if content is None else sealed_part(content)
        mine = (CONTENTS.c.entry == entry) & (CONTENTS.c.part == part)
        connection.execute(CONTENTS.update().where(mine).values(salt=row["salt"], body=row["body"]))
        rewritten.append([entry, part, row["digest"]])
    return append(connection, recorded, action, {**body, "rewritten": sorted(rewritten)})


def part_of(connection: sa.Connection, entry: int, part: int = OPEN) -> dict[str, object]:
    """What a part of an entry says; nothing where it was erased or the entry has no such part."""
    mine = (CONTENTS.c.entry == entry) & (CONTENTS.c.part == part)
    body = connection.scalar(sa.select(CONTENTS.c.body).where(mine))
    return {} if body is None else dict(json.loads(body))


def reason_of(text: str) -> str:
    """Why something is entered, in somebody's words (UsageError where there are none)."""
    if not text.strip():
        raise UsageError("--reason: say why in a few words; the trail keeps them")
    return text.strip()


def plain(value: Any) -> str:
    """JSON text that is the same for the same content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sealed_part(body: Body) -> dict[str, str]:
    """A part's row: a random salt, its text, and the digest over both."""
    text, salt = plain(body), secrets.token_hex(16)
    return {"salt": salt, "body": text, "digest": digest_of_part(salt, text)}


def digest_of_part(salt: str, text: str) -> str:
    """SHA-256 over salt and text: without the salt nobody can test a guess of the text."""
    return hashlib.sha256(plain([salt, text]).encode()).hexdigest()


def digest_of(row: Mapping[str, object], parts: Iterable[str]) -> str:
    """SHA-256 over an entry and, by way of `previous`, over all before it."""
    kept = [row["number"], row["recorded"], row["action"], [*parts], row["previous"]]
    return hashlib.sha256(plain(kept).encode()).hexdigest()


AT_ONCE = 500
"""Rows asked for, or names given, in one statement: years of nights need little memory then."""

Each = TypeVar("Each")


def portions(values: Sequence[Each]) -> Iterator[Sequence[Each]]:
    """The values in their order, some at a time."""
    return (values[first : first + AT_ONCE] for first in range(0, len(values), AT_ONCE))


def stretches(connection: sa.Connection) -> Iterator[tuple[int, int]]:
    """First and last number of the trail's entries, some at a time."""
    last = connection.scalar(sa.select(sa.func.max(AUDIT.c.number))) or 0
    return ((first, first + AT_ONCE - 1) for first in range(1, last + 1, AT_ONCE))


def said(connection: sa.Connection, *actions: str) -> Iterator[dict[str, object]]:
    """What the entries of these actions say without naming a patient, in order, with number and time."""
    asked = sa.select(AUDIT.c.number, AUDIT.c.recorded, CONTENTS.c.body)
    asked = asked.join(CONTENTS, (CONTENTS.c.entry == AUDIT.c.number) & (CONTENTS.c.part == OPEN))
    asked = asked.where(AUDIT.c.action.in_(actions), CONTENTS.c.body.is_not(None))
    for row in connection.execute(asked.order_by(AUDIT.c.number)):
        yield json.loads(row.body) | {"entry": row.number, "recorded": row.recorded}
