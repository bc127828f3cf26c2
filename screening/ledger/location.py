"""The location of a ledger, and the check that it is the original, not a copy.

The digest of the first entry is the identity of a site. That entry also states the
ledger's location. An entry of kind `relocate` states a new location. A ledger at any
other location is a copy: nights entered there would be missing from the original, and
files that its register lists may belong to the original.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from screening.errors import ModelError
from screening.ledger import trail
from screening.ledger.database import PARTS, TRAIL, file_of, reading_at
from screening.ledger.trail import Part
from screening.spelling import SERVER_LEDGER, command_line

# Kind of the entry that a site was relocated.
RELOCATE = "relocate"
LOCATION = "location"
# Digits of a site's identity in messages.
N_SHOWN_DIGITS = 12


def ledger_file(connection: sa.Connection) -> Path | None:
    """Return the file of a ledger; None for a ledger on a server."""
    if connection.dialect.name != "sqlite":
        return None
    main = connection.exec_driver_sql("PRAGMA database_list").first()
    assert main is not None, "a connection has a main database"
    return Path(main.file).resolve()


def ledger_word(connection: sa.Connection) -> str:
    """Return the word for a ledger in `command_line`: its file, or the usual variable.

    A URL may contain a password and is not shown.
    """
    file = ledger_file(connection)
    return SERVER_LEDGER if file is None else str(file)


def location_part(connection: sa.Connection) -> Part:
    """Return the part of an entry that states the ledger's current location."""
    return Part(LOCATION, facts=_location(connection))


def original_of(connection: sa.Connection) -> str | None:
    """Describe the original that a ledger is a copy of; None for an original.

    The description is such as "site 0123456789ab, with the original at
    /data/ledger.db". A ledger without a location in its trail is an original.
    """
    stated = stated_location(connection)
    here = _location(connection)
    if stated in (None, here):
        return None
    file = ledger_file(connection)
    # A link, or another name of the same folder.
    if file is not None and os.path.exists(stated) and os.path.samefile(stated, file):
        return None
    identity = trail.head(connection, 1).digest[:N_SHOWN_DIGITS]
    return f"site {identity}, with the original at {stated}"


def refuse_copy(connection: sa.Connection) -> None:
    """Raise ModelError if a ledger is a copy of another site's."""
    original = original_of(connection)
    if original is not None:
        place = ledger_word(connection)
        moved = command_line("ledger", "moved", place, "--reason", "WHY")
        raise ModelError(
            f"this ledger is a copy of {original}, now at {_location(connection)}: "
            "use the original. If the site was moved here, or this copy replaces it: "
            f"{moved}"
        )


def refuse_copy_at(place: str) -> None:
    """Raise ModelError if the ledger at a place is a copy of another site's.

    For commands that touch folders of the site before they enter anything. Only a file
    that exists can be a copy.
    """
    file = file_of(place)
    if file is None or not file.exists():
        return
    with reading_at(place) as connection:
        refuse_copy(connection)


def _location(connection: sa.Connection) -> str:
    """Return a ledger's location: its file, or its database and schema on PostgreSQL.

    The host is not part of it: one server may have several names.
    """
    file = ledger_file(connection)
    if file is not None:
        return str(file)
    names = sa.select(sa.func.current_database(), sa.func.current_schema())
    database, schema = connection.execute(names).one()
    return f"database {database}, schema {schema}"


def stated_location(connection: sa.Connection) -> str | None:
    """Return the location in the newest entry that states one; None without any."""
    is_stating = (TRAIL.c.number == 1) | (TRAIL.c.kind == RELOCATE)
    entries = sa.select(TRAIL.c.number).where(is_stating)
    locations = (
        sa.select(PARTS)
        .where(PARTS.c.entry.in_(entries), PARTS.c.what == LOCATION)
        .order_by(PARTS.c.entry.desc())
        .limit(1)
    )
    row = connection.execute(locations).first()
    return None if row is None else str(trail.part_in(row).facts)
