"""Finished pieces of work that is not finished as a whole, so that a killed command goes on where it was.

They lie in a private folder beside the output, a file a piece, whichever process wrote it.
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
from screening.store.serialization import pack, unpack

# What pieces there are: of a training or comparison, of a night.
KINDS = ("fits", "fragments")


def waiting_in(folder: Path, of: str | None = None) -> list[tuple[Path, Path]]:
    """Every place of pieces in a folder, with the output they wait for: of any, or of this name."""
    name = "*" if of is None else glob.escape(of)
    return [
        (place, folder / place.name[1 : -len(kind) - 1])
        for kind in KINDS
        for place in sorted(folder.glob(f".{name}.{kind}"))
        if place.is_dir() and not place.is_symlink()
    ]


@contextmanager
def waiting_beside(out: str | Path, what: str) -> Iterator[Path]:
    """A folder where finished pieces wait while `out` is not whole.

    It is gone once the block has ended well, or the work was refused: then its pieces are of no use. Where
    the command is killed, or loses its workers, it stays.
    """
    target = Path(out).resolve()
    place = target.with_name(f".{target.name}.{what}")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise of_system(error, place) from error
    try:
        yield place
    except ClusterError:
        with suppress(OSError):
            place.rmdir()  # nothing was finished
        raise
    except ScreenError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)


def keep(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a piece; it appears whole or not at all.

    Two processes may write it at once, where one was taken for dead: both write the same.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pack(arrays, as_they_are=True))
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise of_system(error, path) from error


def take(path: Path) -> dict[str, np.ndarray] | None:
    """A piece that is whole; None where there is none that can be read."""
    try:
        return unpack(path.read_bytes())
    except (FileNotFoundError, ModelError):
        return None
