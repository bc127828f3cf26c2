"""Read whole files up to a number of bytes; check permissions; swap directories."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

from screening.errors import Locked, ScreenError, UsageError, of_system

# What tomllib says of a table or a key that is given twice.
TWICE = re.compile("Cannot (declare|overwrite a value)")
# Seconds between two attempts to lock a folder.
_LOCK_INTERVAL = 0.02


def is_utf8(text: str) -> bool:
    """Return False if a text came from bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape_bytes(path: str | Path) -> str:
    """Return a path as text that UTF-8 can write: other bytes of it are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def refuse_other_bytes(path: str | Path) -> None:
    """Refuse a path that is not UTF-8: Parquet files cannot be opened by it."""
    if is_utf8(os.fspath(path)):
        return
    shown = escape_bytes(path)
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise UsageError(
            f"{shown} cannot be used while paths are read as {encoding}: set "
            "LC_ALL=C.UTF-8, or PYTHONUTF8=1"
        )
    raise UsageError(f"{shown} is not UTF-8 and cannot be used; rename it")


def is_private(path: Path) -> bool:
    """Return True if only this user and root can have written or replaced a path."""
    try:
        status = path.stat()
        above = path.parent.stat()
    except OSError:
        return False
    # In a folder like /tmp (the sticky bit) others cannot replace what is not theirs.
    is_sticky = bool(above.st_mode & stat.S_ISVTX)
    may_be_replaced = others_may_write(above) and not is_sticky
    is_ours = status.st_uid in (os.geteuid(), 0)
    return is_ours and not others_may_write(status) and not may_be_replaced


def others_may_write(status: os.stat_result) -> bool:
    """Return True if everybody, or a group that is not this user's own, may write."""
    is_own_group = status.st_gid == os.getegid()
    mask = stat.S_IWOTH if is_own_group else stat.S_IWOTH | stat.S_IWGRP
    return bool(status.st_mode & mask)


def is_hidden(path: Path, top: Path) -> bool:
    """Return True if a path below `top`, or a folder on its way, is hidden."""
    return any(part.startswith(".") for part in path.relative_to(top).parts)


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_beside(path: Path, hash_file: Callable[[Path], str]) -> Callable[[], str]:
    """Begin to hash a file in a thread, and return what waits for its SHA-256.

    Other work of this process goes on meanwhile, and its end does not wait for the
    thread.

    Raises
    ------
    OSError
        By what is returned, if the file cannot be read.
    """
    digest: Future[str] = Future()

    def run() -> None:
        try:
            digest.set_result(hash_file(path))
        except OSError as error:
            digest.set_exception(error)

    Thread(target=run, daemon=True).start()
    return digest.result


def digest_of_json(value: object) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys.

    Other types than those of JSON are converted by `str`.
    """
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, default=str).encode()
    ).hexdigest()


def read_bounded(path: str | Path, most: int, refusal: type[ScreenError]) -> bytes:
    """Content of a regular file.

    `most`: bytes; a larger file is refused unread.
    `refusal`: raised for what is missing, no file, or too large.
    Raises UsageError: the system cannot read it: a permission, a disk.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise refusal(f"{path} is not a regular file")
            if status.st_size > most:
                raise refusal(
                    f"{path} has {status.st_size} bytes, more than the allowed {most}"
                )
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise refusal(f"cannot read {path}: {error.strerror}") from None
    except OSError as error:
        raise of_system(error, path) from error


@contextmanager
def opened_below(folder: Path, *names: str) -> Iterator[int]:
    """Open what lies below a folder; OSError if a link leads there.

    Each name is looked up in the open folder above it, so that no link can take its
    place in between.
    """
    with ExitStack() as opened:
        handle = os.open(folder, os.O_RDONLY)
        opened.callback(os.close, handle)
        for name in names:
            # Do not wait for a pipe without a writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            handle = os.open(name, flags, dir_fd=handle)
            opened.callback(os.close, handle)
        yield handle


def read_below(folder: Path, *names: str, most: int) -> bytes | None:
    """Read a file below a folder; None if it does not exist.

    Links, files above `most` bytes and what is not a file are not read. No folder below
    the first may be a link.
    """
    with suppress(OSError), opened_below(folder, *names) as handle:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size <= most:
            with open(handle, "rb", closefd=False) as file:
                return file.read()
    return None


def discard(file: IO[bytes]) -> None:
    """Close a temporary file, whatever of it could not be written."""
    with suppress(OSError):
        file.close()


@contextmanager
def temporary_folder_named() -> Iterator[None]:
    """Let errors of a temporary file without a name name its folder.

    They have no path, and a caller would take them for those of another disk.
    """
    try:
        yield
    except OSError as error:
        error.filename = f"the temporary folder {tempfile.gettempdir()} (TMPDIR)"
        raise


def read_toml(path: Path, most: int, refusal: type[ScreenError]) -> dict[str, Any]:
    """Read a TOML file of at most `most` bytes.

    `refusal`: raised if it is not a TOML file in UTF-8, or if a key is given twice,
    naming it. UsageError if it does not exist, or the system cannot read it.
    """
    content = read_bounded(path, most, UsageError)
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise refusal(f"{path.name}: tables are nested too deeply") from None
    except UnicodeDecodeError as error:
        raise refusal(
            f"{path.name}: this is not a TOML file in UTF-8 ({error}); save it as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise refusal(
            f"{path.name}: {_fault_of(content.decode('utf-8-sig'), error)}"
        ) from None


def _fault_of(text: str, error: tomllib.TOMLDecodeError) -> str:
    """Return what is wrong with a TOML text, and what to do."""
    if not TWICE.match(str(error)):
        return f"not a TOML file ({error}); correct that line"
    lines = text.splitlines()
    at = re.search(r"at line (\d+)", str(error))
    number = int(at[1]) if at else len(lines)
    line = lines[number - 1].strip()
    above = [other.strip() for other in lines[: number - 1]]
    if line.startswith("["):
        first = f"line {number}"
        if line in above:
            first = f"lines {1 + above.index(line)} and {number}"
        return (
            f"table {line} is given twice ({first}): the one further down does not "
            "replace the first one; keep only one of the two"
        )
    tables = [other for other in above if other.startswith("[")]
    table = tables[-1] if tables else "the first table"
    key = line.partition("=")[0].strip()
    return (
        f"key {key} is given twice in {table} (line {number}); a key pasted"
        " at the end of the file belongs to the last table: move it to its own "
        "table, or keep only one of the two"
    )


@contextmanager
def sole_use(folder: Path, seconds: float) -> Iterator[None]:
    """Keep other processes that ask for it out of a folder inside a ``with`` block.

    Nothing is left in the folder, and the end of a process gives it free.

    Parameters
    ----------
    folder : Path
    seconds : float
        How long another process is waited for.

    Raises
    ------
    Locked
        Another process has had the folder for so long.
    UsageError
        The folder cannot be opened, or its file system has no locks.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise of_system(error, folder) from error
    try:
        _lock(handle, folder, time.monotonic() + seconds)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path, until: float) -> None:
    """Lock an open folder; Locked if that did not succeed until a time."""
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise Locked(f"another process is reading {folder}") from None
            time.sleep(_LOCK_INTERVAL)
        except OSError as error:
            raise of_system(error, folder) from error
        else:
            return


def read_secret(path: Path, most: int) -> bytes:
    """Content of a key: a regular file that only its owner may read.

    Raises UsageError: it cannot be read, is too large, or is open to others.
    """
    content = read_bounded(path, most, UsageError)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"others can read the key {path}; make it private: chmod 600 {path}"
        )
    return content


def exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step (Linux); False if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    cwd = -100  # AT_FDCWD
    swap = 2  # RENAME_EXCHANGE
    return renameat2(cwd, os.fsencode(one), cwd, os.fsencode(other), swap) == 0
