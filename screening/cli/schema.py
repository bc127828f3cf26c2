"""`screen schema`: the JSON schema of a kind of document."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from screening.option_groups import Option


def schema_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=(
                "Document: model, run, comparison, validation, history or overview. "
                "With --printed: command."
            ),
        ),
    ],
    printed: Annotated[
        bool, Option("Print the schema of a command's --json output.")
    ] = False,
) -> None:
    """Print the JSON Schema of a document or of a command's output."""
    from screening.schemas.schemas import schema_of

    typer.echo(json.dumps(schema_of(name, printed), indent=1, sort_keys=True))
