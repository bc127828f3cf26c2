"""Erasing in every place that names patients: models, run directories, copies of pages, the ledger.

Each model, run and page is replaced whole, the ledger changes in one transaction, and each step finds by
itself what is left to do: an attempt that was killed is ended by the next.
"""

from __future__ import annotations

import datetime
import html
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from screening.documents.tables import table, word
from screening.errors import Locked, ScreenError, UsageError
from screening.ledger import Ledger
from screening.ledger.forgetting import Whom, erase, record_sealed
from screening.page import render_model, render_run
from screening.scoring.erasing import names_in, rewrite, rewrite_scores
from screening.storage.finished import waiting_in
from screening.storage.loading import load_model
from screening.storage.model import write_model
from screening.storage.publishing import hold, publish, sweep, write_whole
from screening.storage.sealing import as_stored, read_document
from screening.training.erasing import without

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class Places:
    """Where patients are named besides the ledger; directories are searched with all below them.

    Parameters
    ----------
    runs, models, pages : Path, optional
        Of run and comparison directories, of models, and of pages copied for their readers.
    """

    runs: Path | None = None
    models: Path | None = None
    pages: Path | None = None


@dataclass
class Report:
    """What was erased, or would be; places and counts, no patient.

    Parameters
    ----------
    runs, comparisons, models, pages : list of Path
        Written anew.
    pieces : list of Path
        What a killed command would have gone on from, removed: rows without names, so nobody's can be told.
    retrain : dict of str to str
        Models that hold a copy of the patient's row, and the day after which each scores no more.
    ledger : dict of str to int
        Nights, cases, verdicts and mentions.
    left : list of str
        What could not be done, and why.
    """

    runs: list[Path] = field(default_factory=list)
    comparisons: list[Path] = field(default_factory=list)
    models: list[Path] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)
    pieces: list[Path] = field(default_factory=list)
    retrain: dict[str, str] = field(default_factory=dict)
    ledger: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether the patient was known anywhere."""
        return bool(any(self.ledger.values()) or any(getattr(self, key) for key in (*PATIENTS, "left")))

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        lists = {key: [str(path) for path in getattr(self, key)] for key in PLACES}
        return {"ledger": self.ledger} | lists | {"retrain": self.retrain, "left": self.left}


PATIENTS = ("runs", "comparisons", "models", "pages")
PLACES = (*PATIENTS, "pieces")


@dataclass(frozen=True)
class Erasure:
    """One erasure, and what it needs to draw pages and seal models.

    Parameters
    ----------
    whom : Whom
    ledger : Ledger
    places : Places
    retrain_by : date, optional
        For models that hold the patient's row.
    dry_run : bool
        Only say what would go.
    templates : Path, optional
        A site's own, for pages that are drawn again.
    signer : private key, optional
        Signs the models that are sealed anew.
    """

    whom: Whom
    ledger: Ledger
    places: Places
    retrain_by: datetime.date | None = None
    dry_run: bool = False
    templates: Path | None = None
    signer: Ed25519PrivateKey | None = None

    def done(self, action: str, reason: str) -> Report:
        """Erase everywhere.

        Parameters
        ----------
        action : {"forget", "purge"}
        reason : str
            Said in the trail; no patient in it.
        """
        report = Report()
        for root in (self.places.models, self.places.runs):
            self._half_done(report, root)
        if self.whom.name is not None:
            self._each(report, self.places.models, "model", self._model)
            self._each(report, self.places.runs, "comparison", self._comparison)
        self._each(report, self.places.runs, "run", self._run)
        report.ledger = vars(erase(self.ledger, action, {"reason": reason}, self.whom, dry_run=self.dry_run))
        report.left += self._pages_left()
        return report

    def _each(
        self, report: Report, root: Path | None, kind: str, step: Callable[[Report, Path], None]
    ) -> None:
        for folder in _directories(root, kind) if root is not None else ():
            with _noted(report, folder):
                step(report, folder)

    def _half_done(self, report: Report, root: Path | None) -> None:
        """Remove what killed writers left at, below or beside a place: it holds patients too."""
        if root is None:
            return
        target = root.resolve()
        inside = [Path(folder) for folder, _, _ in _walked(target)]
        pieces = [
            *waiting_in(target.parent, target.name),
            *(each for at in inside for each in waiting_in(at)),
        ]
        for place, out in pieces if self.whom.name is not None else ():
            with _noted(report, place):
                if not self.dry_run:
                    with hold(out):
                        shutil.rmtree(place)
                report.pieces.append(place)
        for folder in (target.parent, *inside) if not self.dry_run else ():
            sweep(folder)

    def _model(self, report: Report, folder: Path) -> None:
        leave = partial(
            without, name=str(self.whom.name), retrain_by=self.retrain_by or datetime.date.max,
            today=datetime.date.today(),
        )  # fmt: skip
        after = leave(load_model(folder))
        if after is not None and not self.dry_run:
            with publish(folder, "model") as new:
                before = load_model(folder)
                after = leave(before)
                if after is None:
                    raise Locked("somebody else has just written it")
                draw = partial(render_model, templates=self.templates)
                write_model(after, new, draw, self.signer)
                # Entered before it stands there: the next attempt knows of one that never came to.
                record_sealed(self.ledger, before.digest, after.digest)
        if after is not None:
            report.models.append(folder)
            if after.facts.retrain_by:
                report.retrain[str(folder)] = after.facts.retrain_by

    def _run(self, report: Report, folder: Path) -> None:
        document, name = read_document(folder, "run"), self.whom.name
        with as_stored(folder / "run.json"):
            night = word(document, "date")
            known = table(document, "ledger") if document.get("ledger") else {}
            series = None if known.get("series") is None else word(known, "series")
        if not self.whom.of_night(night, series):
            return
        if not names_in(folder, document, name):
            return
        report.runs.append(folder)
        old = folder / "report.html"
        drawn = old.read_bytes() if old.exists() else None
        copies = self._copies(drawn, night)
        report.pages += copies
        if self.dry_run:
            return
        with publish(folder, "run") as new:
            fewer = rewrite(folder, new, document, name)
            if drawn is not None:
                page = render_run(fewer, self.templates).encode()
                (new / "report.html").write_bytes(page)
                # Before the run they are found by is another one.
                for copy in copies:
                    status = copy.stat()
                    group = status.st_gid if status.st_gid != os.getegid() else None
                    write_whole(copy, page, status.st_mode & 0o777, group)

    def _comparison(self, report: Report, folder: Path) -> None:
        import pyarrow.parquet as pq

        scores = folder / "scores.parquet"
        if self.whom.name not in pq.read_table(scores, columns=["id"])["id"].to_pylist():
            return
        report.comparisons.append(folder)
        if self.dry_run:
            return
        with publish(folder, "comparison") as new:
            for path in folder.iterdir():
                if path != scores:
                    (new / path.name).write_bytes(path.read_bytes())
            rewrite_scores(scores, new / scores.name, self.whom.name)

    def _copies(self, page: bytes | None, night: str) -> list[Path]:
        """Copies for readers of a run's page."""
        if self.places.pages is None or page is None:
            return []
        found = [self.places.pages / f"{night}.html", self.places.pages / "latest.html"]
        return [path for path in found if path.is_file() and path.read_bytes() == page]

    def _pages_left(self) -> list[str]:
        """Copies that no run directory accounts for and that still name the patient."""
        if self.places.pages is None or self.whom.name is None or self.dry_run:
            return []
        name = re.escape(html.escape(self.whom.name))
        word = re.compile(rf"(?<!\w){name}(?!\w)".encode())
        copies = sorted(self.places.pages.glob("*.html"))
        left = [path for path in copies if word.search(path.read_bytes())]
        return [f"{path}: no run directory is the origin of this page; remove it" for path in left]


def _directories(root: Path, kind: str) -> Iterator[Path]:
    """Directories of a kind at or below a place, in order; what is hidden is somebody's half-done work."""
    if not root.is_dir():
        raise UsageError(f"{root} is no directory")
    for folder, inside, files in _walked(root):
        if f"{kind}.json" in files:
            inside.clear()
            yield Path(folder)


def _walked(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` in order, past what is hidden."""
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        yield folder, inside, files


@contextmanager
def _noted(report: Report, place: Path) -> Iterator[None]:
    """Say what could not be done at a place: the other places are not to wait for it."""
    try:
        yield
    except (ScreenError, OSError) as error:
        again = "; run this again afterwards" if isinstance(error, Locked) else ""
        report.left.append(f"{place}: {error}{again}")
