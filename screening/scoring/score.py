"""From a model and a new cohort to a run directory.

Rows are in memory for a few blocks at a time. What grows with the table are figures of
its groups, labels, and the flagged rows.

`score_pieces` yields the rows of the table in order, each piece with its totals. The
rows are written as they come, the totals are added up, and the document, the ledger's
entry and the page are made from the sum.

Everything is written to a folder beside the run directory, which `publish` puts in its
place at the end. A command that is killed leaves that folder, which the next one
removes, and no run directory.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from screening.clock.night import night_of_date
from screening.clock.zone import clock_of
from screening.cluster import open_cluster
from screening.data.stream import CohortStream
from screening.data.unused_rows import UnusedRows
from screening.errors import ModelError, UsageError
from screening.files import digest_beside, digest_of
from screening.identity.hashes import series_key as hashes_of_series
from screening.identity.table import IdReader
from screening.io.opening import Readable
from screening.io.queries import Database
from screening.io.readers import Source
from screening.ledger.database import Ledger
from screening.ledger.entries import Artefact, run_id_of
from screening.ledger.location import refuse_copy
from screening.ledger.nights import (
    open_night,
    refuse_old_night,
    reserve,
    series_by,
)
from screening.ledger.past_nights import known_patients
from screening.ledger.verifying import refuse_older
from screening.option_groups import groups_from
from screening.report import draw_run
from screening.report.night_attention import attention_of_night
from screening.report.page import check_templates
from screening.schemas.base import Brief, InBrief, Reason
from screening.schemas.history import Question
from screening.schemas.run import RunDocument
from screening.scoring.flagged_list import write_flagged
from screening.scoring.id_reasons import reasons_of_ids
from screening.scoring.night_totals import BlockScorer, NightTotals
from screening.scoring.refused_file import refused_file
from screening.scoring.rows import Rows
from screening.scoring.scoring_pass import ScoredRows, score_pieces
from screening.scoring.series_history import (
    enter_night,
    night_of,
    past_of,
    waiting,
    with_delivery,
    with_drift,
    with_states,
)
from screening.scoring.summary import Summary
from screening.settings import NightOptions, Progress, Resources
from screening.spelling import shown_series
from screening.store.model import Model
from screening.store.publishing import flushed_digest, publish
from screening.store.serialization import canonical, read_run, written
from screening.threads import limit_threads


@dataclass(frozen=True, repr=False)
class Run(InBrief):
    """A finished run.

    Parameters
    ----------
    directory : Path
        Contains `scores.parquet`, `flagged.csv`, `run.json` and `report.html`; for a
        run in shadow neither page nor list.
    document : dict
        Content of `run.json`.
    """

    directory: Path
    document: dict[str, Any]

    @property
    def attention(self) -> list[Reason]:
        """Reasons why the head of the page says ATTENTION; empty where it says OK."""
        return [Reason(**reason) for reason in self.document["attention"]]

    @property
    def shadow(self) -> bool:
        """True if it was scored beside the champion and has no page."""
        return bool((self.document.get("ledger") or {}).get("shadow"))

    def brief(self) -> Brief:
        """Return the run in a few lines."""
        return RunDocument.from_dict(self.document).brief()

    def summary(self) -> dict[str, Any]:
        """Return what the command prints: counts and places, no patient."""
        facts = {
            key: self.document[key]
            for key in ("run_id", "date", "counts", "refused", "evaluation")
        }
        facts |= {
            key: self.document["times"][key]
            for key in ("taken_at", "taken_from", "time_zone", "is_zone_of_host")
        }
        return facts | {
            "attention": self.document["attention"],
            "model": self.document["model"]["id"],
            "out": str(self.directory),
            "report": None if self.shadow else str(self.directory / "report.html"),
        }


def score(
    model: Model,
    source: Readable,
    out: str | Path,
    *,
    ledger: Ledger | None = None,
    night: NightOptions | None = None,
    resources: Resources | None = None,
    **settings: Any,
) -> Run:
    """Score every row of a cohort at the model's operating points.

    Parameters
    ----------
    model : Model
        Trained or loaded.
    source : path, URL, Database, or table
        As `read_cohort` takes it; read in blocks, and read ahead if the contract asks
        what only the whole table shows.
    out : str or Path
        Run directory; it appears whole or not at all.
    ledger : Ledger, optional
        Distinguishes new cases from known ones. The same night again gives the same
        page.
    night : NightOptions, optional
        The date, what the table says of it, its series, and further files to write.
        With a ledger, a night in shadow is scored in addition to the series' champion,
        and does not change its cases and counts.
    resources : Resources, optional
        Processes, or threads if there is little to do, and workers. The scores do not
        depend on them.
    **settings
        Fields of these groups by their names, such as ``date="2026-03-01"`` or
        ``jobs=4``.

    Returns
    -------
    Run
        Its directory, and the content of `run.json`.

    Raises
    ------
    CohortError
        If the table breaks the model's contract, or is surely another night's or
        another ward's.
    UsageError
        If the date is not valid, the directory cannot be written or contains another
        night or model, a template cannot be drawn, or another table or model is in
        force for this night of the series.
    Locked
        If another run is writing there.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from tempfile import mkdtemp
    >>> from screening import read_cohort, score, train
    >>> samples = files("screening.sample_cohorts")
    >>> past = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> model = train(past, "logistic", search=1)
    >>> run = score(model, samples / "nosocomial_night.csv", mkdtemp())
    >>> run.document["counts"]["scored"]
    240
    """
    night, resources = groups_from(
        settings, (NightOptions, night), (Resources, resources)
    )
    _refuse_options(night, ledger)
    contract = model.contract.of_place(night.time_zone, night.hour)
    date = night_of_date(night.date, night.allow_future, clock_of(contract.time_zone))
    if isinstance(source, Database):
        source = source.of_night(date)
    night = replace(night, date=date, series=night.series or model.contract.series)
    series_key = series_by(night.series, Question.of(model.facts))
    _refuse_night(model, out, night, ledger, series_key)
    started = datetime.datetime.now(datetime.UTC)
    began = time.perf_counter()
    with (
        limit_threads(resources.jobs),
        open_cluster(resources.cluster) as workers,
        # Closed last: a night is in the ledger only if its directory is there.
        ExitStack() as transaction,
        publish(out, "run") as folder,
        refused_file(night.refused) as refused,
    ):
        id_reader = _id_reader(model, ledger, series_key, date, night.shadow)
        gates = model.gates()
        unused = UnusedRows()
        stream = model.opened(
            source,
            batch_rows=night.batch_rows,
            label=night.label,
            gates=gates,
            observers=[unused, *refused],
            contract=contract,
            ids=id_reader,
        )
        reader = stream.read_ahead()
        scorer = BlockScorer(model, date, reader)
        rows = Rows(folder / "scores.parquet")
        pieces = score_pieces(scorer, stream, out, folder, resources.jobs, workers)
        total = _write_rows(pieces, rows, stream.source, resources.progress)
        summary = Summary(scorer, total)
        key = _key_of_run(model, stream, night)
        run = summary.document(
            stream,
            rows,
            gates,
            unused.cells,
            run_id=run_id_of(key),
            started=started.isoformat(timespec="seconds"),
        )
        ids = reasons_of_ids(summary, stream, ledger is not None)
        past = past_of(run, ledger, series_key, night.shadow)
        run = with_delivery(model, run, past, ids, night.accept_delivery)
        run = with_drift(model, run, gates, past)
        tonight = None
        if ledger is None:
            run = run.replace(attention=attention_of_night(run, trained=model.trained))
        else:
            entry = night_of(model, run, key, series_key, night.shadow, night.replace)
            reserve(ledger, series_key, date)
            opened_night = open_night(
                ledger,
                entry,
                summary.flagged_cases(rows),
                force=night.may_replace,
                again=night.accept_delivery not in (None, past.accepted),
            )
            tonight = transaction.enter_context(opened_night)
            patients = stream.ids.counts.sample
            enter_night(tonight, run, past, gates, patients, trained=model.trained)
            run = with_states(run, tonight, rows)
        digest_of_scores = digest_beside(rows.path, flushed_digest)
        if not night.shadow:
            write_flagged(folder / "flagged.csv", rows, resources.jobs)
        run = run.replace(
            stopping=summary.histogram.stopping(waiting(run), model.contract.capacity),
            times=run.times.replace(seconds=round(time.perf_counter() - began, 3)),
            outputs=_digests_of_outputs(folder, {rows.path: digest_of_scores}),
            model=run.model.replace(page=_page_of(model, out, night)),
        )
        document, text = _write_documents(folder, run, night)
        if tonight is not None:
            digest = hashlib.sha256(text).hexdigest()
            tonight.hand_out(*_artefacts(model, out, key, digest))
    return Run(Path(out), document)


def _write_documents(
    folder: Path, run: RunDocument, night: NightOptions
) -> tuple[dict[str, Any], bytes]:
    """Write `run.json` and the page, which a run in shadow has not.

    Returns
    -------
    document : dict
        Content of `run.json`.
    text : bytes
        As it is written.
    """
    document, text = written(run.to_dict())
    if not night.shadow:
        drawn = run.replace(sha256=str(document["sha256"]))
        page = draw_run(drawn, night.templates)
        (folder / "report.html").write_text(page, encoding="utf-8", newline="\n")
    (folder / "run.json").write_bytes(text)
    return document, text


def _digests_of_outputs(
    folder: Path, begun: Mapping[Path, Callable[[], str]]
) -> dict[str, str]:
    """Return the SHA-256 of each file by its name; those of `begun` are waited for."""
    digests = {}
    for path in sorted(folder.iterdir()):
        digests[path.name] = begun[path]() if path in begun else digest_of(path)
    return digests


def _refuse_options(night: NightOptions, ledger: Ledger | None) -> None:
    """Raise UsageError for a shadow without a ledger, and a reason without words."""
    if night.shadow and ledger is None:
        raise UsageError(
            "--shadow needs a ledger, to compare with the series' champion; give "
            "--ledger"
        )
    for parameter in ("accept_delivery", "replace"):
        reason = getattr(night, parameter)
        if reason is not None and not reason.strip():
            raise UsageError(
                f"`{parameter}`: give the reason in a few words, which are recorded",
                parameters=[parameter],
            )


def _refuse_night(
    model: Model,
    out: str | Path,
    night: NightOptions,
    ledger: Ledger | None,
    series: str,
) -> None:
    """Refuse a night that cannot be scored, whatever its table contains.

    Raises
    ------
    ModelError
        If the model should have been trained again by now, or the ledger is a copy of a
        site's, or older than its run directories.
    UsageError
        If the directory contains another night or model, or a template cannot be drawn.
    CohortError
        If the night is long before the first one of its series.
    """
    model.refuse_overdue()
    date = str(night.date)
    _refuse_other_night(out, date, model)
    check_templates(night.templates, "run")
    if ledger is not None:
        with ledger.reading() as connection:
            refuse_copy(connection)
            refuse_old_night(connection, series, date, night.accept_delivery)
        siblings = Path(out).resolve().parent
        refuse_older(ledger, siblings, "*", shown_series(series))


def _refuse_other_night(out: str | Path, night: str, model: Model) -> None:
    """Raise UsageError if the directory contains another night, or another model's."""
    try:
        earlier = read_run(out)
    except ModelError:
        # Without a run, or with a damaged one, it may be replaced.
        return
    if earlier.date != night:
        content = f"the night of {earlier.date}"
    elif earlier.model.digest != model.digest:
        content = "this night, scored by another model"
    else:
        return
    raise UsageError(
        f"{out} contains {content}, but a run directory belongs to one night of one "
        "model; give another `out`, or move that directory away",
        parameters=["out"],
    )


def _id_reader(
    model: Model, ledger: Ledger | None, series: str, night: str, shadow: bool
) -> IdReader:
    """Return the reader of tonight's ids, which knows the last nights' patients."""
    known = None
    if ledger is not None:
        shadow_model = model.digest if shadow else None
        known = known_patients(ledger, series, night, shadow_model)
    return model.id_reader(hashes_of_series(series), known)


def _write_rows(
    pieces: ScoredRows, rows: Rows, source: Source, progress: Progress
) -> NightTotals:
    """Score and write the rows piece by piece, and return their totals."""
    total: NightTotals | None = None
    with rows.appending() as file:
        for rows_of_piece, of_piece in pieces:
            file.append(rows_of_piece)
            total = of_piece if total is None else total + of_piece
            progress(total.n_scored, source.n_rows or 0)
    assert total is not None, "a table without valid rows is refused"
    return total


def _key_of_run(model: Model, stream: CohortStream, night: NightOptions) -> str:
    """Return a digest that is the same for the same model, input, night and series."""
    facts: dict[str, Any] = {
        "model": model.digest,
        "input": [file.sha256 for file in stream.source.files],
        "date": night.date,
        "label": night.label,
        "series": night.series,
        "shadow": night.shadow,
    }
    return hashlib.sha256(canonical(facts)).hexdigest()


def _artefacts(
    model: Model, out: str | Path, key: str, sha256: str
) -> Iterator[Artefact]:
    """Yield what the ledger knows of the run's directory and of the model's."""
    yield Artefact(what="run", place=Path(out).resolve(), sha256=sha256, key=key)
    if model.directory is not None:
        place = model.directory.resolve()
        yield Artefact(what="model", place=place, sha256=model.digest)


def _page_of(model: Model, out: str | Path, night: NightOptions) -> str | None:
    """Return the link from a run directory to the model's page.

    None without a page, or if the night's own page is copied to readers, who cannot
    follow the link.
    """
    if night.published or model.directory is None:
        return None
    if not (model.directory / "report.html").is_file():
        return None
    link = os.path.relpath(
        model.directory.resolve() / "report.html", Path(out).resolve()
    )
    return link if link.isprintable() else None
