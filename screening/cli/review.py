"""`screen review`: clinicians' verdicts, from a file or a site's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli.console import ATTENTION, print_answer
from screening.cli.options import AsJson, LedgerHere
from screening.cli.users import open_as_owner
from screening.errors import UsageError
from screening.option_groups import Option

if TYPE_CHECKING:
    from screening.schemas.history import VerdictsRead


def review_command(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN",
            help="Run directory whose page was reviewed. With --site: folder of "
            "verdicts.",
        ),
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Argument(metavar="VERDICTS", help="JSON file that the page saved."),
    ] = None,
    ledger: LedgerHere = "screening.db",
    site: Annotated[
        Path | None,
        Option(
            "Read every file in the site's folder of verdicts, or in RUN.",
            metavar="NIGHT.toml",
        ),
    ] = None,
    series: Annotated[
        str | None, Option("Refuse a RUN of another series.", metavar="NAME")
    ] = None,
    token: Annotated[
        Path | None,
        Option(
            "Private file with the reviewer's token; its SHA-256 is recorded.",
            metavar="FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read clinicians' verdicts on RUN into the ledger.

    Reading the same file twice changes nothing. With --site, each file goes to the run
    that it names, and is then moved to done/ or refused/ in the folder.
    """
    from screening.ledger.verdicts import review

    if site is not None:
        _read_folder(site, run, ledger, token, as_json)
        return
    if run is None or verdicts is None:
        raise UsageError("give RUN and VERDICTS, or --site NIGHT.toml")
    with open_as_owner(ledger) as book:
        outcomes = review(run, verdicts, book, series, token)
    print_answer(outcomes, as_json)


def _read_folder(
    site: Path, folder: Path | None, ledger: str, token: Path | None, as_json: bool
) -> None:
    """Read a folder of verdicts; exit 5 if one could not be used."""
    from screening.site.inbox import read_inbox
    from screening.site.site import read_network

    network = read_network(site, ledger)
    folder = folder or network.site.verdicts
    if folder is None:
        raise UsageError(
            f"{site.name} does not name a folder of verdicts; give one, or write "
            'verdicts = "inbox" under [site]'
        )
    with open_as_owner(network.ledger) as book:
        files = read_inbox(network, book, folder, token)
    if as_json:
        print_answer({"files": [file.to_dict() for file in files]}, as_json)
    else:
        print_answer({"read": list(map(_line_of_file, files))}, as_json)
    if any(file.refused for file in files):
        raise typer.Exit(ATTENTION)


def _line_of_file(file: VerdictsRead) -> str:
    """Return the outcome of a file of verdicts, on one line."""
    if file.refused is not None:
        return f"{file.file}: refused: {file.refused}"
    line = f"{file.file}: {file.series} {file.night}: {file.verdicts} verdicts"
    line += f", {file.new} new, {file.changed} changed"
    if file.disputed:
        line += f", {file.disputed} disputed"
    if file.superseded:
        line += f", {file.superseded} for cases no longer in the corrected table"
    return line
