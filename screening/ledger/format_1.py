"""Ledgers of format 1: their tables, how their chain was computed, and their way to format 2.

A body of format 1 stood in the chain as it was, ids and notes in it. It is divided into the parts of
format 2; its digest is kept and is still that of the whole, put together again, for as long as nothing of it
is erased. One entry `migrate` vouches for the new parts, so that the rest is held when a part has gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from screening.documents.tables import listed, of
from screening.ledger import audit, champions, facts, verdicts
from screening.ledger.asking import AT_ONCE
from screening.ledger.tables import AUDIT, CASES, CONTENTS, REVIEWS, RUNS, TABLES, Unchained

FORMAT = 1
KNOWN = str(FORMAT)
OLD = "_1"

OLD_TABLES = sa.MetaData()
OLD_RUNS = sa.Table(
    "runs",
    OLD_TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("series", sa.String(64), nullable=False),
    sa.Column("night", sa.String(10), nullable=False),
    sa.Column("entry", sa.Integer, nullable=False, unique=True),
    sa.Column("published", sa.Boolean, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Index("runs_by_night", "series", "night"),
)
OLD_CASES = sa.Table(
    "cases",
    OLD_TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    sa.Column("state", sa.String(10), nullable=True),
    sa.Column("nights", sa.Integer, nullable=False),
)
OLD_REVIEWS = sa.Table(
    "verdicts",
    OLD_TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    sa.Column("series", sa.String(64), nullable=False, index=True),
    sa.Column("night", sa.String(10), nullable=False),
    sa.Column("verdict", sa.String(10), nullable=False),
    sa.Column("flagged", sa.Boolean, nullable=False),
    sa.Column("site", sa.Text, nullable=False),
    sa.Column("initials", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)
OLD_AUDIT = sa.Table(
    "audit",
    OLD_TABLES,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("recorded", sa.String(32), nullable=False),
    sa.Column("action", sa.String(20), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
)


def digest_of_format_1(row: Mapping[str, object], parts: Sequence[Mapping[str, object]]) -> str:
    """The digest as format 1 chained it: over the body itself."""
    body = dict(parts[audit.OPEN])
    if row["action"] == "run":
        named = parts[audit.PATIENTS]
        body["facts"] = facts.together(of(dict, body["facts"]), named)
        body["cases"] = hashlib.sha256(audit.plain(named["cases"]).encode()).hexdigest()
    else:
        for part in parts[1:]:
            body |= part
    kept = [row["number"], row["recorded"], row["action"], audit.plain(body), row["previous"]]
    return hashlib.sha256(audit.plain(kept).encode()).hexdigest()


def digest_of_contents(so_far: hashlib._Hash, number: int, digests: Iterable[str]) -> None:
    """Take the parts of one more entry into the digest that `migrate` holds."""
    so_far.update(audit.plain([number, *digests]).encode())


def migrate(connection: sa.Connection, recorded: str) -> None:
    """Bring a ledger of format 1 to format 2, inside one transaction.

    Raises
    ------
    Unchained
        It holds rows that its trail does not know.
    """
    old = _set_aside(connection)
    TABLES.create_all(connection, checkfirst=True)
    contents, number, last = hashlib.sha256(), 0, {}
    for row in _entries(connection, old["audit"]):
        number, body = row["number"], json.loads(row["body"])
        divided: tuple[dict[str, object], ...]
        if row["action"] == "run":
            divided = _run(connection, old, number, body)
        elif row["action"] == "verdict":
            divided = verdicts.divided(body)
            last[body["key"], body["case_id"]] = number
        else:
            divided = (body,)
        parts = [audit.sealed_part(part) for part in divided]
        digest_of_contents(contents, number, [part["digest"] for part in parts])
        kept = {name: row[name] for name in ("number", "recorded", "action", "previous", "digest")}
        connection.execute(AUDIT.insert().values(**kept, format=FORMAT))
        connection.execute(CONTENTS.insert(), audit.rows_of(number, parts))
    for review in connection.execute(sa.select(old["verdicts"])).mappings():
        # Where no entry has it, number 0 has not either.
        entry = last.get((review["key"], review["case_id"]), 0)
        connection.execute(REVIEWS.insert().values(**review, entry=entry))
    _champions(connection)
    for name, now in (("runs", RUNS), ("cases", CASES)):
        before, after = (
            connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in (old[name], now)
        )
        if before != after:
            raise Unchained(f"the ledger of format 1 holds {name} that its trail does not know")
    for table in old.values():
        table.drop(connection)
    if number:
        said = {"from": FORMAT, "entries": number, "contents": contents.hexdigest()}
        audit.append(connection, recorded, "migrate", said)


def _entries(connection: sa.Connection, table: sa.Table) -> Iterator[sa.RowMapping]:
    """Entries in order, some at a time: a trail of years does not fit into memory."""
    number = 0
    while True:
        chosen = sa.select(table).where(table.c.number > number).order_by(table.c.number).limit(AT_ONCE)
        rows = connection.execute(chosen).mappings().all()
        if not rows:
            return
        yield from rows
        number = rows[-1]["number"]


def _run(
    connection: sa.Connection, old: Mapping[str, sa.Table], number: int, body: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Take a run and its cases over; return the parts of its entry."""
    told, named = facts.divided(of(dict, body["facts"]))
    before, runs = old["cases"], old["runs"]
    mine = (before.c.key == body["key"]) & (before.c.revision == body["revision"])
    cases = sorted(
        [row.case_id, row.state, row.nights] for row in connection.execute(sa.select(before).where(mine))
    )
    for row in connection.execute(sa.select(runs).where(runs.c.entry == number)).mappings():
        held, of_patients = facts.divided(json.loads(row["facts"]))
        kept = dict(row) | {"facts": audit.plain(held), "model": held["model"], "shadow": False}
        connection.execute(RUNS.insert().values(**kept))
        lots = set(listed(of_patients.get("drawn", [])))
        rows = [
            {"entry": number, "case_id": name, "state": state, "nights": nights, "drawn": name in lots}
            for name, state, nights in cases
        ]
        if rows:
            connection.execute(CASES.insert(), rows)
    parts = {name: value for name, value in body.items() if name not in ("facts", "cases")}
    return parts | {"facts": told}, named | {"cases": cases}


def _champions(connection: sa.Connection) -> None:
    """The model of each series' last night, and what changes of threshold since have made of it."""
    chosen = sa.select(RUNS.c.series, RUNS.c.model, RUNS.c.entry).where(RUNS.c.published)
    last = {row.series: row for row in connection.execute(chosen.order_by(RUNS.c.night, RUNS.c.entry))}
    for row in last.values():
        champions.begin(connection, row.series, row.model, row.entry)
    changes = sa.select(AUDIT.c.number).where(AUDIT.c.action == "threshold").order_by(AUDIT.c.number)
    for number in connection.scalars(changes).all():
        champions.follow(connection, audit.part_of(connection, number), number)


def _set_aside(connection: sa.Connection) -> dict[str, sa.Table]:
    """Rename the tables of format 1; what is left of their names would be in the way of the new ones."""
    aside = sa.MetaData()
    tables: dict[str, sa.Table] = {}
    for name, table in OLD_TABLES.tables.items():
        for index in table.indexes:
            index.drop(connection)
        connection.execute(sa.text(f"ALTER TABLE {name} RENAME TO {name}{OLD}"))
        tables[name] = table.to_metadata(aside, name=f"{name}{OLD}")
    return tables
