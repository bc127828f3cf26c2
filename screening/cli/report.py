"""`screen report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exits, tell
from .options import AsJson


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model or run directory.")],
    as_json: AsJson = False,
) -> None:
    """Draw the report of a model or run directory again."""
    from ..publishing import write_whole
    from ..report import render_model, render_run
    from ..store import read_document

    with exits():
        kind = "run" if (directory / "run.json").exists() else "model"
        draw = {"run": render_run, "model": render_model}[kind]
        write_whole(directory / "report.html", draw(read_document(directory, kind)).encode())
    tell({"report": str(directory / "report.html")}, as_json)
