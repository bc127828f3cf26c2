"""`screen schema`"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    name: Annotated[str, typer.Argument(help="model, run, comparison, history or overview.")],
) -> None:
    """Print the JSON Schema of model.json, run.json, comparison.json, or what `history` or `run` print."""
    from screening.documents.schemas import schema_of

    typer.echo(json.dumps(schema_of(name), indent=1, sort_keys=True))
