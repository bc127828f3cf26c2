"""Directories that appear whole or not at all, one writer at a time.

What is being written is called `.NAME.partial`, and beside it lies `.NAME.lock`. The lock belongs to the
process that holds it: a lock that can be had is a dead process's, and what lies beside it is swept away.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from screening.errors import Locked, UsageError, of_system
from screening.files import exchange, refuse_other_bytes

# The first name marks the kind. Anything else in a directory is somebody's own file, and is never swept away.
FILES = {
    "model": ("model.json", "arrays.npz", "validation.parquet", "report.html", "model.sig"),
    "run": ("run.json", "scores.parquet", "flagged.csv", "report.html"),
    "comparison": ("comparison.json", "scores.parquet", "report.html"),
    "omop": ("cohort_definition.csv", "cohort.csv"),
    # The volumes beside it are called after patients: a folder with such in it is never replaced.
    "volumes": ("volumes.json",),
}
# Stands in every lock of ours, so that nobody else's is ever taken for one.
MARK = b"screening\n"


@dataclass(eq=False)
class _Hold:
    """A target this process works on: its lock, and the parents made for it, deepest first."""

    target: Path
    handle: int | None = None
    made: list[Path] = field(default_factory=list)

    def take(self) -> None:
        """Take its lock; BlockingIOError where another process has it."""
        self.handle = _lock(_beside(self.target, "lock"))

    def end(self) -> None:
        """Leave nothing but what was published."""
        if self.handle is not None:
            _clear(self.target)
            # Removed while still held: who opened it meanwhile sees another in its place, and tries again.
            _unlink(_beside(self.target, "lock"))
            os.close(self.handle)
        for parent in self.made:
            with suppress(OSError):
                parent.rmdir()


_held: list[_Hold] = []


@contextmanager
def publish(directory: str | Path, kind: str) -> Iterator[Path]:
    """Give an empty private directory to write in, and move it to `directory` once the block has ended well.

    Parameters
    ----------
    directory : path
        Absent, empty, or an earlier directory of the same kind, which is replaced in one step.
    kind : {"model", "run", "comparison", "omop", "volumes"}

    Yields
    ------
    Path
        Directory of mode 0700; its files become 0600. After an error nothing of it is left.

    Raises
    ------
    UsageError
        The place cannot be written, or holds something that is not an earlier result.
    Locked
        Another process is writing there.
    """
    target = _resolved(directory)
    check_place(target, kind)
    with hold(target):
        sweep(target.parent)
        # We hold the lock, so whatever lies there is what a killed run left.
        _clear(target)
        partial = _beside(target, "partial")
        partial.mkdir(mode=0o700)
        yield partial
        _settle(partial)
        check_place(target, kind)
        _replace(partial, target)


def check_place(directory: str | Path, kind: str) -> None:
    """Refuse a place whose content a `kind` directory must not replace."""
    target = Path(directory)
    if os.path.ismount(target):
        raise UsageError(f"{target} is a mount point, which cannot be replaced; give a directory in it")
    if _resolved(target).is_symlink():
        raise UsageError(f"{target} is a link that leads back to itself")
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; give a directory that does not exist yet")
    # What a killed `screen report` left is replaced with the rest.
    left = {_beside(Path(name), ending).name for name in FILES[kind] for ending in ("partial", "lock")}
    names = {entry.name for entry in target.iterdir()} - left
    if not names:
        return
    if FILES[kind][0] not in names:
        raise UsageError(f"{target} is not empty and is no {kind} directory; give another --out")
    strangers = sorted(names.difference(FILES[kind]))
    if strangers:
        raise UsageError(f"{target} also holds {', '.join(strangers)}; move that away or give another --out")


@contextmanager
def hold(directory: str | Path) -> Iterator[None]:
    """Hold the lock of an output; raise `Locked` if another process has it.

    Parents that are missing are made (0700). After an error they are gone again, and so is what was begun.
    """
    refuse_other_bytes(directory)
    mine = _Hold(_resolved(directory))
    _held.append(mine)
    try:
        _make_parents(mine)
        try:
            mine.take()
        except BlockingIOError:
            words = f"another run is writing {mine.target}; wait for it, or give another --out"
            raise Locked(words) from None
        except BaseException:
            # Stopped on the way to it: the file may lie there without our mark, by which a sweep knows it.
            with suppress(OSError):
                mine.take()
            raise
        yield
        mine.made.clear()
    except OSError as error:
        if error.errno is None:
            raise
        raise of_system(error, mine.target) from error
    finally:
        mine.end()
        _held.remove(mine)


def let_go() -> None:
    """End what this process still holds: a signal may have come in the middle of ending it."""
    while _held:
        mine = _held.pop()
        with suppress(OSError):
            if mine.handle is None:
                mine.take()
            mine.end()


def write_whole(path: Path, content: bytes, mode: int = 0o600, group: int | None = None) -> None:
    """Replace one file in one step, keeping it private unless others are to read it."""
    target = _resolved(path)
    if target.exists() and not target.is_file():
        raise UsageError(f"{path} is no file that can be replaced; give another place to write")
    with hold(target):
        partial = _beside(target, "partial")
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
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


def _lock(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            _take(handle)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                try:
                    os.write(handle, MARK)
                except BaseException:
                    _unlink(path)
                    raise
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _take(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sweep(folder: Path) -> None:
    """Clean up after dead processes in a folder: their locks can be had, and bear our mark."""
    mine = {_beside(each.target, "lock") for each in _held}
    for path in set(folder.glob(".*.lock")) - mine:
        with suppress(OSError):
            if path.is_file() and not path.is_symlink() and _begins(path, MARK):
                dead = _Hold(path.with_name(path.name[1 : -len(".lock")]))
                dead.take()
                dead.end()


def _begins(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


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
        else:
            _unlink(path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _make_parents(mine: _Hold) -> None:
    missing, folder = [], mine.target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        # Noted first: a signal may come between the two.
        mine.made.insert(0, path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            mine.made.pop(0)


def _settle(folder: Path) -> None:
    """Make every file private and durable, and then the directory."""
    for path in folder.iterdir():
        path.chmod(0o600)
        _sync(path, os.O_RDWR)
    _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(new: Path, target: Path) -> None:
    if not target.exists():
        new.rename(target)
    elif not exchange(new, target):
        old = _beside(target, "old")
        target.rename(old)
        new.rename(target)
    _sync(target.parent, os.O_RDONLY)
