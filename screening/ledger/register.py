"""Register of files with a patient's name, by location and digest.

A place is in the register until an entry says that its file is gone. Of several entries
on a place, the last one counts. Files are entered before they are written, so that none
is missed. Places below the folder of a ledger file are stored relative to it: a copy of
the whole site lists its own files, never those of the original.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from screening.errors import ModelError, UsageError
from screening.files import digest_of
from screening.identity.writing import colliding
from screening.ledger.database import ARTEFACTS, CASES, CHAMPIONS, RUNS, Ledger
from screening.ledger.entries import STAND_IN, Artefact, Relocated, append
from screening.ledger.location import (
    ledger_file,
    location_part,
    original_of,
    stated_location,
)
from screening.ledger.trail import Part, reason_of, text_part
from screening.schemas.model import ModelDocument
from screening.spelling import first_of
from screening.store.serialization import read_model

# Digest of a file that a command is about to write: nothing was written yet.
UNFINISHED = hashlib.sha256(b"").hexdigest()
DIRECTORIES = ("run", "model", "comparison")
MAX_FOLDERS_NAMED = 5


def site_folder(connection: sa.Connection) -> Path | None:
    """Return the folder of a ledger file; None for a ledger on a server."""
    file = ledger_file(connection)
    return None if file is None else file.parent


def _written(place: str | Path, site: Path | None) -> str:
    """Return a place as the register has it: relative to the site if it lies there."""
    # The place of a table is not a path.
    if site is None or not Path(place).is_relative_to(site):
        return str(place)
    return str(Path(place).relative_to(site))


def _read_artefact(row: sa.RowMapping, site: Path | None) -> Artefact:
    """Read an artefact of the register, with its place on this host."""
    title = f"entry {row['entry']} of the audit trail, in the table of artefacts,"
    artefact = Artefact.from_dict(dict(row), title)
    if site is None or artefact.what == "table":
        return artefact
    return artefact.replace(place=site / artefact.place)


def state_of(artefact: Artefact) -> str:
    """Return the state of what lies at an artefact's place.

    Returns
    -------
    str
        "as written"; "altered", also if a link lies there that leads elsewhere;
        "unfinished" if the command that was to write it did not end; "missing"; or
        "unreachable" if the folder is not there either.
    """
    what = artefact.what
    place = artefact.place
    try:
        place.lstat()
    except OSError:
        return "missing" if place.parent.is_dir() else "unreachable"
    if artefact.sha256 == UNFINISHED:
        return "unfinished"
    # A run directory or a model may have been moved behind a link.
    if place.is_symlink() and what not in DIRECTORIES:
        return "altered"
    try:
        # `threshold` and `approve` rewrite a model; the next night enters it.
        is_as_written = what == "model" or digest_at(what, place) == artefact.sha256
    except OSError:
        return "unreachable"
    return "as written" if is_as_written else "altered"


def digest_at(what: str, place: Path) -> str:
    """Return the SHA-256 of what lies at a place.

    That of a file, of the document that seals a run, or over the files of another
    directory.
    """
    if what == "run":
        return digest_of(place / "run.json")
    if place.is_file():
        return digest_of(place)
    digests = {path.name: digest_of(path) for path in sorted(place.iterdir())}
    content = repr(digests).encode()
    return hashlib.sha256(content).hexdigest()


def may_be_replaced(ledger: Ledger, key: str, place: str | Path) -> bool:
    """Return True if a place has an export of a run and no other work.

    That is so if the command that was to write it did not end, or if it is as written.
    In a copy of a site's ledger none is: the exports are the original's.
    """
    with ledger.reading() as connection:
        if original_of(connection) is not None:
            return False
        is_there = ARTEFACTS.c.place == _written(place, site_folder(connection))
        artefacts = current_artefacts(connection, is_there)
    states = ("unfinished", "as written")
    return any(
        artefact.key == key
        and (artefact.what == "table" or state_of(artefact) in states)
        for artefact in artefacts
    )


def hand_out(ledger: Ledger, *artefacts: Artefact) -> None:
    """Enter what is about to appear somewhere, or is gone.

    UsageError if the ledger has no such run.
    """
    with ledger.writing() as connection:
        enter(connection, ledger.clock(), *artefacts)


def enter(
    connection: sa.Connection,
    recorded: str,
    *artefacts: Artefact,
    why: Part | None = None,
) -> None:
    """Enter artefacts within a transaction; what is entered already is left out.

    UsageError if the ledger does not know the run of an artefact.
    """
    site = site_folder(connection)
    written = [_written(artefact.place, site) for artefact in artefacts]
    is_among = ARTEFACTS.c.place.in_(written)
    current = {
        artefact.place: artefact for artefact in current_artefacts(connection, is_among)
    }
    for artefact, place in zip(artefacts, written, strict=True):
        last = current.get(artefact.place, artefact.replace(sha256=None))
        is_known = (
            last.what == artefact.what
            and last.sha256 == artefact.sha256
            and last.key == artefact.key
        )
        if not is_known:
            _append(connection, recorded, artefact, place, why)


def _append(
    connection: sa.Connection,
    recorded: str,
    artefact: Artefact,
    place: str,
    why: Part | None,
) -> None:
    """Add the entry of an artefact; `place`: as the register has it."""
    of_key = sa.select(RUNS).where(RUNS.c.key == artefact.key).limit(1)
    run = connection.execute(of_key).first()
    if run is None and artefact.key is not None:
        raise UsageError(
            "the ledger has no such run; give the ledger that the run was scored with"
        )
    facts = artefact.replace(series=run and run.series, night=run and run.night)
    patients = [] if artefact.patient is None else [artefact.patient]
    parts = [Part("patient", names=patients), text_part("place", place)]
    if why is not None:
        parts.append(why)
    append(connection, recorded, facts, parts)


def current_rows(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> Sequence[sa.RowMapping]:
    """Return the last entry of each place where something lies, as it was written."""
    last = (
        sa.select(sa.func.max(ARTEFACTS.c.entry))
        .where(*which)
        .group_by(ARTEFACTS.c.place)
    )
    chosen = sa.select(ARTEFACTS).where(
        ARTEFACTS.c.entry.in_(last), ARTEFACTS.c.sha256.is_not(None)
    )
    return connection.execute(chosen.order_by(ARTEFACTS.c.entry)).mappings().all()


def current_artefacts(
    connection: sa.Connection, *which: sa.ColumnElement[bool]
) -> list[Artefact]:
    """Return what was handed out and is not known to be gone, in order of entry.

    Of several entries on a place, the last one counts. Places are those on this host.
    """
    site = site_folder(connection)
    return [_read_artefact(row, site) for row in current_rows(connection, *which)]


def shown_to_readers(ledger: Ledger) -> list[dict[str, object]]:
    """Return what was handed out, as it lies there.

    Runs and models that only their owner can enter are left out.
    """
    with ledger.reading() as connection:
        artefacts = current_artefacts(connection)
    listed: list[dict[str, object]] = []
    for artefact in artefacts:
        state = state_of(artefact)
        is_gone = state in ("missing", "unreachable")
        mode = 0 if is_gone else stat.S_IMODE(artefact.place.lstat().st_mode)
        is_open = bool(mode & (stat.S_IRWXG | stat.S_IRWXO))
        if artefact.what in ("run", "model") and not is_open:
            continue
        facts = artefact.model_dump(include={"what", "series", "night"})
        facts["state"] = state
        facts["place"] = str(artefact.place)
        facts["mode"] = "none" if is_gone else f"{mode:04o}"
        listed.append(facts)
    return listed


def run_artefacts(ledger: Ledger) -> list[Artefact]:
    """Return the run directories of the register, as they were entered."""
    with ledger.reading() as connection:
        return current_artefacts(connection, ARTEFACTS.c.what == "run")


def directories_with(ledger: Ledger, model: str) -> list[Path]:
    """Return the directories of the register that contain a model now.

    Parameters
    ----------
    ledger : Ledger
    model : str
        Its digest.
    """
    with ledger.reading() as connection:
        artefacts = current_artefacts(connection, ARTEFACTS.c.what == "model")
    found = []
    for artefact in artefacts:
        # A directory may be gone or unreadable.
        with suppress(ModelError, OSError):
            if read_model(artefact.place).sha256 == model:
                found.append(artefact.place)
    return found


def answered_before(
    ledger: Ledger, series: str, own: Collection[str]
) -> ModelDocument | None:
    """Return the last champion of a series with answers about its columns.

    None where no directory of the register has one.

    Parameters
    ----------
    ledger : Ledger
    series : str
    own : collection of str
        Digests of the model that is approved, which is passed over.
    """
    of_series = sa.select(CHAMPIONS.c.model).where(CHAMPIONS.c.series == series)
    with ledger.reading() as connection:
        models = connection.scalars(of_series.order_by(CHAMPIONS.c.entry.desc())).all()
    places = (
        place
        for model in dict.fromkeys(models)
        if model not in own
        for place in directories_with(ledger, model)
    )
    documents = map(read_model, places)
    return next((each for each in documents if each.known_before), None)


def runs_naming(connection: sa.Connection, patient: str | None) -> set[str]:
    """Return the keys of the runs with a patient among their cases.

    `patient`: None for all that were not erased.
    """
    is_named: sa.ColumnElement[bool]
    if patient is None:
        is_named = CASES.c.case_id.not_like(f"{STAND_IN}%")
    else:
        is_named = CASES.c.case_id == patient
    joined = sa.select(RUNS.c.key).join(CASES, CASES.c.entry == RUNS.c.entry)
    return set(connection.scalars(joined.where(is_named).distinct()))


def count_written_otherwise(ledger: Ledger, patient: str) -> int:
    """Count the other spellings of an id among cases: in zeros or case."""
    with ledger.reading() as connection:
        names = connection.scalars(sa.select(CASES.c.case_id).distinct()).all()
    others = [name for name in names if name != patient]
    return len(colliding(others, [patient], within=False))


def moved(ledger: Ledger, place: Path, to: Path | None, reason: str) -> int:
    """Enter that everything at or below a place lies at another now, or is gone.

    Returns the number of artefacts. UsageError without any.
    """
    why = reason_of(reason)
    number = 0
    registered = set()
    with ledger.writing() as connection:
        for artefact in current_artefacts(connection):
            registered.add(str(artefact.place.parent))
            below = _path_below(artefact.place, place)
            if below is None:
                continue
            number += 1
            entered = [artefact.replace(sha256=None)]
            if to is not None:
                entered.append(artefact.replace(place=to / below))
            enter(connection, ledger.clock(), *entered, why=why)
        if not number:
            folders = first_of(sorted(registered), MAX_FOLDERS_NAMED) or "nowhere"
            raise UsageError(
                f"nothing is registered at or below {place}; files are registered in "
                f"{folders}"
            )
    return number


def relocate(ledger: Ledger, reason: str) -> str:
    """Enter the ledger's current location as the site's; return it.

    UsageError if the trail already states this location.
    """
    why = reason_of(reason)
    with ledger.writing() as connection:
        here = location_part(connection)
        if stated_location(connection) == here.facts:
            raise UsageError(
                f"the ledger is already at {here.facts}, as its audit trail says; to "
                "register moved files, give --from PLACE"
            )
        append(connection, ledger.clock(), Relocated(), [here, why])
    return str(here.facts)


def _path_below(path: Path, root: Path) -> Path | None:
    """Return a path relative to a root, which may be relative; None if not below it."""
    for folder in (root, root.absolute()):
        if path.is_relative_to(folder):
            return path.relative_to(folder)
    return None
