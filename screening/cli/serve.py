"""The command that shows published pages and takes verdicts: `screen serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import printable
from screening.cli.waiting import stop_waiting
from screening.errors import UsageError


def serve_command(
    site: Annotated[
        Path, typer.Argument(metavar="NIGHT.toml", help="Site file (docs/nightly.md).")
    ],
) -> None:
    """Show published pages, and put verdicts into the inbox.

    Each request gives one line of JSON on stdout: who asked for what, and the result.
    The ledger is never opened.
    """
    from screening.site.site import read_network

    network = read_network(site, needs_ledger=False)
    try:
        from screening.serve.server import serve
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"screen serve needs {missing.name}; install it:"
            ' pip install "screening[serve]"'
        ) from None
    stop_waiting()
    # Nothing of a line of the audit can end the line.
    serve(network, lambda line: typer.echo(printable(json.dumps(line))))
