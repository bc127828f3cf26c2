"""What was handed out: every file with a patient's name written beside the ledger, by place and digest.

A place stands in the register until an entry says that what lay there is gone; of several entries on a place
the last one holds. Files are entered before they appear, so that one is known rather than missed.
"""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, fields, replace
from pathlib import Path

import sqlalchemy as sa

from screening.errors import UsageError
from screening.files import digest_of
from screening.ledger.database import ARTEFACTS, CASES, RUNS, Ledger
from screening.ledger.kinds import STAND_IN, HandedOut, append
from screening.ledger.trail import Part, reason_of, text_part


@dataclass(frozen=True)
class Artefact:
    """A file or directory with patients' names."""

    what: str  # One of "model", "run", "page", "case", "export", "table" (of a database), "copy".
    place: Path
    sha256: str | None  # None: it is gone.
    key: str | None = None  # Of the run it shows.
    series: str | None = None
    night: str | None = None
    patient: str | None = None  # Of a page of one case, whose it is.
    keyed: str | None = None  # Of a de-identified copy, which key made its pseudonyms.
    entry: int = 0

    @property
    def state(self) -> str:
        """What lies there now: "as written", "altered", "missing", or "unreachable" with all around it."""
        try:
            self.place.lstat()
        except OSError:
            return "missing" if self.place.parent.is_dir() else "unreachable"
        try:
            # A model is written anew by `threshold` and `approve`; the next night enters it.
            alike = self.what == "model" or digest_at(self.what, self.place) == self.sha256
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


def enter(connection: sa.Connection, recorded: str, *artefacts: Artefact, why: Part | None = None) -> None:
    """As `hand_out`, in a transaction; what stands there is not entered again."""
    known = _last(connection, ARTEFACTS.c.place.in_([str(one.place) for one in artefacts]))
    for one in artefacts:
        if not _differs(known.get(one.place), one):
            continue
        run = connection.execute(sa.select(RUNS).where(RUNS.c.key == one.key).limit(1)).first()
        if run is None and one.key is not None:
            raise UsageError("the ledger does not know this run; give the one that it was scored with")
        facts = HandedOut(
            what=one.what, sha256=one.sha256, key=one.key, keyed=one.keyed,
            series=run.series if run else None, night=run.night if run else None,
        )  # fmt: skip
        patient = Part("patient", names=[] if one.patient is None else [one.patient])
        place = text_part("place", str(one.place))
        append(connection, recorded, facts, patient, place, *([] if why is None else [why]))


def _differs(known: Artefact | None, one: Artefact) -> bool:
    if known is None:
        return one.sha256 is not None
    alike = (known.what, known.sha256) == (one.what, one.sha256)
    return not alike or (one.what != "model" and known.key != one.key)


def standing(connection: sa.Connection) -> list[Artefact]:
    """What was handed out and is not known to be gone, in order."""
    return [one for one in _last(connection).values() if one.sha256 is not None]


def shown_to_readers(ledger: Ledger) -> list[dict[str, object]]:
    """What was handed out, as it lies there now: all but runs and models that their owner alone can enter."""
    with ledger.reading() as connection:
        listed = standing(connection)
    shown: list[dict[str, object]] = []
    for one in listed:
        state = one.state
        mode = None if state in ("missing", "unreachable") else stat.S_IMODE(one.place.lstat().st_mode)
        if one.what not in ("run", "model") or (mode or 0) & (stat.S_IRWXG | stat.S_IRWXO):
            whose = {"what": one.what, "series": one.series, "night": one.night, "place": str(one.place)}
            shown.append({**whose, "state": state, "mode": "none" if mode is None else f"{mode:04o}"})
    return shown


def _last(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> dict[Path, Artefact]:
    """The last entry of every place, in order of these."""
    columns = [ARTEFACTS.c[field.name] for field in fields(Artefact)]
    last: dict[Path, Artefact] = {}
    for row in connection.execute(sa.select(*columns).where(*which).order_by(ARTEFACTS.c.entry)).mappings():
        place = Path(row["place"])
        last.pop(place, None)
        last[place] = Artefact(**{**row, "place": place})
    return last


def runs_naming(connection: sa.Connection, patient: str | None) -> set[str]:
    """Keys of the runs whose cases a patient is among; where none is given, anybody who was not erased."""
    named = CASES.c.case_id.not_like(f"{STAND_IN}%") if patient is None else CASES.c.case_id == patient
    joined = sa.select(RUNS.c.key).join(CASES, CASES.c.entry == RUNS.c.entry)
    return set(connection.scalars(joined.where(named).distinct()))


def moved(ledger: Ledger, place: Path, to: Path | None, reason: str) -> int:
    """Enter that everything at or below a place lies at another now, or is gone; gives how much that is."""
    why = reason_of(reason)
    with ledger.writing() as connection:
        there = [
            (one, root)
            for one in standing(connection)
            for root in {place, place.absolute()}
            if one.place.is_relative_to(root)
        ]
        if not there:
            raise UsageError(
                f"the register has nothing at or below {place}; `screen status --artefacts` lists it"
            )
        for one, root in there:
            gone = replace(one, sha256=None)
            here = [] if to is None else [replace(one, place=to / one.place.relative_to(root))]
            enter(connection, ledger.clock(), gone, *here, why=why)
    return len(there)
