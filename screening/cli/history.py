"""`screen history`: workload, PPV, missed cases and drift over the nights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from screening.cli.console import agreement, join_reasons, print_answer
from screening.cli.options import AsJson, LedgerHere, PageFile, SeriesAsked
from screening.errors import ModelError, UsageError
from screening.option_groups import Option

if TYPE_CHECKING:
    from screening.ledger.database import Ledger
    from screening.schemas.history import NightRun


@dataclass(frozen=True)
class VerifyOptions:
    """Options that verify the audit trail."""

    verify: Annotated[bool, Option("Verify the audit trail from its start.")] = False
    head: Annotated[
        str | None,
        Option(
            "With --verify: head digest of the trail, from the foot of a report.",
            metavar="HEAD",
        ),
    ] = None


def history_command(
    ledger: LedgerHere = "screening.db",
    series: SeriesAsked = None,
    *,
    trail: VerifyOptions,
    beside: Annotated[
        str | None,
        Option(
            "With --series: compare with this model in shadow, or another series.",
            metavar="Y",
        ),
    ] = None,
    rates: Annotated[
        str | None,
        Option(
            "With --series: table of months with patient_days, outcomes and "
            "interventions.",
            metavar="TABLE",
        ),
    ] = None,
    out: PageFile = None,
    as_json: AsJson = False,
) -> None:
    """Report workload, PPV, missed cases and drift over the nights.

    With several series, --out FILE is an overview. The folder FILE without its
    extension then has one page per series.
    """
    from screening.ledger.database import open_ledger
    from screening.ledger.history import compare_nights, history

    if series is None:
        _refuse_without_series(beside, rates)
    with open_ledger(ledger, read_only=True) as book:
        document = history(
            book,
            series,
            verify=trail.verify or trail.head is not None,
            printed=trail.head,
        )
        if trail.verify:
            _refuse_altered_runs(book)
        if rates is not None:
            document = _with_rates(document, rates)
        answer = dict(document) if as_json else _lines(document)
        if beside is not None and series is not None:
            compared = compare_nights(book, series, beside)
            answer["beside"] = compared.to_dict() if as_json else agreement(compared)
    if out is not None:
        _write_history(document, out)
    print_answer(answer, as_json)


def _with_rates(document: dict[str, object], rates: str) -> dict[str, object]:
    from screening.ledger.rates import with_rates

    return with_rates(document, rates)


def _refuse_without_series(beside: str | None, rates: str | None) -> None:
    """Raise UsageError for an option of one series."""
    if beside is not None:
        raise UsageError("--beside compares one series; give --series too")
    if rates is not None:
        raise UsageError("--rates belongs to one series; give --series too")


def _write_history(document: dict[str, object], out: Path) -> None:
    """Write the page of the history; of several series an overview, and their pages."""
    from screening.report.history import render_histories, render_history
    from screening.store.publishing import write_whole

    if len(cast(list[object], document["series"])) <= 1:
        write_whole(out, render_history(document).encode())
        return
    overview, pages = render_histories(document, out.stem)
    for name, page in pages.items():
        write_whole(out.with_suffix("") / name, page.encode())
    write_whole(out, overview.encode())


def _lines(document: dict[str, object]) -> dict[str, object]:
    """Return the history for a terminal."""
    from screening.report.history import sentences
    from screening.schemas.history import HistoryDocument

    history = HistoryDocument.from_dict(document)
    summary: list[str] = []
    for series in history.series:
        summary += sentences(series)
    audit = history.audit
    trail = f"{audit.entries} entries, head {audit.head}"
    if audit.verified:
        trail += ", verified"
    runs = list(map(_line_of_run, history.runs))
    return {"runs": runs, "summary": summary, "audit": trail}


def _line_of_run(run: NightRun) -> str:
    """Return one line of a run."""
    line = (
        f"{run.night}  {run.flagged} of {run.scored} flagged: {run.new} new, "
        f"{run.pending} pending, {run.ruled_out} ruled out, {run.known} known; "
        f"{run.no_longer_flagged} no longer flagged"
    )
    if not run.in_force:
        line += " (not in force)"
    return line + join_reasons(run.attention)


def _refuse_altered_runs(book: Ledger) -> None:
    """Raise ModelError for a file of a run directory that is not as it was written."""
    from screening.ledger.register import run_artefacts
    from screening.store.outputs import altered_outputs
    from screening.store.serialization import read_run

    for artefact in run_artefacts(book):
        if not (artefact.place / "run.json").is_file():
            continue
        altered = altered_outputs(artefact.place, read_run(artefact.place))
        if altered:
            raise ModelError(
                f"{altered[0]} has been changed since it was written: move it away, "
                "then run the night again to write a new one"
            )
