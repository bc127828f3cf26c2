"""Erase patients everywhere: models, run directories, copies of pages, the ledger.

Each model, run and page is replaced whole, and the ledger changes in one transaction.
Each step finds what is left to do, so the same command finishes one that was killed.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from screening.errors import Locked, ScreenError, UsageError
from screening.files import digest_of, is_hidden
from screening.identity.hashes import short_hash
from screening.ledger.database import Ledger
from screening.ledger.entries import Artefact, ArtefactKind
from screening.ledger.erasing import Scope, erase, unreached
from screening.ledger.model_registry import record_sealed
from screening.ledger.reach import Reach, reach_of
from screening.ledger.register import (
    DIRECTORIES,
    UNFINISHED,
    current_artefacts,
    hand_out,
    runs_naming,
    state_of,
)
from screening.model_selection.revising import (
    rows_of_patient_stored,
    stores_rows,
    to_train_again,
    without_patient,
)
from screening.report import render_model, render_run
from screening.schemas.model import SourceFacts
from screening.schemas.run import RunDocument
from screening.scoring.flagged_list import write_flagged
from screening.scoring.mentions import mentions
from screening.scoring.rows import Rows
from screening.spelling import command_line
from screening.store.checkpoints import waiting_in
from screening.store.loading import load_model
from screening.store.model import Model
from screening.store.model_files import write_model_files
from screening.store.publishing import FILES, hold, publish, sweep, write_whole
from screening.store.serialization import read_document, written

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# Kinds of places: those that were rewritten; `removed`, because a command makes them
# again; and `pieces` that a killed command left, whose rows have no names and so no
# known patients.
PLACES = ("runs", "comparisons", "models", "pages", "removed", "pieces", "elsewhere")
# What is made again goes before the runs that say whose files these are, and pages are
# looked at after them.
ORDER = (
    *("case", "export", "copy", "refused"),
    *("model", "comparison", "run"),
    *("page", "table"),
)
LEFT_TABLE = (
    "a database table cannot be changed from here; export it again with "
    "--force, or record that it was deleted: {}"
)
# Kinds that are pages. Every page begins with a document type and, in its head, the
# policy of what it may load.
HTML = ("page", "case", "copy")
POLICY = b"Content-Security-Policy"
N_HEAD_BYTES = 4096
LEFT_UNREACHED = (
    "it cannot be reached; run this again when it can be, or record that it "
    "was deleted (or, with --to NEW, that it was moved there): {}"
)


@dataclass(frozen=True)
class Erasure:
    """One erasure.

    Parameters
    ----------
    scope : Scope
        Whose names are erased.
    ledger : Ledger
    runs, models, pages : Path, optional
        Folders that are searched for run and comparison directories, models, and copies
        of pages.
    retrain_by : date, optional
        Last day of models that contain a copy of the patient's row.
    dry_run : bool
        Only report what would be erased.
    templates : Path, optional
        A site's own, for pages that are drawn again.
    signer : Ed25519PrivateKey, optional
        Signs the models that are rewritten.

    Attributes
    ----------
    places : dict
        What was erased, by `PLACES`.
    retrain : dict
        Last day of models to train again, by model.
    left : list of str
        Places that were not erased, with the reason.
    artefacts : list of Artefact
        What the register lists, and what lies in the folders.
    clean : set of Path
        Copies of pages of runs without patients in scope.
    stored : dict
        Whether the machines of a model here store a row of the patient, by the digests
        of the files that it learned from.
    recalibrated : set of Path
        Models that have the machines of another one.
    """

    scope: Scope
    ledger: Ledger
    runs: Path | None = None
    models: Path | None = None
    pages: Path | None = None
    retrain_by: datetime.date | None = None
    dry_run: bool = False
    templates: Path | None = None
    signer: Ed25519PrivateKey | None = None
    places: dict[str, list[str]] = field(
        default_factory=lambda: {name: [] for name in PLACES}, init=False
    )
    retrain: dict[str, str] = field(default_factory=dict, init=False)
    left: list[str] = field(default_factory=list, init=False)
    artefacts: list[Artefact] = field(default_factory=list, init=False)
    clean: set[Path] = field(default_factory=set, init=False)
    stored: dict[frozenset[str], bool] = field(default_factory=dict, init=False)
    recalibrated: set[Path] = field(default_factory=set, init=False)

    def done(self, reason: str) -> dict[str, Any]:
        """Erase everywhere, and return a report.

        Returns
        -------
        dict
            As `--json` prints it: numbers of what was erased in the `ledger`; by
            `PLACES` the directories and files, those `elsewhere` being recalibrated
            models that contain rows of a model which is not here; models to `retrain`
            because they contain a copy of the patient's row, with the day after which
            each refuses to score; and what was `left`, with the reason.
        """
        with self.ledger.reading() as connection:
            current = current_artefacts(connection)
            keys = runs_naming(connection, self.scope.patient)
            earlier = unreached(connection)
        registered = [
            artefact
            for artefact in current
            if self.scope.has_night(artefact.night, artefact.series)
        ]
        self.artefacts.extend(registered)
        self.artefacts.extend(self._renamed(registered))
        known_places = {artefact.place for artefact in self.artefacts}
        self.artefacts.extend(self._unregistered(known_places))
        self._sweep()
        self._find_stored()
        pending: set[str] = set()
        for artefact in sorted(self.artefacts, key=self._order):
            # An earlier erasure may not have reached all that its run showed.
            was_left = artefact.entry < earlier.get(artefact.key or "", 0)
            with self._noting(artefact.place):
                why = self._erase(artefact, artefact.key in keys or was_left)
                if why is not None:
                    self.left.append(f"{artefact.place}: {why}")
                    if artefact.key is not None:
                        pending.add(artefact.key)
        erased = erase(
            self.ledger, reason, self.scope, dry_run=self.dry_run, left=pending
        )
        report = {"ledger": erased} | self.places
        return report | {"retrain": self.retrain, "left": self.left}

    def _order(self, artefact: Artefact) -> tuple[int, bool]:
        """Return the key by which places are erased.

        Recalibrated models go before the models that identify the rows in their
        machines.
        """
        is_last = artefact.place not in self.recalibrated
        return ORDER.index(artefact.what), is_last

    @contextmanager
    def _noting(self, place: Path) -> Iterator[None]:
        """Note an error at a place in `left`, and go on with the other places."""
        try:
            yield
        except (ScreenError, OSError) as error:
            again = "; run this again afterwards" if isinstance(error, Locked) else ""
            self.left.append(f"{place}: {error}{again}")

    def _unregistered(self, registered: Collection[Path]) -> Iterator[Artefact]:
        """Yield what lies below the places that were named and is not registered."""
        roots: list[tuple[ArtefactKind, Path | None]] = [
            ("model", self.models),
            ("comparison", self.runs),
            ("run", self.runs),
        ]
        for kind, root in roots:
            for path in find_named(root, f"{kind}.json"):
                if path.parent not in registered:
                    yield Artefact(what=kind, place=path.parent, sha256=None)
        for page in find_named(self.pages, "*"):
            if page not in registered and _is_page(page):
                yield Artefact(what="page", place=page, sha256=digest_of(page))

    def _renamed(self, registered: Sequence[Artefact]) -> Iterator[Artefact]:
        """Yield files beside a registered one that is missing and may be it.

        Readers rename pages, and change them. Bytes that were written for a run are
        still its, and an altered page that names the patient is a reader's copy. Any
        other file there, such as the ledger or a table, is not an artefact.
        """
        places = {artefact.place for artefact in registered}
        for folder, by_digest in _missing_files(registered).items():
            has_page = any(missing.what in HTML for missing in by_digest.values())
            for path in sorted(folder.iterdir()):
                if path in places or path.is_symlink() or not path.is_file():
                    continue
                digest = digest_of(path)
                if digest in by_digest:
                    yield by_digest[digest].replace(place=path, entry=0)
                elif has_page and _is_page(path) and self._mentioned(path):
                    yield Artefact(what="page", place=path, sha256=digest)

    def _sweep(self) -> None:
        """Remove what killed writers left at, below or beside a folder."""
        for root in filter(None, (self.models, self.runs)):
            top = root.resolve()
            if not self.reach.covers(top, is_directory=True):
                continue
            folders = [top]
            for path in find_named(root, "*"):
                if path.is_dir() and self.reach.covers(path, is_directory=True):
                    folders.append(path)
            if self.scope.patient is not None:
                self._remove_pieces(top, folders)
            if not self.dry_run:
                for folder in folders:
                    sweep(folder)
                sweep(top.parent, top.name)

    def _remove_pieces(self, top: Path, folders: Sequence[Path]) -> None:
        """Remove the pieces that killed commands left for the next attempt."""
        pieces = []
        for folder in folders:
            pieces += waiting_in(folder)
        pieces += waiting_in(top.parent, top.name)
        for place, out in pieces:
            with self._noting(place):
                if not self.dry_run:
                    with hold(out):
                        shutil.rmtree(place)
                self.places["pieces"].append(str(place))

    def _gone(self, artefact: Artefact) -> str:
        """Return the command that enters that a place has gone."""
        words = ("ledger", "moved", self.ledger.word, "--from", artefact.place)
        return command_line(*words, "--reason", "WHY")

    def _erase(self, artefact: Artefact, is_named: bool) -> str | None:
        """Erase in one place; return why something was left there, or None.

        `is_named`: the run that the artefact shows names a patient in scope.
        """
        if artefact.what == "table":
            return LEFT_TABLE.format(self._gone(artefact)) if is_named else None
        state = state_of(artefact)
        if state == "unreachable":
            may_name = is_named or artefact.what in ("run", "model")
            return LEFT_UNREACHED.format(self._gone(artefact)) if may_name else None
        if state == "missing":
            self._enter_missing(artefact)
            return None
        if not self._is_within_reach(artefact):
            return self._refuse_outside(artefact, is_named)
        if artefact.what in DIRECTORIES:
            self._rewrite(artefact)
            return None
        return self._erase_page(artefact, is_named, state)

    def _enter_missing(self, artefact: Artefact) -> None:
        """Enter in the register that what it names is gone."""
        if artefact.entry and not self.dry_run:
            hand_out(self.ledger, artefact.replace(sha256=None))

    def _erase_page(self, artefact: Artefact, is_named: bool, state: str) -> str | None:
        """Remove a page or an export; return why it was left, or None."""
        page = artefact.place
        if str(page) in self.places["pages"] or page in self.clean:
            return None
        if not self._names_somebody(artefact, is_named, state):
            return None
        return self._remove(artefact, state)

    @cached_property
    def reach(self) -> Reach:
        """The folders in which anything is written or removed."""
        with self.ledger.reading() as connection:
            return reach_of(connection, (self.runs, self.models, self.pages))

    def _is_within_reach(self, artefact: Artefact) -> bool:
        """Return True if what lies at an artefact's place may be erased."""
        is_directory = artefact.what in DIRECTORIES
        return self.reach.covers(artefact.place, is_directory=is_directory)

    def _refuse_outside(self, artefact: Artefact, is_named: bool) -> str | None:
        """Return why a place outside is left; None if it has nothing to erase."""
        if self.reach.is_ledger(artefact.place):
            return self.reach.refusal(artefact.place)
        probe = replace(self, pages=artefact.place.parent, dry_run=True)
        reason = probe._erase(artefact, is_named)
        if reason is None and not any(probe.places.values()):
            return None
        return self.reach.refusal(artefact.place)

    def _rewrite(self, artefact: Artefact) -> None:
        """Rewrite a directory; in models and comparisons only one patient is erased."""
        if artefact.what == "run":
            self._run(artefact.place)
        elif self.scope.patient is not None and artefact.what == "model":
            self._model(artefact.place)
        elif self.scope.patient is not None:
            self._comparison(artefact.place)

    def _names_somebody(self, artefact: Artefact, is_named: bool, state: str) -> bool:
        """Return True if a page or an export names a patient in scope."""
        if artefact.what == "page":
            is_unknown = state == "altered" or self.scope.patient is None
            return self._mentioned(artefact.place) or (is_named and is_unknown)
        if self.scope.patient is None:
            return is_named
        if artefact.what in ("case", "refused"):
            is_own = artefact.patient == self.scope.patient
            return is_own or self._mentioned(artefact.place)
        # An export may go on from that of a night with other patients.
        return is_named or any(map(self._mentioned, _files_at(artefact.place)))

    def _remove(self, artefact: Artefact, state: str) -> str | None:
        """Remove what a command can make again; return why it was left, or None."""
        place = artefact.place
        if place.is_symlink():
            return (
                "this is a link, and its target was not changed; check whether the "
                "target names the patient, and remove the link"
            )
        if state == "altered":
            return (
                "it has been changed since it was written, so it was not changed "
                "again; save additions that do not name the patient, then remove it"
            )
        if artefact.what == "page":
            return (
                "its run directory does not exist, so this page cannot be made again; "
                "restore the directory, or remove the page if nobody needs it"
            )
        if state == "unfinished":
            return "its export did not finish; export it again, or remove it"
        if place.is_dir() and not _is_of_export(place):
            return (
                "this directory does not look like an export, so it was not changed; "
                "check it, and remove it if it names the patient"
            )
        self.places["removed"].append(str(place))
        if not self.dry_run:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()
            hand_out(self.ledger, artefact.replace(sha256=None))
        return None

    def _mentioned(self, page: Path) -> bool:
        """Return True if a page contains the patient's id."""
        return mentions(page.read_bytes(), self.scope.patient or "")

    def _find_stored(self) -> None:
        """Find machines that store rows of the patient, before models are rewritten.

        A recalibrated model has the machines of its origin, and no ids of these rows.
        """
        if self.scope.patient is None:
            return
        folders = [
            artefact.place
            for artefact in self.artefacts
            if artefact.what == "model" and (artefact.place / "model.json").exists()
        ]
        for folder in folders:
            with suppress(ScreenError, OSError):
                if read_document(folder, "model").get("origin"):
                    self.recalibrated.add(folder)
        if not self.recalibrated:
            return
        for folder in folders:
            # What is wrong with a model is said where it is rewritten.
            with suppress(ScreenError, OSError):
                model = load_model(folder)
                if folder not in self.recalibrated:
                    files = _files_of(model.facts.training.source)
                    stored = rows_of_patient_stored(model, self.scope.patient)
                    self.stored[files] = stored | self.stored.get(files, False)

    def _model(self, folder: Path) -> None:
        """Rewrite a model without the patient."""
        before = load_model(folder)
        last_day = self.retrain_by or datetime.date.max
        patient = str(self.scope.patient)
        after = without_patient(before, patient, last_day, datetime.date.today())
        origin = before.facts.origin
        if origin is not None and stores_rows(before):
            stored = self.stored.get(_files_of(origin.source))
            if stored is None:
                self.places["elsewhere"].append(f"{folder}: model {origin.model}")
            elif stored:
                after = to_train_again(after or before, last_day)
        if after is None:
            return
        if not self.dry_run:
            self._replace_model(folder, before, after)
        self.places["models"].append(str(folder))
        if after.facts.retrain_by:
            self.retrain[str(folder)] = after.facts.retrain_by

    def _replace_model(self, folder: Path, before: Model, after: Model) -> None:
        """Publish a model in the place of another one; Locked if that has changed."""
        with publish(folder, "model") as new:
            if load_model(folder).digest != before.digest:
                raise Locked("another process has just written it")
            render = partial(render_model, templates=self.templates)
            write_model_files(after.files, new, render, self.signer)
            # Entered before it is published, so that the next attempt knows of a model
            # that never was.
            record_sealed(self.ledger, before.digest, after.digest)

    def _comparison(self, folder: Path) -> None:
        """Rewrite a comparison without the patient."""
        scores = folder / "scores.parquet"
        ids = pq.read_table(scores, columns=["id"])["id"]
        if self.scope.patient not in ids.to_pylist():
            return
        self.places["comparisons"].append(str(folder))
        if self.dry_run:
            return
        others = shutil.ignore_patterns(scores.name)
        with publish(folder, "comparison") as new:
            shutil.copytree(folder, new, ignore=others, dirs_exist_ok=True)
            rewrite_scores(scores, new / scores.name, self.scope.patient)

    def _run(self, folder: Path) -> None:
        """Rewrite a run and the copies of its page without the patients in scope."""
        page = folder / "report.html"
        document = read_document(folder, "run")
        run = RunDocument.from_dict(document)
        facts = run.ledger
        series = facts.series if facts else None
        key = facts.key if facts else None
        copies = self._copies_of(page, key)
        if not self._run_names_somebody(folder, document):
            self.clean.update(copies)
            return
        if not self.scope.has_night(run.date, series):
            return
        self.places["runs"].append(str(folder))
        self.places["pages"] += map(str, copies)
        if self.dry_run:
            return
        with publish(folder, "run") as new:
            fewer = rewrite(folder, new, document, self.scope.patient)
            drawn = b""
            if page.exists():
                drawn = render_run(fewer, self.templates).encode()
                (new / page.name).write_bytes(drawn)
            # The newest head is found by this time, and this run is not the newest.
            written_at = (folder / "run.json").stat().st_mtime_ns
            os.utime(new / "run.json", ns=(written_at, written_at))
            digests = dict.fromkeys(copies, hashlib.sha256(drawn).hexdigest())
            digests[folder] = digest_of(new / "run.json")
            self._enter_digests(key, digests)
            # Before the run is replaced: copies are recognised by its page.
            for copy in copies:
                status = copy.stat()
                write_whole(copy, drawn, status.st_mode & 0o777, status.st_gid)
        # Copies that a killed attempt had already written.
        self.clean.update(self._copies_of(page, key))

    def _enter_digests(self, key: str | None, digests: Mapping[Path, str]) -> None:
        """Enter the new digests of a run's registered files, by place."""
        rewritten = []
        for artefact in self.artefacts:
            digest = digests.get(artefact.place)
            if digest is not None and artefact.entry and artefact.key == key:
                rewritten.append(artefact.replace(sha256=digest))
        hand_out(self.ledger, *rewritten)

    def _run_names_somebody(self, folder: Path, document: Mapping[str, Any]) -> bool:
        """Return True if a run's document or its rows name a patient in scope."""
        patient = self.scope.patient
        if document_without(document, patient) != document:
            return True
        batches = Rows(folder / "scores.parquet").batches()
        return any(_of_patient(batch, patient).any() for batch in batches)

    def _copies_of(self, page: Path, key: str | None) -> list[Path]:
        """Return the copies in reach that are, byte for byte, a run's page.

        Of a run the register may know more than an attempt that was killed came to
        write, so the files themselves are compared.
        """
        if not page.exists():
            return []
        digest = digest_of(page)
        copies = []
        for artefact in self.artefacts:
            place = artefact.place
            is_of_run = artefact.sha256 == digest or artefact.key == key
            is_copy = artefact.what == "page" and place != page and place.is_file()
            if not (is_copy and is_of_run and self.reach.covers_copy(place)):
                continue
            if digest_of(place) == digest:
                copies.append(place)
        return copies


def _files_of(source: SourceFacts) -> frozenset[str]:
    return frozenset(file.sha256 for file in source.files)


def _missing_files(
    registered: Sequence[Artefact],
) -> Mapping[Path, Mapping[str | None, Artefact]]:
    """Return the files that are missing, by folder and digest."""
    missing = defaultdict[Path, dict[str | None, Artefact]](dict)
    for artefact in registered:
        is_file = artefact.what not in (*DIRECTORIES, "table")
        # Of what was never finished nothing is known: its digest is that of any empty
        # file.
        is_known = is_file and artefact.sha256 != UNFINISHED
        if is_known and state_of(artefact) == "missing":
            missing[artefact.place.parent][artefact.sha256] = artefact
    return missing


def _is_page(path: Path) -> bool:
    """Return True if a file has the form of a page that this program draws."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(N_HEAD_BYTES)
    return head.lstrip().lower().startswith(b"<!doctype html") and POLICY in head


def _is_of_export(folder: Path) -> bool:
    """Return True if a directory has the file that marks one of an export."""
    markers = [FILES[kind][0] for kind in ("omop", "volumes")]
    return any((folder / marker).is_file() for marker in markers)


def _files_at(place: Path) -> list[Path]:
    """Return a file, or the files of a directory."""
    if not place.is_dir():
        return [place]
    return [path for path in sorted(place.iterdir()) if path.is_file()]


def find_named(root: Path | None, name: str) -> list[Path]:
    """Find the paths below a folder that match a name, without hidden directories.

    What is hidden is another command's unfinished work.
    """
    if root is None:
        return []
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory")
    top = root.resolve()
    return [path for path in sorted(top.rglob(name)) if not is_hidden(path, top)]


# Keys of ids in a run's document, lists that name patients, and keys that contain such
# lists.
ID_KEYS = ("id", "group")
PATIENT_LISTS = ("cases", "near_misses", "groups", "sample", "geometries")
NESTED_LISTS = {
    "since": ("gone", "left"),
    "voxels": ("patients",),
    "check_values": ("values", "channels", "alike"),
}


def rewrite(
    source: Path, folder: Path, document: Mapping[str, Any], patient: str | None
) -> dict[str, Any]:
    """Write a run without a patient (row or group) to another folder.

    `patient`: None for everybody. Returns the new document.
    """
    rewrite_scores(source / "scores.parquet", folder / "scores.parquet", patient)
    if (source / "flagged.csv").exists():
        write_flagged(folder / "flagged.csv", Rows(folder / "scores.parquet"))
    fewer = document_without(document, patient)
    files = sorted(folder.iterdir())
    fewer["outputs"] = {path.name: digest_of(path) for path in files}
    fewer, text = written(fewer)
    (folder / "run.json").write_bytes(text)
    return fewer


def document_without(
    document: Mapping[str, Any], patient: str | None
) -> dict[str, Any]:
    """Return a run's document without a patient, or without any if None."""
    fewer = dict(document)
    erased: set[str] = set()
    for key in PATIENT_LISTS:
        if fewer.get(key):
            fewer[key] = _others(fewer[key], patient, erased)
    for key, names in NESTED_LISTS.items():
        if fewer.get(key):
            inside = {
                name: _others(fewer[key][name], patient, erased)
                for name in names
                if name in fewer[key]
            }
            fewer[key] = fewer[key] | inside
    key_of_hashes = document["model"]["digest"]
    fewer["drift"] = _drift_without(fewer["drift"], patient, key_of_hashes)
    if erased:
        cases = fewer["cases"]
        explained = [case for case in cases if case.get("contributions") is not None]
        fewer["cases_shown"] = len(cases)
        fewer["cases_explained"] = len(explained)
        fewer["erased"] = document.get("erased", 0) + len(erased)
    return fewer


def _others(
    elements: Sequence[Any], patient: str | None, erased: set[str]
) -> list[Any]:
    """Return the elements of a list without those of patients in scope.

    An element is an id, or has ids under `ID_KEYS`. The ids of removed elements are
    added to `erased`.
    """
    others = []
    for element in elements:
        ids = [element]
        if isinstance(element, Mapping):
            ids = [element.get(key) for key in ID_KEYS]
        named = [str(name) for name in ids if name is not None]
        if patient is not None:
            named = [name for name in named if name == patient]
        if named:
            # The group, if there is one, is the patient.
            erased.add(named[-1])
        else:
            others.append(element)
    return others


def _drift_without(
    drift: Mapping[str, Any], patient: str | None, key: str
) -> dict[str, Any]:
    """Return the scores of a night without a patient, or without any if None.

    `key`: of the hashes by which they name patients.
    """
    hashes = []
    cells = []
    if patient is not None:
        erased = short_hash(patient, key)
        for unit, cell in zip(drift.get("who", ()), drift.get("cell", ()), strict=True):
            if unit != erased:
                hashes.append(unit)
                cells.append(cell)
    return {**drift, "who": hashes, "cell": cells}


def rewrite_scores(source: Path, target: Path, patient: str | None) -> None:
    """Copy a table of rows without a patient, or without any if None."""
    Rows(source).write_without(target, partial(_of_patient, patient=patient))


def _of_patient(batch: pa.RecordBatch, patient: str | None) -> np.ndarray:
    """Return the rows that are a patient's, or all if None, shape (n_rows,)."""
    if patient is None:
        return np.ones(batch.num_rows, dtype=bool)
    is_own = np.zeros(batch.num_rows, dtype=bool)
    for key in ID_KEYS:
        if key in batch.schema.names:
            is_own |= batch[key].to_numpy(zero_copy_only=False) == patient
    return is_own
