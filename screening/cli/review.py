"""`screen review`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson, LedgerHere


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory whose page was reviewed.")],
    verdicts: Annotated[Path, typer.Argument(metavar="VERDICTS", help="JSON file that the page saved.")],
    ledger: LedgerHere = "screening.db",
    series: Annotated[
        str | None, typer.Option(metavar="NAME", help="Refuse a RUN that is not of this series.")
    ] = None,
    token: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Reviewer's token (a private file); its SHA-256 is recorded."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the clinicians' verdicts on RUN back; the same file twice is once."""
    from screening.ledger import open_ledger, reviewing

    with open_ledger(ledger) as book:
        told = reviewing.review(run, verdicts, book, series, token)
    tell(told, as_json)
