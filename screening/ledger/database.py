"""The ledger's tables, and opening them: writing one at a time, the same in SQLite and on PostgreSQL.

`trail` and `parts` are the truth: chained entries in parts of facts and names (`screening.ledger.trail`). All
other tables are its projection (`screening.ledger.entries.project`), made anew by `screen ledger rebuild`.
Patients are named in `parts`, `cases` and `verdicts`, and nowhere else.
"""

from __future__ import annotations

import datetime
import os
import re
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from screening.errors import Locked, ModelError, UsageError, of_system
from screening.io.database import engine_of

FORMAT_VERSION = "1"
"""Of these tables, under this name in the settings; a ledger from before the first release has `format`."""

TABLES = sa.MetaData()
PROJECTED = sa.MetaData()
"""Tables that the trail makes; each row has the entry that it comes from."""


class Unchained(ModelError):
    """The audit trail, or a row it vouches for, is not as it was written (exit 4)."""


class _Checked(sa.TypeDecorator[Any]):
    """A type whose values are checked when they are read.

    SQLite keeps a value of any type in any column.
    """

    expected: type = object

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return a value as it was read; Unchained if it is of another type."""
        if value is None or isinstance(value, self.expected):
            return value
        raise Unchained(
            f"a table of the ledger holds {type(value).__name__} where "
            f"{self.expected.__name__} was written; `screen history --verify` finds "
            "what was changed"
        )


class _Text(_Checked):
    impl = sa.Text
    cache_ok = True
    expected = str


class _Integer(_Checked):
    impl = sa.Integer
    cache_ok = True
    expected = int


def _number(name: str, *, key: bool = False) -> sa.Column[int]:
    return sa.Column(
        name, _Integer, primary_key=key, autoincrement=False, nullable=False
    )


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, _Text, nullable=nullable) for name in names]


SETTINGS = sa.Table(
    "screening_ledger",
    TABLES,
    *_texts("name", "value"),
    sa.PrimaryKeyConstraint("name"),
)

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
    # `facts`: JSON that names no patient, and never changes; `names`: a JSON list, and `salts` one of each;
    # `gone`: of names that became stand-ins the digest of each as it was, by its place in the list.
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
    sa.Column("shadow", sa.Boolean, nullable=False),
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
    sa.Column("case_id", _Text, primary_key=True),
    # `state`: null where it was not flagged, but drawn at random for review; `drawn`: flagged, and in the
    # random audit; `judged`, `verdict`: night and word of the last verdict on an earlier night.
    *_texts("state", nullable=True),
    _number("nights"),
    sa.Column("drawn", sa.Boolean, nullable=False),
    *_texts("judged", "verdict", nullable=True),
)

IS_FLAGGED = CASES.c.state.is_not(None)

REVIEWS = sa.Table(
    "verdicts",
    PROJECTED,
    _number("entry", key=True),
    *_texts("key", "case_id", "series", "night"),
    sa.Column("flagged", sa.Boolean, nullable=False),
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
    sa.Column("series", _Text, primary_key=True),
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
    # `sha256`: null where nothing lies there any more; `patient`: of a page of one case.
    *_texts("sha256", "key", "series", "night", "patient", nullable=True),
    sa.Index("artefacts_by_place", "place"),
)

WAIT_SECONDS = 30
# "scrn": by this SQLite, `file` and we tell a ledger from other databases; on a server tables are made under
# a lock of this number.
APPLICATION = 0x7363726E
SERVER = "postgresql+psycopg"

# What begins a transaction. Entries are chained, so there is no writing side by side, only one after the
# other: a second writer waits.
READING = {
    "sqlite": ["BEGIN"],
    "postgresql": ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"],
}
WRITING = {
    "sqlite": ["BEGIN IMMEDIATE"],
    "postgresql": [
        f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'",
        f"LOCK TABLE {TRAIL.name} IN EXCLUSIVE MODE",
    ],
}
MAKING = {
    "sqlite": ["BEGIN IMMEDIATE"],
    "postgresql": [f"SELECT pg_advisory_xact_lock({APPLICATION})"],
}


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(eq=False)
class Ledger(AbstractContextManager["Ledger"]):
    """An open ledger."""

    engine: sa.Engine
    clock: Callable[[], str] = (
        now  # Gives the time that entries are marked with, as ISO 8601 text in UTC.
    )
    file: Path | None = None

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """One consistent look at the ledger."""
        return self._transaction(READING)

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """One transaction; Locked where another writer did not end within half a minute."""
        return self._transaction(WRITING)

    def compact(self) -> None:
        """Write a file anew, so that nothing deleted is left in it; a server's tables are left."""
        with self._transaction({"sqlite": ["VACUUM"], "postgresql": []}):
            pass

    @contextmanager
    def _transaction(
        self, begin: Mapping[str, Sequence[str]]
    ) -> Iterator[sa.Connection]:
        try:
            with self.engine.connect() as connection:
                for statement in begin[connection.dialect.name]:
                    connection.exec_driver_sql(statement)
                yield connection
                connection.commit()
        except sa.exc.DBAPIError as error:
            if re.search("is locked|lock timeout|deadlock", str(error.orig)):
                raise Locked(
                    "another run is writing in the ledger; try again when it has ended"
                ) from None
            # What follows may hold a patient's id: the statement's values, or details that PostgreSQL adds.
            first, *_ = *str(error.orig).strip().splitlines(), type(error.orig).__name__
            raise UsageError(f"the ledger cannot be used: {first}") from None

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_ledger(
    place: str | Path,
    *,
    make: bool = False,
    read_only: bool = False,
    clock: Callable[[], str] = now,
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
    if url.drivername == "sqlite":
        file = Path(str(url.database))
        ledger = Ledger(_sqlite(file, make, read_only), clock, file)
    else:
        ledger = Ledger(engine_of(url, {"connect_timeout": WAIT_SECONDS}), clock)
    try:
        _check_tables(ledger, make)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _url(place: str | Path) -> sa.URL:
    text = str(place)
    try:
        url = (
            sa.make_url(text)
            if "://" in text
            else sa.URL.create("sqlite", database=text)
        )
    except (sa.exc.ArgumentError, ValueError):
        url = sa.URL.create("none")
    if url.drivername in ("postgresql", "postgres", SERVER):
        return url.set(drivername=SERVER)
    in_memory = url.database in (None, "", ":memory:")
    if url.drivername != "sqlite" or in_memory or url.host or url.query or "\0" in text:
        raise UsageError(
            "a ledger is a file, or a database on PostgreSQL: write its path, sqlite:///PATH or "
            f"{SERVER}://user@host/database"
        )
    return url


def _sqlite(path: Path, make: bool, read_only: bool) -> sa.Engine:
    """Refuse what is no ledger before anything of it is changed; begin one where that is wanted."""
    try:
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if not path.is_file():
            raise UsageError(
                f"there is no ledger at {path}; `screen score --ledger {path}` begins one"
            )
        with path.open("rb") as file:
            head = file.read(100)
        ours = int.from_bytes(head[68:72], "big") == APPLICATION
        if head and (head[:16] != b"SQLite format 3\0" or not ours):
            raise UsageError(
                f"{path} is not a ledger of this program; it was left as it is"
            )
        # Shut others out, but a group that was let in to write; SQLite's side files take over the mode.
        status = path.stat()
        kept = status.st_mode & (0o660 if status.st_mode & stat.S_IWGRP else 0o600)
        if (
            not read_only
            and stat.S_IMODE(status.st_mode) != kept
            and status.st_uid == os.geteuid()
        ):
            path.chmod(kept)
        # What a killed writer left half-done is taken back at opening, by who may write.
        only = read_only and not (
            os.path.exists(f"{path}-journal") and os.access(path, os.W_OK)
        )
    except OSError as error:
        raise of_system(error, path) from None
    place = f"file:{quote(str(path.absolute()))}?mode={'ro' if only else 'rw'}"
    # By itself the driver begins late, and a second writer then fails at once instead of waiting its turn.
    by_hand = {"timeout": WAIT_SECONDS, "isolation_level": None}
    engine = sa.create_engine(f"sqlite:///{place}&uri=true", connect_args=by_hand)
    if sys.platform == "darwin":
        sa.event.listen(engine, "connect", _flush_fully)
    return engine


def _flush_fully(connection: sqlite3.Connection, record: object) -> None:
    """Let SQLite write through the drive's cache, which fsync on macOS does not."""
    connection.execute("PRAGMA fullfsync = ON")


def _check_tables(ledger: Ledger, make: bool) -> None:
    """Refuse tables of another format; make them where there are none and that is wanted."""
    with ledger._transaction(MAKING if make else READING) as connection:
        if not sa.inspect(connection).has_table(SETTINGS.name):
            if not make:
                raise UsageError(
                    "the ledger is empty; `screen score --ledger` begins one"
                )
            TABLES.create_all(connection)
            PROJECTED.create_all(connection)
            connection.execute(
                SETTINGS.insert().values(name="format_version", value=FORMAT_VERSION)
            )
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
        stated = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "format_version")
        version, has_trail = (
            connection.scalar(stated),
            sa.inspect(connection).has_table(TRAIL.name),
        )
    if version is None or not has_trail:
        raise ModelError(
            "the ledger was made by a version before the first release; begin a new one"
        )
    if version != FORMAT_VERSION:
        raise ModelError(
            f"the ledger has format {version}, newer than {FORMAT_VERSION}; update screening"
        )
