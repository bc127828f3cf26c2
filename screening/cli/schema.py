"""`screen schema`"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    name: Annotated[str, typer.Argument(help="model, run, comparison or history.")],
) -> None:
    """Print the JSON Schema of model.json, run.json, comparison.json or `screen history --json`."""
    from screening.documents.schemas import schema_of

    typer.echo(json.dumps(schema_of(name), indent=1, sort_keys=True))
