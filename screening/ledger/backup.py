"""Dated backups of a ledger, and putting one back.

A backup is one private file: a SQLite file, or what `pg_dump` writes of the ledger's
tables. It is verified before it appears.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from screening.errors import Locked, ModelError, ScreenError, UsageError
from screening.io.connections import engine_of
from screening.ledger.database import (
    PROJECTED,
    TABLES,
    WAIT_SECONDS,
    file_of,
    open_ledger,
    reading_at,
    url_of,
)
from screening.ledger.location import N_SHOWN_DIGITS, original_of
from screening.ledger.trail import Head
from screening.ledger.trail import head as trail_head
from screening.ledger.verifying import verify
from screening.store.publishing import replacing

SQLITE_ENDING = "db"
SERVER_ENDING = "dump"
# Beside a ledger's file; SQLite would apply an old one to the file that is put back.
_SIDE_FILES = ("-journal", "-wal", "-shm")
IN_USE = "another command is using the ledger; wait until it has finished"
_OF_DUMP = ("--single-transaction", "--exit-on-error", "--no-owner")


def back_up(place: str, folder: Path, keep: int | None = None) -> tuple[Path, Head]:
    """Write a verified backup of a ledger while it may be in use.

    Parameters
    ----------
    place : str
        Path or URL of the ledger.
    folder : Path
        Created (0700) if it is missing.
    keep : int, optional
        Backups of this ledger to keep in the folder, this one and the newest others;
        older ones are removed.

    Returns
    -------
    backup : Path
        A file of mode 0600, named by the ledger's identity and the time (UTC).
    head : Head
        End of its trail.

    Raises
    ------
    Unchained
        If the ledger is not as it was written.
    UsageError
        If the folder cannot be written, `pg_dump` is missing or fails, or `keep` is
        given for a copy of another site's ledger.
    Locked
        If another command keeps a ledger on a server locked.
    """
    if keep is not None and keep < 1:
        raise UsageError("`keep` must be 1 or more", parameters=["keep"])
    if keep is not None:
        _refuse_keep_in_copy(place, folder)
    is_file = file_of(place) is not None
    ending = SQLITE_ENDING if is_file else SERVER_ENDING
    identity = _identity(place)
    target = folder / f"screening-{identity}-{_stamp()}.{ending}"
    with replacing(target) as partial:
        if is_file:
            _copy_file(place, partial)
            head = _verified(str(partial))
        else:
            head = _verified(place)
            _dump(place, partial)
    if keep is not None:
        for old in _others_of(target, identity)[keep - 1 :]:
            old.unlink()
    return target, head


def _refuse_keep_in_copy(place: str, folder: Path) -> None:
    """Raise UsageError if a ledger is a copy: its original names backups alike."""
    with reading_at(place) as connection:
        original = original_of(connection)
    if original is not None:
        raise UsageError(
            f"this ledger is a copy of {original}, and the backups in {folder} may "
            "belong to the original; leave out `keep`",
            parameters=["keep"],
        )


def restore(backup: Path, place: str) -> tuple[Head, Path | None]:
    """Put a backup in the place of a ledger.

    Parameters
    ----------
    backup : Path
        Written by ``back_up``.
    place : str
        Path or URL of the ledger that it was made of.

    Returns
    -------
    head : Head
        End of the trail.
    kept : Path or None
        What was there before: the ledger's file under another name, or of a ledger on a
        server a dump beside the backup.

    Raises
    ------
    Unchained
        If the backup is not as it was written; the ledger is as it was.
    Locked
        If another process is writing in the ledger.
    UsageError
        If the backup does not exist or is of another site than the ledger there, or if
        `pg_restore` is missing or fails.
    """
    if not backup.is_file():
        raise UsageError(f"file {backup} does not exist", parameters=["backup"])
    file = file_of(place)
    if file is None:
        return _restore_on_server(backup, place)
    with replacing(file) as partial:
        shutil.copyfile(backup, partial)
        try:
            head = _verified(str(partial))
        except ScreenError as error:
            reason = str(error).replace(str(partial), "it")
            raise type(error)(f"backup {backup}: {reason}") from None
        _refuse_other_site(backup, _identity(str(partial)), _identity_if_whole(place))
        kept = None
        if file.exists():
            with _quiet(file):
                kept = _set_aside(file)
    return head, kept


def _restore_on_server(backup: Path, place: str) -> tuple[Head, Path | None]:
    """Restore a dump; put back what was there before if the dump is not verified."""
    _refuse_other_dump(backup, place)
    kept = None
    before = _identity_if_whole(place)
    if _has_ledger(place):
        kept = backup.with_name(f"before-{_stamp()}.{SERVER_ENDING}")
        with replacing(kept) as partial:
            _dump(place, partial)
    _refuse_while_used(place)
    try:
        _run_client("pg_restore", place, "--clean", "--if-exists", *_OF_DUMP, backup)
        head = _verified(place)
        _refuse_other_site(backup, _identity(place), before)
    except ScreenError:
        if kept is not None:
            _run_client("pg_restore", place, "--clean", "--if-exists", *_OF_DUMP, kept)
        raise
    return head, kept


def _refuse_while_used(place: str) -> None:
    """Raise Locked if another command uses the tables of a ledger on a server.

    `pg_restore` itself waits for them without a limit.
    """
    engine = engine_of(url_of(place), {"connect_timeout": WAIT_SECONDS})
    try:
        with engine.begin() as connection:
            there = set(sa.inspect(connection).get_table_names())
            tables = sorted(there & {*TABLES.tables, *PROJECTED.tables})
            limit = f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"
            connection.exec_driver_sql(limit)
            for table in tables:
                lock = f'LOCK TABLE "{table}" IN ACCESS EXCLUSIVE MODE'
                connection.exec_driver_sql(lock)
    except sa.exc.OperationalError as error:
        if "lock timeout" not in str(error.orig):
            raise  # pragma: no cover - the server stops in this moment
        raise Locked(IN_USE) from None
    finally:
        engine.dispose()


def n_entries(place: str) -> int:
    """Return the number of entries of a ledger; 0 if none can be read."""
    try:
        with reading_at(place) as connection:
            return trail_head(connection).number
    except ScreenError:
        return 0


def _refuse_other_site(backup: Path, identity: str, before: str | None) -> None:
    """Raise UsageError if a backup is not of the ledger that it would replace."""
    if before is not None and identity != before:
        raise UsageError(
            f"backup {backup} belongs to site {identity}, but the ledger there "
            f"belongs to site {before}; move that ledger away if you do not need it"
        )


def _identity_if_whole(place: str) -> str | None:
    """Return the identity of a ledger; None if it cannot be read."""
    try:
        return _identity(place)
    except ScreenError:
        return None


def _stamp() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


def _identity(place: str) -> str:
    """Return the first digits of a ledger's first entry, which identify it."""
    with reading_at(place) as connection:
        return trail_head(connection, 1).digest[:N_SHOWN_DIGITS]


def _others_of(backup: Path, identity: str) -> list[Path]:
    """Return the other backups of a ledger in a folder, the newest first."""
    name = re.compile(rf"screening-{identity}-\d{{8}}T\d{{6}}Z\.(db|dump)")
    others = []
    for path in backup.parent.iterdir():
        is_backup = path.is_file() and name.fullmatch(path.name)
        if is_backup and path.name != backup.name:
            others.append(path)
    return sorted(others, key=lambda path: path.stem, reverse=True)


def _copy_file(place: str, target: Path) -> None:
    """Copy a SQLite ledger by SQLite's own online backup."""
    with reading_at(place) as connection:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        copy = sqlite3.connect(target)
        try:
            source.backup(copy)
        except sqlite3.Error as error:
            raise UsageError(
                f"cannot write a backup to {target.parent}: {error}"
            ) from None
        finally:
            copy.close()


def _dump(place: str, target: Path) -> None:
    """Dump the tables of a ledger on a server."""
    schema = _schema_of(place)
    tables = [
        f'--table="{schema}"."{name}"' for name in (*TABLES.tables, *PROJECTED.tables)
    ]
    wait = f"--lock-wait-timeout={WAIT_SECONDS}s"
    options = ("--format=custom", "--no-owner", wait, f"--file={target}", *tables)
    _run_client("pg_dump", place, *options)


def _schema_of(place: str) -> str:
    """Return the schema that a ledger's URL leads to; UsageError if it is missing."""
    engine = engine_of(url_of(place), {"connect_timeout": WAIT_SECONDS})
    try:
        with engine.connect() as connection:
            schema = connection.scalar(sa.select(sa.func.current_schema()))
    except sa.exc.DBAPIError as error:
        first = str(error.orig).strip().splitlines()[0]
        raise UsageError(f"the ledger cannot be used: {first}") from None
    finally:
        engine.dispose()
    if schema is None:
        raise UsageError(
            "the schema named in the ledger's URL does not exist; create it first"
        )
    return str(schema)


def _has_ledger(place: str) -> bool:
    """Return True if a ledger, whole or not, is at a place."""
    try:
        open_ledger(place, read_only=True).close()
    except UsageError:
        return False
    except ModelError:
        # It exists but cannot be used: its content is kept all the same.
        return True
    return True


def _refuse_other_dump(backup: Path, place: str) -> None:
    """Raise UsageError for a dump of other tables, or of another schema.

    `pg_restore` replaces the tables of the schema that was dumped, wherever the ledger
    is: those of an original, if a dump of it were restored for a copy.
    """
    listing = _run_client("pg_restore", None, "--list", backup)
    found = re.findall(r" TABLE (?:DATA )?(\S+) (\S+) ", listing)
    tables = {table for _, table in found}
    if not tables or tables - {*TABLES.tables, *PROJECTED.tables}:
        raise UsageError(f"{backup} is not a backup of a ledger; nothing was changed")
    schemas = {name for name, _ in found}
    schema = _schema_of(place)
    if schemas != {schema}:
        raise UsageError(
            f"{backup} belongs to the schema {', '.join(sorted(schemas))}, but the "
            f"ledger's URL names {schema}; nothing was changed. Restore it into a "
            "database with that schema"
        )


def _verified(place: str) -> Head:
    """Return the head of a ledger that is as it was written; raise Unchained else."""
    with reading_at(place) as connection:
        return verify(connection, None)


@contextmanager
def _quiet(file: Path) -> Iterator[None]:
    """Keep others from writing in a ledger's file; raise Locked if one does now.

    A file that is no longer a database has no writer.
    """
    connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        with suppress(sqlite3.DatabaseError):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise Locked(
                    f"another command is writing to {file}; wait until it has finished"
                ) from error
        yield
    finally:
        connection.close()


def _set_aside(file: Path) -> Path:
    """Rename a ledger's file and its side files; return where it is kept."""
    kept = file.with_name(f"{file.name}.before-{_stamp()}")
    os.link(file, kept)
    for ending in _SIDE_FILES:
        side = Path(f"{file}{ending}")
        if side.exists():
            side.rename(f"{kept}{ending}")
    return kept


def _run_client(program: str, place: str | None, *options: str | Path) -> str:
    """Run a program of PostgreSQL, and return what it prints.

    Its password is in the environment, and no word of the command. Without a place it
    connects to no server.
    """
    command = shutil.which(program)
    if command is None:
        raise UsageError(
            f"a ledger on a server needs {program} (Debian: apt-get install "
            "postgresql-client)"
        )
    arguments = [command, *map(str, options)]
    environment = dict(os.environ)
    if place is not None:
        url = url_of(place)
        arguments.insert(1, f"--dbname={_connection_words(url)}")
        if url.password is not None:
            environment["PGPASSWORD"] = str(url.password)
    ended = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        if any("canceling statement due to" in line for line in lines):
            raise Locked(IN_USE)
        reason = lines[-1] if lines else f"exit {ended.returncode}"
        raise UsageError(f"{program} failed: {reason}")
    return ended.stdout


def _connection_words(url: sa.URL) -> str:
    """Return libpq's connection string without the password.

    A URL would not do: in it, libpq does not decode "+" as a blank.
    """
    from psycopg.conninfo import make_conninfo

    _, words = url.get_dialect()().create_connect_args(url)
    words.pop("password", None)
    return make_conninfo("", **words)
