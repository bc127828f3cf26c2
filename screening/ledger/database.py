"""Define the ledger's tables and open a ledger, in a SQLite file or on PostgreSQL.

`trail` and `parts` are the truth: chained entries in parts of facts and names
(`screening.ledger.trail`). All other tables are a projection of it
(`screening.ledger.entries.project`), made again by `screen ledger rebuild`. Patients
are named in `parts`, `cases`, `verdicts` and `artefacts`, and nowhere else. One
transaction writes at a time.
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
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import sqlalchemy as sa

from screening.errors import Locked, ModelError, UsageError, of_system
from screening.io.connections import engine_of
from screening.spelling import SERVER_LEDGER, command_line

# Of these tables, in the settings as `format_version`; a ledger from before the first
# release has `format` instead.
FORMAT_VERSION = "2"

TABLES = sa.MetaData()
# Tables projected from the trail; each row has the number of its entry.
PROJECTED = sa.MetaData()


class NoLedger(UsageError):
    """The ledger does not exist yet, or is empty."""


class Unchained(ModelError):
    """The audit trail, or a row derived from it, is not as it was written (exit 4).

    Parameters
    ----------
    fault : str
    repair : {"rebuild", "verify"}, optional
        What a person does next: make the tables again, or find what was changed. A
        transaction adds the command, with the ledger's place.
    """

    def __init__(self, fault: str, repair: Literal["rebuild", "verify"] | None = None):
        super().__init__(fault)
        self.repair = repair


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
            f"a table of the ledger contains {type(value).__name__} instead of "
            f"{self.expected.__name__}",
            repair="verify",
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
    """Return a column of whole numbers."""
    return sa.Column(
        name, _Integer, primary_key=key, autoincrement=False, nullable=False
    )


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """Return a column of texts."""
    return sa.Column(name, _Text, nullable=nullable)


SETTINGS = sa.Table(
    "screening_ledger",
    TABLES,
    _text("name"),
    _text("value"),
    sa.PrimaryKeyConstraint("name"),
)

TRAIL = sa.Table(
    "trail",
    TABLES,
    _number("number", key=True),
    _text("recorded"),
    _text("kind"),
    _text("previous"),
    _text("digest"),
    sa.UniqueConstraint("digest"),
    sa.Index("trail_by_kind", "kind", "number"),
)

PARTS = sa.Table(
    "parts",
    TABLES,
    _number("entry", key=True),
    _number("part", key=True),
    # `facts`: JSON that names no patient, and never changes; `names`: a JSON list, and
    # `salts` one of each; `gone`: of names that became stand-ins the digest of each as
    # it was, by its place in the list.
    _text("what"),
    _text("facts"),
    _text("names"),
    sa.Column("salts", sa.LargeBinary, nullable=False),
    _text("gone"),
)

RUNS = sa.Table(
    "runs",
    PROJECTED,
    # Of two runs of a night the later entry is in force; one in shadow, which is not
    # shown, never is.
    _number("entry", key=True),
    _text("key"),
    _number("revision"),
    _text("series"),
    _text("night"),
    _text("model"),
    sa.Column("shadow", sa.Boolean, nullable=False),
    # SHA-256 over the digests of the table's files, to find the same bytes on another
    # night.
    _text("source", nullable=True),
    sa.UniqueConstraint("key", "revision"),
    sa.Index("runs_by_series", "series", "night"),
    sa.Index("runs_by_source", "source"),
)

CASES = sa.Table(
    "cases",
    PROJECTED,
    _number("entry", key=True),
    sa.Column("case_id", _Text, primary_key=True),
    # `state`: null where it was not flagged, but drawn at random for review; `drawn`:
    # flagged, and in the random audit; `judged`, `verdict`: night and word of the last
    # verdict on an earlier night.
    _text("state", nullable=True),
    _number("nights"),
    sa.Column("drawn", sa.Boolean, nullable=False),
    _text("judged", nullable=True),
    _text("verdict", nullable=True),
)

IS_FLAGGED = CASES.c.state.is_not(None)

REVIEWS = sa.Table(
    "verdicts",
    PROJECTED,
    _number("entry", key=True),
    _text("key"),
    _text("case_id"),
    _text("series"),
    _text("night"),
    sa.Column("flagged", sa.Boolean, nullable=False),
    # `given`: when; `reviewer`: the number of the reviewer among those of this case of
    # this run, from 1.
    _text("verdict"),
    _text("given"),
    _number("reviewer"),
    _text("site"),
    _text("initials"),
    _text("login"),
    _text("token"),
    _text("note"),
    _text("action"),
    # Its cases too: of one patient's verdicts only these are read, however many years
    # there are.
    sa.Index("verdicts_by_case", "series", "case_id"),
    sa.Index("verdicts_by_run", "key", "case_id"),
)

CHAMPIONS = sa.Table(
    "champions",
    PROJECTED,
    # The last entry of a series says which model's nights are in force.
    sa.Column("series", _Text, primary_key=True),
    _number("entry", key=True),
    _text("model"),
)

RESERVATIONS = sa.Table(
    "reservations",
    PROJECTED,
    # A night that was being scored. If it was killed after that, its directory may
    # exist; the night is scored again.
    _number("entry", key=True),
    _text("series"),
    _text("night"),
    sa.Index("reservations_by_night", "night", "series"),
)

ARTEFACTS = sa.Table(
    "artefacts",
    PROJECTED,
    # Of several entries on a place, the last one counts.
    _number("entry", key=True),
    _text("what"),
    _text("place"),
    # `sha256`: null where nothing lies there any more; `patient`: of a page of one
    # case.
    _text("sha256", nullable=True),
    _text("key", nullable=True),
    _text("series", nullable=True),
    _text("night", nullable=True),
    _text("patient", nullable=True),
    sa.Index("artefacts_by_place", "place"),
)

WAIT_SECONDS = 30
# "scrn" in ASCII: identifies a ledger among SQLite files; on a server tables are made
# under a lock of this number.
APPLICATION = 0x7363726E
# One command opens its ledger several times; an engine that is kept has compiled its
# statements.
ENGINES_KEPT = 8
SERVER = "postgresql+psycopg"

# Statements that begin a transaction. Entries are chained, so a second writer waits.
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
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(eq=False)
class Ledger(AbstractContextManager["Ledger"]):
    """An open ledger.

    Parameters
    ----------
    engine : Engine
    clock : callable
        Returns the time that an entry is recorded at, as ISO 8601 text in UTC.
    file : Path, optional
        The SQLite file; None on a server.
    """

    engine: sa.Engine
    clock: Callable[[], str] = now
    file: Path | None = None

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Return a transaction that reads one consistent state."""
        return self._transaction(READING)

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Return a transaction that writes; Locked if another writer does not end."""
        return self._transaction(WRITING)

    def compact(self) -> None:
        """Rewrite a SQLite file, so that nothing deleted is left in it."""
        with self._transaction({"sqlite": ["VACUUM"], "postgresql": []}):
            pass

    @contextmanager
    def _transaction(
        self, begin: Mapping[str, Sequence[str]]
    ) -> Iterator[sa.Connection]:
        """Begin a transaction by statements, and commit it if the block succeeds."""
        try:
            with self.engine.connect() as connection:
                for statement in begin[connection.dialect.name]:
                    connection.exec_driver_sql(statement)
                yield connection
                connection.commit()
        except sa.exc.DBAPIError as error:
            if re.search("is locked|lock timeout|deadlock", str(error.orig)):
                raise Locked(
                    "another run is writing to the ledger; try again when it has "
                    "finished"
                ) from None
            # Further lines may contain a patient's id: the statement's values, or
            # details that PostgreSQL adds.
            lines = str(error.orig).strip().splitlines()
            first = lines[0] if lines else type(error.orig).__name__
            raise UsageError(self._unusable(first)) from None
        except Unchained as error:
            if error.repair is None:
                raise
            raise Unchained(f"{error}; {self._repairing(error.repair)}") from None

    @property
    def word(self) -> str:
        """The word for the ledger in `command_line`: its file, or the usual variable.

        A URL may contain a password and is not shown.
        """
        return SERVER_LEDGER if self.file is None else str(self.file)

    def _repairing(self, repair: Literal["rebuild", "verify"]) -> str:
        """Return what a person types next, and what for."""
        if repair == "rebuild":
            rebuild_it = command_line("ledger", "rebuild", self.word)
            return f"to make its tables again: {rebuild_it}"
        verify_it = command_line("history", "--ledger", self.word, "--verify")
        return f"to find what was changed: {verify_it}"

    def _unusable(self, fault: str) -> str:
        """Return why the ledger cannot be used, with its file and what to do."""
        if self.file is None:
            return f"the ledger cannot be used: {fault}"
        message = f"the ledger at {self.file} cannot be used: {fault}"
        if "readonly" in fault:
            message += (
                "; let this user write the file and its folder, or run the command as "
                "their owner"
            )
        return message

    def close(self) -> None:
        """Close every connection."""
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
        Path of a SQLite file, `sqlite:///path`, or
        `postgresql+psycopg://user@host/database`.
    make : bool
        Make the file (mode 0600) and the tables if they are missing.
    read_only : bool
        Change nothing; the file need not be writable.
    clock : callable
        Returns the time that an entry is recorded at, as ISO 8601 text in UTC.

    Returns
    -------
    Ledger
        To be closed, or used in a `with` statement.

    Raises
    ------
    UsageError
        If the ledger does not exist or cannot be reached, or if the file is not a
        ledger; such a file is left unchanged.
    ModelError
        If it is of a newer format, or from before the first release.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from screening import open_ledger
    >>> with open_ledger(f"{mkdtemp()}/screening.db", make=True) as ledger:
    ...     ledger.file.name
    'screening.db'
    """
    url = url_of(place)
    file = file_of(place)
    if file is not None:
        ledger = Ledger(_sqlite(file, make, read_only), clock, file)
    else:
        ledger = Ledger(engine_of(url, {"connect_timeout": WAIT_SECONDS}), clock)
    try:
        _check_tables(ledger, make)
    except BaseException:
        ledger.close()
        raise
    return ledger


@contextmanager
def reading_at(place: str | Path) -> Iterator[sa.Connection]:
    """Open the ledger at a path or URL, and read one consistent state of it."""
    with open_ledger(place, read_only=True) as ledger, ledger.reading() as connection:
        yield connection


def file_of(place: str | Path) -> Path | None:
    """Return the file of a ledger at a path or URL; None for a database on a server."""
    url = url_of(place)
    return Path(str(url.database)) if url.drivername == "sqlite" else None


def url_of(place: str | Path) -> sa.URL:
    """Return the URL of a ledger's place; UsageError if none can be there."""
    text = str(place)
    try:
        if "://" in text:
            url = sa.make_url(text)
        else:
            url = sa.URL.create("sqlite", database=text)
    except (sa.exc.ArgumentError, ValueError):
        url = sa.URL.create("none")
    if url.drivername in ("postgresql", "postgres", SERVER):
        return url.set(drivername=SERVER)
    if not _is_of_file(url) or "\0" in text:
        raise UsageError(
            "a ledger is a file or a PostgreSQL database; write its path, "
            f"sqlite:///PATH or {SERVER}://user@host/database"
        )
    return url


def _is_of_file(url: sa.URL) -> bool:
    """Return True if a URL is that of a SQLite file."""
    in_memory = url.database in (None, "", ":memory:")
    return url.drivername == "sqlite" and not (in_memory or url.host or url.query)


def _sqlite(path: Path, make: bool, read_only: bool) -> sa.Engine:
    """Return an engine for a SQLite file.

    UsageError, before the file is changed, if it is not a ledger.
    """
    try:
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        _refuse_other_file(path)
        if not read_only:
            _restrict_mode(path)
        # Opening rolls back what a killed writer left, if the file may be written.
        is_unfinished = os.path.exists(f"{path}-journal") and os.access(path, os.W_OK)
    except OSError as error:
        raise of_system(error, path) from None
    mode = "ro" if read_only and not is_unfinished else "rw"
    # Not as one text: its escapes would be undone, and "#" or "?" end the path.
    place = f"file:{quote(str(path.absolute()))}"
    words = {"mode": mode, "uri": "true"}
    return _file_engine(sa.URL.create("sqlite", database=place, query=words))


@lru_cache(ENGINES_KEPT)
def _file_engine(url: sa.URL) -> sa.Engine:
    """Return the engine of a SQLite file, the same while it is in use."""
    # By default the driver begins a transaction late, and a second writer then fails at
    # once instead of waiting its turn.
    by_hand = {"timeout": WAIT_SECONDS, "isolation_level": None}
    # A file may be replaced by a backup of it: no connection stays open to the old one.
    engine = sa.create_engine(url, connect_args=by_hand, poolclass=sa.NullPool)
    if sys.platform == "darwin":  # pragma: no cover - macOS
        sa.event.listen(engine, "connect", _flush_fully)
    return engine


def _refuse_other_file(path: Path) -> None:
    """Raise UsageError if a file is missing or no ledger; an empty one is allowed."""
    if not path.is_file():
        raise NoLedger(
            f"{path} does not exist; the first `screen run`, or `screen score` with "
            "--ledger, creates the ledger"
        )
    with path.open("rb") as file:
        head = file.read(100)
    is_ledger = int.from_bytes(head[68:72], "big") == APPLICATION
    if head and (head[:16] != b"SQLite format 3\0" or not is_ledger):
        raise UsageError(f"{path} is not a ledger of this program; it was not changed")


def _restrict_mode(path: Path) -> None:
    """Take all rights from others, and from the group unless it may write.

    SQLite gives its side files the same mode.
    """
    status = path.stat()
    allowed = 0o660 if status.st_mode & stat.S_IWGRP else 0o600
    mode = status.st_mode & allowed
    is_own = status.st_uid == os.geteuid()
    if stat.S_IMODE(status.st_mode) != mode and is_own:
        path.chmod(mode)


def _flush_fully(  # pragma: no cover - macOS
    connection: sqlite3.Connection, record: object
) -> None:
    """Let SQLite write through the drive's cache, which fsync on macOS does not."""
    connection.execute("PRAGMA fullfsync = ON")


def _check_tables(ledger: Ledger, make: bool) -> None:
    """Refuse tables of another format; with `make`, fill an empty database."""
    begin = MAKING if make else READING
    with ledger._transaction(begin) as connection:
        if not sa.inspect(connection).has_table(SETTINGS.name):
            if not make:
                raise NoLedger(
                    "the ledger is empty; the first `screen run`, or `screen score` "
                    "with --ledger, fills it"
                )
            TABLES.create_all(connection)
            PROJECTED.create_all(connection)
            connection.execute(
                SETTINGS.insert().values(name="format_version", value=FORMAT_VERSION)
            )
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")
        is_version = SETTINGS.c.name == "format_version"
        version = connection.scalar(sa.select(SETTINGS.c.value).where(is_version))
        has_trail = sa.inspect(connection).has_table(TRAIL.name)
    if version is None or int(version) < int(FORMAT_VERSION) or not has_trail:
        raise ModelError(
            "the ledger was made by a version before the first release; create a new "
            "one"
        )
    if version != FORMAT_VERSION:
        raise ModelError(
            f"the ledger has format {version}, newer than {FORMAT_VERSION}; update"
            " screening"
        )
