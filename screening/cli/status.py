"""`screen status`"""

from __future__ import annotations

import datetime
import re
from typing import Annotated

import typer

from screening.cli.console import ATTENTION, tell
from screening.cli.options import AsJson, LedgerHere
from screening.errors import UsageError

UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def status(
    max_age: Annotated[str, typer.Option(metavar="26h", help="Oldest last night: 90m, 26h or 2d.")] = "26h",
    ledger: LedgerHere = "screening.db",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 also where that night's page says ATTENTION.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say in one line whether the last night came; exit 5 if not.

    A night that came and wants attention says why, in the words of its page.
    """
    from screening.ledger import Pulse, open_ledger, pulse

    written = re.fullmatch(r"(\d{1,6})([mhd])", max_age)
    if written is None:
        raise UsageError(f"--max-age {max_age}: write it as 90m, 26h or 2d")
    age = datetime.timedelta(**{UNITS[written[2]]: int(written[1])})
    try:
        with open_ledger(ledger, read_only=True) as book:
            found = pulse(book, age, datetime.datetime.now(datetime.UTC))
    except UsageError as error:
        found = Pulse(False, str(error))
    reasons = [each.to_dict() for each in found.attention]
    facts = {"fine": found.fine, "said": found.said, "night": found.night, "age_hours": found.age_hours}
    line = " ".join("; ".join([found.said, *(each.words for each in found.attention)]).split())
    quiet = found.fine and not reasons
    tell(facts | {"attention": reasons} if as_json else {"ok" if quiet else "ATTENTION": line}, as_json)
    if not found.fine or (strict and reasons):
        raise typer.Exit(ATTENTION)
