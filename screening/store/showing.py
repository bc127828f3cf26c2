"""A page copied to where its readers look: whole, with their group and mode, the latest last.

What lies in its place is replaced, a link too, and nothing is followed.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from screening.errors import Locked, UsageError, of_system
from screening.store.publishing import hold, write_whole

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
            raise UsageError(f"{self.directory} is a link; give the directory that it leads to")
        missing = [self.directory, *self.directory.parents]
        for folder in reversed([each for each in missing if not each.exists()]):
            try:
                folder.mkdir(mode=0o700)
                self._let_in(folder, self.readers.mode | (self.readers.mode & 0o444) >> 2)
            except OSError as error:
                raise of_system(error, folder) from error
        if not self.directory.is_dir() or not os.access(self.directory, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write pages in {self.directory}")
        if (self.directory / LATEST).is_dir() and not (self.directory / LATEST).is_symlink():
            raise UsageError(f"{self.directory / LATEST} is a directory, and the latest page is called so")

    def show(self, page: bytes, night: str) -> Path:
        """Have the page of a night there, and as `latest.html` unless a later night is there already."""
        for begun in filter(None, (BEGUN.fullmatch(path.name) for path in self.directory.iterdir())):
            with suppress(Locked), hold(self.directory / begun[1]):
                pass  # what a killed run began is removed by whoever can have its lock
        places = self.places(night)
        for place in places:
            if not self._has(place, page):
                write_whole(place, page, self.readers.mode, self.readers.group)
        return places[0]

    def lacking(self, page: bytes, night: str) -> list[Path]:
        """Places of a night's page where something else lies, or nothing."""
        return [place for place in self.places(night) if not self._has(place, page)]

    def places(self, night: str) -> list[Path]:
        """Where the page of a night is to lie: under its date, and as the latest where none is later."""
        mine = self.of(night)
        nights = [path.name for path in self.directory.iterdir() if DATED.fullmatch(path.name)]
        return [mine, self.directory / LATEST] if all(name <= mine.name for name in nights) else [mine]

    def _has(self, path: Path, page: bytes) -> bool:
        """Whether a page lies there as its readers are to have it; a link is removed."""
        if path.is_symlink():
            path.unlink()
        as_it_is = path.is_file() and stat.S_IMODE(path.stat().st_mode) == self.readers.mode
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
        raise UsageError(f"mode {mode}: a page is written by its owner alone; give 0600, 0640 or 0644")
    return Readers(number, None if group is None else _group(group))


def _group(name: str) -> int:
    try:
        from grp import getgrnam

        return getgrnam(name).gr_gid
    except ImportError:
        raise UsageError("groups of files are not known on this system; leave the group out") from None
    except KeyError:
        raise UsageError(f"there is no group '{name}' on this host") from None
