"""Erasing in every place that names patients: models, run directories, copies of pages, the ledger.

Each model, run and page is replaced whole, the ledger changes in one transaction, and each step finds by
itself what is left to do: an attempt that was killed is ended by the next.
"""

from __future__ import annotations

import datetime
import hashlib
import html
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from screening.data.ids import short_hash
from screening.errors import Locked, ScreenError, UsageError
from screening.files import digest_of
from screening.ledger.database import Ledger
from screening.ledger.erasing import Scope, erase, unreached
from screening.ledger.model_registry import record_sealed
from screening.ledger.register import Artefact, current_artefacts, hand_out, runs_naming
from screening.model_selection.revising import without_patient
from screening.report import render_model, render_run
from screening.schemas.run import RunDocument
from screening.scoring.rows import Rows, write_flagged
from screening.store.loading import load_model
from screening.store.model import write_model
from screening.store.publishing import hold, publish, sweep, write_whole
from screening.store.serialization import read_document, waiting_in, written

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


PLACES = ("runs", "comparisons", "models", "pages", "removed", "pieces")
"""What was written anew; `removed`, because a command makes it again; and `pieces` that a killed command
would have gone on from: rows without names, so nobody's can be told."""
MADE_AGAIN = ("case", "export", "copy")
"""Of the register, what a command makes again and erasing removes."""


@dataclass(frozen=True)
class Erasure:
    """One erasure, and what it needs to draw pages and seal models."""

    scope: Scope
    ledger: Ledger
    # Searched with all below them: run and comparison directories, models, and pages copied for readers.
    runs: Path | None = None
    models: Path | None = None
    pages: Path | None = None
    retrain_by: datetime.date | None = None  # For models that hold the patient's row.
    dry_run: bool = False  # Only say what would go.
    templates: Path | None = None  # A site's own, for pages that are drawn again.
    signer: Ed25519PrivateKey | None = None  # Signs the models that are sealed anew.
    places: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in PLACES}, init=False)
    retrain: dict[str, str] = field(default_factory=dict, init=False)
    left: list[str] = field(default_factory=list, init=False)

    def done(self, action: str, reason: str) -> dict[str, Any]:
        """Erase everywhere.

        `action`: one of "forget", "purge". `reason`: said in the trail; no patient in it.
        Returns what was erased, or would be, as `--json` prints it; no patient in it: of the `ledger` how
        much, by `PLACES` the directories and files, models to `retrain` since they hold a copy of the
        patient's row, with the day after which each scores no more, and what could not be done and was
        `left`, with why.
        """
        artefacts = self._artefacts()
        with self.ledger.reading() as connection:
            keys, earlier = runs_naming(connection, self.scope.patient), unreached(connection)
        # What shows such a run, or was there when an earlier erasure could not reach all that one showed.
        naming = {
            artefact.place
            for artefact in artefacts
            if artefact.key in keys or artefact.entry < earlier.get(artefact.key or "", 0)
        }
        self._sweep()
        # Before the runs that say whose files these are.
        for artefact in artefacts:
            if artefact.what in MADE_AGAIN and artefact.state == "as written":
                with self._noting(artefact.place):
                    self._remove(artefact, naming)
        for kind, root, rewrite_in in (
            ("model", self.models, self._model),
            ("comparison", self.runs, self._comparison),
            ("run", self.runs, partial(self._run, artefacts=artefacts)),
        ):
            folders = _directories(root, kind)
            # And where the register has one.
            registered = dict.fromkeys(artefact.place for artefact in artefacts if artefact.what == kind)
            known = {folder.resolve() for folder in folders}
            folders += [at for at in registered if at not in known and (at / f"{kind}.json").exists()]
            for folder in folders if self.scope.patient is not None or kind == "run" else ():
                with self._noting(folder):
                    rewrite_in(folder)
        pending = set[str]() if self.dry_run else self._note_left(naming)
        erased = erase(self.ledger, action, reason, self.scope, dry_run=self.dry_run, left=pending)
        return {"ledger": erased} | self.places | {"retrain": self.retrain, "left": self.left}

    @contextmanager
    def _noting(self, place: Path) -> Iterator[None]:
        """Say what could not be done at a place: the other places are not to wait for it."""
        try:
            yield
        except (ScreenError, OSError) as error:
            again = "; run this again afterwards" if isinstance(error, Locked) else ""
            self.left.append(f"{place}: {error}{again}")

    def _artefacts(self) -> list[Artefact]:
        with self.ledger.reading() as connection:
            return [
                one for one in current_artefacts(connection) if self.scope.has_night(one.night, one.series)
            ]

    def _names(self, artefact: Artefact, naming: Collection[Path]) -> bool:
        """Whether a file that shows a run, or a case of it, names one of those meant."""
        if self.scope.patient is not None and artefact.what == "case":
            return artefact.patient == self.scope.patient or self._reads(artefact.place)
        return artefact.place in naming or (artefact.what == "page" and self._reads(artefact.place))

    def _reads(self, page: Path) -> bool:
        """Whether the patient's id stands in a page."""
        name = re.escape(html.escape(self.scope.patient or ""))
        return bool(name) and bool(re.search(rf"(?<!\w){name}(?!\w)".encode(), page.read_bytes()))

    def _remove(self, artefact: Artefact, naming: Collection[Path]) -> None:
        if not self._names(artefact, naming):
            return
        self.places["removed"].append(str(artefact.place))
        if not self.dry_run:
            if artefact.place.is_dir():
                shutil.rmtree(artefact.place)
            else:
                artefact.place.unlink()
            hand_out(self.ledger, replace(artefact, sha256=None))

    def _note_left(self, naming: Collection[Path]) -> set[str]:
        """Say what the register lists, and what lies among the pages, that this could not erase.

        Returns the keys of its runs.
        """
        keys = set[str]()
        for artefact in self._artefacts():
            why = self._why_left(artefact, artefact.state, naming)
            if why is not None:
                moved = (
                    "" if "remove" in why else ", or say where it is, or that it is gone: screen ledger moved"
                )
                self.left.append(f"{artefact.place}: {why}{moved}")
                keys |= {artefact.key} if artefact.key is not None else set()
            elif artefact.state == "missing":
                hand_out(self.ledger, replace(artefact, sha256=None))
        pages = [] if self.pages is None else sorted(self.pages.rglob("*.html"))
        self.left.extend(
            f"{page}: no run directory is the origin of this page; remove it"
            for page in pages
            if self._reads(page)
        )
        return keys

    def _why_left(self, artefact: Artefact, state: str, naming: Collection[Path]) -> str | None:
        what, place = artefact.what, artefact.place
        if what == "table" and place in naming:
            return "a table of a database is not reached from here; export it again with --force"
        if state == "unreachable" and (what in ("run", "model") or place in naming):
            return "it cannot be reached; run this again once it can"
        if state == "altered" and what in (*MADE_AGAIN, "page") and self._names(artefact, naming):
            return "it is not as it was written, so it was left; remove it"
        if state == "as written" and what == "page":
            purged = self.scope.patient is None and place in naming
            if self._reads(place) or (purged and str(place) not in self.places["pages"]):
                return "its run directory is not there to draw it again from; remove it"
        return None

    def _sweep(self) -> None:
        """Remove what killed writers left at, below or beside a place: it holds patients too."""
        for root in (self.models, self.runs):
            if root is None:
                continue
            folders = [Path(folder) for folder, _, _ in _walked(root.resolve())]
            pieces = chain(waiting_in(folders[0].parent, folders[0].name), *map(waiting_in, folders))
            for place, out in pieces if self.scope.patient is not None else ():
                with self._noting(place):
                    if not self.dry_run:
                        with hold(out):
                            shutil.rmtree(place)
                    self.places["pieces"].append(str(place))
            for folder in (folders[0].parent, *folders) if not self.dry_run else ():
                sweep(folder)

    def _model(self, folder: Path) -> None:
        leave = partial(
            without_patient, name=str(self.scope.patient), retrain_by=self.retrain_by or datetime.date.max,
            today=datetime.date.today(),
        )  # fmt: skip
        after = leave(load_model(folder))
        if after is None:
            return
        if not self.dry_run:
            with publish(folder, "model") as new:
                before = load_model(folder)
                after = leave(before)
                if after is None:
                    raise Locked("somebody else has just written it")
                write_model(after, new, partial(render_model, templates=self.templates), self.signer)
                # Entered before it stands there: the next attempt knows of one that never came to.
                record_sealed(self.ledger, before.digest, after.digest)
        self.places["models"].append(str(folder))
        if after.facts.retrain_by:
            self.retrain[str(folder)] = after.facts.retrain_by

    def _comparison(self, folder: Path) -> None:
        scores = folder / "scores.parquet"
        if self.scope.patient not in pq.read_table(scores, columns=["id"])["id"].to_pylist():
            return
        self.places["comparisons"].append(str(folder))
        if not self.dry_run:
            with publish(folder, "comparison") as new:
                shutil.copytree(folder, new, ignore=shutil.ignore_patterns(scores.name), dirs_exist_ok=True)
                rewrite_scores(scores, new / scores.name, self.scope.patient)

    def _run(self, folder: Path, artefacts: Sequence[Artefact]) -> None:
        document, patient = read_document(folder, "run"), self.scope.patient
        run = RunDocument.from_dict(document)
        series, key = (run.ledger.series, run.ledger.key) if run.ledger else (None, None)
        if not self.scope.has_night(run.date, series) or not names_in(folder, document, patient):
            return
        self.places["runs"].append(str(folder))
        page = folder / "report.html"
        registered = {one.place: one for one in artefacts if key is not None and one.key == key}
        copies = self._copies(page, registered) if page.exists() else []
        self.places["pages"] += map(str, copies)
        if self.dry_run:
            return
        with publish(folder, "run") as new:
            fewer, drawn = rewrite(folder, new, document, patient), b""
            if page.exists():
                drawn = render_run(fewer, self.templates).encode()
                (new / page.name).write_bytes(drawn)
            # By its time the newest head is found, and this is none.
            written_at = (folder / "run.json").stat().st_mtime_ns
            os.utime(new / "run.json", ns=(written_at, written_at))
            digests = dict.fromkeys(copies, hashlib.sha256(drawn).hexdigest())
            digests[folder.resolve()] = digest_of(new / "run.json")
            changed = [replace(registered[at], sha256=digests[at]) for at in digests if at in registered]
            hand_out(self.ledger, *changed)
            # Before the run they are found by is another one.
            for copy in copies:
                status = copy.stat()
                group = status.st_gid if status.st_gid != os.getegid() else None
                write_whole(copy, drawn, status.st_mode & 0o777, group)

    def _copies(self, page: Path, registered: Mapping[Path, Artefact]) -> list[Path]:
        """Copies for readers of a run's page: those of the register, and what else lies among the pages."""
        content, size = page.read_bytes(), page.stat().st_size
        listed = [one.place for one in registered.values() if one.what == "page"]
        listed += [] if self.pages is None else sorted(self.pages.rglob("*.html"))
        others = dict.fromkeys(path.resolve() for path in listed if path.is_file())
        others.pop(page.resolve(), None)
        return [path for path in others if path.stat().st_size == size and path.read_bytes() == content]


def _directories(root: Path | None, kind: str) -> list[Path]:
    """Directories of a kind at or below a place, in order; what is hidden is somebody's half-done work."""
    if root is not None and not root.is_dir():
        raise UsageError(f"{root} is no directory")
    folders = []
    for folder, inside, files in _walked(root) if root is not None else ():
        if f"{kind}.json" in files:
            inside.clear()
            folders.append(Path(folder))
    return folders


def _walked(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` in order, past what is hidden."""
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        yield folder, inside, files


TABLES = ("scores.parquet", "flagged.csv")
LISTED = ("cases", "near_misses", "groups", "sample", "geometries")
NAMES = ("id", "group")


def names_in(folder: Path, document: Mapping[str, Any], name: str | None) -> bool:
    """Whether a run names the patient, or anybody where no name is given."""
    return document_without(document, name) != document or any(
        _of_patient(batch, name).any() for batch in Rows(folder / "scores.parquet").batches()
    )


def rewrite(source: Path, folder: Path, document: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Write tables and document of a run without a patient, or without anybody, into another folder.

    `source`, `folder`: the run, and where it is to be written.
    `document`: its `run.json`.
    `name`: id of a row, or of the group that rows belong to.
    Returns the document as it is sealed now.
    """
    rewrite_scores(source / "scores.parquet", folder / "scores.parquet", name)
    if (source / "flagged.csv").exists():
        write_flagged(folder / "flagged.csv", Rows(folder / "scores.parquet"))
    fewer = document_without(document, name)
    if fewer.get("outputs") is not None:
        there = [path for path in map(folder.joinpath, TABLES) if path.exists()]
        fewer["outputs"] = {path.name: digest_of(path) for path in sorted(there)}
    fewer, text = written(fewer)
    (folder / "run.json").write_bytes(text)
    return fewer


def document_without(document: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """The run's document in which a patient, or nobody at all, is named."""
    gone = set[str]()

    def others(listed: Sequence[Any]) -> list[Any]:
        kept = []
        for one in listed:
            names = [one.get(key) for key in NAMES] if isinstance(one, Mapping) else [one]
            mine = [str(each) for each in names if each is not None and name in (None, str(each))]
            gone.update(mine[-1:])
            kept += [] if mine else [one]
        return kept

    fewer = dict(document) | {part: others(document[part]) for part in LISTED if document.get(part)}
    if since := document.get("since"):
        fewer["since"] = since | {part: others(since[part]) for part in ("gone", "left")}
    if voxels := document.get("voxels"):
        fewer["voxels"] = voxels | {"patients": others(voxels["patients"])}
    if drift := document.get("drift"):
        lot = None if name is None else short_hash(name, document["model"]["digest"])
        pairs = zip(drift.get("who", ()), drift.get("cell", ()), strict=True)
        kept = [pair for pair in pairs if lot is not None and pair[0] != lot]
        who, cell = zip(*kept, strict=True) if kept else ((), ())
        fewer["drift"] = drift | {"who": [*who], "cell": [*cell]}
    if not gone:
        return fewer
    if groups := document.get("groups"):
        # A run that does not say how many patients it had counts those it lists.
        hit = sum(bool(group["flagged"]) for group in groups)
        for key, listed in (("groups_total", len(groups)), ("groups_flagged", hit)):
            fewer[key] = listed if document.get(key) is None else document[key]
    fewer["cases_shown"] = len(fewer["cases"])
    fewer["cases_explained"] = sum(case.get("contributions") is not None for case in fewer["cases"])
    fewer["erased"] = document.get("erased", 0) + len(gone)
    return fewer


def rewrite_scores(source: Path, target: Path, name: str | None) -> None:
    """Copy a table of rows by `id`, and `group` where it has one, without a patient or without anybody."""
    Rows(source).write_without(target, partial(_of_patient, name=name))


def _of_patient(batch: pa.RecordBatch, name: str | None) -> np.ndarray:
    """Which rows are the patient's, or anybody's, shape (n_rows,)."""
    there = [batch[column].to_numpy(zero_copy_only=False) for column in NAMES if column in batch.schema.names]
    return np.logical_or.reduce([names == name for names in there]) | (name is None)
