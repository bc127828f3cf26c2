"""Whether the ledger is whole: the trail from its first entry, the tables by it, and heads kept elsewhere.

Tables are held to what the trail says by projecting it again. Every run directory says how far the ledger had
come when it was written: one that is older than its run directories is not gone on with unasked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa

from screening.errors import ModelError, UsageError
from screening.ledger import trail
from screening.ledger.database import (
    PARTS,
    PROJECTED,
    SETTINGS,
    TABLES,
    TRAIL,
    Ledger,
    Unchained,
)
from screening.ledger.entries import Accepted, Erasing, append, project, stated
from screening.ledger.erasing import STANDS_IN, digest_of_stand_ins
from screening.ledger.nights import reserved
from screening.ledger.trail import GENESIS, Head, Part, reason_of
from screening.schemas.run import LedgerFacts, RunDocument
from screening.spelling import shown_series
from screening.store.serialization import read_document

SHORTEST_HEAD = 12
NEWEST = 3
"""Run directories whose heads are looked at each night: those written last."""


def verify(connection: sa.Connection, printed: str | None) -> Head:
    """Follow the chain, and hold parts and tables to it (Unchained: naming the first entry that is wrong).

    `printed`: head as printed at the foot of a report (its beginning will do), which must be in the chain.
    """
    if printed is not None and len(printed) < SHORTEST_HEAD:
        raise UsageError(
            f"--head: give at least {SHORTEST_HEAD} of the digits printed on the report"
        )
    _refuse_strangers(connection)
    head = follow(connection, printed)
    projected = {}
    for name, table in PROJECTED.tables.items():
        columns = [sa.Column(column.name, column.type) for column in table.columns]
        # Where something fails it goes with the transaction.
        projected[name] = sa.Table(
            f"again_{name}", sa.MetaData(), *columns, prefixes=["TEMPORARY"]
        )
        projected[name].create(connection)
    project(connection, trail.entries(connection), projected)
    for name, table in PROJECTED.tables.items():
        for one, other in ((projected[name], table), (table, projected[name])):
            rows = sa.except_(
                sa.select(*one.columns), sa.select(*other.columns)
            ).subquery()
            entry = connection.scalar(sa.select(sa.func.min(rows.c.entry)))
            if entry is not None:
                raise Unchained(
                    f"the table {name} is not what entry {entry} of the audit trail says; "
                    "`screen ledger rebuild` makes it anew"
                )
        projected[name].drop(connection)
    return head


def rebuild(ledger: Ledger) -> Head:
    """Make the tables anew from the trail, whatever stands in them (Unchained where the trail is broken)."""
    with ledger.writing() as connection:
        head = follow(connection)
        PROJECTED.drop_all(connection)
        PROJECTED.create_all(connection)
        project(connection, trail.entries(connection))
    return head


def follow(connection: sa.Connection, printed: str | None = None) -> Head:
    """Hold every entry to the one before, and its parts to it; see `verify`."""
    # By entry and part, places whose names entries say they erased, and the digest of what stands there.
    erased = defaultdict(list)
    for erasing in stated(connection, Erasing):
        for number, place, places, digest in erasing.facts.erased:
            erased[number, place].append((places, digest))
    head, n_parts, has_printed = Head(0, GENESIS), 0, printed is None
    for entry in trail.entries(connection):
        number = head.number + 1
        if entry.number != number:
            raise Unchained(f"the audit trail is broken: entry {number} is missing")
        digests = []
        for place, part in enumerate(entry.parts):
            digests.append(part.digest())
            if not _is_erased_as_stated(part, erased.get((number, place), ())):
                raise Unchained(
                    f"the audit trail is broken: entry {number} ({entry.kind}) names others than were "
                    "written, or was erased without an entry that says so"
                )
        if entry.previous != head.digest or entry.digest_by(digests) != entry.digest:
            raise Unchained(
                f"the audit trail is broken at entry {number} ({entry.kind})"
            )
        head, n_parts = Head(number, entry.digest), n_parts + len(digests)
        has_printed = has_printed or entry.digest.startswith(printed or "")
    if connection.scalar(sa.select(sa.func.max(TRAIL.c.number))) not in (
        None,
        head.number,
    ):
        gap = head.number + 1
        raise Unchained(
            f"the audit trail is broken: entry {gap} is missing, or all that it says"
        )
    if not has_printed:
        raise Unchained(
            "the printed head is not in the audit trail: it was cut short or written anew"
        )
    if connection.scalar(sa.select(sa.func.count()).select_from(PARTS)) != n_parts:
        raise Unchained("there are parts that the audit trail does not know")
    return head


def _is_erased_as_stated(
    part: Part, erased: Sequence[tuple[Sequence[int], str]]
) -> bool:
    """Whether the stand-ins of a part are those that entries put there, each once, and have their form."""
    places = [place for of_entry, _ in erased for place in of_entry]
    if sorted(map(str, places)) != sorted(part.gone) or not all(
        0 <= n < len(part.names) for n in places
    ):
        return False
    of_their_form = all(STANDS_IN.fullmatch(part.names[place]) for place in places)
    return of_their_form and all(
        digest_of_stand_ins(part.names, some) == digest for some, digest in erased
    )


OBJECTS = {
    "sqlite": """
        SELECT type, name FROM sqlite_master WHERE type <> 'index' AND substr(name, 1, 7) <> 'sqlite_'""",
    "postgresql": """
        SELECT CASE WHEN relkind IN ('v', 'm') THEN 'view' ELSE 'table' END, relname FROM pg_class
            WHERE relkind IN ('r', 'p', 'f', 'v', 'm') AND relnamespace = current_schema()::regnamespace
        UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE schemaname = current_schema()
        UNION ALL SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
            WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace""",
}


def _refuse_strangers(connection: sa.Connection) -> None:
    """Views, triggers, tables and columns that are not ours can say something else than the trail."""
    ours, inspector = {**TABLES.tables, **PROJECTED.tables}, sa.inspect(connection)
    settings = connection.scalars(
        sa.select(SETTINGS.c.name).where(SETTINGS.c.name != "format_version")
    )
    strangers = [f"setting {name}" for name in settings]
    for kind, name in connection.execute(
        sa.text(OBJECTS[connection.dialect.name])
    ).all():
        if kind != "table" or name not in ours:
            strangers.append(f"{kind} {name}")
        else:
            columns = [column["name"] for column in inspector.get_columns(name)]
            strangers += [
                f"column {name}.{column}"
                for column in columns
                if column not in ours[name].columns
            ]
    if strangers:
        raise Unchained(
            f"the ledger holds what this program did not make: {', '.join(sorted(strangers))}"
        )


def refuse_older(ledger: Ledger, runs: Path, where: str = "**") -> None:
    """Refuse (ModelError) a ledger that lacks what the newest run directories at a place say it had."""
    with ledger.reading() as connection:
        for place, facts in _not_in_trail(connection, runs, where, NEWEST):
            last = trail.head(connection).number
            raise ModelError(
                f"the ledger is older than {place}: that run was entry {facts.entry} of its trail, "
                f"which ends with entry {last} or went on otherwise; put the newer copy back, or go on "
                f"with this one: screen ledger accept LEDGER --runs {runs} --reason WHY"
            )


def accept(ledger: Ledger, runs: Path, reason: str) -> int:
    """Go on with a ledger that lacks what run directories say it had; gives how many do."""
    why = reason_of(reason)
    with ledger.writing() as connection:
        heads = [
            (facts.entry, facts.head) for _, facts in _not_in_trail(connection, runs)
        ]
        if heads:
            append(connection, ledger.clock(), Accepted(heads=heads), why)
    return len(heads)


def _not_in_trail(
    connection: sa.Connection, runs: Path, where: str = "**", most: int | None = None
) -> Iterator[tuple[Path, LedgerFacts]]:
    """Run directories of this ledger, all or those written last, that its trail lacks and nobody accepted."""
    chain = trail.head(connection, 1).digest
    accepted = {
        tuple(head) for one in stated(connection, Accepted) for head in one.facts.heads
    }
    # Where nothing is entered yet it was lost, if these are all the runs of a site.
    lost = (chain, where) == (GENESIS, "**")
    documents = runs.glob(f"{where}/run.json")
    shown = [
        path
        for path in documents
        if "/." not in f"/{path.relative_to(runs).as_posix()}"
    ]
    for path in sorted(shown, key=lambda path: -path.stat().st_mtime_ns)[:most]:
        try:
            run = RunDocument.from_dict(read_document(path.parent, "run"))
        except ModelError:
            continue  # what is damaged is said where it is read for its own sake
        facts = run.ledger
        if (
            facts is None
            or (facts.entry, facts.head) in accepted
            or not (lost or facts.chain == chain)
        ):
            continue
        in_trail = trail.head(connection, facts.entry) == (facts.entry, facts.head)
        # What a killed command left before its night was entered is scored again.
        if not in_trail and facts.series not in map(
            shown_series, reserved(connection, run.date)
        ):
            yield path.parent, facts
