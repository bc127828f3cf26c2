"""`screen promote`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import agreement, tell
from screening.cli.options import AsJson, LedgerHere, Series, series_from


def promote(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory that was scored --shadow.")],
    reason: Annotated[str, typer.Option(help="Why, in words; the trail keeps them.")],
    ledger: LedgerHere = "screening.db",
    series: Series = None,
    as_json: AsJson = False,
) -> None:
    """Put MODEL in the place of the series' champion from the next night on.

    What its nights in shadow showed beside the champion's goes into the trail with the reason.
    """
    from screening import ledger as books
    from screening.documents.shape import plain
    from screening.scoring.remembering import series_of
    from screening.storage.loading import load_model

    loaded = load_model(model)
    whose = series_of(loaded, series_from(series))
    with books.open_ledger(ledger) as book:
        found = books.compare_nights(book, whose, loaded.digest)
        head = books.promote(book, whose, loaded.digest, reason, plain(found))
    told = {"series": found.one.series, "champion": loaded.id, "entry": head.number}
    tell(told | {"beside": plain(found) if as_json else agreement(found)}, as_json)
