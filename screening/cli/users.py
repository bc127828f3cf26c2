"""The user that a command works as: the owner of the ledger, where root runs it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from screening.cli import logs

if TYPE_CHECKING:
    from screening.ledger.database import Ledger


def open_as_owner(place: str) -> Ledger:
    """Open a ledger for writing, as the user who owns its file."""
    from screening.ledger.database import open_ledger

    act_as_owner(place)
    return open_ledger(place)


def act_as_owner(place: str, folder: Path | None = None) -> None:
    """Switch to the owner of a ledger if root runs the command; warn other users.

    Otherwise the nightly run of another user could not replace root's files.

    Parameters
    ----------
    place : str
        Path or URL of the ledger.
    folder : Path, optional
        Directory whose owner counts if the ledger is not a file.
    """
    from screening.ledger.database import file_of

    file = file_of(place)
    places = [folder] if file is None else [file, file.parent, folder]
    owned = [path for path in places if path is not None and path.exists()]
    if not owned:
        return
    user, group = _owner_of(owned[0])
    if user == os.geteuid():
        return
    name = _name_of(user)
    if os.geteuid() != 0:
        me = _name_of(os.geteuid())
        logs.note(f"{owned[0]} belongs to user {name}, and this command runs as {me}")
        return
    logs.note(f"{owned[0]} belongs to user {name}; the command switches to {name}")
    _become(user, group)


def _owner_of(path: Path) -> tuple[int, int]:
    """Return the numbers of a file's owner and group."""
    status = path.stat()
    return status.st_uid, status.st_gid


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _become(user: int, group: int) -> None:
    """Give up root's rights permanently for those of a user.

    `group`: of a user that the host does not know.
    """
    try:
        record = pwd.getpwuid(user)
    except KeyError:
        os.setgroups([group])
        os.setgid(group)
        os.setuid(user)
        return
    os.initgroups(record.pw_name, record.pw_gid)
    os.setgid(record.pw_gid)
    os.setuid(user)
    os.environ |= {
        "HOME": record.pw_dir,
        "USER": record.pw_name,
        "LOGNAME": record.pw_name,
    }
