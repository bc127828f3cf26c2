"""What was handed out: every file with a patient's name written beside the ledger, by place and digest.

A place stands in the register until an entry says that what lay there is gone; of several
entries on a place the last one holds. Files are entered before they appear, so that one is
known rather than missed. What lies below the folder of a ledger file is written relative to
it: a copy of the whole site names its own files, and never those of the original.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from screening.errors import UsageError
from screening.files import digest_of
from screening.ledger.database import ARTEFACTS, CASES, RUNS, Ledger
from screening.ledger.entries import STAND_IN, Artefact, append
from screening.ledger.trail import Part, reason_of, text_part


def site_folder(connection: sa.Connection) -> Path | None:
    """Return the folder of a ledger file; None for a ledger on a server."""
    if connection.dialect.name != "sqlite":
        return None
    databases = connection.exec_driver_sql("PRAGMA database_list")
    (file,) = [database.file for database in databases if database.name == "main"]
    return Path(file).resolve().parent


def _written_place(artefact: Artefact, site: Path | None) -> str:
    """Return a place as the register has it: relative to the site if it lies there."""
    place = artefact.place
    # The place of a table is no path.
    if site is None or artefact.what == "table" or not place.is_relative_to(site):
        return str(place)
    return str(place.relative_to(site))


def _read_artefact(row: Mapping[str, Any], site: Path | None) -> Artefact:
    """Return an artefact of the register with its place on this host."""
    artefact = Artefact(**row)
    if site is None or artefact.what == "table":
        return artefact
    return artefact.replace(place=site / artefact.place)


def state_of(artefact: Artefact) -> str:
    """What lies there now: "as written", "altered", "missing", or "unreachable" with all around it."""
    what, place = artefact.what, artefact.place
    try:
        place.lstat()
    except OSError:
        return "missing" if place.parent.is_dir() else "unreachable"
    try:
        # A model is written anew by `threshold` and `approve`; the next night enters it.
        alike = what == "model" or digest_at(what, place) == artefact.sha256
    except OSError:
        return "unreachable"
    return "as written" if alike else "altered"


def digest_at(what: str, place: Path) -> str:
    """SHA-256 of a file, of the document that seals a run, or over the files of another directory."""
    if what == "run":
        return digest_of(place / "run.json")
    if place.is_file():
        return digest_of(place)
    files = {path.name: digest_of(path) for path in sorted(place.iterdir())}
    return hashlib.sha256(repr(files).encode()).hexdigest()


def hand_out(ledger: Ledger, *artefacts: Artefact) -> None:
    """Enter what is about to appear somewhere, or is gone (UsageError where the ledger has no such run)."""
    with ledger.writing() as connection:
        enter(connection, ledger.clock(), *artefacts)


def enter(
    connection: sa.Connection,
    recorded: str,
    *artefacts: Artefact,
    why: Part | None = None,
) -> None:
    """Enter artefacts within a transaction; what is entered already is left out.

    Raises UsageError: the ledger does not know the run of an artefact.
    """
    site = site_folder(connection)
    written = [_written_place(artefact, site) for artefact in artefacts]
    is_among = ARTEFACTS.c.place.in_(written)
    current = {
        artefact.place: artefact for artefact in current_artefacts(connection, is_among)
    }
    for artefact in artefacts:
        last = current.get(artefact.place, artefact.replace(sha256=None))
        if (last.what, last.sha256, last.key) == (
            artefact.what,
            artefact.sha256,
            artefact.key,
        ):
            continue
        run = connection.execute(
            sa.select(RUNS).where(RUNS.c.key == artefact.key).limit(1)
        ).first()
        if run is None and artefact.key is not None:
            raise UsageError(
                "the ledger does not know this run; give the one that it was scored with"
            )
        facts = artefact.replace(series=run and run.series, night=run and run.night)
        patient = Part(
            "patient", names=[] if artefact.patient is None else [artefact.patient]
        )
        place = text_part("place", _written_place(artefact, site))
        append(
            connection, recorded, facts, patient, place, *([] if why is None else [why])
        )


def current_artefacts(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> list[Artefact]:
    """What was handed out and is not known to be gone, by the last entry of every place, in order."""
    last = (
        sa.select(sa.func.max(ARTEFACTS.c.entry))
        .where(*which)
        .group_by(ARTEFACTS.c.place)
    )
    chosen = sa.select(ARTEFACTS).where(
        ARTEFACTS.c.entry.in_(last), ARTEFACTS.c.sha256.is_not(None)
    )
    site = site_folder(connection)
    rows = connection.execute(chosen.order_by(ARTEFACTS.c.entry)).mappings()
    return [_read_artefact(dict(row), site) for row in rows]


def shown_to_readers(ledger: Ledger) -> list[dict[str, object]]:
    """What was handed out, as it lies there: all but runs and models that their owner alone can enter."""
    with ledger.reading() as connection:
        artefacts = current_artefacts(connection)
    listed: list[dict[str, object]] = []
    for artefact in artefacts:
        state = state_of(artefact)
        gone = state in ("missing", "unreachable")
        mode = 0 if gone else stat.S_IMODE(artefact.place.lstat().st_mode)
        if artefact.what not in ("run", "model") or mode & (
            stat.S_IRWXG | stat.S_IRWXO
        ):
            lies = {
                "state": state,
                "place": str(artefact.place),
                "mode": "none" if gone else f"{mode:04o}",
            }
            listed.append(
                artefact.model_dump(include={"what", "series", "night"}) | lies
            )
    return listed


def runs_naming(connection: sa.Connection, patient: str | None) -> set[str]:
    """Keys of the runs whose cases a patient is among; where none is given, anybody who was not erased."""
    named = (
        CASES.c.case_id.not_like(f"{STAND_IN}%")
        if patient is None
        else CASES.c.case_id == patient
    )
    joined = sa.select(RUNS.c.key).join(CASES, CASES.c.entry == RUNS.c.entry)
    return set(connection.scalars(joined.where(named).distinct()))


def moved(ledger: Ledger, place: Path, to: Path | None, reason: str) -> int:
    """Enter that everything at or below a place lies at another now, or is gone; gives how much that is."""
    why, number = reason_of(reason), 0
    with ledger.writing() as connection:
        for artefact in current_artefacts(connection):
            roots = [
                root
                for root in (place, place.absolute())
                if artefact.place.is_relative_to(root)
            ]
            if roots:
                way, number = artefact.place.relative_to(roots[0]), number + 1
                here = [] if to is None else [artefact.replace(place=to / way)]
                enter(
                    connection,
                    ledger.clock(),
                    artefact.replace(sha256=None),
                    *here,
                    why=why,
                )
        if not number:
            raise UsageError(
                f"the register has nothing at or below {place}; `screen status --artefacts` lists it"
            )
    return number
