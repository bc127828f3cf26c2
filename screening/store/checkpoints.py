"""Finished pieces of a result that is not complete yet.

They wait in a folder beside the result, so that a command that was killed can go on
from there.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from screening.errors import ClusterError, ModelError, ScreenError, of_system
from screening.store.arrays import pack, unpack

# Kinds of pieces: of a training or comparison, and of a night.
_KINDS = ("fits", "fragments")


def waiting_in(folder: Path, of: str | None = None) -> list[tuple[Path, Path]]:
    """Return the folders of pieces in a folder, each with the result it belongs to.

    `of` is the name of the result; None for any.
    """
    name = "*" if of is None else glob.escape(of)
    waiting = []
    for kind in _KINDS:
        for path in sorted(folder.glob(f".{name}.{kind}")):
            if path.is_dir() and not path.is_symlink():
                result = path.name[1 : -len(kind) - 1]
                waiting.append((path, folder / result))
    return waiting


@contextmanager
def checkpoints_beside(out: str | Path, kind: str) -> Iterator[Path]:
    """Keep a folder for finished pieces while `out` is not complete.

    It is removed when the ``with`` block has ended well, or if the work was refused,
    since its pieces are then useless. It stays if the command is killed or loses its
    workers.

    Parameters
    ----------
    out : str or Path
        The result.
    kind : {"fits", "fragments"}
    """
    target = Path(out).resolve()
    waiting = target.with_name(f".{target.name}.{kind}")
    try:
        waiting.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise of_system(error, waiting) from error
    try:
        yield waiting
    except ClusterError:
        # Fails if there are pieces, which stay.
        with suppress(OSError):
            waiting.rmdir()
        raise
    except ScreenError:
        shutil.rmtree(waiting, ignore_errors=True)
        raise
    shutil.rmtree(waiting, ignore_errors=True)


def keep_piece(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a piece, which appears whole or not at all.

    Two processes may write it at once, if one was taken for dead: both write the same.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(pack(arrays, compress=False))
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise of_system(error, path) from error


def read_piece(path: Path) -> dict[str, np.ndarray] | None:
    """Read the arrays of a piece; None if it is missing or cannot be read."""
    try:
        return unpack(path.read_bytes())
    except (FileNotFoundError, ModelError):
        return None
