"""`screen retire`"""

from __future__ import annotations

from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson, LedgerHere


def retire(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="The series; `screen status` lists all.")],
    reason: Annotated[str, typer.Option(help="Why, in words; the trail keeps them.")],
    ledger: LedgerHere = "screening.db",
    as_json: AsJson = False,
) -> None:
    """Close SERIES: `screen status` waits for it no longer; its nights and history stay.

    A later night that is published takes it back.
    """
    from screening import ledger as books

    with books.open_ledger(ledger) as book:
        head = books.retire(book, series, reason)
    tell({"retired": series, "entry": head.number}, as_json)
