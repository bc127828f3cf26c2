"""Verify a ledger: its trail, its tables, and its heads in run directories.

Tables are compared with a new projection of the trail. Every run directory names the
head of the trail at its time. A ledger without that head is not continued until
somebody accepts it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from screening.errors import ModelError, UsageError
from screening.files import is_hidden
from screening.ledger import trail
from screening.ledger.current import reserved
from screening.ledger.database import (
    PARTS,
    PROJECTED,
    SETTINGS,
    TABLES,
    TRAIL,
    Ledger,
    NoLedger,
    Unchained,
    file_of,
    open_ledger,
)
from screening.ledger.entries import (
    Accepted,
    Erasing,
    Purged,
    append,
    project,
    stated,
)
from screening.ledger.erasing import (
    ABOUT,
    ENTERED,
    GONE,
    PLACE,
    STAND_IN_FORM,
    digest_of_stand_ins,
)
from screening.ledger.location import ledger_word
from screening.ledger.register import current_rows
from screening.ledger.trail import GENESIS, HASHED, IDS, Entry, Head, Part, reason_of
from screening.schemas.run import LedgerFacts
from screening.spelling import SERVER_LEDGER, command_line, shown_series
from screening.store.serialization import read_run

# Digits by which a head is recognised.
MIN_HEAD_DIGITS = 12
# Run directories that are compared each night: those written last.
N_NEWEST = 3


def verify(connection: sa.Connection, printed: str | None) -> Head:
    """Verify the chain, its parts, and the tables; return the head of the trail.

    Parameters
    ----------
    connection : Connection
    printed : str, optional
        First digits of a head printed on a report, which must be in the chain.

    Raises
    ------
    Unchained
        Naming the first entry that is wrong.
    """
    if printed is not None and len(printed) < MIN_HEAD_DIGITS:
        raise UsageError(
            f"`head`: give at least {MIN_HEAD_DIGITS} of the digits printed on the"
            " report",
            parameters=["head"],
        )
    _refuse_strangers(connection)
    _refuse_other_definitions(connection)
    head = follow(connection, printed)
    _refuse_other_rows(connection)
    _refuse_lost_places(connection)
    return head


def _refuse_other_rows(connection: sa.Connection) -> None:
    """Raise Unchained if a table differs from the projection of the trail."""
    projected = {}
    for name, table in PROJECTED.tables.items():
        columns = [sa.Column(column.name, column.type) for column in table.columns]
        # If something fails it is dropped with the transaction.
        projected[name] = sa.Table(
            f"again_{name}", sa.MetaData(), *columns, prefixes=["TEMPORARY"]
        )
        projected[name].create(connection)
    project(connection, trail.entries(connection), projected)
    for name, table in PROJECTED.tables.items():
        again = projected[name]
        for rows, other in ((again, table), (table, again)):
            differing = sa.except_(
                sa.select(*rows.columns), sa.select(*other.columns)
            ).subquery()
            entry = connection.scalar(sa.select(sa.func.min(differing.c.entry)))
            if entry is not None:
                raise Unchained(
                    f"the table {name} differs from entry {entry} of the audit trail",
                    repair="rebuild",
                )
        projected[name].drop(connection)


def rebuild(ledger: Ledger) -> Head:
    """Derive all tables again from the trail; Unchained if the trail is broken."""
    with ledger.writing() as connection:
        head = follow(connection)
        PROJECTED.drop_all(connection)
        PROJECTED.create_all(connection)
        project(connection, trail.entries(connection))
    return head


def follow(connection: sa.Connection, printed: str | None = None) -> Head:
    """Verify the chain and its parts from the first entry, as `verify` does."""
    erased = _erased_places(connection)
    stand_ins = _StandIns()
    head = Head(0, GENESIS)
    n_parts = 0
    has_printed = printed is None
    for entry in trail.entries(connection):
        number = head.number + 1
        if entry.number != number:
            raise Unchained(f"the audit trail is broken: entry {number} is missing")
        digests = _follow_parts(entry, erased, stand_ins)
        if entry.previous != head.digest or entry.digest_by(digests) != entry.digest:
            raise Unchained(
                f"the audit trail is broken at entry {number} ({entry.kind})"
            )
        head = Head(number, entry.digest)
        n_parts += len(digests)
        has_printed = has_printed or entry.digest.startswith(printed or "")
    _refuse_ends(connection, head, n_parts)
    if not has_printed:
        raise Unchained(
            "the printed head is not in the audit trail, which was cut or rewritten"
        )
    return head


def _follow_parts(
    entry: Entry,
    erased: Mapping[tuple[int, int], list[_Erasure]],
    stand_ins: _StandIns,
) -> list[str]:
    """Return the digests of an entry's parts.

    Unchained if names were erased otherwise than entries say, or than a command can.
    """
    digests = []
    parts = []
    for number, part in enumerate(entry.parts):
        digests.append(part.digest())
        erasures = erased.get((entry.number, number), [])
        if not _is_erased_as_stated(part, erasures):
            raise Unchained(
                f"the audit trail is broken: the names of entry {entry.number} "
                f"({entry.kind}) were changed, or erased without an entry that says so"
            )
        if number == 0 or erasures:
            parts.append((part, erasures))
    stand_ins.check(entry, parts)
    return digests


def _refuse_ends(connection: sa.Connection, head: Head, n_parts: int) -> None:
    """Raise Unchained if there are entries or parts beyond those that were followed."""
    last = connection.scalar(sa.select(sa.func.max(TRAIL.c.number)))
    if last not in (None, head.number):
        raise Unchained(
            f"the audit trail is broken: entry {head.number + 1} or all its contents "
            "are missing"
        )
    n_stored = connection.scalar(sa.select(sa.func.count()).select_from(PARTS))
    if n_stored != n_parts:
        raise Unchained(
            "the ledger has parts that belong to no entry of the audit trail"
        )


def _refuse_lost_places(connection: sa.Connection) -> None:
    """Raise Unchained if the place of a file that still lies there was erased.

    Erasing leaves such places, so that the file can be found.
    """
    current = [row.entry for row in current_rows(connection)]
    for entry, part in trail.parts_of(connection, current, PLACE).items():
        if part.gone:
            raise Unchained(
                f"the audit trail is broken: the place of a file is missing from entry "
                f"{entry}, and no entry says that the file is gone"
            )


class _Erasure(NamedTuple):
    """Names of one part that an entry says it erased."""

    # Number of that entry, and if it erased everybody of old nights.
    by: int
    is_purge: bool
    places: Sequence[int]
    # SHA-256 of the stand-ins at these places.
    digest: str


def _erased_places(
    connection: sa.Connection,
) -> Mapping[tuple[int, int], list[_Erasure]]:
    """Return by entry and part what entries say they erased there."""
    erased = defaultdict[tuple[int, int], list[_Erasure]](list)
    for entry in stated(connection, Erasing):
        is_purge = isinstance(entry.facts, Purged)
        for number, place, places, digest in entry.facts.erased:
            erasure = _Erasure(entry.entry, is_purge, places, digest)
            erased[number, place].append(erasure)
    return erased


def _is_erased_as_stated(part: Part, erasures: Sequence[_Erasure]) -> bool:
    """Return True if a part has the stand-ins that entries put there, each once."""
    places = list(chain.from_iterable(erasure.places for erasure in erasures))
    are_places = all(0 <= place < len(part.names) for place in places)
    if sorted(map(str, places)) != sorted(part.gone) or not are_places:
        return False
    of_their_form = all(STAND_IN_FORM.fullmatch(part.names[place]) for place in places)
    return of_their_form and all(
        digest_of_stand_ins(part.names, erasure.places) == erasure.digest
        for erasure in erasures
    )


class _StandIns:
    """Compares what entries say they erased with what erasing can do.

    Anybody with write access to the database can append an entry. If it erases what no
    command erases, it is found here, though the chain fits.
    """

    def __init__(self) -> None:
        # By forgetting, kind of id, series and model: the stand-in of its one patient.
        self._of_patient: dict[tuple[object, ...], str] = {}

    def check(
        self, entry: Entry, parts: Sequence[tuple[Part, Sequence[_Erasure]]]
    ) -> None:
        """Raise Unchained if names of an entry were erased that no erasure touches.

        `parts`: the facts, and the parts with stand-ins, with their erasures.
        """
        facts = parts[0][0].facts if parts else None
        if not isinstance(facts, dict):
            return
        about: set[int] = set()
        for part, erasures in parts:
            if part.what in ABOUT:
                about.update(erasure.by for erasure in erasures)
        for part, erasures in parts:
            for erasure in erasures:
                if not self._is_possible(part, erasure, facts, erasure.by in about):
                    raise Unchained(
                        f"the audit trail is broken: entry {erasure.by} erased "
                        f"something in entry {entry.number} ({entry.kind}) that no "
                        "command erases"
                    )

    def _is_possible(
        self, part: Part, erasure: _Erasure, facts: Mapping[str, Any], is_about: bool
    ) -> bool:
        """Return True if a command could have erased these names.

        `is_about`: the erasure also erased the patient that the entry is about.
        """
        if erasure.is_purge:
            return part.what != PLACE and "night" in facts
        if part.what in IDS:
            return self._is_of_one(part, erasure, facts)
        if is_about and part.what != ENTERED:
            return True
        return _are_mentions(part, erasure.places)

    def _is_of_one(
        self, part: Part, erasure: _Erasure, facts: Mapping[str, Any]
    ) -> bool:
        """Return True if a forgetting erased no more than one patient's id, or hash."""
        kind = part.what if part.what in HASHED else None
        model = facts.get("model") if part.what == "lots" else None
        key = (erasure.by, kind, facts.get("series"), model)
        names = {part.names[place] for place in erasure.places}
        names.add(self._of_patient.setdefault(key, min(names)))
        return len(names) == 1


def _are_mentions(part: Part, places: Sequence[int]) -> bool:
    """Return True if the words erased are mentions: a stand-in, then nothing."""
    previous = None
    for place in sorted(places):
        is_rest = part.names[place] == "" and place - 1 == previous
        if part.names[place] != GONE and not is_rest:
            return False
        previous = place
    return True


# Queries for the kinds and names of the objects in a database.
OBJECTS = {
    "sqlite": (
        """
        SELECT type, name FROM sqlite_master WHERE type <> 'index' AND substr(name, 1,
        7) <> 'sqlite_'"""
    ),
    "postgresql": (
        """
        SELECT CASE WHEN relkind IN ('v', 'm') THEN 'view' ELSE 'table' END, relname
        FROM pg_class
            WHERE relkind IN ('r', 'p', 'f', 'v', 'm') AND relnamespace =
            current_schema()::regnamespace
        UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE schemaname =
        current_schema() UNION ALL SELECT 'trigger', tgname FROM pg_trigger JOIN
        pg_class ON pg_class.oid = tgrelid
            WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"""
    ),
}


def _refuse_strangers(connection: sa.Connection) -> None:
    """Raise Unchained if the database contains objects of another program.

    A view, a trigger, a table or a column can contradict the trail.
    """
    named = sa.select(SETTINGS.c.name).where(SETTINGS.c.name != "format_version")
    strangers = [f"setting {name}" for name in connection.scalars(named)]
    tables = {**TABLES.tables, **PROJECTED.tables}
    inspector = sa.inspect(connection)
    objects = sa.text(OBJECTS[connection.dialect.name])
    for kind, name in connection.execute(objects).all():
        if kind != "table" or name not in tables:
            strangers.append(f"{kind} {name}")
            continue
        for column in inspector.get_columns(name):
            if column["name"] not in tables[name].columns:
                strangers.append(f"column {name}.{column['name']}")
    if strangers:
        names = ", ".join(sorted(strangers))
        raise Unchained(
            f"the ledger contains objects that this program did not make: {names}"
        )


# Queries for the tables of a database, and for a text of all that defines each.
DEFINITIONS = {
    "sqlite": "SELECT tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL",
    "postgresql": (
        """
        SELECT relname, concat_ws(' ', attname, format_type(atttypid, atttypmod),
            attnotnull, attidentity, attgenerated, collname,
            pg_get_expr(adbin, adrelid), relrowsecurity)
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
            LEFT JOIN pg_collation ON pg_collation.oid = attcollation
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relkind = 'r' AND attnum > 0 AND NOT attisdropped
            AND relnamespace = current_schema()::regnamespace
        UNION ALL SELECT relname, pg_get_constraintdef(pg_constraint.oid)
        FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
        WHERE relnamespace = current_schema()::regnamespace
        UNION ALL SELECT relname,
            regexp_replace(pg_get_indexdef(indexrelid), ' ON [^ ]+ ', ' ')
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = current_schema()::regnamespace"""
    ),
}


def _refuse_other_definitions(connection: sa.Connection) -> None:
    """Raise Unchained if a table is not defined as this program defines it.

    Another collation compares ids otherwise; a constraint or a unique index refuses
    rows, and so stops nights.
    """
    if connection.dialect.name == "sqlite":
        with sa.create_engine("sqlite://").connect() as empty:
            _create_tables(empty)
            expected = _definitions(empty)
    else:
        nested = connection.begin_nested()
        connection.exec_driver_sql("SET LOCAL search_path = pg_temp")
        _create_tables(connection)
        expected = _definitions(connection)
        nested.rollback()
    definitions = _definitions(connection)
    names = [name for name in expected if definitions.get(name) != expected[name]]
    if not names:
        return
    fault = (
        f"the definition of table {min(names)} was changed: a column, a constraint or "
        "an index"
    )
    if set(names) <= PROJECTED.tables.keys():
        raise Unchained(fault, repair="rebuild")
    raise Unchained(f"{fault}; restore the ledger from a copy")


def _create_tables(connection: sa.Connection) -> None:
    """Create all tables of a ledger."""
    for tables in (TABLES, PROJECTED):
        tables.create_all(connection, checkfirst=False)


def _definitions(connection: sa.Connection) -> dict[str, set[str]]:
    """Return by table the texts that define it, without marks that mean nothing."""
    definitions = defaultdict[str, set[str]](set)
    rows = connection.execute(sa.text(DEFINITIONS[connection.dialect.name]))
    for name, text in rows:
        without_quotes = re.sub(r'[\s"]+', " ", text)
        definitions[name].add(without_quotes.strip().casefold())
    return definitions


def refuse_older(
    ledger: Ledger, runs: Path, where: str = "**", series: str | None = None
) -> None:
    """Refuse a ledger that does not fit the newest run directories at a place.

    Parameters
    ----------
    ledger : Ledger
    runs : Path
    where : str
        Pattern of the run directories below `runs`.
    series : str, optional
        Of run directories of another ledger, only those of this series count.

    Raises
    ------
    ModelError
        If the entry of a run directory is missing in the trail, because the ledger is
        older, was replaced by a new one, or is another.
    """
    with ledger.reading() as connection:
        first = trail.head(connection, 1).digest
        last = trail.head(connection).number
        for folder, facts in _not_in_trail(connection, runs, where, N_NEWEST):
            if facts.chain != first and series not in (None, facts.series):
                continue
            if first in (facts.chain, GENESIS):
                reason = (
                    f"the ledger is older than {folder}: that run is entry "
                    f"{facts.entry} of the trail, but the trail ends with entry "
                    f"{last} or differs; restore the newer copy"
                )
            else:
                reason = (
                    f"{folder} was entered in another ledger; this ledger is new, or "
                    "replaced it: restore the right one"
                )
            place = ledger_word(connection)
            if last == 0:
                raise _entered_elsewhere(place, folder, "is empty")
            accept_it = ("ledger", "accept", place, "--runs", runs, "--reason", "WHY")
            raise ModelError(
                f"{reason}, or continue with this one: {command_line(*accept_it)}"
            )


def refuse_new(place: str, runs: Path) -> None:
    """Refuse to begin a ledger beside run directories that were entered in another.

    Nothing is written, so that a slip in its name leaves no empty file or database.

    Raises
    ------
    ModelError
        If the place has no ledger, and a run directory names one.
    """
    file = file_of(place)
    if file is not None and file.exists():
        return
    state = "is not there"
    if file is None:
        state = "is empty"
        with suppress(NoLedger), open_ledger(place, read_only=True):
            return
    newest = next(_recorded_runs(runs), None)
    if newest is not None:
        folder, _, _ = newest
        shown = SERVER_LEDGER if file is None else str(file)
        raise _entered_elsewhere(shown, folder, state)


def _entered_elsewhere(place: str, folder: Path, state: str) -> ModelError:
    """Return the error that a run directory was entered in another ledger."""
    restore = command_line("ledger", "restore", place, "--from", "BACKUP")
    return ModelError(
        f"the ledger at {place} {state}, and {folder} was recorded in another "
        "one: give the path of the other (in NIGHT.toml, or `ledger`), or restore a "
        f"backup: {restore}",
        parameters=["ledger"],
    )


def accept(ledger: Ledger, runs: Path, reason: str) -> int:
    """Accept a ledger without the heads that some run directories name.

    Returns the number of those run directories.
    """
    why = reason_of(reason)
    with ledger.writing() as connection:
        heads = [
            (facts.entry, facts.head) for _, facts in _not_in_trail(connection, runs)
        ]
        if heads:
            append(connection, ledger.clock(), Accepted(heads=heads), why)
    return len(heads)


def _not_in_trail(
    connection: sa.Connection,
    runs: Path,
    where: str = "**",
    n_newest: int | None = None,
) -> Iterator[tuple[Path, LedgerFacts]]:
    """Yield run directories that are neither in the trail nor accepted.

    `n_newest`: look only at those that were written last.
    """
    accepted = set()
    for entry in stated(connection, Accepted):
        accepted |= {tuple(head) for head in entry.facts.heads}
    first = trail.head(connection, 1).digest
    for folder, night, facts in _recorded_runs(runs, where, n_newest):
        head = (facts.entry, facts.head)
        if head in accepted or head == trail.head(connection, facts.entry):
            continue
        # A killed command may have left the run; its night is scored again.
        in_progress = map(shown_series, reserved(connection, night))
        if facts.chain != first or facts.series not in in_progress:
            yield folder, facts


def _recorded_runs(
    runs: Path, where: str = "**", n_newest: int | None = None
) -> Iterator[tuple[Path, str, LedgerFacts]]:
    """Yield the run directories that were entered in a ledger, with their nights.

    Those written last come first; `n_newest`: only so many are read.
    """
    written = {
        path.parent: path.stat().st_mtime_ns
        for path in runs.glob(f"{where}/run.json")
        if not is_hidden(path, runs)
    }
    newest_first = sorted(written, key=written.__getitem__, reverse=True)
    for folder in newest_first[:n_newest]:
        try:
            run = read_run(folder)
        except (ModelError, UsageError):
            # What is damaged or cannot be read is reported where it is read for its own
            # sake.
            continue
        if run.ledger is not None:
            yield folder, run.date, run.ledger
