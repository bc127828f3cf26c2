"""`screen purge`"""

from __future__ import annotations

import datetime
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.forget import DryRun, Pages, Runs, refuse_unfinished
from screening.cli.options import AsJson, LedgerHere, Series, Templates, series_from


def purge(
    older_than: Annotated[str, typer.Option(metavar="3y", help="Nights older than 90d, 26w or 3y.")],
    ledger: LedgerHere = "screening.db",
    runs: Runs = None,
    pages: Pages = None,
    series: Series = None,
    dry_run: DryRun = False,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Erase the patients of old nights; their counts stay, and the trail still verifies."""
    from screening.ledger import open_ledger
    from screening.ledger.forgetting import Whom
    from screening.ledger.retention import before_age
    from screening.scoring.forgetting import Erasure, Places

    before = before_age(older_than, datetime.date.today())
    whom = Whom(before=before, series=series_from(series))
    with open_ledger(ledger) as book:
        erasure = Erasure(whom, book, Places(runs, pages=pages), dry_run=dry_run, templates=templates)
        report = erasure.done("purge", f"nights before {before}")
    tell({"before": before} | report.to_dict(), as_json)
    refuse_unfinished(report.left)
