"""`screen schema`"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    name: Annotated[str, typer.Argument(help="model, run or comparison.")],
) -> None:
    """Print the JSON Schema of a document: what model.json, run.json and comparison.json hold."""
    from screening.documents.schemas import schema_of

    typer.echo(json.dumps(schema_of(name), indent=1, sort_keys=True))
