"""Copies of nights' pages in a folder where readers look."""

from __future__ import annotations

import grp
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from screening.errors import Locked, UsageError, of_system
from screening.store.publishing import hold, sweep, write_whole

LATEST = "latest.html"
"""Name of the copy of the latest page."""
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}\.html")
_PARTIAL = re.compile(rf"\.({_DATED.pattern}|{re.escape(LATEST)})\.partial")
# Mode of a page that only its owner may read.
_PRIVATE = 0o600
# Bits that let everybody read, and the distance to those that let them enter a folder.
_READ_BITS = 0o444
_READ_TO_ENTER = 2


@dataclass(frozen=True)
class Readers:
    """Mode and group of pages for readers other than their owner.

    Parameters
    ----------
    mode : int
        Mode of the pages; their readers may also enter their folders.
    group : int, optional
        Number of the group of the pages.
    """

    mode: int = _PRIVATE
    group: int | None = None

    @property
    def folder_mode(self) -> int:
        """Mode of a folder of pages, in addition to the owner's write permission."""
        return self.mode | (self.mode & _READ_BITS) >> _READ_TO_ENTER


@dataclass(frozen=True)
class PageFolder:
    """A folder of pages by night, with a copy of the latest as `latest.html`.

    Parameters
    ----------
    directory : Path
        Created if it is missing, with its parents.
    readers : Readers
    """

    directory: Path
    readers: Readers

    def prepare(self) -> None:
        """Create the folder before the night is scored.

        UsageError if it cannot be used.
        """
        if self.directory.is_symlink():
            raise UsageError(
                f"{self.directory} is a link; give the directory that it points to"
            )
        folders = [self.directory, *self.directory.parents]
        missing = [folder for folder in folders if not folder.exists()]
        for folder in reversed(missing):
            try:
                folder.mkdir(mode=0o700)
                self._set_access(folder)
            except OSError as error:
                raise of_system(error, folder) from error
        is_writable = os.access(self.directory, os.W_OK | os.X_OK)
        if not self.directory.is_dir() or not is_writable:
            raise UsageError(f"cannot write pages to {self.directory}")
        latest = self.directory / LATEST
        if latest.is_dir() and not latest.is_symlink():
            raise UsageError(
                f"{latest} is a directory, but it is the name of the latest page; "
                "move it away"
            )

    def show(self, page: bytes, night: str) -> Path:
        """Write the page of a night, and as `latest.html` unless a later one is there.

        Returns the path of the page.
        """
        # If every page is there already, a killed run may have left only a lock.
        sweep(self.directory)
        for path in self.directory.iterdir():
            partial = _PARTIAL.fullmatch(path.name)
            if partial:
                # Acquiring the lock removes what a killed run began.
                with suppress(Locked), hold(self.directory / partial[1]):
                    pass
        paths = self.paths(night)
        for path in paths:
            if not self._has(path, page):
                write_whole(path, page, self.readers.mode, self.readers.group)
        return paths[0]

    def outdated(self, page: bytes, night: str) -> list[Path]:
        """Return the paths of a night's page without this content."""
        return [path for path in self.paths(night) if not self._has(path, page)]

    def paths(self, night: str) -> list[Path]:
        """Return the paths of a night's page: dated, and latest if none is later."""
        dated = self.path_of(night)
        names = [path.name for path in self.directory.iterdir()]
        nights = [name for name in names if _DATED.fullmatch(name)]
        if all(name <= dated.name for name in nights):
            return [dated, self.directory / LATEST]
        return [dated]

    def _has(self, path: Path, page: bytes) -> bool:
        """Return True if a path has this page with its mode; links are removed."""
        if path.is_symlink():
            path.unlink()
        if not path.is_file():
            return False
        mode = stat.S_IMODE(path.stat().st_mode)
        return mode == self.readers.mode and path.read_bytes() == page

    def path_of(self, night: str) -> Path:
        """Return the path of a night's dated page, which need not exist."""
        return self.directory / f"{night}.html"

    def _set_access(self, folder: Path) -> None:
        if self.readers.group is not None:
            os.chown(folder, -1, self.readers.group)
        folder.chmod(self.readers.folder_mode)


def parse_readers(mode: str | None, group: str | None) -> Readers:
    """Parse who may read a page.

    Parameters
    ----------
    mode : str, optional
        Octal, such as 0640.
    group : str, optional
        Name of a group.

    Raises
    ------
    UsageError
        If it is not a mode of a page (its owner reads and writes, others read at most),
        or if the group does not exist.
    """
    if mode is not None and not re.fullmatch(r"0?[0-7]{3}", mode):
        raise UsageError(f"mode {mode}: write it in octal, such as 0640")
    number = _PRIVATE if mode is None else int(mode, 8)
    allowed = _PRIVATE | stat.S_IRGRP | stat.S_IROTH
    if number & _PRIVATE != _PRIVATE or number & ~allowed:
        raise UsageError(
            f"mode {mode}: only its owner may write a page; give 0600, 0640 or 0644"
        )
    group_number = None if group is None else _group_number(group)
    return Readers(number, group_number)


def _group_number(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"group '{name}' does not exist on this host") from None
