"""`screen status`"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import ATTENTION, in_a_row, tell
from screening.cli.options import AsJson, LedgerHere, names_from
from screening.documents.series import EACH
from screening.errors import UsageError

UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def status(
    max_age: Annotated[str, typer.Option(metavar="26h", help="Oldest last night: 90m, 26h or 2d.")] = "26h",
    ledger: LedgerHere = "screening.db",
    series: Annotated[
        str, typer.Option(metavar="NAME|each", help="Only these series, with commas between.")
    ] = EACH,
    night: Annotated[
        str | None,
        typer.Option(metavar="DATE|today", help="Ask for this night instead of a --max-age."),
    ] = None,
    grace: Annotated[
        str, typer.Option(metavar="0m", help="With --night: how long after its midnight it may be missing.")
    ] = "0m",
    metrics: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures for Prometheus too.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 also where that night's page says ATTENTION.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say in one line a series whether its night came; exit 5 if one did not.

    A night that came and wants attention says why, in the words of its page.
    """
    from dataclasses import asdict

    from screening.ledger import Due, Pulse, open_ledger, pulses
    from screening.ledger.metrics import exposition
    from screening.storage.publishing import write_whole

    now = datetime.datetime.now().astimezone()
    due = Due(now, _span("--max-age", max_age), _night(night, now), _span("--grace", grace))
    names = [] if series == EACH else names_from(series)
    try:
        with open_ledger(ledger, read_only=True) as book:
            found = pulses(book, due, names)
    except UsageError as error:
        found = [Pulse(False, str(error))]
    if metrics is not None:
        write_whole(metrics, exposition(found).encode(), mode=0o644)
    fine = all(each.fine for each in found)
    if as_json:
        tell({"fine": fine, "series": [asdict(each) for each in found]}, as_json)
    for each in [] if as_json else found:
        words = each.said + in_a_row(each.attention)
        quiet = each.fine and not each.attention
        whose = "" if each.series is None else f"{each.series}  "
        tell({"ok" if quiet else "ATTENTION": f"{whose}{' '.join(words.split())}"}, as_json)
    if not fine or (strict and any(each.attention for each in found)):
        raise typer.Exit(ATTENTION)


def _span(option: str, text: str) -> datetime.timedelta:
    written = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if written is None:
        raise UsageError(f"{option} {text}: write it as 90m, 26h or 2d")
    return datetime.timedelta(**{UNITS[written[2]]: int(written[1])})


def _night(text: str | None, now: datetime.datetime) -> datetime.date | None:
    if text in (None, "today"):
        return None if text is None else now.date()
    try:
        return datetime.date.fromisoformat(str(text))
    except ValueError:
        raise UsageError(f"--night {text}: write the night as YYYY-MM-DD, or today") from None
