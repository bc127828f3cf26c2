"""What a command on a ledger may write or delete.

A register alone does not permit this: it may be a copy's, or forged, and then lists
files of another site. Whatever writes, draws again or deletes files of a ledger asks
`Reach`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from screening.ledger.location import ledger_file, original_of, stated_location


@dataclass(frozen=True)
class Reach:
    """The folders that belong to a ledger.

    Parameters
    ----------
    folders : tuple of Path
        The site's folder unless the ledger is a copy, and those that were named.
    original : str, optional
        The site that the ledger is a copy of, in words; None for an original.
    foreign : Path, optional
        The folder of that site, which is never in reach of a copy.
    ledger : Path, optional
        The ledger's own file; neither it nor a file that SQLite keeps beside it is ever
        in reach, whatever the register says.
    """

    folders: tuple[Path, ...] = ()
    original: str | None = None
    foreign: Path | None = None
    ledger: Path | None = None

    def covers(self, place: Path, *, is_directory: bool = False) -> bool:
        """Return True if a place lies in a folder of the ledger.

        `..` or a link on the way leads elsewhere. A directory may itself be a link; a
        link in the place of a file is the file that is written or removed.
        """
        if is_directory:
            target = place.resolve()
        else:
            target = place.parent.resolve() / place.name
        if self.foreign is not None and target.is_relative_to(self.foreign):
            return False
        if self.is_ledger(target):
            return False
        return any(target.is_relative_to(folder) for folder in self.folders)

    def is_ledger(self, place: Path) -> bool:
        """Return True for the ledger's file, its side files and kept earlier ones."""
        if self.ledger is None or place.parent.resolve() != self.ledger.parent:
            return False
        rest = place.name.removeprefix(self.ledger.name)
        return rest != place.name and rest[:1] in ("", "-", ".")

    def covers_copy(self, page: Path) -> bool:
        """Return True if a page may be drawn again that is, byte for byte, a run's.

        Pages of an original may be published anywhere. A copy's register lists pages of
        the original, which have the same bytes.
        """
        return self.original is None or self.covers(page)

    def refusal(self, place: Path) -> str:
        """Return why a place that is not covered is left, and what to do."""
        if self.is_ledger(place):
            return "it is the ledger, or one of its files, so it was not changed"
        if self.original is None:
            return (
                "it is outside the ledger's folder and the named folders, so it was "
                "not changed; name its folder with --runs, --models or --pages"
            )
        return (
            f"this ledger is a copy of {self.original}, and this file is outside the "
            "named folders, so it was not changed; if it belongs to the copy, name its "
            "folder with --runs, --models or --pages"
        )


def reach_of(connection: sa.Connection, named: Iterable[Path | None] = ()) -> Reach:
    """Return what is in reach of a ledger.

    Parameters
    ----------
    connection : Connection
    named : iterable of Path or None
        Folders that the user named. In a copy, a link that leads out of the copy's own
        folder does not name the folder behind it: it was copied with the rest.
    """
    file = ledger_file(connection)
    site = None if file is None else file.parent
    original = original_of(connection)
    folders = []
    for folder in filter(None, named):
        target = folder.resolve()
        is_link_out = (
            site is not None
            and folder.absolute().is_relative_to(site)
            and not target.is_relative_to(site)
        )
        if original is None or not is_link_out:
            folders.append(target)
    if site is not None and original is None:
        folders.append(site)
    foreign = None
    if file is not None and original is not None:
        foreign = Path(str(stated_location(connection))).parent
        # A copy below the original, or above it, has a folder of its own within.
        if site is not None and site.is_relative_to(foreign):
            foreign = None
    return Reach(tuple(folders), original, foreign, file)
