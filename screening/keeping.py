"""What takes long to make and is quick to read again: kept on disk between processes, where there is a place.

Like Python's own compiled files it is code, so it lies where only who may change the package, or the user's
own files, can write: in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_DIGEST = hashlib.sha256().digest_size


def find(name: str, made_from: bytes) -> bytes | None:
    """What was kept of `name` when it was made from the same bytes; None where no place has it whole.

    Parameters
    ----------
    name : str
        A word for the file's name.
    made_from : bytes
        All that the content depends on: other bytes are another file.
    """
    found = (_read(place / _file(name, made_from)) for place in _places())
    return next((content for content in found if content is not None), None)


def keep(name: str, made_from: bytes, content: bytes) -> bool:
    """Keep it for the next process; False where there is no place for it."""
    return any(_written(place, _file(name, made_from), content) for place in _places())


def _file(name: str, made_from: bytes) -> str:
    return f"{name}-{hashlib.sha256(made_from).hexdigest()[:24]}.kept"


def _places() -> Iterator[Path]:
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        yield Path(named)
        return
    yield Path(__file__).parent / "__pycache__"
    folder = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        yield (Path(folder) if folder else Path.home() / ".cache") / "screening"
    except RuntimeError:  # a user without a home
        return


def _read(path: Path) -> bytes | None:
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST], stored[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None


def _written(place: Path, file: str, content: bytes) -> bool:
    beside = place / f"{file}.{os.getpid()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(hashlib.sha256(content).digest() + content)
        os.replace(beside, place / file)
    except OSError:
        return False
    return True
