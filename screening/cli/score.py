"""`screen score`"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs
from screening.cli.console import ATTENTION, agreement, bar, sentences, tell
from screening.cli.options import (
    AsJson,
    Cluster,
    LedgerMaybe,
    Mode,
    Publish,
    Query,
    ReadBy,
    Series,
    Source,
    Table,
    Templates,
    series_from,
    source_of,
)
from screening.errors import UsageError

if TYPE_CHECKING:
    from screening.ledger import Ledger
    from screening.scoring.score import Run
    from screening.storage.showing import PageFolder


def score(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model directory written by `screen train`.")
    ],
    cohort: Source,
    out: Annotated[Path, typer.Option(help="Run directory to write.")],
    table: Table = None,
    query: Query = None,
    label: Annotated[
        str | None, typer.Option(help="Column of true labels, to evaluate; never written.")
    ] = None,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Night of the run; today if absent.")
    ] = None,
    require_signature: Annotated[
        Path | None,
        typer.Option(metavar="PUB", help="Refuse a model that this Ed25519 key (PEM) has not signed."),
    ] = None,
    ledger: LedgerMaybe = None,
    series: Series = None,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="With --ledger: beside the series' champion; recorded, no page."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --ledger: enter a known night, or another table or model for it."),
    ] = False,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Take a --date after tomorrow, for tests.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where the page's head says ATTENTION.")
    ] = False,
    publish: Publish = None,
    mode: Mode = None,
    group: ReadBy = None,
    templates: Templates = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for one a core.")] = -1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Score every row of COHORT at MODEL's operating point."""
    from contextlib import nullcontext

    from screening.scoring import score as scoring
    from screening.sources.arrow_alone import leave_pandas_unread
    from screening.storage.loading import load_model
    from screening.storage.signing import public_key

    leave_pandas_unread()
    logs.about(series=series_from(series), night=date)
    pages = _pages(publish, mode, group, shadow)
    signed_by = None if require_signature is None else public_key(require_signature)
    if force and not ledger:
        raise UsageError("--force makes a new revision in a ledger; give --ledger too")
    if series and not ledger:
        raise UsageError("--series is a name in a ledger; give --ledger too")
    with _opened(ledger) if ledger else nullcontext() as book:
        run = scoring.score(
            load_model(model, signed_by), source_of(cohort, table, query), out, label=label, date=date,
            ledger=book, series=series_from(series), shadow=shadow, force=force,
            allow_future=allow_future, jobs=jobs, cluster=cluster, progress=bar("Scoring"),
            templates=templates,
        )  # fmt: skip
        told = run.summary()
        if shadow and book is not None:
            told["beside"] = _beside(book, run, as_json)
    if pages is not None:
        page = (run.directory / "report.html").read_bytes()
        told["published"] = str(pages.show(page, run.document["date"]))
    known = run.document.get("ledger") or {}
    logs.about(series=known.get("series"), night=run.document["date"], run=run.document["run_id"])
    if label and run.document.get("evaluation") is None:
        logs.note(f"column {label} holds no label tonight: nothing is evaluated")
    logs.about(peak_mb=logs.peak_mb())
    logs.done("the night is scored and its run directory is complete")
    tell(told if as_json else told | {"attention": sentences(told["attention"])}, as_json)
    if strict and run.attention:
        words = " ".join(each.words for each in run.attention)
        logs.note(f"the run is complete but wants attention: {words}")
        raise typer.Exit(ATTENTION)


def _pages(publish: Path | None, mode: str | None, group: str | None, shadow: bool) -> PageFolder | None:
    """Where a copy of the page goes; what stands in its way is said before the night is scored."""
    if publish is None:
        if mode or group:
            raise UsageError("--mode and --group are those of a copy for readers; give --publish too")
        return None
    if shadow:
        raise UsageError("a night in shadow has no page to --publish")
    from screening.storage.showing import PageFolder, readers

    pages = PageFolder(publish, readers(mode, group))
    pages.prepare()
    return pages


def _beside(book: Ledger, run: Run, as_json: bool) -> Any:
    """How the shadow's nights compare with the champion's so far; nothing before there is one."""
    from screening.documents.shape import plain
    from screening.ledger import compare_nights

    whose, model = run.document["ledger"]["series"], run.document["model"]["digest"]
    found = compare_nights(book, whose, model)
    return plain(found) if as_json else agreement(found)


def _opened(ledger: str) -> AbstractContextManager[Ledger]:
    from screening.ledger import open_ledger

    return open_ledger(ledger, make=True)
