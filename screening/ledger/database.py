"""The ledger's tables, and opening them: writing one at a time, the same in SQLite and on PostgreSQL.

`trail` and `parts` are the truth: chained entries in parts of facts and names (`screening.ledger.trail`). All
other tables are its projection (`screening.ledger.entries.project`), made anew by `screen ledger rebuild`.
Patients are named in `parts`, `cases` and `verdicts`, and nowhere else.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args
from urllib.parse import quote

import sqlalchemy as sa

from screening.errors import Locked, ModelError, UsageError, of_system
from screening.schemas.run import State

FORMAT_VERSION = "1"
"""Of these tables, under this name in the settings; a ledger from before the first release has `format`."""

STATES = get_args(State)
"""Of a flagged case; each is counted by itself, and together they are the cases of a night."""

WAITING = ("new", "pending")
"""States of a case without a verdict that holds: a night's work, of which the random audit draws some."""


class Unchained(ModelError):
    """The audit trail, or a row it vouches for, is not as it was written (exit code 4)."""


TABLES = sa.MetaData()
PROJECTED = sa.MetaData()
"""Tables that the trail makes; each row has the entry that it comes from."""


def _number(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=key, autoincrement=False, nullable=False)


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


SETTINGS = sa.Table("screening_ledger", TABLES, *_texts("name", "value"), sa.PrimaryKeyConstraint("name"))

TRAIL = sa.Table(
    "trail",
    TABLES,
    _number("number", key=True),
    *_texts("recorded", "kind", "previous", "digest"),
    sa.UniqueConstraint("digest"),
    sa.Index("trail_by_kind", "kind", "number"),
)

PARTS = sa.Table(
    "parts",
    TABLES,
    _number("entry", key=True),
    _number("part", key=True),
    # `facts` is JSON that names no patient, and never changes; `names` a JSON list of texts, and `salts` a
    # random salt of each, one behind the other. `gone`: of names that became stand-ins the digest of each as
    # it was, by its place in the list.
    *_texts("what", "facts", "names"),
    sa.Column("salts", sa.LargeBinary, nullable=False),
    *_texts("gone"),
)

RUNS = sa.Table(
    "runs",
    PROJECTED,
    # Of two runs of a night the later entry is in force; one in shadow, shown to nobody, never is.
    _number("entry", key=True),
    *_texts("key"),
    _number("revision"),
    *_texts("series", "night", "model"),
    _flag("shadow"),
    # SHA-256 over the digests of the table's files: by it the same bytes on another night are told.
    *_texts("source", nullable=True),
    sa.UniqueConstraint("key", "revision"),
    sa.Index("runs_by_series", "series", "night"),
    sa.Index("runs_by_source", "source"),
)

CASES = sa.Table(
    "cases",
    PROJECTED,
    _number("entry", key=True),
    sa.Column("case_id", sa.Text, primary_key=True),
    # Null: not flagged, but drawn at random for review.
    *_texts("state", nullable=True),
    _number("nights"),
    # Flagged, without a verdict and in the night's random audit.
    _flag("drawn"),
    # Night and word of the last verdict on an earlier night, as the page shows it.
    *_texts("judged", "verdict", nullable=True),
)

IS_FLAGGED = CASES.c.state.is_not(None)

REVIEWS = sa.Table(
    "verdicts",
    PROJECTED,
    _number("entry", key=True),
    *_texts("key", "case_id", "series", "night"),
    _flag("flagged"),
    # `given`: when; `reviewer`: which of those who spoke on this case of this run, from 1.
    *_texts("verdict", "given"),
    _number("reviewer"),
    *_texts("site", "initials", "login", "token", "note"),
    # Its cases too: of one patient's verdicts only these are read, however many years there are.
    sa.Index("verdicts_by_case", "series", "case_id"),
    sa.Index("verdicts_by_run", "key", "case_id"),
)

CHAMPIONS = sa.Table(
    "champions",
    PROJECTED,
    # The last entry of a series says which model's nights are in force.
    sa.Column("series", sa.Text, primary_key=True),
    _number("entry", key=True),
    *_texts("model"),
)

RESERVATIONS = sa.Table(
    "reservations",
    PROJECTED,
    # A night that was being scored: killed after that, its directory may stand, and is scored again.
    _number("entry", key=True),
    *_texts("series", "night"),
    sa.Index("reservations_by_night", "night", "series"),
)

ARTEFACTS = sa.Table(
    "artefacts",
    PROJECTED,
    # Of several entries on a place the last holds.
    _number("entry", key=True),
    *_texts("what", "place"),
    # `sha256`: null where nothing lies there any more; `patient`: of a page of one case; `keyed`: of a
    # de-identified copy, by which site's key its pseudonyms were made.
    *_texts("sha256", "key", "series", "night", "patient", "keyed", nullable=True),
    sa.Index("artefacts_by_place", "place"),
)


def by_bytes(connection: sa.Connection, column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """A column of texts to order by as Python does: a server orders by the rules of a language."""
    return column if connection.dialect.name == "sqlite" else sa.collate(column, "C")


WAIT_SECONDS = 30
# "scrn": by this SQLite, `file` and we tell a ledger from other databases; on a server tables are made under
# a lock of this number.
APPLICATION = 0x7363726E
SERVER = "postgresql+psycopg"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Ledger:
    """An open ledger.

    `clock`: gives the time that entries are marked with, as ISO 8601 text in UTC.
    """

    def __init__(self, engine: sa.Engine, clock: Callable[[], str] = now, file: Path | None = None):
        self.engine = engine
        self.clock = clock
        self.file = file

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One consistent look at the ledger."""
        with self._transaction("BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction; a second writer waits until it has ended.

        Raises Locked: another writer did not end within half a minute.
        """
        # Entries are chained, so there is no writing side by side, only one after the other.
        patience = f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"
        alone = f"LOCK TABLE {TRAIL.name} IN EXCLUSIVE MODE"
        with self._transaction("BEGIN IMMEDIATE", patience, alone) as connection:
            yield connection

    def compact(self) -> None:
        """Write a file anew, so that nothing deleted is left in it; a server's tables are left."""
        if self.file is not None:
            with self._transaction("") as connection:
                connection.exec_driver_sql("VACUUM")

    @contextmanager
    def _transaction(self, begin: str, *on_server: str) -> Iterator[sa.Connection]:
        """A transaction; `begin`: how SQLite begins it, `on_server`: what PostgreSQL does first."""
        try:
            with self.engine.connect().execution_options(sqlite_begin=begin) as connection:
                for statement in on_server if self.file is None else ():
                    connection.execute(sa.text(statement))
                yield connection
                connection.commit()
        except sa.exc.DBAPIError as error:
            if re.search("is locked|lock timeout|deadlock", str(error.orig)):
                raise Locked("another run is writing in the ledger; try again when it has ended") from None
            # What follows may hold a patient's id: the statement's values, or details that PostgreSQL adds.
            first, *_ = *str(error.orig).strip().splitlines(), type(error.orig).__name__
            raise UsageError(f"the ledger cannot be used: {first}") from None

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_ledger(
    place: str | Path, *, make: bool = False, read_only: bool = False, clock: Callable[[], str] = now
) -> Ledger:
    """Open the ledger at a path or URL.

    Parameters
    ----------
    place : str or Path
        Path of a SQLite file, `sqlite:///path`, or `postgresql+psycopg://user@host/database`.
    make : bool
        Make the file (mode 0600) and the tables where they are missing.
    read_only : bool
        Look and touch nothing, in a file that nobody may write as well.
    clock : callable
        Says when an entry is made.

    Returns
    -------
    Ledger
        To be closed, or used in a `with` statement.

    Raises
    ------
    UsageError
        There is no ledger, it cannot be reached, or is not ours (and is left as it is).
    ModelError
        It is of a newer format, or from before the first release.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from screening import open_ledger
    >>> with open_ledger(f"{mkdtemp()}/screening.db", make=True) as ledger:
    ...     ledger.file.name
    'screening.db'
    """
    url = _url(place)
    file = Path(str(url.database)) if url.drivername == "sqlite" else None
    ledger = Ledger(_engine(url, make, read_only), clock, file)
    try:
        _check_tables(ledger, make)
        if url.drivername == "sqlite" and not read_only:
            _make_private(Path(str(url.database)))
    except BaseException:
        ledger.close()
        raise
    return ledger


def _url(place: str | Path) -> sa.URL:
    text, forms = str(place), f"write sqlite:///PATH or {SERVER}://user@host/database"
    try:
        url = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(f"the ledger's URL cannot be read; {forms}") from None
    if url.drivername in ("postgresql", "postgres", SERVER):
        return url.set(drivername=SERVER)
    if url.drivername != "sqlite":
        raise UsageError(f"a ledger is kept in sqlite or {SERVER}, not in {url.drivername}")
    if url.database in (None, "", ":memory:"):
        raise UsageError("a ledger in memory would remember nothing; give the path of a file")
    if url.host or url.query or "\0" in str(url.database):
        raise UsageError(f"the ledger's URL has more than a path; {forms}")
    return url


def _engine(url: sa.URL, make: bool, read_only: bool) -> sa.Engine:
    if url.drivername == SERVER:
        try:
            return sa.create_engine(url, connect_args={"connect_timeout": WAIT_SECONDS})
        except ModuleNotFoundError:
            raise UsageError(
                'a ledger on PostgreSQL needs psycopg: pip install "screening[postgres]"'
            ) from None
    path = Path(str(url.database))
    try:
        _look(path, make)
        # What a killed writer left half-done is taken back at opening, by who may write.
        only = read_only and not (os.path.exists(f"{path}-journal") and os.access(path, os.W_OK))
    except OSError as error:
        raise of_system(error, path) from None
    place = f"file:{quote(str(path.absolute()))}?mode={'ro' if only else 'rw'}"
    # By itself the driver begins late, and a second writer then fails at once instead of waiting its turn.
    by_hand = {"timeout": WAIT_SECONDS, "isolation_level": None}
    engine = sa.create_engine(f"sqlite:///{place}&uri=true", connect_args=by_hand)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if begin := connection.get_execution_options().get("sqlite_begin", "BEGIN"):
            connection.exec_driver_sql(begin)

    return engine


def _look(path: Path, make: bool) -> None:
    """Refuse what is no ledger before anything of it is changed; begin one where that is wanted."""
    if not path.exists():
        if not make:
            raise UsageError(f"there is no ledger at {path}; `screen score --ledger {path}` begins one")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if not path.is_file():
        raise UsageError(f"{path} is no file, so it is no ledger")
    with path.open("rb") as file:
        head = file.read(100)
    ours = int.from_bytes(head[68:72], "big") == APPLICATION
    if head and (head[:16] != b"SQLite format 3\0" or not ours):
        raise UsageError(f"{path} is not a ledger of this program; it was left as it is")


def _make_private(path: Path) -> None:
    """Shut others out, but a group that was let in to write; SQLite's side files take over the mode."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    kept = mode & (0o660 if mode & stat.S_IWGRP else 0o600)
    if mode != kept and status.st_uid == os.geteuid():
        path.chmod(kept)


def _check_tables(ledger: Ledger, make: bool) -> None:
    """Refuse tables of another format; make them where there are none and that is wanted."""
    one_at_a_time = [f"SELECT pg_advisory_xact_lock({APPLICATION})"] if make else []
    with ledger._transaction("BEGIN IMMEDIATE" if make else "BEGIN", *one_at_a_time) as connection:
        if not sa.inspect(connection).has_table(SETTINGS.name):
            if not make:
                raise UsageError("the ledger is empty; `screen score --ledger` begins one")
            TABLES.create_all(connection)
            PROJECTED.create_all(connection)
            connection.execute(SETTINGS.insert().values(name="format_version", value=FORMAT_VERSION))
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
        stated = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "format_version")
        version, has_trail = connection.scalar(stated), sa.inspect(connection).has_table(TRAIL.name)
    if version is None or not has_trail:
        raise ModelError("the ledger was made by a version before the first release; begin a new one")
    if version != FORMAT_VERSION:
        raise ModelError(f"the ledger has format {version}, newer than {FORMAT_VERSION}; update screening")
