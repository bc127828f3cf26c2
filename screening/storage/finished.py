"""Finished pieces of work that is not finished as a whole, so that a killed command goes on where it was.

They lie in a private folder beside the output, a file a piece, whichever process wrote it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from uuid import uuid4

import numpy as np

from screening.errors import ModelError, of_system
from screening.storage.arrays import pack, unpack


def place_beside(out: str | Path, what: str) -> Path:
    """Where finished pieces wait while `out` is not whole."""
    target = Path(out).resolve()
    return target.with_name(f".{target.name}.{what}")


def open_place(folder: Path) -> None:
    """Make the folder (0700) where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise of_system(error, folder) from error


def sweep_place(folder: Path, names: Collection[str]) -> None:
    """Remove what belongs to other work than that of these names."""
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink(missing_ok=True)


def clear_place(folder: Path) -> None:
    """Remove the folder: the work is whole, or nothing in it can be used."""
    shutil.rmtree(folder, ignore_errors=True)


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
