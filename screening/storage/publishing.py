"""Directories that appear whole or not at all, one writer at a time."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from screening.errors import Locked, UsageError

# The first name marks the kind. Anything else in a directory is somebody's own file, and is never swept away.
FILES = {
    "model": ("model.json", "arrays.npz", "validation.parquet", "report.html"),
    "run": ("run.json", "scores.parquet", "flagged.csv", "report.html"),
    "comparison": ("comparison.json", "scores.parquet", "report.html"),
}


@contextmanager
def publish(directory: str | Path, kind: str) -> Iterator[Path]:
    """Give an empty private directory to write in, and move it to `directory` once the block has ended well.

    Parameters
    ----------
    directory : path
        Absent, empty, or an earlier directory of the same kind, which is replaced in one step.
    kind : {"model", "run", "comparison"}

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
    target = Path(directory).resolve()
    check_place(target, kind)
    made = _make_parents(target.parent)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with hold(target):
            # We hold the lock, so whatever lies there is what a killed run left.
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700)
            try:
                yield partial
                _settle(partial)
                check_place(target, kind)
                _replace(partial, target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except BaseException:
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise


def check_place(directory: str | Path, kind: str) -> None:
    """Refuse a place whose content a `kind` directory must not replace."""
    target = Path(directory)
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; give a directory that does not exist yet")
    names = {entry.name for entry in target.iterdir()}
    if not names:
        return
    if FILES[kind][0] not in names:
        raise UsageError(f"{target} is not empty and is no {kind} directory; give another --out")
    strangers = sorted(names.difference(FILES[kind]))
    if strangers:
        raise UsageError(f"{target} also holds {', '.join(strangers)}; move that away or give another --out")


@contextmanager
def hold(directory: str | Path) -> Iterator[None]:
    """Hold the lock of an output directory; raise `Locked` if another process has it."""
    target = Path(directory).resolve()
    path = target.with_name(f".{target.name}.lock")
    try:
        handle = _lock(path)
    except BlockingIOError:
        raise Locked(f"another run is writing {target}; wait for it, or give another --out") from None
    except OSError as error:
        raise UsageError(f"cannot write in {target.parent}: {error.strerror}") from None
    try:
        yield
    finally:
        # Removed while still held: who opened this file meanwhile sees another in its place and tries again.
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Replace one file in one step, keeping it private (0600)."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _lock(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                try:
                    msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                except OSError as error:
                    raise BlockingIOError from error
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _make_parents(folder: Path) -> list[Path]:
    """Create `folder`; return what was created, deepest first."""
    made = []
    while not folder.exists():
        made.append(folder)
        folder = folder.parent
    try:
        for path in reversed(made):
            path.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {made[0]}: {error.strerror}") from None
    return made


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
    elif not _exchange(new, target):
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    _sync(target.parent, os.O_RDONLY)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step (Linux); the earlier one then lies where the new one was."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) == 0
