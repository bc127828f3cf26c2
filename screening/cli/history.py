"""`screen history`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import agreement, in_a_row, tell
from screening.cli.options import AsJson, LedgerHere, SeriesAsked
from screening.errors import UsageError


def history(
    ledger: LedgerHere = "screening.db",
    series: SeriesAsked = None,
    verify: Annotated[bool, typer.Option("--verify", help="Follow the audit trail from its start.")] = False,
    head: Annotated[
        str | None, typer.Option(help="With --verify: head printed at the foot of a report.")
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="Y", help="With --series: compare with this shadow's model, or another series."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Page to write (HTML).")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell the story of the nights: workload, predictive value, misses, drift."""
    from screening import ledger as books
    from screening.documents.shape import plain
    from screening.storage.publishing import write_whole

    if beside is not None and series is None:
        raise UsageError("--beside compares with one series; give --series too")
    with books.open_ledger(ledger, read_only=True) as book:
        told = books.history(book, series, verify=verify or head is not None, printed=head)
        if out is not None:
            from screening.page.history import render_history

            write_whole(out, render_history(told).encode())
        compared = None if beside is None or series is None else books.compare_nights(book, series, beside)
    answer = told if as_json else _lines(told)
    if compared is not None:
        answer["beside"] = plain(compared) if as_json else agreement(compared)
    tell(answer, as_json)


def _lines(told: dict[str, object]) -> dict[str, object]:
    from screening.documents.stored import history_in
    from screening.page.history import sentences

    found = history_in(told)
    runs = [
        f"{run.night}  {run.flagged} of {run.scored} flagged: {run.new} new, "
        f"{run.ongoing} ongoing, {run.reviewed} reviewed, {run.known} known; {run.resolved} resolved"
        + ("" if run.in_force else " (not in force)")
        + in_a_row(run.attention)
        for run in found.runs
    ]
    trail = found.audit
    said = f"{trail.entries} entries, head {trail.head}" + (", verified" if trail.verified else "")
    lines = [line for one in found.series for line in sentences(one)]
    return {"runs": runs, "summary": lines, "audit": said}
