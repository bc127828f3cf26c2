"""Directories and files that appear whole or not at all, with one writer at a time.

A result that is being written is called `.NAME.partial`, and beside it lies
`.NAME.screening-lock`. A process keeps the lock while it writes. A lock that can be
acquired is of a dead process, and its partial result is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path

from filelock import FileLock, Timeout

from screening.errors import Locked, UsageError, of_system
from screening.files import digest_of, exchange, refuse_other_bytes

# Files of each kind of directory; the first one marks the kind. Other files are not of
# this program and are never removed.
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
    "omop": ("cohort_definition.csv", "cohort.csv", "changes.csv", "cohort.json"),
    # Volumes are named after patients: a directory with volumes is never replaced.
    "volumes": ("volumes.json",),
}
# Ending of lock files, which no other program uses: ours can be removed safely.
_LOCK = "screening-lock"
# Seconds to wait for a process that only removes what others left; a writer keeps its
# lock for longer.
_PATIENCE = 0.3


@dataclass(eq=False)
class _Hold:
    """A target that this process writes.

    Parameters
    ----------
    target : Path
    patience : float
        Seconds to wait for the lock.
    made : list of Path
        Parents that were created for it, deepest first.
    """

    target: Path
    patience: float = _PATIENCE
    made: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Any thread may end the process and release the lock. A lock that is a mere
        # file (soft) would outlive a process that was killed.
        self.lock = FileLock(
            _beside(self.target, _LOCK),
            mode=0o600,
            timeout=self.patience,
            thread_local=False,
            fallback_to_soft=False,
        )

    def end(self) -> None:
        """Release the lock and remove everything that was not published."""
        if self.lock.is_locked:
            _clear(self.target)
            # Removed while still locked: a process that has opened it meanwhile then
            # learns from filelock that it is not valid.
            with suppress(OSError):
                _beside(self.target, _LOCK).unlink()
            self.lock.release()
        for parent in self.made:
            with suppress(OSError):
                parent.rmdir()


_held: list[_Hold] = []


@contextmanager
def publish(directory: str | Path, kind: str) -> Iterator[Path]:
    """Move a private directory to its place if the ``with`` block raises no exception.

    Parameters
    ----------
    directory : str or Path
        Absent, empty, or an earlier directory of the same kind, which is replaced in
        one step.
    kind : {"model", "run", "comparison", "validation", "omop", "volumes"}

    Yields
    ------
    Path
        An empty directory to write files in. It gets the mode 0700 and its files 0600,
        or the owner, group and mode of what they replace. After an error nothing of it
        is left.

    Raises
    ------
    UsageError
        If the path cannot be written, or contains something that is not an earlier
        result.
    Locked
        If another process is writing there.
    """
    target = _resolved(directory)
    check_replaceable(target, kind)
    with hold(target):
        partial = _beside(target, "partial")
        partial.mkdir(mode=0o700)
        yield partial
        for path in partial.iterdir():
            path.chmod(0o600)
            _sync(path, os.O_RDWR)
        if target.exists():
            _inherit_access(partial, target)
        _sync(partial, os.O_RDONLY)
        check_replaceable(target, kind)
        if not target.exists():
            partial.rename(target)
        elif not exchange(partial, target):
            target.rename(_beside(target, "old"))
            partial.rename(target)
        _sync(target.parent, os.O_RDONLY)


def check_replaceable(directory: str | Path, kind: str) -> None:
    """Raise UsageError if a path must not be replaced by a directory of a kind."""
    target = Path(directory)
    if os.path.ismount(target):
        raise UsageError(
            f"{target} is a mount point, which cannot be replaced; give a directory "
            "inside it"
        )
    if _resolved(target).is_symlink():
        raise UsageError(f"{target} is a link to itself; give another directory")
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(
            f"{target} is a file; give a directory that does not exist yet"
        )
    names = {entry.name for entry in target.iterdir()}
    # What a killed `screen report` left is replaced with the rest.
    for name in FILES[kind]:
        names.discard(_beside(Path(name), "partial").name)
        names.discard(_beside(Path(name), _LOCK).name)
    if not names:
        return
    if FILES[kind][0] not in names:
        raise UsageError(
            f"{target} is not empty and is not a {kind} directory; give another `out`",
            parameters=["out"],
        )
    other_files = sorted(names.difference(FILES[kind]))
    if other_files:
        raise UsageError(
            f"{target} also contains {', '.join(other_files)}; move that away or give "
            "another `out`",
            parameters=["out"],
        )


@contextmanager
def hold(directory: str | Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock of an output inside a ``with`` block.

    Missing parents are created (0700). After an error they are removed again, with
    everything that was begun.

    Parameters
    ----------
    directory : str or Path
    patience : float
        Seconds to wait for another process. ``Locked`` is raised after that.
    """
    refuse_other_bytes(directory)
    held = _Hold(_resolved(directory), patience)
    _held.append(held)
    try:
        _make_parents(held)
        _acquire(held)
        # This process has the lock, so whatever lies there was left by a killed one.
        _clear(held.target)
        sweep(held.target.parent)
        yield
        held.made.clear()
    except OSError as error:
        if error.errno is None:
            raise
        raise of_system(error, held.target) from error
    finally:
        held.end()
        _held.remove(held)


def _acquire(held: _Hold) -> None:
    try:
        held.lock.acquire()
    except Timeout:
        lock_file = Path(held.lock.lock_file)
        if not lock_file.exists():
            # No process has the lock: the file could not be made, and the system says
            # why.
            lock_file.touch(0o600)
            lock_file.unlink()
        raise Locked(
            f"another run is writing {held.target}; wait until it has finished, or "
            "give another `out`",
            parameters=["out"],
        ) from None
    except BaseException:
        # Interrupted: the lock file may exist already, and only its holder removes it.
        with suppress(OSError):
            held.lock.acquire()
        raise


def release_all() -> None:
    """Release all locks of this process, as a signal handler may have to."""
    while _held:
        held = _held.pop()
        with suppress(OSError):
            if not held.lock.is_locked:
                held.lock.acquire()
            held.end()


def _inherit_access(partial: Path, target: Path) -> None:
    """Give a directory the owner, group and mode of the one that it replaces.

    Each file inherits them from the file of the same name; one without a namesake gets
    owner and group of the directory.
    """
    of_folder = target.stat()
    for path in partial.iterdir():
        replaced = target / path.name
        if replaced.is_file():
            status = replaced.stat()
            path.chmod(stat.S_IMODE(status.st_mode))
            _set_owner(path, status)
        else:
            _set_owner(path, of_folder)
    partial.chmod(stat.S_IMODE(of_folder.st_mode))
    _set_owner(partial, of_folder)


def _set_owner(path: Path, status: os.stat_result) -> None:
    """Set owner and group as far as the system allows: only root gives files away."""
    own = path.stat()
    if own.st_uid == status.st_uid and own.st_gid == status.st_gid:
        return
    try:
        os.chown(path, status.st_uid, status.st_gid)
    except PermissionError:
        with suppress(PermissionError):
            os.chown(path, -1, status.st_gid)


@contextmanager
def replacing(
    path: Path, mode: int | None = None, group: int | None = None
) -> Iterator[Path]:
    """Replace one file in one step, once the ``with`` block has ended well.

    The file that it replaces hands on its owner, group and mode.

    Parameters
    ----------
    path : Path
    mode : int, optional
        By default that of the file that is replaced, else private.
    group : int, optional
        Number of the group of the file.

    Yields
    ------
    Path
        An empty private file to write. After an error nothing of it is left.

    Raises
    ------
    UsageError
        If something else than a file is there, or a link, which may lead anywhere.
    """
    is_link = os.path.islink(path)
    if is_link or (os.path.lexists(path) and not os.path.isfile(path)):
        obstacle = "a link" if is_link else "no file"
        raise UsageError(
            f"{path} is {obstacle} and cannot be replaced; give another place to "
            "write to"
        )
    target = _resolved(path)
    with hold(target):
        partial = _beside(target, "partial")
        made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(made)
        yield partial
        _sync(partial, os.O_RDWR)
        replaced = target.stat() if target.exists() else None
        if replaced is not None:
            _set_owner(partial, replaced)
        if group is not None:
            os.chown(partial, -1, group)
        if mode is None:
            mode = 0o600 if replaced is None else stat.S_IMODE(replaced.st_mode)
        partial.chmod(mode)
        os.replace(partial, target)
        _sync(target.parent, os.O_RDONLY)


def write_whole(
    path: Path, content: bytes, mode: int | None = None, group: int | None = None
) -> None:
    """Replace one file in one step by this content, as ``replacing`` does."""
    with replacing(path, mode, group) as partial:
        partial.write_bytes(content)


def _resolved(path: str | Path) -> Path:
    # Unlike Path.resolve this does not fail for circular links; using the path does.
    return Path(os.path.realpath(path))


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{ending}")


def sweep(folder: Path, name: str = "*") -> None:
    """Remove what dead processes left in a folder: their locks can be acquired.

    `name`: only what was to become this file or directory.
    """
    own_locks = {_beside(held.target, _LOCK) for held in _held}
    pattern = name if name == "*" else escape(name)
    for path in set(folder.glob(f".{pattern}.{_LOCK}")) - own_locks:
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                name = path.name[1 : -len(f".{_LOCK}")]
                dead = _Hold(path.with_name(name))
                dead.lock.acquire()
                dead.end()


def _clear(target: Path) -> None:
    """Remove what was begun beside a target."""
    partial = _beside(target, "partial")
    old = _beside(target, "old")
    if old.is_dir() and not target.exists():
        # Interrupted between the two renames, where directories cannot be exchanged:
        # the earlier result is restored.
        with suppress(OSError):
            old.rename(target)
    for path in (partial, old):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink()


def _make_parents(held: _Hold) -> None:
    """Make the missing folders above a target, and note them."""
    missing = []
    folder = held.target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        # Noted first: a signal may come between the two.
        held.made.insert(0, path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            held.made.pop(0)


def _sync(path: Path, flags: int) -> None:
    """Flush a file or directory to disk."""
    handle = os.open(path, flags)
    try:
        flush_to_disk(handle)
    finally:
        os.close(handle)


def flushed_digest(path: Path) -> str:
    """Flush a file to disk before ``publish`` does, and return its SHA-256."""
    _sync(path, os.O_RDONLY)
    return digest_of(path)


def flush_to_disk(handle: int) -> None:
    """Make what was written to an open file durable."""
    if sys.platform == "darwin":
        # fsync leaves it in the drive's cache here. Some network shares know no more.
        with suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)
