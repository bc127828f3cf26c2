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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa

from screening.errors import Locked, UsageError
from screening.ledger.database import (
    PROJECTED,
    TABLES,
    WAIT_SECONDS,
    file_of,
    open_ledger,
    url_of,
)
from screening.ledger.trail import Head
from screening.ledger.verifying import verify
from screening.store.publishing import replacing

SQLITE_ENDING = "db"
SERVER_ENDING = "dump"
# Written by this program: other files of the folder are never removed.
_BACKUP = re.compile(r"screening-\d{8}T\d{6}Z\.(db|dump)")
# Beside a ledger's file; SQLite would apply an old one to the file that is put back.
_SIDE_FILES = ("-journal", "-wal", "-shm")


def back_up(place: str, folder: Path, keep: int | None = None) -> tuple[Path, Head]:
    """Write a verified backup of a ledger while it may be in use.

    Parameters
    ----------
    place : str
        Path or URL of the ledger.
    folder : Path
        Created (0700) if it is missing.
    keep : int, optional
        Backups to keep in the folder, the newest; older ones are removed.

    Returns
    -------
    backup : Path
        A file of mode 0600, named by the time (UTC).
    head : Head
        End of its trail.

    Raises
    ------
    Unchained
        If the ledger is not as it was written.
    UsageError
        If the folder cannot be written, or `pg_dump` is missing or fails.
    """
    if keep is not None and keep < 1:
        raise UsageError("`keep` is at least 1", parameters=["keep"])
    is_file = file_of(place) is not None
    ending = SQLITE_ENDING if is_file else SERVER_ENDING
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    target = folder / f"screening-{stamp}.{ending}"
    with replacing(target) as partial:
        if is_file:
            head = _copy_file(place, partial)
        else:
            head = _dump(place, partial)
    if keep is not None:
        for old in _backups_in(folder)[keep:]:
            old.unlink()
    return target, head


def restore(backup: Path, place: str) -> tuple[Head, Path | None]:
    """Put a backup in the place of a ledger.

    Parameters
    ----------
    backup : Path
        Written by ``back_up``.
    place : str
        Path or URL of the ledger that it was made of. A ledger's file that is there is
        kept beside it.

    Returns
    -------
    head : Head
        End of the trail.
    kept : Path or None
        The file that was there before.

    Raises
    ------
    Unchained
        If the backup is not as it was written; nothing was changed.
    Locked
        If somebody is writing in the ledger.
    UsageError
        If there is no such backup, or `pg_restore` is missing or fails.
    """
    file = file_of(place)
    if not backup.is_file():
        raise UsageError(f"there is no backup {backup}", parameters=["backup"])
    if file is None:
        _run_client("pg_restore", place, "--clean", "--if-exists", *_ONE, str(backup))
        return _verified(place), None
    with replacing(file) as partial:
        shutil.copyfile(backup, partial)
        head = _verified(str(partial))
        kept = None
        if file.exists():
            with _quiet(file):
                kept = _set_aside(file)
    return head, kept


_ONE = ("--single-transaction", "--exit-on-error", "--no-owner")


def _backups_in(folder: Path) -> list[Path]:
    """Return the backups of a folder, the newest first."""
    backups = [path for path in folder.iterdir() if _BACKUP.fullmatch(path.name)]
    return sorted(backups, key=lambda path: path.stem, reverse=True)


def _copy_file(place: str, target: Path) -> Head:
    """Copy a SQLite ledger by SQLite's own online backup, and verify the copy."""
    with open_ledger(place, read_only=True) as ledger, ledger.reading() as connection:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        copy = sqlite3.connect(target)
        try:
            source.backup(copy)
        finally:
            copy.close()
    return _verified(str(target))


def _dump(place: str, target: Path) -> Head:
    """Dump the tables of a ledger on a server, after they were verified."""
    head = _verified(place)
    with open_ledger(place, read_only=True) as ledger, ledger.reading() as connection:
        schema = connection.scalar(sa.select(sa.func.current_schema()))
    tables = []
    for name in (*TABLES.tables, *PROJECTED.tables):
        tables.append(f'--table="{schema}"."{name}"')
    options = ("--format=custom", "--no-owner", f"--file={target}", *tables)
    _run_client("pg_dump", place, *options)
    return head


def _verified(place: str) -> Head:
    """Return the head of a ledger that is as it was written; raise Unchained else."""
    with open_ledger(place, read_only=True) as ledger, ledger.reading() as connection:
        return verify(connection, None)


@contextmanager
def _quiet(file: Path) -> Iterator[None]:
    """Keep others from writing in a ledger's file; raise Locked if one does now.

    A file that is no database any more has no writer.
    """
    connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        with suppress(sqlite3.DatabaseError):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise Locked(
                    f"another command is writing in {file}; wait for it"
                ) from error
        yield
    finally:
        connection.close()


def _set_aside(file: Path) -> Path:
    """Rename a ledger's file and its side files; return where it is kept."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = file.with_name(f"{file.name}.before-{stamp}")
    os.link(file, kept)
    for ending in _SIDE_FILES:
        side = Path(f"{file}{ending}")
        if side.exists():
            side.rename(f"{kept}{ending}")
    return kept


def _run_client(program: str, place: str, *options: str) -> None:
    """Run a program of PostgreSQL; its password is in the environment, not a word."""
    command = shutil.which(program)
    if command is None:
        raise UsageError(
            f"a ledger on a server needs {program} (Debian: apt-get install "
            "postgresql-client)"
        )
    url = url_of(place)
    address = f"--dbname={_address(url)}"
    ended = subprocess.run(
        [command, address, *options],
        env=os.environ | _secrets(url),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        words = ended.stderr.strip().splitlines()
        reason = words[-1] if words else f"exit {ended.returncode}"
        raise UsageError(f"{program} failed: {reason}")


def _address(url: sa.URL) -> str:
    """Return the URL for libpq, without the password and SQLAlchemy's driver."""
    plain = url.set(drivername="postgresql", password=None)
    return plain.render_as_string(hide_password=False)


def _secrets(url: sa.URL) -> Mapping[str, str]:
    return {} if url.password is None else {"PGPASSWORD": str(url.password)}
