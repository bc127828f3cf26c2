"""Directories that appear whole or not at all, one writer at a time, and pages copied to where readers look.

What is being written is called `.NAME.partial`, and beside it lies `.NAME.screening-lock`. The lock belongs
to the process that holds it: one that can be had is a dead process's, and what lies beside it is swept away.
"""

from __future__ import annotations

import fcntl
import grp
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from screening.errors import Locked, UsageError, of_system
from screening.files import exchange, refuse_other_bytes

# The first name marks the kind. Anything else in a directory is somebody's own file, and is never swept away.
FILES = {
    "model": (
        "model.json",
        "arrays.npz",
        "validation.parquet",
        "report.html",
        "model.sig",
    ),
    "run": ("run.json", "scores.parquet", "flagged.csv", "report.html"),
    "comparison": ("comparison.json", "scores.parquet", "report.html"),
    "validation": ("validation.json", "report.html"),
    "omop": ("cohort_definition.csv", "cohort.csv"),
    # The volumes beside it are called after patients: a folder with such in it is never replaced.
    "volumes": ("volumes.json",),
}
# No other program's locks are called so: what is swept away is our own.
LOCK = "screening-lock"
# Seconds for somebody who only sweeps up to let go of a lock; a writer keeps it for longer.
PATIENCE = 0.3


@dataclass(eq=False)
class _Hold:
    """A target this process works on: its lock, and the parents made for it, deepest first."""

    target: Path
    patience: float = PATIENCE
    made: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Let go by whichever thread ends the process; a lock that is a mere file would outlive a killed one.
        self.lock = FileLock(
            _beside(self.target, LOCK),
            mode=0o600,
            timeout=self.patience,
            thread_local=False,
            fallback_to_soft=False,
        )

    def end(self) -> None:
        """Leave nothing but what was published."""
        if self.lock.is_locked:
            _clear(self.target)
            # Removed while still held: filelock tells whoever opened it meanwhile that it guards nothing.
            with suppress(OSError):
                _beside(self.target, LOCK).unlink()
            self.lock.release()
        for parent in self.made:
            with suppress(OSError):
                parent.rmdir()


_held: list[_Hold] = []


@contextmanager
def publish(directory: str | Path, kind: str) -> Iterator[Path]:
    """Give an empty private directory to write in, and move it to `directory` once the block has ended well.

    `directory`: absent, empty, or an earlier directory of the same kind, which is replaced in one step.
    `kind`: one of "model", "run", "comparison", "validation", "omop", "volumes".
    Gives a directory of mode 0700; its files become 0600. After an error nothing of it is left.
    Raises UsageError: the place cannot be written, or holds something that is not an earlier result.
    Raises Locked: another process is writing there.
    """
    target = _resolved(directory)
    check_place(target, kind)
    with hold(target):
        partial = _beside(target, "partial")
        partial.mkdir(mode=0o700)
        yield partial
        for path in partial.iterdir():
            path.chmod(0o600)
            _sync(path, os.O_RDWR)
        _sync(partial, os.O_RDONLY)
        check_place(target, kind)
        if not target.exists():
            partial.rename(target)
        elif not exchange(partial, target):
            target.rename(_beside(target, "old"))
            partial.rename(target)
        _sync(target.parent, os.O_RDONLY)


def check_place(directory: str | Path, kind: str) -> None:
    """Refuse a place whose content a `kind` directory must not replace."""
    target = Path(directory)
    if os.path.ismount(target):
        raise UsageError(
            f"{target} is a mount point, which cannot be replaced; give a directory in it"
        )
    if _resolved(target).is_symlink():
        raise UsageError(f"{target} is a link that leads back to itself")
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(
            f"{target} is a file; give a directory that does not exist yet"
        )
    # What a killed `screen report` left is replaced with the rest.
    left = {
        _beside(Path(name), ending).name
        for name in FILES[kind]
        for ending in ("partial", LOCK)
    }
    names = {entry.name for entry in target.iterdir()} - left
    if not names:
        return
    if FILES[kind][0] not in names:
        raise UsageError(
            f"{target} is not empty and is no {kind} directory; give another --out"
        )
    strangers = sorted(names.difference(FILES[kind]))
    if strangers:
        raise UsageError(
            f"{target} also holds {', '.join(strangers)}; move that away or give another --out"
        )


@contextmanager
def hold(directory: str | Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of an output; raise `Locked` if another process has it for so many seconds.

    Parents that are missing are made (0700). After an error they are gone again, and so is what was begun.
    """
    refuse_other_bytes(directory)
    hold_of = _Hold(_resolved(directory), patience)
    _held.append(hold_of)
    try:
        _make_parents(hold_of)
        try:
            hold_of.lock.acquire()
        except Timeout:
            message = f"another run is writing {hold_of.target}; wait for it, or give another --out"
            raise Locked(message) from None
        except BaseException:
            # Stopped on the way to it: the file may lie there already, and is removed by who holds it.
            with suppress(OSError):
                hold_of.lock.acquire()
            raise
        # We hold the lock, so whatever lies there is what a killed run left.
        _clear(hold_of.target)
        sweep(hold_of.target.parent)
        yield
        hold_of.made.clear()
    except OSError as error:
        if error.errno is None:
            raise
        raise of_system(error, hold_of.target) from error
    finally:
        hold_of.end()
        _held.remove(hold_of)


def let_go() -> None:
    """End what this process still holds: a signal may have come in the middle of ending it."""
    while _held:
        hold_of = _held.pop()
        with suppress(OSError):
            if not hold_of.lock.is_locked:
                hold_of.lock.acquire()
            hold_of.end()


def write_whole(
    path: Path, content: bytes, mode: int = 0o600, group: int | None = None
) -> None:
    """Replace one file in one step, keeping it private unless others are to read it.

    Raises UsageError: what lies there is no file, or a link, which may lead to anything.
    """
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        what = "a link" if os.path.islink(path) else "no file"
        raise UsageError(
            f"{path} is {what}, so it cannot be replaced; give another place to write"
        )
    target = _resolved(path)
    with hold(target):
        partial = _beside(target, "partial")
        with open(
            os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(content)
            file.flush()
            flush_to_disk(file.fileno())
        if group is not None:
            os.chown(partial, -1, group)
        partial.chmod(mode)
        os.replace(partial, target)
        _sync(target.parent, os.O_RDONLY)


def _resolved(path: str | Path) -> Path:
    # Unlike Path.resolve this does not fail where links lead in a circle; using the path then does.
    return Path(os.path.realpath(path))


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{ending}")


def sweep(folder: Path) -> None:
    """Clean up after dead processes in a folder: their locks can be had."""
    held_here = {_beside(held.target, LOCK) for held in _held}
    for path in set(folder.glob(f".*.{LOCK}")) - held_here:
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                dead = _Hold(path.with_name(path.name[1 : -len(f".{LOCK}")]))
                dead.lock.acquire()
                dead.end()


def _clear(target: Path) -> None:
    """Remove what was begun beside a target."""
    partial, old = _beside(target, "partial"), _beside(target, "old")
    if old.is_dir() and not target.exists():
        # Stopped between the two renames where directories cannot be exchanged: the earlier result stands.
        with suppress(OSError):
            old.rename(target)
    for path in (partial, old):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink()


def _make_parents(hold_of: _Hold) -> None:
    missing, folder = [], hold_of.target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        # Noted first: a signal may come between the two.
        hold_of.made.insert(0, path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            hold_of.made.pop(0)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        flush_to_disk(handle)
    finally:
        os.close(handle)


def flush_to_disk(handle: int) -> None:
    """Make what was written to an open file durable."""
    if sys.platform == "darwin":
        # Here fsync leaves it in the drive's cache. Some network shares know no more.
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


LATEST = "latest.html"
DATED = re.compile(r"\d{4}-\d{2}-\d{2}\.html")
BEGUN = re.compile(rf"\.({DATED.pattern}|{re.escape(LATEST)})\.partial")
PRIVATE = 0o600


@dataclass(frozen=True)
class Readers:
    """Who may read pages besides their owner."""

    mode: int = PRIVATE  # Of the copies; their directories can also be entered by whoever may read.
    group: int | None = None  # Number of the group that the copies get.


@dataclass(frozen=True)
class PageFolder:
    """A directory of pages by night, with a copy of the latest as `latest.html`."""

    directory: Path  # Made where it is missing, with the directories above it.
    readers: Readers

    def prepare(self) -> None:
        """Make the directory, or say that it cannot be used, before the work whose page is to lie there."""
        if self.directory.is_symlink():
            raise UsageError(
                f"{self.directory} is a link; give the directory that it leads to"
            )
        missing = [self.directory, *self.directory.parents]
        for folder in reversed([folder for folder in missing if not folder.exists()]):
            try:
                folder.mkdir(mode=0o700)
                self._let_in(
                    folder, self.readers.mode | (self.readers.mode & 0o444) >> 2
                )
            except OSError as error:
                raise of_system(error, folder) from error
        if not self.directory.is_dir() or not os.access(
            self.directory, os.W_OK | os.X_OK
        ):
            raise UsageError(f"cannot write pages in {self.directory}")
        if (self.directory / LATEST).is_dir() and not (
            self.directory / LATEST
        ).is_symlink():
            raise UsageError(
                f"{self.directory / LATEST} is a directory, and the latest page is called so"
            )

    def show(self, page: bytes, night: str) -> Path:
        """Have the page of a night there, and as `latest.html` unless a later night is there already."""
        sweep(
            self.directory
        )  # where every page stands, a lock alone may have been left
        for begun in filter(
            None, (BEGUN.fullmatch(path.name) for path in self.directory.iterdir())
        ):
            with suppress(Locked), hold(self.directory / begun[1]):
                pass  # what a killed run began is removed by whoever can have its lock
        places = self.places(night)
        for page_path in places:
            if not self._has(page_path, page):
                write_whole(page_path, page, self.readers.mode, self.readers.group)
        return places[0]

    def lacking(self, page: bytes, night: str) -> list[Path]:
        """Places of a night's page where something else lies, or nothing."""
        return [
            page_path
            for page_path in self.places(night)
            if not self._has(page_path, page)
        ]

    def places(self, night: str) -> list[Path]:
        """Where the page of a night is to lie: under its date, and as the latest where none is later."""
        own_page = self.of(night)
        nights = [
            path.name for path in self.directory.iterdir() if DATED.fullmatch(path.name)
        ]
        return (
            [own_page, self.directory / LATEST]
            if all(name <= own_page.name for name in nights)
            else [own_page]
        )

    def _has(self, path: Path, page: bytes) -> bool:
        """Whether a page lies there as its readers are to have it; a link is removed."""
        if path.is_symlink():
            path.unlink()
        as_it_is = (
            path.is_file() and stat.S_IMODE(path.stat().st_mode) == self.readers.mode
        )
        return as_it_is and path.read_bytes() == page

    def of(self, night: str) -> Path:
        """Where the page of a night lies, or would."""
        return self.directory / f"{night}.html"

    def _let_in(self, folder: Path, mode: int) -> None:
        if self.readers.group is not None:
            os.chown(folder, -1, self.readers.group)
        folder.chmod(mode)


def readers(mode: str | None, group: str | None) -> Readers:
    """Read who may see a page: an octal mode such as 0640, and a group's name.

    Raises UsageError: it is no mode for a page (its owner reads and writes, others read at most), or there
    is no such group.
    """
    if mode is not None and not re.fullmatch(r"0?[0-7]{3}", mode):
        raise UsageError(f"mode {mode}: write it in octal, such as 0640")
    number = PRIVATE if mode is None else int(mode, 8)
    if number & PRIVATE != PRIVATE or number & ~(PRIVATE | stat.S_IRGRP | stat.S_IROTH):
        raise UsageError(
            f"mode {mode}: a page is written by its owner alone; give 0600, 0640 or 0644"
        )
    return Readers(number, None if group is None else _group(group))


def _group(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"there is no group '{name}' on this host") from None
