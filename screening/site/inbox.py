"""Read the verdicts that clinicians put into a site's folder."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import sqlalchemy as sa

from screening.errors import (
    Locked,
    ModelError,
    ScreenError,
    UsageError,
    VerdictError,
    of_system,
)
from screening.files import read_below, sole_use
from screening.ledger.database import RUNS, Ledger
from screening.ledger.entries import run_id_of
from screening.ledger.location import refuse_copy
from screening.ledger.model_registry import retired
from screening.ledger.verdict_file import (
    DONE,
    MAX_BYTES,
    REFUSED,
    read_verdict_file,
)
from screening.ledger.verdicts import review
from screening.ledger.verifying import refuse_older
from screening.schemas.history import VerdictsRead
from screening.site.site import Network
from screening.spelling import DIGITS, command_line, shown_series
from screening.store.publishing import FILES
from screening.store.serialization import read_run

# For so many seconds, a file that is not JSON may still be incomplete.
SETTLE_SECONDS = 60
# A letterbox has the folder for as long as it writes one file.
LETTERBOX_SECONDS = 30
# Names of files that pages save; other names may contain a patient's.
_SAVED = re.compile(r"verdicts-[\w.-]{1,40}-\d{4}-\d\d-\d\d-[0-9a-f]{12}\.json")
_LOST = (
    "the run directory of its night is missing, so this file stays in the "
    "folder. If the night is one of the last catch_up days, screen run makes "
    "it again and then reads the file; otherwise restore the directory from "
    "a backup"
)
# Longest part of a file's name that is kept where an ending or a number is added.
_MAX_STEM = 100


_LOST_SECTION = (
    "series {series} is not in {file}, and was not retired, so this file stays in the "
    "folder. Put the section back, and the next night reads it; or read it with "
    "{read_it}"
)


class _Waits(UsageError):
    """A file of verdicts has lost its run or series, which may come back."""


def read_inbox(
    network: Network, ledger: Ledger, folder: Path, token: Path | None = None
) -> list[VerdictsRead]:
    """Read every file of verdicts in a folder, each by the run that it names.

    A file that was read is moved to `done` below the folder, one that cannot be used to
    `refused`, with the reason beside it. A file that is still being written is left. So
    is one without its run directory, which a night may make again, or with a series
    that is no longer in NIGHT.toml.

    Parameters
    ----------
    network : Network
    ledger : Ledger
    folder : Path
    token : Path, optional
        Private file with a secret of the reviewer's.

    Returns
    -------
    list of VerdictsRead
        One for each file that was moved or should have been, in the order of names.
        One that is left until what it is about is back is marked as `waits`.

    Raises
    ------
    UsageError
        If the folder cannot be read or written, or is a run or model directory.
    ModelError
        If the ledger is a copy, the folder may be the original's; if it is older than
        the runs, or another, they are not in it. The files stay as they are.
    """
    with ledger.reading() as connection:
        refuse_copy(connection)
    for kind, files in FILES.items():
        if (folder / files[0]).exists():
            raise UsageError(
                f"{folder} is a {kind} directory, not a folder of verdicts"
            )
    if not folder.is_dir():
        raise UsageError(f"folder {folder} does not exist; create it for the verdicts")
    try:
        found = sorted(folder.glob("*.json"))
        for name in (DONE, REFUSED):
            _make_beside(folder, name)
    except OSError as error:
        raise of_system(error, folder) from error
    if found:
        refuse_older(ledger, network.site.runs)
    return list(_read_each(network, ledger, found, token))


def inbox_of_night(network: Network, ledger: Ledger) -> list[VerdictsRead]:
    """Read the files in a site's folder; no error ends the night."""
    folder = network.site.verdicts
    if folder is None:
        return []
    try:
        return read_inbox(network, ledger, folder)
    except UsageError as error:
        return [VerdictsRead(file="folder of verdicts", refused=str(error))]


def _read_each(
    network: Network, ledger: Ledger, files: list[Path], token: Path | None
) -> Iterator[VerdictsRead]:
    """Read files and move them; yield the result of each."""
    for number, file in enumerate(files, start=1):
        name = file.name if _SAVED.fullmatch(file.name) else f"file {number}"
        try:
            with _while_nobody_saves(network, file.parent):
                line = _read_and_move(network, ledger, file, name, token)
        except Locked as error:
            line = VerdictsRead(file=name, refused=str(error), waits=True)
        if line is not None:
            yield line


def _while_nobody_saves(network: Network, folder: Path) -> AbstractContextManager[None]:
    """Return what keeps a letterbox (`screen serve`) from changing a file meanwhile.

    A word that was withdrawn has then not been read, and one that was read cannot be
    withdrawn.
    """
    if network.serve is None:
        return nullcontext()
    return sole_use(folder, LETTERBOX_SECONDS)


def _read_and_move(
    network: Network, ledger: Ledger, file: Path, name: str, token: Path | None
) -> VerdictsRead | None:
    """Read a file and move it; return the result, None if the file does not exist."""
    try:
        if _is_on_its_way(file):
            return None
        line = _read_one(network, ledger, file, name, token)
    except FileNotFoundError:
        return None  # the sender has removed it
    except _Waits as error:
        line = VerdictsRead(file=name, refused=str(error), waits=True)
    except ScreenError as error:
        # Without its path: a file may be called after a patient.
        reason = str(error).replace("\n", "; ").replace(str(file), "it")
        line = VerdictsRead(file=name, refused=reason)
    try:
        if not line.waits:
            _put_away(file, line)
    except OSError as error:
        reason = f"it cannot be moved: {error.strerror}"
        line = VerdictsRead(file=name, refused=reason)
    return line


def _make_beside(folder: Path, name: str) -> None:
    """Make a folder in the folder of verdicts, with the same readers."""
    made = folder / name
    if made.is_dir() and not made.is_symlink():
        return
    made.mkdir(mode=0o700)
    readers = stat.S_IMODE(folder.stat().st_mode) & (stat.S_IRGRP | stat.S_IXGRP)
    made.chmod(stat.S_IMODE(made.stat().st_mode) | readers)


def _is_on_its_way(file: Path) -> bool:
    """Return True if a file is not JSON but was changed a moment ago."""
    status = file.lstat()
    is_recent = time.time() - status.st_mtime < SETTLE_SECONDS
    if not stat.S_ISREG(status.st_mode) or not is_recent:
        return False
    content = read_below(file.parent, file.name, most=MAX_BYTES)
    if content is None:
        return False
    try:
        json.loads(content)
    except ValueError:
        return True
    except RecursionError:
        return False
    return False


def _read_one(
    network: Network, ledger: Ledger, file: Path, name: str, token: Path | None
) -> VerdictsRead:
    """Enter the verdicts of one file; raise ScreenError if they cannot be used."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise VerdictError("it is a link, or not a file")
    run_id = read_verdict_file(file).get("run_id")
    series, night = _run_of(ledger, run_id)
    if series not in network.series:
        # What is refused is moved away.
        is_lost = not DIGITS.fullmatch(series) and not _is_retired(ledger, series)
        place = file if is_lost else "FILE"
        read_it = command_line("review", "RUN", place, "--ledger", ledger.word)
        if is_lost:
            waits = _LOST_SECTION.format(
                series=series, file=network.file.name, read_it=read_it
            )
            raise _Waits(waits)
        raise UsageError(
            f"series {shown_series(series)} is not in {network.file.name}; read it "
            f"with {read_it}"
        )
    out = network.out(series, night)
    try:
        read_run(out)
    except ModelError:
        raise _Waits(_LOST) from None
    outcomes = review(out, file, ledger, series, token)
    line: dict[str, object] = {"file": name, "series": series, "night": night}
    for key in ("verdicts", "new", "changed", "disputed", "superseded"):
        line[key] = outcomes.get(key, 0)
    return VerdictsRead.from_dict(line)


def _is_retired(ledger: Ledger, series: str) -> bool:
    """Return True if a series was closed."""
    with ledger.reading() as connection:
        return series in retired(connection)


def _run_of(ledger: Ledger, run_id: object) -> tuple[str, str]:
    """Return series and night of a run by its id; UsageError if the id is unknown."""
    runs = RUNS.c
    chosen = sa.select(runs.key, runs.series, runs.night).where(~runs.shadow)
    with ledger.reading() as connection:
        rows = connection.execute(chosen).all()
    for row in rows:
        if run_id_of(row.key) == run_id:
            return row.series, row.night
    raise UsageError("the ledger has no run whose page saved it")


def _put_away(file: Path, line: VerdictsRead) -> None:
    """Move a file to `done`, or to `refused` with the reason beside it."""
    if line.refused is None:
        _move(file, DONE)
        return
    moved = _move(file, REFUSED)
    reason = moved.with_name(f"{moved.stem[:_MAX_STEM]}.txt")
    # Other users with access to the folder must not choose which file is overwritten.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(reason, flags, 0o600)
    with open(handle, "w") as words:
        words.write(f"{line.refused}\n")


def _move(file: Path, where: str) -> Path:
    """Move a file into a folder beside it, under a name that is free there."""
    target = file.parent / where / file.name
    number = 2
    while target.exists() or target.is_symlink():
        target = target.with_name(f"{file.stem[:_MAX_STEM]}.{number}{file.suffix}")
        number += 1
    return file.rename(target)
